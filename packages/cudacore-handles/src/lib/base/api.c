/* SPDX-License-Identifier: Apache-2.0 */
/* Functions about the library itself: its version, its path, and its table of functions. */
#define _GNU_SOURCE
#include <cudacore_internal/all.h>

#include <dlfcn.h>

static const cch_api table = {
    .size = sizeof table,
#include "api_table.h" /* the initialisers of the other fields, generated from the headers */
};

uint32_t cch_version(void) { return CCH_VERSION; }

const char *cch_library_path(void) {
  Dl_info info;
  return dladdr((void *)&table, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

const cch_api *cch_get_api(unsigned abi_version, size_t struct_size) {
  return abi_version == CCH_ABI_VERSION && struct_size <= sizeof table ? &table : NULL;
}
