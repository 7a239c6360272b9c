/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PART_H
#define CUDACORE_PART_H

/* Parts of allocations, and imports, which are parts of mappings. */

#include "base/kinds.h"

typedef struct cch__part cch__part;

/* A part that is of nothing yet; NULL when memory ran out (recorded). */
cch__part *cch__part_new(const char *operation);
void cch__part_discard(cch__part *part);
/* Makes it a part of memory that is none itself. It takes over a reference to that, unless it fails. */
int cch__part_begin(cch__part *part, cch_deviceptr *whole, size_t offset, size_t size, const char *operation);
cch_deviceptr *cch__part_ptr(cch__part *part);

/* Leaves behind on which stream a part ended, if it was given one. */
void cch__part_end(cch_deviceptr *ptr);
/* Ends memory behind the streams that its parts ended on, and behind its own, which may be NULL; false where the driver
 * refuses that now. There are such uses. */
bool cch__end_behind_uses(cch_deviceptr *whole, cch_stream *own);
/* Gives up what is kept of uses: of a part, or of a whole. */
void cch__uses_drop(cch_deviceptr *ptr);

#endif
