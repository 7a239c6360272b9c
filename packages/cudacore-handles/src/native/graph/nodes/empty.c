/* SPDX-License-Identifier: Apache-2.0 */
/* Empty nodes, which have no parameters. */
#include "graph/node_methods.h"

int read_empty(state *st, const node_arguments *given, node_params *out) {
  (void)st, (void)given;
  out->type = out->class = CCH_NODE_EMPTY;
  return 0;
}
