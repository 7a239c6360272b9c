/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_OVERLAP_H
#define CUDACORE_OVERLAP_H

/*
 * Copies whose source and destination share bytes. The driver accepts them, and the destination then has wrong bytes,
 * because it determines the order in which bytes are read and written. Copies of memory to itself are right, and
 * accepted.
 */

#include "base/kinds.h"

/* Checks a copy of one row. Returns CCH_EINVAL if the source and the destination overlap. */
int cch__check_apart(CUdeviceptr dst, CUdeviceptr src, size_t size, const char *operation);
/* Checks a copy of rows between addresses, with offsets of 0. The pitches are at least the width. */
int cch__check_box_apart(const CUDA_MEMCPY3D *copy, const char *operation);

/* One copy of a batch: the bytes that it writes, and the address that it reads as many bytes from. */
typedef struct cch__batch_copy {
  CUdeviceptr begin, end, src;
  size_t place; /* the index of the copy in the batch */
} cch__batch_copy;

/*
 * Checks copies whose order is not defined: none may write bytes that one reads, or that another one writes. The copies
 * are sorted here.
 */
int cch__check_batch_apart(cch__batch_copy *copies, size_t count, const char *operation);

#endif
