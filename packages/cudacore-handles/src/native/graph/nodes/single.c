/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that have one face or nothing as arguments: child graphs, events, and empty nodes. */
#include "graph/node_methods.h"

const int type_of_embed = CCH_NODE_GRAPH;
int read_embed(state *st, const node_arguments *given, node_params *out) {
  PyObject *child = given->named[0];
  out->of.child.size = sizeof out->of.child;
  out->of.child.graph = graph_use(st, child, "child must be a GraphDefinition, not '%U'");
  if (out->of.child.graph == NULL)
    return -1;
  out->used = Py_NewRef(child);
  return 0;
}

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

const int type_of_empty = CCH_NODE_EMPTY;
int read_empty(state *st, const node_arguments *given, node_params *out) {
  (void)st, (void)given, (void)out;
  return 0;
}
