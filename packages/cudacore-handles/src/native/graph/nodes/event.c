/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that record an event, or wait for one. */
#include "graph/node_methods.h"

static int read_event(const state *st, PyObject *event, int type, node_params *out) {
  out->type = out->class = type;
  out->of.event.size = sizeof out->of.event;
  out->of.event.event = use_face(event, st->event_type, "event must be an Event, not '%U'", out);
  return out->of.event.event != NULL ? 0 : -1;
}

int read_record(state *st, const node_arguments *given, node_params *out) {
  return read_event(st, given->named[0], CCH_NODE_EVENT_RECORD, out);
}

int read_wait(state *st, const node_arguments *given, node_params *out) {
  return read_event(st, given->named[0], CCH_NODE_EVENT_WAIT, out);
}
