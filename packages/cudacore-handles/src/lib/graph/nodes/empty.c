/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do nothing, and have no parameters. */
#include "graph/nodes/nodes.h"

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  (void)params;
  return CCH__OLDER(cuGraphAddEmptyNode, (to->out, to->graph, to->before, to->count));
}

const cch__node_type cch__node_type_empty = {.fill = cch__node_keep, .is_fixed = true, .older = older};
