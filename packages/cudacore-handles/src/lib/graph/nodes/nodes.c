/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of all types of nodes, and the table of types. */
#include "graph/nodes/nodes.h"
#include "memory/peers.h"

#include <stdlib.h>
#include <string.h>

/* ---- functions that several types of nodes use ---- */

int cch__node_keep(cch__node_params *out, const cch__node_source *from) {
  out->kept = cch_bundle_ref(from->bundle);
  return 0;
}

int cch__node_context(CUcontext *out, const cch_context *context) {
  if (context == NULL)
    return CCH__CALL(cuCtxGetCurrent, (out));
  *out = context->raw;
  return 0;
}

int cch__node_place(cch__node_params *out, CUcontext *context, const CUdeviceptr *operands, size_t count,
                    const cch__node_source *from) {
  cch_context *kept = NULL;
  int status = 0;
  if (from->context != NULL) {
    *context = from->context->raw;
    if (!cch__is_one_device())
      kept = cch_context_ref((cch_context *)(uintptr_t)from->context);
  } else {
    status = cch__context_for_node(context, &kept, operands, count, from->bundle);
  }
  out->context = *context;
  if (status == 0)
    status =
        kept != NULL ? cch__bundle_wrap(&out->kept, kept, from->bundle, 0, from->operation) : cch__node_keep(out, from);
  cch_context_unref(kept);
  return status;
}

/* ---- nodes that do nothing, and have no parameters ---- */

static int older_empty(const cch__older_call *to, CUgraphNodeParams *params) {
  (void)params;
  return CCH__OLDER(cuGraphAddEmptyNode, (to->out, to->graph, to->before, to->count));
}

const cch__node_type cch__node_type_empty = {.fill = cch__node_keep, .is_fixed = true, .older = older_empty};

/* ---- the table of types ---- */

static const cch__node_type *const types[] = {
#define ROW(number, name) [CCH_NODE_##number] = &cch__node_type_##name,
    CCH_NODE_TYPES(ROW)
#undef ROW
};

const cch__node_type *cch__node_type_of(int type) {
  static const cch__node_type unknown;
  bool known = type >= 0 && (size_t)type < sizeof types / sizeof *types && types[type] != NULL;
  return known ? types[type] : &unknown;
}

/* ---- parameters of nodes ---- */

int cch__node_params_fill(cch__node_params *out, int type, const void *params, cch_bundle *bundle,
                          const cch_context *context, const char *operation) {
  const cch__node_type *known = cch__node_type_of(type);
  memset(&out->native, 0, sizeof out->native);
  out->native.type = (CUgraphNodeType)type;
  out->type = known;
  out->kept = NULL;
  out->context = NULL;
  out->attribute_count = 0;
  out->programmatic = false;
  out->pointers = out->few;
  out->peers = NULL;
  out->alloc = NULL;
  if (params == NULL && type != CCH_NODE_EMPTY)
    return cch__fail(CCH_EINVAL, operation, "the parameters of the node are NULL");
  if (known->fill == NULL)
    return cch__fail(CCH_EINVAL, operation, "nodes of type %d cannot be added", type);
  cch__any_node room;
  cch__node_source from = {
      .given = params, .caller = params, .bundle = bundle, .context = context, .operation = operation};
  if (known->size != 0 && *(const size_t *)params != known->size) {
    CCH__RETURN_FAILURE(cch__read_sized(&room, known->size, params, *(const size_t *)params, known->oldest,
                                        "structure of a node's parameters", operation));
    from.given = &room;
  }
  return known->fill(out, &from);
}

void cch__node_params_unref(cch__node_params *params) {
  cch_bundle_unref(params->kept);
  if (params->pointers != params->few)
    free(params->pointers);
  free(params->peers);
}

int cch__node_params_get(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  const cch__node_type *known = cch__node_type_of(node->type);
  if (known->get == NULL)
    return cch__fail(CCH_EINVAL, operation, "a node of type %d has no parameters that are known", node->type);
  cch__any_node read = {0};
  const size_t size = *(const size_t *)params;
  if (size < known->oldest)
    return cch__fail(CCH_EINVAL, operation, "the size of the structure is %zu, and none has less than %zu bytes", size,
                     known->oldest);
  memcpy(&read, params, size < known->size ? size : known->size);
  CCH__RETURN_FAILURE(known->get(&read, node, bundle, operation));
  read.size = size;
  if (size > known->size)
    memset((char *)params + known->size, 0, size - known->size);
  memcpy(params, &read, size < known->size ? size : known->size);
  return 0;
}

int cch__node_check_change(const cch_graph_node *node, const char *operation) {
  if (cch__node_type_of(node->type)->is_fixed)
    return cch__fail(CCH_EINVAL, operation, "the parameters of a node of type %d cannot be changed", node->type);
  return 0;
}

/* ---- the driver's calls: before 12.2 there is a function for each type ---- */

static int call_older(const cch__older_call *to, CUgraphNodeParams *params, const char *newer) {
  const cch__node_type *type = cch__node_type_of((int)params->type);
  int status = type->older != NULL ? type->older(to, params) : CCH_ENOSYMBOL;
  return status != CCH_ENOSYMBOL ? status : cch__fail_missing(newer);
}

int cch__driver_add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                         CUgraphNodeParams *params) {
  if (cch__driver.cuGraphAddNode != NULL)
    return CCH__CALL(cuGraphAddNode, (out, graph, before, count, params));
  const cch__older_call older = {.out = out, .graph = graph, .before = before, .count = count};
  return call_older(&older, params, "cuGraphAddNode");
}

int cch__driver_set_node(CUgraphNode node, CUgraphNodeParams *params) {
  if (cch__driver.cuGraphNodeSetParams != NULL)
    return CCH__CALL(cuGraphNodeSetParams, (node, params));
  return call_older(&(cch__older_call){.node = node}, params, "cuGraphNodeSetParams");
}

int cch__driver_set_exec_node(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params) {
  if (cch__driver.cuGraphExecNodeSetParams != NULL)
    return CCH__CALL(cuGraphExecNodeSetParams, (exec, node, params));
  const cch__older_call older = {.node = node, .exec = exec};
  return call_older(&older, params, "cuGraphExecNodeSetParams");
}
