/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_IMAGE_H
#define CUDACORE_IMAGE_H

/* Module images. */

#include <stddef.h>

typedef enum cch__format { CCH__CUBIN, CCH__FATBIN, CCH__PTX } cch__format;

/*
 * Finds the format of an image, and checks that no header points beyond the image's end. Returns CCH_EIMAGE if one
 * does.
 */
int cch__image_check(cch__format *out, const void *image, size_t size);

#endif
