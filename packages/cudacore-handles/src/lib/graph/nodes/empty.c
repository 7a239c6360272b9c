/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do nothing, and have no parameters. */
#include "graph/nodes/nodes.h"

/* ---- drivers before 12.2 ---- */

static int older_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                     CUgraphNodeParams *params) {
  (void)params;
  return CCH__OLDER(cuGraphAddEmptyNode, (out, graph, before, count));
}

const cch__node_type cch__node_type_empty = {.fill = cch__node_keep, .is_fixed = true, .older_add = older_add};
