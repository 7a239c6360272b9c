/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds many nodes in one call: all or none. After a failure, the nodes added so far are destroyed again. The driver
 * does not remove nodes from a graph that has nodes that allocate or free memory. For such a graph, the whole batch is
 * first added to a trial graph, which is then destroyed, so that a refusal comes before the real graph is changed.
 */
#include "graph/nodes/nodes.h"
#include "base/reclaim.h"
#include "stream/capture.h"

#include <cudacore_shared/table.h>
#include <stdlib.h>
#include <string.h>

int cch__graph_forbids_removal(bool *out, const cch_graph *graph) {
  *out = cch__graph_is_captured(graph);
  if (*out)
    return 0;
  /* For a graph with memory nodes, the driver refuses even a call that removes zero edges. */
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

/* A batch that is tried. */
typedef struct batch_trial {
  const cch_graph *target;
  const cch_node_spec *specs;
  CUgraph graph;
  cch__table freed; /* the addresses that the batch frees */
  cch__table used;  /* the conditions that nodes use: see cch__condition_use() */
  const char *operation;
} batch_trial;

static int try_fill(const batch_trial *trial, CUdeviceptr address, size_t width) {
  CUgraphNode raw;
  CUgraphNodeParams fill = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
  fill.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = address, .elementSize = 1, .width = width, .height = 1};
  CCH__RETURN_FAILURE(CCH__CALL(cuCtxGetCurrent, (&fill.memset.ctx)));
  return cch__driver_add_node(&raw, trial->graph, NULL, 0, &fill);
}

/*
 * A free cannot be tried, because the address of a node that frees memory in another graph is lost with that graph. A
 * fill of the address can be: it is refused if no graph allocates that memory, or if that graph frees it. A fill that
 * begins before the address is refused, too, unless the address is inside of an allocation.
 */
static int try_free(batch_trial *trial, CUdeviceptr address) {
  const void *key = (const void *)(uintptr_t)address;
  if (cch__table_find(&trial->freed, sizeof key, key) != NULL)
    return cch__fail(CUDA_ERROR_INVALID_VALUE, trial->operation, "the address %p is freed already", key);
  if (!cch__table_reserve(&trial->freed, sizeof key, 1))
    return cch__fail_nomem(trial->operation);
  cch__table_enter(&trial->freed, sizeof key, key);
  CCH__RETURN_FAILURE(try_fill(trial, address, 1));
  if (CCH__ASIDE(try_fill(trial, address - 1, 2)) != 0)
    return 0;
  return cch__fail(CUDA_ERROR_INVALID_VALUE, trial->operation, "no allocation begins at the address %p", key);
}

static const cch_node_spec *spec_at(const cch_node_spec *specs, size_t i) {
  return (const cch_node_spec *)((const char *)specs + i * specs->size);
}

static int try_params(batch_trial *trial, const cch_node_spec *spec) {
  cch__node_params params;
  int status = cch__node_params_fill(&params, spec->type, spec->params, spec->bundle, spec->context, trial->operation);
  if (status == 0 && spec->type == CCH_NODE_CONDITIONAL) /* in the trial graph, each node gets a condition of its own */
    status = cch__condition_use(&trial->used, trial->target, params.native.conditional.handle, trial->operation);
  if (status == 0)
    status =
        spec->type == CCH_NODE_FREE ? try_free(trial, params.native.free.dptr) : add_to_trial(trial->graph, &params);
  cch__node_params_unref(&params);
  return status;
}

static int try_node(batch_trial *trial, size_t place) {
  const cch_node_spec *spec = spec_at(trial->specs, place);
  cch_node_spec known;
  CCH__RETURN_FAILURE(cch__node_spec_read(&spec, &known, trial->operation));
  CCH__RETURN_FAILURE(cch__spec_dependencies(NULL, trial->target, spec, NULL, place, trial->operation));
  CCH__RETURN_FAILURE(cch__node_spec_check(spec, trial->operation));
  return CCH__IN_CONTEXT(spec->context, try_params(trial, spec));
}

static int try_batch(const cch_graph *graph, const cch_node_spec *specs, size_t count, size_t *failed,
                     const char *operation) {
  batch_trial trial = {.target = graph, .specs = specs, .operation = operation};
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphCreate, (&trial.graph, 0)));
  int status = 0;
  for (*failed = 0; status == 0 && *failed < count; *failed += status == 0)
    status = try_node(&trial, *failed);
  cch__table_free(&trial.freed);
  cch__table_free(&trial.used);
  cch__trial_destroy(trial.graph);
  return status;
}

/* ---- batches ---- */

static bool has_memory_nodes(const cch_node_spec *specs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (spec_at(specs, i)->type == CCH_NODE_ALLOC || spec_at(specs, i)->type == CCH_NODE_FREE)
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
