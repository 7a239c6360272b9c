/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_IMAGE_H
#define CUDACORE_IMAGE_H

/* Module images. */

#include <stddef.h>

typedef enum cch__format { CCH__CUBIN, CCH__FATBIN, CCH__PTX } cch__format;

/* Tells what an image is, having checked that no header in it points beyond its end; CCH_EIMAGE otherwise. */
int cch__image_check(cch__format *out, const void *image, size_t size);

#endif
