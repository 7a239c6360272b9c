/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_NODES_KERNEL_H
#define CUDACORE_SIM_DRIVER_GRAPH_NODES_KERNEL_H

#include "sim/driver/graph/nodes/node.h"

namespace sim {

struct KernelParams : Params {
  CUfunction function = nullptr; /* for cuGraphKernelNodeGetParams; `function` or `kernel` can be null */
  CUkernel kernel = nullptr;
  Callable what;
  ContextPtr owner;      /* the context of `what`, or a green context of it */
  LaunchRequest request; /* the launch, without its attributes */
  std::vector<std::byte> arguments;
  std::vector<void *> pointers; /* pointers to the arguments, for cuGraphKernelNodeGetParams */
  std::vector<void *> extra;    /* the arguments as one block, if they were passed in this form */
  size_t extra_size = 0;        /* size of the block */
  KernelAttributes attributes;  /* attributes that were set */

  void write(CUgraphNodeParams &out) const override;
  std::string describe(const DotNode &node) const override;
  CUresult submit(const LaunchPtr &launch, const ExecNode &node, std::vector<UnitPtr> before,
                  UnitPtr &out) const override;
  CUresult check_instance() const override;
  CUresult check_launch() const override;
  CUgraphExecUpdateResult check_change(const GraphExec &exec, const ExecNode &node, const Params &now) const override;
  bool is_lost() const override { return what.context->primary && what.context->destroyed; }

  CUDA_KERNEL_NODE_PARAMS fields() const;
  /* Whether the kernel can run. `request` becomes the launch with the attributes of the node. */
  CUresult check(LaunchRequest &request) const;
};

/* A copy of parameters with other attributes. */
CUresult replace_attributes(const KernelParams &old, KernelAttributes attributes, ParamsPtr &out);

} // namespace sim

#endif
