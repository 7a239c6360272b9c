/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that allocate memory, and nodes that free it. */
#include "graph/nodes/nodes.h"

#include <stdlib.h>

static int fill_alloc(cch__node_params *out, const cch__node_source *from) {
  const cch_alloc_node *node = from->given;
  if (node->bytes == 0)
    return cch__fail(CCH_EINVAL, from->operation, "the size is 0");
  CUDA_MEM_ALLOC_NODE_PARAMS_v2 *native = &out->native.alloc;
  native->bytesize = node->bytes;
  native->poolProps.allocType =
      node->alloc_type != 0 ? (CUmemAllocationType)node->alloc_type : CU_MEM_ALLOCATION_TYPE_PINNED;
  native->poolProps.location.type =
      node->location_type != 0 ? (CUmemLocationType)node->location_type : CU_MEM_LOCATION_TYPE_DEVICE;
  native->poolProps.location.id = node->location_id;
  if (node->peer_count > 0) {
    CCH__RETURN_FAILURE(CCH__USABLE(node->peers, "the array of peers of the node's parameters", from->operation));
    out->peers = calloc(node->peer_count, sizeof *out->peers);
    if (out->peers == NULL)
      return cch__fail_nomem(from->operation);
    for (size_t i = 0; i < node->peer_count; i++) {
      out->peers[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      out->peers[i].location.id = node->peers[i];
      out->peers[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    native->accessDescs = out->peers;
    native->accessDescCount = node->peer_count;
  }
  out->alloc = (cch_alloc_node *)(uintptr_t)from->caller;
  return cch__node_keep(out, from);
}

/* The driver returns the address in the parameters. */
static void take_address(cch__node_params *params) { params->alloc->address = params->native.alloc.dptr; }

static int get_alloc(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)bundle, (void)operation;
  cch_alloc_node *out = params;
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 native;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphMemAllocNodeGetParams, (node->raw, &native)));
  int32_t *peers = (int32_t *)(uintptr_t)out->peers;
  for (size_t i = 0; peers != NULL && i < out->peer_count && i < native.accessDescCount; i++)
    peers[i] = native.accessDescs[i].location.id;
  *out = (cch_alloc_node){.bytes = native.bytesize,
                          .location_type = (int32_t)native.poolProps.location.type,
                          .location_id = native.poolProps.location.id,
                          .alloc_type = (int32_t)native.poolProps.allocType,
                          .peers = peers,
                          .peer_count = native.accessDescCount,
                          .address = native.dptr};
  return 0;
}

static int fill_free(cch__node_params *out, const cch__node_source *from) {
  const cch_free_node *node = from->given;
  if (node->address == 0)
    return cch__fail(CCH_EINVAL, from->operation, "the address to free is 0");
  out->native.free.dptr = node->address;
  return cch__node_keep(out, from);
}

static int get_free(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)bundle, (void)operation;
  return CCH__CALL(cuGraphMemFreeNodeGetParams, (node->raw, &((cch_free_node *)params)->address));
}

/* ---- drivers before 12.2 ---- */

static int older_alloc(const cch__older_call *to, CUgraphNodeParams *params) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v2 *alloc = &params->alloc;
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 native = {.poolProps = alloc->poolProps,
                                          .accessDescs = alloc->accessDescs,
                                          .accessDescCount = alloc->accessDescCount,
                                          .bytesize = alloc->bytesize};
  int status = CCH__OLDER_ADD(to, AddMemAllocNode, &native);
  if (status == 0)
    alloc->dptr = native.dptr;
  return status;
}

static int older_free(const cch__older_call *to, CUgraphNodeParams *params) {
  return CCH__OLDER_ADD(to, AddMemFreeNode, params->free.dptr);
}

const cch__node_type cch__node_type_alloc = {CCH__NODE_STRUCT(cch_alloc_node, address),
                                             .fill = fill_alloc,
                                             .get = get_alloc,
                                             .added = take_address,
                                             .is_fixed = true,
                                             .older = older_alloc};

const cch__node_type cch__node_type_free = {CCH__NODE_STRUCT(cch_free_node, address), .fill = fill_free,
                                            .get = get_free, .is_fixed = true, .older = older_free};
