/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that record an event, or wait for one. */
#include "graph/node_methods.h"

static int read_event(const state *st, PyObject *event, node_params *out) {
  out->of.event.size = sizeof out->of.event;
  out->of.event.event = use_face(event, st->event_type, "event must be an Event, not '%U'", out);
  return out->of.event.event != NULL ? 0 : -1;
}

const int type_of_record = CCH_NODE_EVENT_RECORD;
int read_record(state *st, const node_arguments *given, node_params *out) {
  return read_event(st, given->named[0], out);
}

const int type_of_wait = CCH_NODE_EVENT_WAIT;
int read_wait(state *st, const node_arguments *given, node_params *out) { return read_event(st, given->named[0], out); }
