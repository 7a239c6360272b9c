/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_CODE_CODE_H
#define CUDACORE_SIM_DRIVER_CODE_CODE_H

#include "sim/driver/code/image.h"
#include "sim/driver/base/state.h"

namespace sim {

/* Whether options of the compiler can be read, and are known. */
bool are_options(unsigned count, const CUjit_option *options, void **values);

/* Tells why code cannot be loaded where the options ask for it, and how long that text is. */
void write_log(const std::string &log, unsigned count, const CUjit_option *options, void **values);

/* Understands the code; gives the state's lock up meanwhile. */
CUresult prepare(const std::shared_ptr<Image> &image);

/* The variables of the code in a context, placed at the first use. */
CUresult place(const ContextPtr &context, const std::shared_ptr<Image> &image, std::shared_ptr<Placement> &out);
void unplace(Context &context, const Image *image);

/* A variable by name; CUDA_ERROR_NOT_FOUND, for the name of a kernel CUDA_ERROR_INVALID_VALUE. */
CUresult find_variable(const ContextPtr &context, const std::shared_ptr<Image> &image, const char *name,
                       CUdeviceptr *address, size_t *bytes);

/* Index of a kernel by name; CUDA_ERROR_NOT_FOUND. */
CUresult find_kernel(const Image &image, const char *name, size_t &out);

/* A kernel or function, as what it is in one context. */
struct Callable {
  std::shared_ptr<Image> image;
  size_t index = 0;
  ContextPtr context;
  KernelSettings *settings = nullptr; /* of the function, if the kernel has one in the context */
  std::shared_ptr<void> owner;        /* of the settings */
  const KernelInfo &info() const { return image->kernels()[index]; }
};

/* For launches and occupancy, which take a CUkernel for a CUfunction; with `context` null in the current context. */
CUresult find_callable(CUfunction handle, ContextPtr context, Callable &out);

/* For what takes no CUkernel. */
CUresult find_function(CUfunction handle, Callable &out);

/* The function of a kernel in a context; made at the first use. */
CUresult function_of(const std::shared_ptr<Kernel> &kernel, const ContextPtr &context, CUfunction *out);

/* Bytes of dynamic shared memory that a launch may ask for. */
int max_dynamic_shared(const KernelInfo &kernel, const KernelSettings &settings);
uint64_t max_cluster_blocks(const KernelSettings &settings);
int max_threads_of(const KernelInfo &kernel, const Device &device);
uint32_t register_count(const KernelInfo &kernel);

/* Blocks of a kernel that fit a multiprocessor. */
int active_blocks(const Callable &what, const Device &device, int threads, size_t dynamic_shared);

} // namespace sim

#endif
