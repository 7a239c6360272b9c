/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of arguments for many nodes of one kernel: such nodes are added, all or none, or changed, in their graph or
 * in an executable graph. The driver gets pointers into the columns, so nothing is copied, and no object is made for a
 * node. All nodes share one bundle. A new node gets a record, but no box. The box is made when it is requested, by the
 * number of the record.
 */
#include "graph/nodes/nodes.h"
#include "code/kernel.h"
#include "base/reclaim.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The parameters of many nodes of one kernel, which are filled node by node. */
typedef struct columns_of_nodes {
  const cch_kernel_columns *given;
  size_t count;
  cch__node_params params;
  const cch_launch_config *filled; /* the configuration that `params` was last filled with */
  const char *operation;
} columns_of_nodes;

/* The dependencies of all nodes, node by node: those of node i begin at first[i]. */
typedef struct dependencies {
  size_t *first;
  uint32_t *earlier;
  size_t most;
} dependencies;

typedef struct addition {
  columns_of_nodes columns;
  cch_graph *graph;
  dependencies order;
  CUgraphNode *before; /* room for the dependencies of one node; the nodes of `after` come first */
  size_t after_count;  /* without duplicates */
  CUgraphNode *added;
  size_t added_count; /* the number of nodes that were added; the last of them may lack attributes */
} addition;

/* ---- columns ---- */

/* Checks the boxes of the caller's structure. Afterwards, the caller must call cch__node_params_unref(). */
static int columns_check(columns_of_nodes *self) {
  self->params.pointers = self->params.few;
  CCH__RETURN_FAILURE(CCH__USABLE(self->given->kernel, "the kernel of the cch_kernel_columns", self->operation));
  CCH__RETURN_FAILURE(
      CCH__USABLE_OR_NULL(self->given->bundle, "the bundle of the cch_kernel_columns", self->operation));
  return CCH__USABLE_OR_NULL(self->given->context, "the context of the cch_kernel_columns", self->operation);
}

/* Prepares what all nodes share: the bundle and the context, which must be current. */
static int columns_prepare(columns_of_nodes *self) {
  const cch_kernel_columns *given = self->given;
  CCH__RETURN_FAILURE(cch__bundle_wrap(&self->params.kept, given->kernel, given->bundle, 0, self->operation));
  self->params.kept->of_many = true;
  if (given->column_count > sizeof self->params.few / sizeof *self->params.few) {
    self->params.pointers = malloc(given->column_count * sizeof *self->params.pointers);
    if (self->params.pointers == NULL)
      return cch__fail_nomem(self->operation);
  }
  self->params.type = cch__node_type_of(CCH_NODE_KERNEL);
  self->params.native.type = CU_GRAPH_NODE_TYPE_KERNEL;
  CUDA_KERNEL_NODE_PARAMS_v3 *native = &self->params.native.kernel;
  native->kernelParams = given->column_count > 0 ? self->params.pointers : NULL;
  int status = cch__node_context(&native->ctx, given->context);
  self->params.context = native->ctx;
  return status;
}

/* Fills the parameters of node i. Without configurations, the fields that depend on them are left as they are. */
static int columns_fill(columns_of_nodes *self, size_t i) {
  const cch_kernel_columns *given = self->given;
  for (size_t k = 0; k < given->column_count; k++)
    self->params.pointers[k] =
        (void *)((uintptr_t)given->columns[k].data + (uintptr_t)(given->columns[k].stride * (int64_t)i));
  if (given->config_count == 0)
    return 0;
  const cch_launch_config *config = given->configs[given->config_count > 1 ? i : 0];
  if (config == self->filled)
    return 0;
  int status = CCH__USABLE(config, "a config of the cch_kernel_columns", self->operation);
  if (status == 0)
    status = cch__kernel_node_fill(&self->params, given->kernel, config, self->operation);
  self->filled = status == 0 ? config : NULL;
  return status;
}

/* ---- dependencies ---- */

/* Sorts the edges by the nodes that they lead to. */
static int sort_edges(addition *self) {
  const size_t edges = self->columns.given->edge_count;
  dependencies *order = &self->order;
  order->first = calloc(self->columns.count + 1, sizeof *order->first);
  order->earlier = malloc((edges != 0 ? edges : 1) * sizeof *order->earlier);
  if (order->first == NULL || order->earlier == NULL)
    return cch__fail_nomem(self->columns.operation);
  for (size_t i = 0; i < edges; i++)
    order->first[self->columns.given->edges[2 * i + 1]]++;
  size_t end = 0;
  for (size_t i = 0; i <= self->columns.count; i++) { /* now first[i] is the end of the dependencies of node i */
    end += order->first[i];
    order->first[i] = end;
  }
  for (size_t i = edges; i-- > 0;) {
    const uint32_t *edge = self->columns.given->edges + 2 * i;
    order->earlier[--order->first[edge[1]]] = edge[0];
  }
  for (size_t i = 0; i < self->columns.count; i++) {
    size_t count = order->first[i + 1] - order->first[i];
    order->most = count > order->most ? count : order->most;
  }
  return 0;
}

