/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_ARRAY_H
#define CUDACORE_LIB_ARRAY_H

#include <cudacore_internal/array.h>

/* Returns the size of a texel in bytes; 0 for a format that this library does not support. */
size_t cch__texel_size(const cch_array_desc *desc);

#endif
