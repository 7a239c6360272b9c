/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"

static const cch_api table = {
    .size = sizeof table,
#include "api_table.h" /* made from the headers */
};

const cch_api *cch_get_api(unsigned abi_version, size_t struct_size) {
  return abi_version == CCH_ABI_VERSION && struct_size <= sizeof table ? &table : NULL;
}
