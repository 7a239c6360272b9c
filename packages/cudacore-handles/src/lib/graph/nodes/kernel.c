/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that launch kernels. */
#include "graph/nodes/nodes.h"
#include "code/kernel.h"
#include "launch/launch_config.h"

#include <stdlib.h>
#include <string.h>

int cch__kernel_node_fill(cch__node_params *out, const cch_kernel *kernel, const cch_launch_config *config,
                          const char *operation) {
  cch__native_launch launch;
  CCH__RETURN_FAILURE(cch__native_launch_fill(&launch, config, NULL, operation));
  out->attribute_count = 0;
  out->programmatic = false;
  for (unsigned i = 0; i < launch.config.numAttrs; i++)
    if (launch.attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      out->programmatic = true; /* an attribute of launches in streams; in a graph, it is a property of edges */
    else
      out->attributes[out->attribute_count++] = launch.attributes[i];
  CUDA_KERNEL_NODE_PARAMS_v3 *native = &out->native.kernel;
  native->gridDimX = launch.config.gridDimX;
  native->gridDimY = launch.config.gridDimY;
  native->gridDimZ = launch.config.gridDimZ;
  native->blockDimX = launch.config.blockDimX;
  native->blockDimY = launch.config.blockDimY;
  native->blockDimZ = launch.config.blockDimZ;
  native->sharedMemBytes = launch.config.sharedMemBytes;
  native->kern = kernel->raw;
  return 0;
}

static int fill_kernel(cch__node_params *out, const cch__node_source *from) {
  const cch_kernel_node *node = from->given;
  CCH__RETURN_FAILURE(CCH__USABLE(node->kernel, "the kernel of the node's parameters", from->operation));
  CCH__RETURN_FAILURE(CCH__USABLE(node->config, "the config of the node's parameters", from->operation));
  if (node->args_size > 0)
    CCH__RETURN_FAILURE(CCH__USABLE(node->args, "the block of arguments of the node's parameters", from->operation));
  const cch__params *params;
  CCH__RETURN_FAILURE(cch__kernel_params(&params, node->kernel));
  if (node->args_size != params->block_size)
    return cch__fail(CCH_EMISMATCH, from->operation, "the kernel takes %zu bytes of arguments, not %zu",
                     params->block_size, node->args_size);
  CCH__RETURN_FAILURE(cch__kernel_node_fill(out, node->kernel, node->config, from->operation));
  CCH__RETURN_FAILURE(cch__bundle_wrap(&out->kept, node->kernel, from->bundle, node->args_size, from->operation));
  /* Passes pointers rather than the block, so that other code that reads the graph gets the value of each argument. */
  if (params->count > sizeof out->few / sizeof *out->few) {
    out->pointers = malloc(params->count * sizeof *out->pointers);
    if (out->pointers == NULL)
      return cch__fail_nomem(from->operation);
  }
  if (node->args_size > 0)
    memcpy(out->kept->payload, node->args, node->args_size);
  for (size_t i = 0; i < params->count; i++)
    out->pointers[i] = (char *)out->kept->payload + params->param[i].offset;
  out->native.kernel.kernelParams = params->count > 0 ? out->pointers : NULL;
  int status = cch__node_context(&out->native.kernel.ctx, from->context);
  out->context = out->native.kernel.ctx;
  return status;
}

static int get_attributes(cch_launch_config *config, CUgraphNode raw, const char *operation) {
  CUlaunchAttributeValue cluster, cooperative, priority;
  bool known = false, programmatic;
  CCH__RETURN_FAILURE(cch__node_is_programmatic(&programmatic, raw, operation));
  CCH__RETURN_FAILURE(cch__node_attribute(&cluster, &known, raw, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
  CCH__RETURN_FAILURE(cch__node_attribute(&cooperative, &known, raw, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
  CCH__RETURN_FAILURE(cch__node_attribute(&priority, &known, raw, CU_LAUNCH_ATTRIBUTE_PRIORITY));
  config->cluster[0] = cluster.clusterDim.x;
  config->cluster[1] = cluster.clusterDim.y;
  config->cluster[2] = cluster.clusterDim.z;
  config->flags = (cooperative.cooperative ? CCH_LAUNCH_COOPERATIVE : 0) |
                  (programmatic ? CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION : 0) | (known ? CCH_LAUNCH_PRIORITY : 0);
  config->priority = priority.priority;
  return 0;
}

static int get_config(cch_launch_config *given, CUgraphNode raw, const CUDA_KERNEL_NODE_PARAMS *native,
                      const char *operation) {
  enum { CONFIG_0_1 = offsetof(cch_launch_config, shared_bytes) + sizeof(uint32_t) };
  cch_launch_config config = {.size = given->size,
                              .grid = {native->gridDimX, native->gridDimY, native->gridDimZ},
                              .block = {native->blockDimX, native->blockDimY, native->blockDimZ},
                              .shared_bytes = native->sharedMemBytes};
  if (given->size < CONFIG_0_1)
    return cch__fail(CCH_EINVAL, operation, "the size of the cch_launch_config is %u, and none has less than %d bytes",
                     given->size, (int)CONFIG_0_1);
  CCH__RETURN_FAILURE(get_attributes(&config, raw, operation));
  if (given->size > sizeof config)
    memset((char *)given + sizeof config, 0, given->size - sizeof config);
  memcpy(given, &config, given->size < sizeof config ? given->size : sizeof config);
  return 0;
}

cch_kernel *cch__kernel_of(const cch_bundle *bundle) {
  cch__box *first = bundle != NULL && bundle->wraps && bundle->count > 0 ? bundle->owners[0].object : NULL;
  return first != NULL && first->kind == CCH_KIND_KERNEL ? (cch_kernel *)first : NULL;
}

void cch__kernel_read_unref(cch__kernel_read *read) {
  cch_kernel_unref(read->kernel);
  free(read->block);
  *read = (cch__kernel_read){0};
}

/* Copies arguments that were passed as one block. */
static void copy_extra(void *block, size_t size, void **extra) {
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      memcpy(block, extra[1], size);
}

/* Copies the arguments if their layout is known. Drivers before 12.4 do not report the layout. */
static int copy_arguments(cch__kernel_read *read, const char *operation) {
  cch_context context = {.raw = read->native.ctx};
  if (!cch__kernel_has_params(read->kernel))
    return 0;
  int status =
      CCH__IN_CONTEXT(read->native.ctx != NULL ? &context : NULL, cch__kernel_params(&read->params, read->kernel));
  if (status != 0 || read->params->block_size == 0)
    return status;
  read->block = calloc(1, read->params->block_size);
  if (read->block == NULL)
    return cch__fail_nomem(operation);
  if (read->native.kernelParams == NULL)
    copy_extra(read->block, read->params->block_size, read->native.extra);
  for (size_t i = 0; read->native.kernelParams != NULL && i < read->params->count; i++)
    memcpy((char *)read->block + read->params->param[i].offset, read->native.kernelParams[i],
           read->params->param[i].size);
  return 0;
}

int cch__kernel_read_node(cch__kernel_read *out, CUgraphNode raw, cch_kernel *known, bool copies,
                          const char *operation) {
  *out = (cch__kernel_read){0};
  int status = CCH__CALL(cuGraphKernelNodeGetParams, (raw, &out->native));
  if (status != 0)
    return status;
  if (known != NULL)
    out->kernel = cch_kernel_ref(known);
  else if (out->native.kern != NULL) /* otherwise the function is of a module, and is not a kernel */
    status = cch_kernel_wrap(&out->kernel, out->native.kern, NULL, NULL, NULL);
  if (status == 0 && out->kernel != NULL && copies)
    status = copy_arguments(out, operation);
  if (status != 0)
    cch__kernel_read_unref(out);
  return status;
}

/* Makes the node keep the arguments that were read, if any, with their known owners, until it is read again. */
static int keep_read(cch_graph_node *node, const cch__kernel_read *read, const cch_bundle *bundle,
                     const char *operation) {
  cch_bundle *made = NULL;
  if (read->block != NULL) {
    CCH__RETURN_FAILURE(cch__bundle_wrap(&made, NULL, cch__bundle_given((cch_bundle *)(uintptr_t)bundle),
                                         read->params->block_size, operation));
    memcpy(made->payload, read->block, read->params->block_size);
  }
  cch__unref_later(node->read);
  node->read = made;
  return 0;
}

static int get_kernel(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  cch_kernel_node *out = params;
  CCH__RETURN_FAILURE(cch__graph_check(node->graph, operation));
  cch_kernel *known = cch__kernel_of(bundle);
  const bool has_args = known != NULL && !bundle->of_many;
  cch__kernel_read read;
  int status = cch__kernel_read_node(&read, node->raw, known, !has_args, operation);
  if (status != 0)
    return status;
  if (out->config != NULL)
    status = get_config((cch_launch_config *)(uintptr_t)out->config, node->raw, &read.native, operation);
  if (status == 0)
    status = keep_read(node, &read, bundle, operation);
  if (status == 0) {
    out->kernel = cch_kernel_ref(read.kernel);
    out->args = has_args ? bundle->payload : node->read != NULL ? node->read->payload : NULL;
    out->args_size = has_args ? bundle->payload_size : read.params != NULL ? read.params->block_size : 0;
  }
  cch__kernel_read_unref(&read);
  return status;
}

/* ---- changes ---- */

/* The attributes that change, as they will be and as they were. One that is not requested gets its default. */
typedef struct attribute_change {
  unsigned count;
  CUlaunchAttribute wanted[4], before[4];
} attribute_change;

static bool is_same(CUlaunchAttributeID id, const CUlaunchAttributeValue *a, const CUlaunchAttributeValue *b) {
  switch (id) {
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    return memcmp(&a->clusterDim, &b->clusterDim, sizeof a->clusterDim) == 0;
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    return a->cooperative == b->cooperative;
  default:
    return a->priority == b->priority;
  }
}

/* A launch without clusters is the same as one with clusters of one block. */
static const CUlaunchAttribute no_clusters = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                              .value.clusterDim = {1, 1, 1}};

int cch__node_attribute(CUlaunchAttributeValue *out, bool *known, CUgraphNode raw, CUlaunchAttributeID id) {
  static const char name[] = "cuGraphKernelNodeGetAttribute";
  memset(out, 0, sizeof *out);
  if (cch__driver.cuGraphKernelNodeGetAttribute == NULL)
    return cch__fail_missing(name);
  CUresult result = cch__driver.cuGraphKernelNodeGetAttribute(raw, id, out);
  *known = result == CUDA_SUCCESS;
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED ? 0 : cch__checked((int)result, name);
}

static int find_changes(attribute_change *out, CUgraphNode raw, const cch__node_params *params) {
  static const CUlaunchAttributeID ids[] = {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                            CU_LAUNCH_ATTRIBUTE_PRIORITY};
  out->count = 0;
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    const bool is_cluster = ids[i] == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    CUlaunchAttribute wanted = is_cluster ? no_clusters : (CUlaunchAttribute){.id = ids[i]}, before = wanted;
    bool requested = false, known;
    for (unsigned k = 0; k < params->attribute_count; k++)
      if (params->attributes[k].id == ids[i]) {
        wanted = params->attributes[k];
        requested = true;
      }
    if (ids[i] == CU_LAUNCH_ATTRIBUTE_PRIORITY && !requested)
      continue; /* no priority value means "not set", so the node keeps its priority */
    CCH__RETURN_FAILURE(cch__node_attribute(&before.value, &known, raw, ids[i]));
    if (is_cluster && before.value.clusterDim.x == 0)
      before = no_clusters;
    if (is_same(ids[i], &wanted.value, &before.value))
      continue;
    out->wanted[out->count] = wanted;
    out->before[out->count++] = before;
  }
  return 0;
}

/* Programmatic edges are made when a node is added. They are not a parameter that can be changed. */
static int check_programmatic(CUgraphNode raw, const cch__node_params *params, const char *operation) {
  bool programmatic;
  CCH__RETURN_FAILURE(cch__node_is_programmatic(&programmatic, raw, operation));
  if (programmatic != params->programmatic)
    return cch__fail(
        CCH_EINVAL, operation,
        "whether a kernel node may begin before those end that it waits for is a matter of its edges: change "
        "their type instead");
  return 0;
}

int cch__node_attributes_change(bool *out, CUgraphNode raw, const cch__node_params *params) {
  attribute_change change = {0};
  int status = params->native.type == CU_GRAPH_NODE_TYPE_KERNEL ? find_changes(&change, raw, params) : 0;
  *out = change.count > 0;
  return status;
}

/*
 * Sets the parameters and attributes of a kernel. At each step, the driver checks that the grid is divisible into
 * clusters. So there are none between the old and the new parameters.
 */
static int apply(CUgraphNode raw, CUgraphNodeParams *native, const CUlaunchAttribute *attributes, unsigned count) {
  if (attributes[0].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    CCH__RETURN_FAILURE(cch__node_set_attributes(raw, &no_clusters, 1));
  CCH__RETURN_FAILURE(cch__driver_set_node(raw, native));
  return cch__node_set_attributes(raw, attributes, count);
}

/* Restores a kernel node after a failure. The driver accepted the parameters before, so it accepts them again. */
static void put_back(CUgraphNode raw, const cch__kernel_read *read, const attribute_change *change) {
  CUgraphNodeParams native = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  size_t count = read->params != NULL ? read->params->count : 0;
  void **pointers = malloc((count + 1) * sizeof *pointers);
  if (pointers == NULL)
    return;
  for (size_t i = 0; i < count; i++)
    pointers[i] = (char *)read->block + read->params->param[i].offset;
  memcpy(&native.kernel, &read->native, sizeof read->native); /* both structures have the same fields */
  if (read->native.kern != NULL)
    native.kernel.func = NULL; /* the driver reports both fields, but accepts only one of the two */
  native.kernel.kernelParams = count > 0 ? pointers : NULL;
  native.kernel.extra = NULL;
  cch__destructor_enter();
  cch__report(apply(raw, &native, change->before, change->count));
  cch__destructor_leave();
  free(pointers);
}

static int read_context(CUcontext *out, CUgraphNode raw) {
  CUDA_KERNEL_NODE_PARAMS native;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphKernelNodeGetParams, (raw, &native)));
  *out = native.ctx;
  return 0;
}

static int change(CUgraphNode raw, cch__node_params *params, const char *operation) {
  attribute_change attributes = {0};
  cch__kernel_read read = {0};
  int status = params->programmatic ? check_programmatic(raw, params, operation) : 0;
  if (status == 0)
    status = find_changes(&attributes, raw, params);
  if (status == 0 && attributes.count == 0)
    return cch__driver_set_node(raw, &params->native);
  if (status == 0)
    status = cch__kernel_read_node(&read, raw, NULL, true, operation);
  if (status == 0) {
    status = apply(raw, &params->native, attributes.wanted, attributes.count);
    if (status != 0)
      put_back(raw, &read, &attributes);
  }
  cch__kernel_read_unref(&read);
  return status;
}

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  CUDA_KERNEL_NODE_PARAMS_v2 kernel;
  _Static_assert(sizeof kernel == sizeof params->kernel, "the structures have the same fields");
  memcpy(&kernel, &params->kernel, sizeof kernel);
  return CCH__OLDER_NODE(to, AddKernelNode, KernelNodeSetParams, ExecKernelNodeSetParams, &kernel);
}

const cch__node_type cch__node_type_kernel = {CCH__NODE_STRUCT(cch_kernel_node, args_size),
                                              .fill = fill_kernel,
                                              .get = get_kernel,
                                              .context = read_context,
                                              .change = change,
                                              .older = older};
