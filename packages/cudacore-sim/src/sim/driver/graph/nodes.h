/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_NODES_H
#define CUDACORE_SIM_DRIVER_GRAPH_NODES_H

#include "sim/driver/code/launch.h"
#include "sim/driver/graph/params.h"
#include "sim/driver/memory/copy.h"

#include <functional>
#include <map>

/* Functions that make the parameters of nodes for captured work. The callers have already checked the work. */
namespace sim {

using KernelAttributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

bool is_node_attribute(CUlaunchAttributeID attribute);
/*
 * `handle`: the handle of the kernel or function that was launched. `owner`: the context of the stream. `as_block`: the
 * arguments were passed as one block.
 */
ParamsPtr make_kernel(uint64_t handle, const Callable &what, const ContextPtr &owner, const LaunchRequest &request,
                      std::vector<std::byte> arguments, bool as_block, KernelAttributes attributes);
ParamsPtr make_memcpy(const CUDA_MEMCPY3D &fields, const ContextPtr &owner, const Side &to, const Side &from,
                      const Shape &shape);
ParamsPtr make_memset(const CUDA_MEMSET_NODE_PARAMS_v2 &fields, const ContextPtr &owner, const Side &to,
                      const Shape &shape);
ParamsPtr make_host(CUhostFn function, void *data);
ParamsPtr make_event_record(CUevent handle, const std::shared_ptr<Event> &event);
ParamsPtr make_event_wait(CUevent handle, const std::shared_ptr<Event> &event);
/* Allocations and frees are checked here, not by the callers, because they belong to a graph and not to a stream. */
CUresult read_alloc(const Graph &into, CUDA_MEM_ALLOC_NODE_PARAMS &from, ParamsPtr &out);
CUresult read_free(const Graph &into, CUdeviceptr address, ParamsPtr &out);
/* Operations on values in memory; `submit` submits them at each launch. */
ParamsPtr make_batch_mem_op(std::function<void(std::vector<UnitPtr> before, UnitPtr &out)> submit);

} // namespace sim

#endif
