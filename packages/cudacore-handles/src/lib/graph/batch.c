/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds many nodes in one call: all or none. After a failure, the nodes added so far are destroyed again. The driver
 * does not remove nodes from a graph that has nodes that allocate or free memory. For such a graph, the whole batch is
 * first added to a trial graph, which is then destroyed, so that a refusal comes before the real graph is changed.
 */
#include "graph/nodes/nodes.h"
#include "base/reclaim.h"
#include "stream/capture.h"

#include <stdlib.h>
#include <string.h>

int cch__graph_forbids_removal(bool *out, const cch_graph *graph) {
  *out = cch__graph_is_captured(graph);
  return *out ? 0 : cch__graph_has_memory(out, graph);
}

int cch__graph_has_memory(bool *out, const cch_graph *graph) {
  /* For such a graph, the driver refuses even a call that removes zero edges. */
  CUresult result = CUDA_SUCCESS;
  if (cch__driver.cuGraphRemoveDependencies_v12030 != NULL)
    result = cch__driver.cuGraphRemoveDependencies_v12030(graph->raw, NULL, NULL, NULL, 0);
  else if (cch__driver.cuGraphRemoveDependencies != NULL)
    result = cch__driver.cuGraphRemoveDependencies(graph->raw, NULL, NULL, 0);
  *out = result == CUDA_ERROR_NOT_SUPPORTED;
  return *out ? 0 : cch__checked((int)result, "cuGraphRemoveDependencies");
}

/* ---- trying nodes out in a trial graph ---- */

void cch__trial_destroy(CUgraph trial) { CCH__ASIDE(cch__report(CCH__CALL(cuGraphDestroy, (trial)))); }

/* Adds a node without dependencies to the trial graph. */
static int add_to_trial(CUgraph trial, cch__node_params *params) {
  CUgraphNode raw;
  CUgraphNodeParams native = params->native;
  int status = 0;
  if (params->type->adapt != NULL)
    status = params->type->adapt(&native, trial);
  if (status == 0)
    status = cch__driver_add_node(&raw, trial, NULL, 0, &native);
  return status != 0 ? status : cch__node_set_attributes(raw, params->attributes, params->attribute_count);
}

int cch__node_try(cch__node_params *params) {
  CUgraph trial;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphCreate, (&trial, 0)));
  int status = add_to_trial(trial, params);
  cch__trial_destroy(trial);
  return status;
}

/* ---- checks of frees, which are not added to the trial graph: a free node there would claim the memory ---- */

/* Memory that a node allocates or frees. */
typedef struct piece {
  void *address;
  size_t bytes; /* the size of the memory; 1 if the piece is memory that is freed */
} piece;

/* Returns the piece that contains an address; NULL if there is none. */
static const piece *find_piece(const cch__table *pieces, CUdeviceptr address) {
  const piece *one = NULL;
  while ((one = cch__table_next(pieces, sizeof *one, one)) != NULL)
    if (address - (CUdeviceptr)(uintptr_t)one->address < one->bytes)
      break;
  return one;
}

static int add_piece(cch__table *pieces, CUdeviceptr address, size_t bytes, const char *operation) {
  if (!cch__table_reserve(pieces, sizeof(piece), 1))
    return cch__fail_nomem(operation);
  ((piece *)cch__table_enter(pieces, sizeof(piece), (void *)(uintptr_t)address))->bytes = bytes;
  return 0;
}

/* A batch that is added to a trial graph. */
typedef struct batch_trial {
  cch_graph *graph;
  CUgraph trial;
  bool looked;                 /* whether the memory nodes of the graph are in the two tables below */
  cch__table allocated, freed; /* of pieces; the frees of the batch are added to `freed` */
  const char *operation;
} batch_trial;

static int look_at_node(batch_trial *self, CUgraphNode raw) {
  CUgraphNodeType type;
  CUdeviceptr address;
  size_t size;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeGetType, (raw, &type)));
  const cch__node_type *known = cch__node_type_of((int)type);
  if (known->memory == NULL)
    return 0;
  CCH__RETURN_FAILURE(known->memory(&address, &size, raw));
  return add_piece(known->frees_memory ? &self->freed : &self->allocated, address, size, self->operation);
}

/* Lists the memory that the graph allocates and frees. */
static int look(batch_trial *self) {
  CUgraphNode *nodes;
  size_t count;
  CCH__RETURN_FAILURE(cch__driver_nodes(&nodes, &count, self->graph->raw, self->operation));
  int status = 0;
  for (size_t i = 0; status == 0 && i < count; i++)
    status = look_at_node(self, nodes[i]);
  free(nodes);
  self->looked = status == 0;
  return status;
}

/*
 * Checks the free of an address. The memory that other graphs allocate cannot be listed, so a fill of the address is
 * added to the trial graph: the fill is refused if there is no such memory.
 */
static int check_free(batch_trial *self, CUdeviceptr address) {
  int status = self->looked ? 0 : look(self);
  if (status != 0)
    return status;
  const piece *known = find_piece(&self->allocated, address);
  const void *key = (const void *)(uintptr_t)address;
  const bool is_inside = known != NULL && known->address != key;
  if (is_inside || cch__table_find(&self->freed, sizeof(piece), key) != NULL)
    return cch__fail(CUDA_ERROR_INVALID_VALUE, self->operation, "the address %#llx %s", (unsigned long long)address,
                     is_inside ? "is inside an allocation" : "is freed already");
  if (known == NULL) {
    CUgraphNode raw;
    CUgraphNodeParams fill = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    fill.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = address, .elementSize = 1, .width = 1, .height = 1};
    status = CCH__CALL(cuCtxGetCurrent, (&fill.memset.ctx));
    if (status == 0)
      status = cch__driver_add_node(&raw, self->trial, NULL, 0, &fill);
  }
  return status != 0 ? status : add_piece(&self->freed, address, 1, self->operation);
}

