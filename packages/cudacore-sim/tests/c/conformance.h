/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

/* Shared by the conformance programs, which call a driver and compare its results with those of an H200. */

#include <cuda.h>
#include <cudaTypedefs.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_SKIP = 77 };

static inline void check_eq(long long left, long long right, const char *what, const char *file, int line) {
  if (left == right)
    return;
  fflush(stdout);
  fprintf(stderr, "%s:%d: %s: %lld (%#llx), %lld (%#llx)\n", file, line, what, left, (unsigned long long)left, right,
          (unsigned long long)right);
  exit(1);
}

/* Checks that two integers or pointers are equal. Pointers are compared as integers. */
#define CHECK_EQ(left, right) check_eq((long long)(left), (long long)(right), #left " == " #right, __FILE__, __LINE__)
#define CHECK(condition) check_eq(!(condition), 0, #condition, __FILE__, __LINE__)
#define CHECK_STR(left, right) CHECK_EQ(strcmp(left, right), 0)

/* Returns the cuGetProcAddress of the driver that $CUDACORE_DRIVER names. Skips the test if there is no such driver. */
static inline PFN_cuGetProcAddress_v12000 check_open_driver(void) {
  const char *path = getenv("CUDACORE_DRIVER");
  void *handle = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *entry = handle ? dlsym(handle, "cuGetProcAddress_v2") : NULL;
  if (entry == NULL) {
    printf("there is no driver\n");
    exit(CHECK_SKIP);
  }
  PFN_cuGetProcAddress_v12000 get_proc_address;
  memcpy(&get_proc_address, &entry, sizeof entry);
  return get_proc_address;
}

/* Looks up the function `name` of the driver, with the ABI of CUDA `version`, and stores it in `cu.name`. */
#define CHECK_LOAD(name, version)                                                                                      \
  CHECK_EQ(get_proc_address(#name, &entry, version, 0, NULL), 0);                                                      \
  memcpy(&cu.name, &entry, sizeof entry);

/* Prints the name of a part of the program, then runs that part. */
#define CHECK_SECTION(name)                                                                                            \
  printf("%s\n", #name);                                                                                               \
  fflush(stdout);                                                                                                      \
  name();

#define ANSWERS(result, call) CHECK_EQ(cu.call, result)

/* PTX with the kernels "empty", "add" (three pointers and a count) and "mixed" (one parameter of each kind). */
static const char check_ptx[] = ".version 8.0\n"
                                ".target sm_70\n"
                                ".address_size 64\n"
                                ".visible .entry empty()\n"
                                "{\n  ret;\n}\n"
                                ".visible .entry add(\n"
                                "  .param .u64 .ptr .global .align 4 add_param_0,\n"
                                "  .param .u64 .ptr .global .align 4 add_param_1,\n"
                                "  .param .u64 .ptr .global .align 4 add_param_2,\n"
                                "  .param .u32 add_param_3\n"
                                ")\n"
                                "{\n  ret;\n}\n"
                                ".visible .entry mixed(\n"
                                "  .param .u64 mixed_param_0, .param .f32 mixed_param_1, .param .u32 mixed_param_2,\n"
                                "  .param .f64 mixed_param_3, .param .align 4 .b8 mixed_param_4[12]\n"
                                ")\n"
                                "{\n  ret;\n}\n";
enum { CHECK_MIXED_SIZE = 36, CHECK_MIXED_COUNT = 5 };

#endif
