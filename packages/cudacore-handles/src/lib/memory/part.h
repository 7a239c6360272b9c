/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PART_H
#define CUDACORE_PART_H

/* Parts of allocations, and imports, which are parts of mappings. */

#include "base/kinds.h"

typedef struct cch__part cch__part;

/* Makes a part that is not attached to an allocation yet; NULL if memory ran out, which is recorded as an error. */
cch__part *cch__part_new(const char *operation);
void cch__part_discard(cch__part *part);
/* Attaches a part to memory that is not itself a part. Takes over a reference to that memory, unless it fails. */
int cch__part_begin(cch__part *part, cch_deviceptr *whole, size_t offset, size_t size, const char *operation);
cch_deviceptr *cch__part_ptr(cch__part *part);

/* Adds the stream on which a part was freed, if there is one, to the streams that the whole allocation records. */
void cch__part_end(cch_deviceptr *ptr);
/* Adds a stream to those that the whole allocation records: the memory is freed after the work of these streams. */
int cch__use_record(cch_deviceptr *whole, cch_stream *stream, const char *operation);
/*
 * Frees memory after the work of the streams on which its parts were freed, and of `own`, which may be NULL. Call it
 * only if such streams are recorded. False if the driver refuses that now.
 */
bool cch__end_behind_uses(cch_deviceptr *whole, cch_stream *own);
/*
 * Returns the context in which to free memory of a pool, or virtual memory, after a reset: such memory survives its
 * context. A new reference; NULL if there is no primary context.
 */
cch_context *cch__context_after(const cch_context *lost);
/* Frees the list of uses of a part or a whole. */
void cch__uses_drop(cch_deviceptr *ptr);

#endif
