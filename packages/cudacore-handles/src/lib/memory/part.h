/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PART_H
#define CUDACORE_PART_H

#include "base/kinds.h"

/* Gives back the references that only the box of a part has. */
void cch__part_unref_held(cch_deviceptr *ptr);

/* Returns whether an address is in an allocation: memory that borrows it as its owner can be elsewhere. */
static inline bool cch__is_in(const cch_deviceptr *ptr, CUdeviceptr address) { return address - ptr->ptr < ptr->size; }

#endif
