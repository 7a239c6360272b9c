/* SPDX-License-Identifier: Apache-2.0 */
/* Changes many nodes of one kernel, whose arguments are columns: in their graph, or in an executable graph. */
#include "graph/graph.h"
#include "base/reclaim.h"

#include <stdlib.h>

typedef struct changes {
  cch__columns columns;
  cch_graph_exec *exec; /* NULL: the nodes are changed in their graph */
  cch_graph_node *const *nodes;
  CUDA_KERNEL_NODE_PARAMS *present; /* what the nodes launch */
} changes;

static int check_node(const changes *self, size_t i) {
  const cch_graph_node *node = self->nodes[i];
  const char *operation = self->columns.operation;
  CCH__RETURN_FAILURE(CCH__USABLE(node, "a node", operation));
  if (self->exec != NULL ? !cch_graph_exec_has(self->exec, node) : node->graph != self->nodes[0]->graph)
    return cch__fail(CCH_EINVAL, operation, "the node %p is not of the graph that %s", (void *)node->raw,
                     self->exec != NULL ? "the executable graph was made from" : "the first node is of");
  if (node->type != CCH_NODE_KERNEL)
    return cch__fail(CCH_EINVAL, operation, "the node %p launches no kernel", (void *)node->raw);
  CUDA_KERNEL_NODE_PARAMS *present = &self->present[i];
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphKernelNodeGetParams, (node->raw, present)));
  if (present->kern != self->columns.given.kernel->raw)
    return cch__fail(CCH_EINVAL, operation, "the node %p launches another kernel than the first node",
                     (void *)node->raw);
  if (present->ctx != self->columns.params.context)
    return cch__fail(CCH_EINVAL, operation, "the node %p is of another context than the first node", (void *)node->raw);
  return 0;
}

static int set_node(changes *self, size_t i) {
  cch__columns *columns = &self->columns;
  const bool configured = columns->given.config_count > 0;
  CCH__RETURN_FAILURE(cch__columns_fill(columns, i));
  if (!configured) {
    const CUDA_KERNEL_NODE_PARAMS *present = &self->present[i];
    CUDA_KERNEL_NODE_PARAMS_v3 *native = &columns->params.native.kernel;
    native->kern = present->kern;
    native->gridDimX = present->gridDimX;
    native->gridDimY = present->gridDimY;
    native->gridDimZ = present->gridDimZ;
    native->blockDimX = present->blockDimX;
    native->blockDimY = present->blockDimY;
    native->blockDimZ = present->blockDimZ;
    native->sharedMemBytes = present->sharedMemBytes;
  }
  cch_graph_node *node = self->nodes[i];
  return self->exec != NULL
             ? cch__exec_set_filled(self->exec, node->raw, &columns->params, configured, columns->operation)
             : cch__node_set_filled(node, &columns->params, configured, columns->operation);
}

/* Everything that can be wrong with the arguments is found before the first node is changed. */
static int set_in_context(changes *self, size_t *done) {
  const cch_graph *graph = self->nodes[0]->graph;
  CCH__RETURN_FAILURE(cch__graph_check(graph, self->columns.operation));
  int status = cch__columns_prepare(&self->columns);
  for (*done = 0; status == 0 && *done < self->columns.count; *done += status == 0)
    status = check_node(self, *done);
  if (status != 0)
    return status;
  if (self->exec != NULL)
    cch__exec_settle(self->exec);
  for (*done = 0; status == 0 && *done < self->columns.count; *done += status == 0)
    status = set_node(self, *done);
  if (status != 0) {
    cch__fail_at_node(self->nodes[*done]->raw);
    if (*done > 0)
      cch__fail_explain("the nodes before it were changed");
  }
  return status;
}

static int set_in_turn(changes *self, size_t *done) {
  if (self->exec == NULL)
    return CCH__IN_TURN(self->nodes[0], NULL, CCH__IN_CONTEXT(self->columns.given.context, set_in_context(self, done)));
  cch__exec_lock(self->exec);
  int status = cch__exec_check_has(self->exec, self->nodes[0], self->columns.operation);
  if (status == 0)
    status =
        CCH__IN_TURN(self->nodes[0], NULL, CCH__IN_CONTEXT(self->columns.given.context, set_in_context(self, done)));
  cch__exec_unlock(self->exec);
  return status;
}

cch_status cch_graph_set_kernels(cch_graph_exec *exec, cch_graph_node *const *nodes, const cch_kernel_columns *columns,
                                 size_t count, size_t *failed) {
  CCH__REQUIRE_USABLE(columns);
  CCH__REQUIRE_USABLE_OR_NULL(exec);
  CCH__REQUIRE_ARRAY(nodes, count);
  changes self = {.exec = exec, .nodes = nodes};
  CCH__RETURN_FAILURE(cch__columns_read(&self.columns, columns, count, __func__));
  if (self.columns.given.edge_count > 0 || self.columns.given.after_count > 0)
    return cch__fail(CCH_EINVAL, __func__, "the edges of existing nodes do not change with their arguments");
  if (count == 0)
    return 0;
  size_t done = 0;
  cch__poll();
  self.present = malloc(count * sizeof *self.present);
  int status = self.present != NULL ? CCH__USABLE(nodes[0], "a node", __func__) : cch__fail_nomem(__func__);
  if (status == 0)
    status = set_in_turn(&self, &done);
  if (status != 0 && failed != NULL)
    *failed = done;
  cch__node_params_unref(&self.columns.params);
  free(self.present);
  cch__poll(); /* destroys boxes that are no longer needed */
  return status;
}
