/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_CODE_CODE_H
#define CUDACORE_SIM_DRIVER_CODE_CODE_H

#include "sim/driver/code/image.h"
#include "sim/driver/base/state.h"

namespace sim {

/* Whether the options of the compiler are valid. */
bool are_options(unsigned count, const CUjit_option *options, void **values);

/* Returns the value of CU_JIT_MAX_REGISTERS, the only option that changes the code; 0: it is not given. */
unsigned register_limit(unsigned count, const CUjit_option *options, void **values);

/* Writes the reason why code cannot be loaded, and the length of that text, to the buffers of the options. */
void write_log(const std::string &log, unsigned count, const CUjit_option *options, void **values);

/* Parses and compiles the code; releases the state's lock meanwhile. */
CUresult prepare(const std::shared_ptr<Image> &image);

/* Assigns addresses in a context to the variables of the code, at the first use. */
CUresult place(const ContextPtr &context, const std::shared_ptr<Image> &image, std::shared_ptr<Placement> &out);
void unplace(Context &context, const Image *image);

/*
 * Finds a variable by name. Fails with CUDA_ERROR_NOT_FOUND, or with CUDA_ERROR_INVALID_VALUE for the name of a kernel.
 */
CUresult find_variable(const ContextPtr &context, const std::shared_ptr<Image> &image, const char *name,
                       CUdeviceptr *address, size_t *bytes);

/* Finds the index of a kernel by name. Fails with CUDA_ERROR_NOT_FOUND. */
CUresult find_kernel(const Image &image, const char *name, size_t &out);

/* A kernel or function in one context. */
struct Callable {
  std::shared_ptr<Image> image;
  size_t index = 0;
  ContextPtr context;
  KernelSettings *settings = nullptr; /* of the kernel's function in the context or, if there is none, of the kernel */
  std::shared_ptr<void> owner;        /* keeps the settings alive */
  const KernelInfo &info() const { return image->kernels()[index]; }
};

/*
 * Finds a function or, for launches and occupancy, a kernel. If `context` is null, a kernel is looked up in the current
 * context.
 */
CUresult find_callable(CUfunction handle, ContextPtr context, Callable &out);

/* Finds a function; a CUkernel is refused. */
CUresult find_function(CUfunction handle, Callable &out);

/* The function of a kernel in a context. It is created at the first use. */
CUresult function_of(const std::shared_ptr<Kernel> &kernel, const ContextPtr &context, CUfunction *out);

/* The limits of a launch: bytes of dynamic shared memory, blocks of a cluster, threads of a block. */
int max_dynamic_shared(const KernelInfo &kernel, const KernelSettings &settings);
uint64_t max_cluster_blocks(const KernelSettings &settings);
int max_threads_of(const KernelInfo &kernel, const Device &device);
uint32_t register_count(const KernelInfo &kernel);
/* The bytes of shared memory that belong to the system in each block, and the unit of allocations. */
uint32_t reserved_shared(const Device &device);
uint32_t shared_unit(const Device &device);

/* The number of blocks of a kernel that fit on a multiprocessor. */
int active_blocks(const Callable &what, const Device &device, int threads, size_t dynamic_shared);

} // namespace sim

#endif
