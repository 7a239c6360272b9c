/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacements for functions that drivers of CUDA 12.0 and 12.1 lack. The functions here replace those for advice and
 * prefetches in the driver's table. Replacements for graph nodes are in the files of the node types (graph/nodes).
 */
#include "driver/driver_table.h"

#include <string.h>

cch__older_table cch__older;

/* There is no replacement: the newer function is needed, and cch__fail_driver() reports that. */
#define TOO_OLD ((CUresult)CCH_ENOSYMBOL)

#define OLDER(name, arguments) (cch__older.name != NULL ? checked(cch__older.name arguments, #name) : TOO_OLD)

/* The older function that just failed on this thread, called in place of a newer one. */
static _Thread_local const char *failed;

static CUresult checked(CUresult result, const char *name) {
  if (result != CUDA_SUCCESS)
    failed = name;
  return result;
}

const char *cch__really_called(const char *operation) {
  const char *name = failed != NULL ? failed : operation;
  failed = NULL;
  return name;
}

/* ---- managed memory ---- */

/* Returns the device number of a location. The host has the number CU_DEVICE_CPU; a NUMA node of the host has none. */
static CUresult device_of(CUdevice *out, CUmemLocation location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE && location.type != CU_MEM_LOCATION_TYPE_HOST)
    return TOO_OLD;
  *out = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI advise(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location) {
  CUdevice device;
  CUresult result = device_of(&device, location);
  return result != CUDA_SUCCESS ? result : OLDER(cuMemAdvise, (address, size, advice, device));
}

static CUresult CUDAAPI prefetch(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                                 CUstream stream) {
  CUdevice device;
  CUresult result = device_of(&device, location);
  (void)flags;
  return result != CUDA_SUCCESS ? result : OLDER(cuMemPrefetchAsync, (address, size, device, stream));
}

void cch__stand_in(void) {
  if (cch__driver.cuGraphAddNode != NULL && cch__driver.cuMemAdvise != NULL)
    return; /* both functions were added in CUDA 12.2 */
  void *entry;
#define RESOLVE(name, version)                                                                                         \
  entry = cch__driver_entry(#name, version);                                                                           \
  memcpy(&cch__older.name, &entry, sizeof entry);
  CCH__OLDER_FUNCTIONS(RESOLVE)
#undef RESOLVE
  if (cch__driver.cuMemAdvise == NULL && cch__older.cuMemAdvise != NULL) {
    cch__driver.cuMemAdvise = advise;
    cch__driver.cuMemPrefetchAsync = prefetch;
  }
}
