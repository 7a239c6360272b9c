/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver whose cuInit forks first, as NVIDIA's does if it has to run nvidia-modprobe. Its other functions are those
 * of the driver that $REAL_DRIVER names.
 */
#include <cuda.h>
#include <cudaTypedefs.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static PFN_cuGetProcAddress_v12000 get_proc_address;
static PFN_cuInit_v2000 init;

static CUresult CUDAAPI forking_init(unsigned flags) {
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  int status;
  waitpid(child, &status, 0);
  return init(flags);
}

CUresult CUDAAPI cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *found) {
  if (get_proc_address == NULL) {
    void *function = dlsym(dlopen(getenv("REAL_DRIVER"), RTLD_NOW | RTLD_LOCAL), "cuGetProcAddress_v2");
    memcpy(&get_proc_address, &function, sizeof function);
  }
  CUresult result = get_proc_address(name, out, version, flags, found);
  if (result == CUDA_SUCCESS && strcmp(name, "cuInit") == 0) {
    PFN_cuInit_v2000 replaced = forking_init;
    memcpy(&init, out, sizeof init);
    memcpy(out, &replaced, sizeof replaced);
  }
  return result;
}
