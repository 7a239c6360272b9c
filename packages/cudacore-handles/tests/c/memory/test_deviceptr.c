/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations from pools, on the device, on the host and by other code, and the streams of frees. */
#include "device.h"

static cch_context *other;

static void open(void) {
  device_open();
  OK(cch_context_primary(&other, 1));
}

static void close(void) {
  cch_context_unref(other);
  device_close();
}

/* As an argument of a kernel, a pointer to another device's memory, or to memory unknown to CUDA, would be accepted. */
static void pointers_are_checked(void) {
  cch_deviceptr *here, *there, *pinned;
  char local[16];
  OK(cch_deviceptr_alloc(&here, context, 16));
  OK(cch_deviceptr_alloc(&there, other, 16));
  OK(cch_deviceptr_alloc_host(&pinned, other, 16, 0));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cch_pointer_check(cch_deviceptr_raw(here)));
  OK(cch_context_set_current(context));
  OK(cch_pointer_check(cch_deviceptr_raw(here)));
  OK(cch_pointer_check(cch_deviceptr_raw(here) + 15));
  OK(cch_pointer_check(cch_deviceptr_raw(pinned)));
  FAILS(CCH_EMISMATCH, cch_pointer_check(cch_deviceptr_raw(there)));
  CHECK_HAS(check_error()->message, "device 1");
  FAILS(CCH_EMISMATCH, cch_pointer_check((CUdeviceptr)(uintptr_t)local));
  OK(cch_context_set_current(NULL));
  cch_deviceptr_unref(here);
  cch_deviceptr_unref(there);
  cch_deviceptr_unref(pinned);
}

int main(void) {
  check_open();
  check_around(open, close);
  RUN(pointers_are_checked);
  return 0;
}