/* Stores the dependencies of a node in `before`, and returns their number. */
static size_t list_dependencies(addition *self, size_t i) {
  const size_t after = self->after_count;
  const uint32_t *earlier = self->order.earlier + self->order.first[i];
  const size_t count = self->order.first[i + 1] - self->order.first[i];
  for (size_t k = 0; k < count; k++)
    self->before[after + k] = self->added[earlier[k]];
  return count == 0 ? after : cch__sort_unique(self->before + after, count);
}

/* ---- nodes ---- */

static int add_one(addition *self, CUgraph raw, size_t i) {
  int status = columns_fill(&self->columns, i);
  if (status != 0)
    return status;
  const bool trial = raw != self->graph->raw;
  const size_t count = trial ? 0 : list_dependencies(self, i);
  const CUgraphNode *before = self->before;
  if (count > 0 && self->order.first[i] != self->order.first[i + 1])
    before += self->after_count;
  status =
      cch__driver_add_edges(&self->added[i], raw, before, NULL, count, &self->columns.params, self->columns.operation);
  if (status != 0)
    return status;
  self->added_count = i + 1;
  return cch__node_set_attributes(self->added[i], self->columns.params.attributes,
                                  self->columns.params.attribute_count);
}

static int add_all(addition *self, CUgraph raw, size_t *done) {
  int status = 0;
  for (*done = 0; status == 0 && *done < self->columns.count; *done += status == 0)
    status = add_one(self, raw, *done);
  return status;
}

/* Adds all nodes to a trial graph. This is done first if the driver cannot remove nodes from the real graph. */
static int rehearse(addition *self, size_t *done) {
  CUgraph trial;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphCreate, (&trial, 0)));
  int status = add_all(self, trial, done);
  cch__trial_destroy(trial);
  return status;
}

/*
 * Enters a record for each node that was added, even if the driver refused a later node: nodes that cannot be removed
 * again still use the bundle. There is room for all these records.
 */
static void record_added(addition *self, uint64_t *first, CUuserObject object) {
  cch__level *level = self->graph->level;
  const size_t count = self->added_count;
  *first = self->graph->hierarchy->numbers + 1;
  self->graph->hierarchy->numbers += count;
  cch__box_ref_many(self->columns.params.kept, count);
  for (size_t i = 0; i < count; i++) {
    cch__record *record = cch__record_begin(level, self->added[i]);
    record->bundle = self->columns.params.kept;
    record->object = object;
    record->context = self->columns.params.context;
    record->number = *first + i;
  }
  atomic_store_explicit(&self->graph->has_room, cch__level_reserve(level, 1), memory_order_relaxed);
}

/* ---- checks, preparation, and the function that adds the nodes ---- */

static int check_given(addition *self) {
  const cch_kernel_columns *given = self->columns.given;
  if (self->columns.count > INT_MAX)
    return cch__fail(CCH_EINVAL, self->columns.operation, "%zu nodes are too many for one call", self->columns.count);
  for (size_t i = 0; i < given->after_count; i++) {
    CCH__RETURN_FAILURE(cch__node_is_of(given->after[i], self->graph, self->columns.operation));
    self->before[i] = given->after[i]->raw;
  }
  self->after_count = cch__sort_unique(self->before, given->after_count);
  return 0;
}

/* Does everything that can fail before the first node is added. */
static int prepare(addition *self) {
  CCH__RETURN_FAILURE(columns_prepare(&self->columns));
  CCH__RETURN_FAILURE(check_given(self));
  CCH__RETURN_FAILURE(sort_edges(self));
  void *larger = realloc(self->before, (self->after_count + self->order.most + 1) * sizeof *self->before);
  if (larger == NULL)
    return cch__fail_nomem(self->columns.operation);
  self->before = larger;
  return 0;
}

static int add_in_context(addition *self, uint64_t *first, size_t *done) {
  CUuserObject object;
  bool keeps = false, room = false;
  int status = prepare(self);
  if (status == 0) { /* fails before the graph is changed, if there is not enough memory */
    cch__graph_lock(self->graph);
    room = self->graph->level != NULL && cch__level_reserve(self->graph->level, self->columns.count);
    cch__graph_unlock(self->graph);
    status = room ? 0 : cch__fail_nomem(self->columns.operation);
  }
  if (status == 0)
    status = cch__graph_forbids_removal(&keeps, self->graph);
  if (status == 0 && keeps)
    status = rehearse(self, done);
  if (status == 0)
    status = cch__driver_keep_shared(&object, self->graph, self->columns.params.kept, self->columns.count);
  if (status != 0)
    return status;
  self->added_count = 0; /* until here, this was the number of nodes in the trial graph */
  status = add_all(self, self->graph->raw, done);
  uint64_t number;
  cch__graph_lock(self->graph);
  record_added(self, &number, object);
  cch__graph_unlock(self->graph);
  if (status == 0) {
    *first = number;
  } else {
    cch__batch_undo(self->graph, self->added, self->added_count);
    cch__driver_unref(self->graph->raw, object, self->columns.count - self->added_count);
  }
  return status;
}

