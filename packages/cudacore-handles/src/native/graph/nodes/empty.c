/* SPDX-License-Identifier: Apache-2.0 */
/* Empty nodes, which have no parameters. */
#include "graph/node_methods.h"

const int type_of_empty = CCH_NODE_EMPTY;
int read_empty(state *st, const node_arguments *given, node_params *out) {
  (void)st, (void)given, (void)out;
  return 0;
}