static int try_node(batch_trial *self, const cch_node_spec *spec, size_t place) {
  cch_node_spec known;
  int status = cch__node_spec_read(&spec, &known, self->operation);
  if (status == 0)
    status = cch__spec_dependencies(NULL, self->graph, spec, NULL, place, self->operation);
  if (status == 0)
    status = CCH__USABLE_OR_NULL(spec->context, "the context of the cch_node_spec", self->operation);
  if (status == 0)
    status = CCH__USABLE_OR_NULL(spec->bundle, "the bundle of the cch_node_spec", self->operation);
  cch__current current;
  if (status == 0)
    status = cch__current_enter(&current, spec->context);
  if (status != 0)
    return status;
  cch__node_params params;
  status = cch__node_params_fill(&params, spec->type, spec->params, spec->bundle, spec->context, self->operation);
  if (status == 0 && params.type->frees_memory)
    status = check_free(self, params.native.free.dptr);
  else if (status == 0)
    status = add_to_trial(self->trial, &params);
  cch__node_params_unref(&params);
  cch__current_leave(&current);
  return status;
}

static const cch_node_spec *spec_at(const cch_node_spec *specs, size_t i) {
  return (const cch_node_spec *)((const char *)specs + i * specs->size);
}

static int try_batch(cch_graph *graph, const cch_node_spec *specs, size_t count, size_t *failed,
                     const char *operation) {
  batch_trial self = {.graph = graph, .operation = operation};
  int status = CCH__CALL(cuGraphCreate, (&self.trial, 0));
  if (status != 0)
    return status;
  for (*failed = 0; status == 0 && *failed < count; *failed += status == 0)
    status = try_node(&self, spec_at(specs, *failed), *failed);
  cch__table_free(&self.allocated);
  cch__table_free(&self.freed);
  cch__trial_destroy(self.trial);
  return status;
}

/* ---- batches ---- */

static bool has_memory_nodes(const cch_node_spec *specs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (cch__node_type_of(spec_at(specs, i)->type)->memory != NULL)
      return true;
  return false;
}

void cch__batch_undo(cch_graph *graph, const CUgraphNode *added, size_t count) {
  bool keeps = false;
  if (count > 0)
    CCH__ASIDE(cch__report(cch__graph_forbids_removal(&keeps, graph)));
  if (keeps) {
    cch__fail_explain(
        "the nodes of the batch that come before it stay in the graph, because the driver takes no node out of a "
        "graph that is being captured, or that allocates or frees memory");
    return;
  }
  while (count-- > 0)
    cch__node_undo(graph, added[count]);
}

static int add_batch(cch_graph_node **out, cch_graph *graph, const cch_node_spec *specs, size_t count, size_t *failed,
                     const char *operation) {
  int status = CCH__USABLE(graph, "the graph", operation);
  CUgraphNode *added = malloc(count * sizeof *added);
  cch_graph_node **boxes = out != NULL ? malloc(count * sizeof *boxes) : NULL;
  size_t done = 0, at = 0;
  if (status == 0 && (added == NULL || (out != NULL && boxes == NULL)))
    status = cch__fail_nomem(operation);
  bool keeps = count > 1 && has_memory_nodes(specs, count);
  if (status == 0 && count > 1 && !keeps)
    status = cch__graph_forbids_removal(&keeps, graph);
  if (status == 0 && keeps)
    status = try_batch(graph, specs, count, &at, operation);
  if (status == 0) {
    for (; status == 0 && done < count; done += status == 0)
      status = cch__node_add_spec(&added[done], boxes != NULL ? &boxes[done] : NULL, graph, spec_at(specs, done), added,
                                  done, operation);
    at = done;
  }
  if (status == 0 && boxes != NULL)
    memcpy(out, boxes, count * sizeof *boxes);
  if (status != 0 && failed != NULL)
    *failed = at;
  if (status != 0) {
    cch__batch_undo(graph, added, done);
    for (size_t i = done; boxes != NULL && i-- > 0;)
      cch_graph_node_unref(boxes[i]);
  }
  free(boxes);
  free(added);
  return status;
}

cch_status cch_graph_add_batch(cch_graph_node **out, cch_graph *graph, const cch_node_spec *specs, size_t count,
                               size_t *failed) {
  CCH__REQUIRE_USABLE(graph);
  CCH__REQUIRE_ARRAY(specs, count);
  if (count == 0)
    return 0;
  cch__poll();
  cch__hierarchy **turns = malloc((count + 1) * sizeof *turns);
  if (turns == NULL)
    return cch__fail_nomem(__func__);
  size_t turn_count = 0;
  int status = 0;
  turns[turn_count++] = graph->hierarchy;
  for (size_t at = 0; status == 0 && at < count; at++) {
    const cch_node_spec *spec = spec_at(specs, at);
    const cch_graph *child = spec->size == specs->size ? cch__child_in(spec->type, spec->params) : NULL;
    if (child != NULL)
      turns[turn_count++] = child->hierarchy;
    if (spec->size != specs->size) {
      status = cch__fail(CCH_EINVAL, __func__, "the nodes of a batch are of different sizes");
      if (failed != NULL)
        *failed = at;
    }
  }
  if (status == 0) {
    turn_count = cch__turn_take(turns, turn_count);
    status = add_batch(out, graph, specs, count, failed, __func__);
    cch__turn_give(turns, turn_count);
  }
  free(turns);
  return status;
}