cch_status cch_graph_add_kernels(CUgraphNode *out, uint64_t *first, cch_graph *graph, const cch_kernel_columns *columns,
                                 size_t count, size_t *failed) {
  CCH__REQUIRE_USABLE(first, graph, columns);
  CCH__REQUIRE_ARRAY(out, count);
  addition self = {.graph = graph, .columns = {.given = columns, .count = count, .operation = __func__}};
  CCH__RETURN_FAILURE(columns_check(&self.columns));
  if (count == 0)
    return 0;
  cch__poll();
  size_t done = 0;
  self.added = malloc(count * sizeof *self.added);
  self.before = malloc((columns->after_count + 1) * sizeof *self.before);
  int status = self.added != NULL && self.before != NULL ? 0 : cch__fail_nomem(__func__);
  if (status == 0)
    status = CCH__IN_TURN(graph, NULL, CCH__IN_CONTEXT(columns->context, add_in_context(&self, first, &done)));
  if (status == 0)
    memcpy(out, self.added, count * sizeof *out);
  else if (failed != NULL)
    *failed = done;
  cch__node_params_unref(&self.columns.params);
  free(self.order.first);
  free(self.order.earlier);
  free(self.before);
  free(self.added);
  return status;
}

/* ---- changes of nodes ---- */

typedef struct changes {
  columns_of_nodes columns;
  cch_graph_exec *exec; /* NULL: the nodes are changed in their graph */
  cch_graph_node *const *nodes;
  CUDA_KERNEL_NODE_PARAMS *present; /* what the nodes launch */
} changes;

static int check_change(const changes *self, size_t i) {
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
  if (present->kern != self->columns.given->kernel->raw)
    return cch__fail(CCH_EINVAL, operation, "the node %p launches another kernel than the first node",
                     (void *)node->raw);
  if (present->ctx != self->columns.params.context)
    return cch__fail(CCH_EINVAL, operation, "the node %p is of another context than the first node", (void *)node->raw);
  return 0;
}

static int set_node(changes *self, size_t i) {
  columns_of_nodes *columns = &self->columns;
  const bool configured = columns->given->config_count > 0;
  CCH__RETURN_FAILURE(columns_fill(columns, i));
  if (!configured) {
    /* Both structures have the same fields. The driver reports the kernel twice, but accepts only one of the two. */
    CUDA_KERNEL_NODE_PARAMS_v3 *native = &columns->params.native.kernel;
    void **arguments = native->kernelParams;
    memcpy(native, &self->present[i], sizeof *native);
    native->func = NULL;
    native->kernelParams = arguments;
    native->extra = NULL;
  }
  return cch__node_set_filled(self->exec, self->nodes[i], &columns->params, configured, columns->operation);
}

/* Everything that can be wrong with the arguments is found before the first node is changed. */
static int set_in_context(changes *self, size_t *done) {
  const cch_graph_node *first = self->nodes[0];
  CCH__RETURN_FAILURE(self->exec != NULL ? cch__exec_check_has(self->exec, first, self->columns.operation) : 0);
  CCH__RETURN_FAILURE(cch__graph_check(first->graph, self->columns.operation));
  int status = columns_prepare(&self->columns);
  for (*done = 0; status == 0 && *done < self->columns.count; *done += status == 0)
    status = check_change(self, *done);
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

cch_status cch_graph_set_kernels(cch_graph_exec *exec, cch_graph_node *const *nodes, const cch_kernel_columns *columns,
                                 size_t count, size_t *failed) {
  CCH__REQUIRE_USABLE(columns);
  CCH__REQUIRE_USABLE_OR_NULL(exec);
  CCH__REQUIRE_ARRAY(nodes, count);
  changes self = {.exec = exec, .nodes = nodes, .columns = {.given = columns, .count = count, .operation = __func__}};
  CCH__RETURN_FAILURE(columns_check(&self.columns));
  if (count == 0)
    return 0;
  size_t done = 0;
  cch__poll();
  self.present = malloc(count * sizeof *self.present);
  int status = self.present != NULL ? CCH__USABLE(nodes[0], "a node", __func__) : cch__fail_nomem(__func__);
  if (status == 0)
    status = CCH__IN_TURN_OF_EXEC(
        exec, CCH__IN_TURN(nodes[0], NULL, CCH__IN_CONTEXT(columns->context, set_in_context(&self, &done))));
  if (status != 0 && failed != NULL)
    *failed = done;
  cch__node_params_unref(&self.columns.params);
  free(self.present);
  cch__poll(); /* destroys boxes that are no longer needed */
  return status;
}

cch_status cch_graph_node_numbered(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, uint64_t number) {
  CCH__REQUIRE_USABLE(out, graph, raw);
  if (number == 0)
    return cch__fail(CCH_EGONE, __func__, "no node has the number 0");
  return cch__node_box_numbered(out, graph, raw, CU_GRAPH_NODE_TYPE_KERNEL, number, __func__);
}
