/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/overlap.h"

#include "base/errors.h"

#include <stdlib.h>

/* ---- one copy ---- */

static int fail_overlap(CUdeviceptr dst, CUdeviceptr src, const char *operation) {
  return cch__fail(CCH_EINVAL, operation,
                   "the source at 0x%llx and the destination at 0x%llx overlap; copy through another allocation",
                   (unsigned long long)src, (unsigned long long)dst);
}

int cch__check_apart(CUdeviceptr dst, CUdeviceptr src, size_t size, const char *operation) {
  return dst != src && dst < src + size && src < dst + size ? fail_overlap(dst, src, operation) : 0;
}

/* One side of a copy: rows, and slices of rows. */
typedef struct side {
  CUdeviceptr first;
  size_t pitch, slice; /* bytes from row to row, and from slice to slice */
} side;

/* The index of the last of `count` pieces, each `step` bytes after the one before it, that begins at `bytes` or before.
 */
static size_t last_before(size_t bytes, size_t step, size_t count) {
  size_t index = step != 0 ? bytes / step : 0;
  return index < count ? index : count - 1;
}

/* Returns whether a row shares bytes with a row of a side. It can reach into two slices, and into two rows of each. */
static bool row_meets(CUdeviceptr row, const side *other, const CUDA_MEMCPY3D *copy) {
  CUdeviceptr last = row + copy->WidthInBytes - 1;
  if (last < other->first)
    return false;
  size_t slice = last_before(last - other->first, other->slice, copy->Depth);
  for (size_t k = slice > 0 ? slice - 1 : 0; k <= slice; k++) {
    CUdeviceptr begin = other->first + k * other->slice;
    size_t end = last_before(last - begin, other->pitch, copy->Height);
    for (size_t j = end > 0 ? end - 1 : 0; j <= end; j++) {
      CUdeviceptr there = begin + j * other->pitch;
      if (there <= last && row < there + copy->WidthInBytes)
        return true;
    }
  }
  return false;
}

/* The address after the last byte of a side; the address of the first byte if it overflows. */
static CUdeviceptr end_of(const side *one, const CUDA_MEMCPY3D *copy) {
  size_t slices, rows, all;
  if (__builtin_mul_overflow(one->slice, copy->Depth - 1, &slices) ||
      __builtin_mul_overflow(one->pitch, copy->Height - 1, &rows) || __builtin_add_overflow(slices, rows, &all) ||
      __builtin_add_overflow(all, copy->WidthInBytes, &all) || __builtin_add_overflow(all, one->first, &all))
    return one->first; /* no memory is that large: the driver refuses the copy */
  return all;
}

int cch__check_box_apart(const CUDA_MEMCPY3D *copy, const char *operation) {
  const side dst = {copy->dstDevice, copy->dstPitch, copy->dstPitch * copy->dstHeight};
  const side src = {copy->srcDevice, copy->srcPitch, copy->srcPitch * copy->srcHeight};
  if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
    return 0;
  if (dst.first == src.first && dst.pitch == src.pitch && dst.slice == src.slice)
    return 0;
  CUdeviceptr src_end = end_of(&src, copy);
  if (dst.first >= src_end || src.first >= end_of(&dst, copy))
    return 0;
  for (size_t k = 0; k < copy->Depth; k++)
    for (size_t j = 0; j < copy->Height; j++) {
      CUdeviceptr row = dst.first + k * dst.slice + j * dst.pitch;
      if (row >= src_end)
        return 0;
      if (row_meets(row, &src, copy))
        return fail_overlap(dst.first, src.first, operation);
    }
  return 0;
}

/* ---- a batch ---- */

static int compare(const void *a, const void *b) {
  CUdeviceptr first = ((const cch__batch_copy *)a)->begin, second = ((const cch__batch_copy *)b)->begin;
  return (first > second) - (first < second);
}

/* Returns the last copy that writes before an address; NULL if there is none. */
static const cch__batch_copy *last_writer(const cch__batch_copy *copies, size_t count, CUdeviceptr before) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (copies[middle].begin < before)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 ? &copies[low - 1] : NULL;
}

int cch__check_batch_apart(cch__batch_copy *copies, size_t count, const char *operation) {
  bool sorted = true; /* as is usual for memory that was allocated in the order of the batch */
  for (size_t i = 1; i < count && sorted; i++)
    sorted = copies[i - 1].begin <= copies[i].begin;
  if (!sorted)
    qsort(copies, count, sizeof *copies, compare);
  for (size_t i = 1; i < count; i++)
    if (copies[i].begin < copies[i - 1].end)
      return cch__fail(CCH_EINVAL, operation, "copies %zu and %zu overlap: they write the same bytes",
                       copies[i - 1].place, copies[i].place);
  for (size_t i = 0; i < count; i++) {
    const cch__batch_copy *one = &copies[i];
    const cch__batch_copy *writer = last_writer(copies, count, one->src + (one->end - one->begin));
    if (writer == one && one->begin == one->src)
      continue;
    if (writer == one && writer->end > one->src)
      return fail_overlap(one->begin, one->src, operation);
    if (writer != NULL && writer->end > one->src)
      return cch__fail(
          CCH_EINVAL, operation,
          "copies %zu and %zu overlap: one writes bytes that the other reads, and their order is not defined",
          writer->place, one->place);
  }
  return 0;
}
