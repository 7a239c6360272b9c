/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that contain a copy of a graph. */
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
