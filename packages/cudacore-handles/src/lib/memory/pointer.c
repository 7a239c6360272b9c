/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"

#include <cudacore/pointer.h>

int cch_pointer_attributes(int *memory_type, int *device, int *is_managed, CUdeviceptr ptr) {
  CCH__REQUIRE(memory_type, device, is_managed);
  int status = cch__ready();
  if (status != 0)
    return status;
  CUmemorytype type = (CUmemorytype)0;
  int ordinal = -1;
  unsigned managed = 0; /* of which the driver writes one byte */
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *values[] = {&type, &ordinal, &managed};
  status = CCH__CALL(cuPointerGetAttributes, (sizeof wanted / sizeof *wanted, wanted, values, ptr));
  if (status == 0) {
    *memory_type = (int)type;
    *device = ordinal;
    *is_managed = managed != 0;
  }
  return status;
}
