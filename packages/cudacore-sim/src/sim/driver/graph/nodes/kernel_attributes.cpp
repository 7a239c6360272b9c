/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of kernel nodes. */
#include "sim/driver/graph/nodes/kernel.h"

namespace sim {
namespace {

CUresult find_kernel_node(CUgraphNode handle, NodePtr &out) {
  return find_node_of(CU_GRAPH_NODE_TYPE_KERNEL, handle, out);
}

/* The value of an attribute that was not set. */
CUlaunchAttributeValue initial(CUlaunchAttributeID attribute) {
  CUlaunchAttributeValue value{};
  if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
    value.memSyncDomainMap = {CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE};
  return value;
}

CUresult set_attributes(GraphNode &node, KernelAttributes attributes) {
  ParamsPtr params;
  SIM_RETURN_FAILURE(replace_attributes(as<KernelParams>(node.params), std::move(attributes), params));
  set_params(node, std::move(params));
  return CUDA_SUCCESS;
}

} // namespace

/* Returns whether kernel nodes have the attribute. Some attributes exist only for launches or for streams. */
bool is_node_attribute(CUlaunchAttributeID attribute) {
  switch (static_cast<int>(attribute)) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return true;
  default:
    return false;
  }
}

namespace api {

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out) {
  NodePtr node;
  SIM_RETURN_FAILURE(find_kernel_node(hNode, node));
  if (value_out == nullptr || !is_node_attribute(attr))
    return CUDA_ERROR_INVALID_VALUE;
  const auto &attributes = as<KernelParams>(node->params).attributes;
  auto found = attributes.find(attr);
  if (found != attributes.end())
    *value_out = found->second;
  else
    *value_out = initial(attr);
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value) {
  NodePtr node;
  SIM_RETURN_FAILURE(find_kernel_node(hNode, node));
  if (value == nullptr || !is_node_attribute(attr))
    return CUDA_ERROR_INVALID_VALUE;
  auto attributes = as<KernelParams>(node->params).attributes;
  CUlaunchAttributeValue &kept = attributes[attr] = *value;
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
    kept.priority = std::clamp(kept.priority, greatest_priority, least_priority);
  bool is_carveout = attr == CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  bool is_percentage = kept.sharedMemCarveout <= 100;
  if (is_carveout && !is_percentage && kept.sharedMemCarveout != static_cast<unsigned>(CU_SHAREDMEM_CARVEOUT_DEFAULT))
    return CUDA_ERROR_INVALID_VALUE;
  return set_attributes(*node, std::move(attributes));
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  NodePtr to, from;
  SIM_RETURN_FAILURE(find_kernel_node(dst, to));
  SIM_RETURN_FAILURE(find_kernel_node(src, from));
  return set_attributes(*to, as<KernelParams>(from->params).attributes);
}

} // namespace api
} // namespace sim
