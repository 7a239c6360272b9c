/* SPDX-License-Identifier: Apache-2.0 */
/* A compiler library that only counts what it is given to destroy, for test_program.c. */
#include <stdatomic.h>

static atomic_int nvrtc_destroyed, nvvm_destroyed, result;

__attribute__((visibility("default"))) int nvrtcDestroyProgram(void **program) {
  *program = (void *)0;
  atomic_fetch_add(&nvrtc_destroyed, 1);
  return atomic_load(&result);
}

__attribute__((visibility("default"))) int nvvmDestroyProgram(void **program) {
  *program = (void *)0;
  atomic_fetch_add(&nvvm_destroyed, 1);
  return atomic_load(&result);
}

__attribute__((visibility("default"))) int fake_nvrtc_destroyed(void) { return atomic_load(&nvrtc_destroyed); }
__attribute__((visibility("default"))) int fake_nvvm_destroyed(void) { return atomic_load(&nvvm_destroyed); }
__attribute__((visibility("default"))) void fake_compiler_result(int value) { atomic_store(&result, value); }
