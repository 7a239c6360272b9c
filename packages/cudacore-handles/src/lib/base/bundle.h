/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_BUNDLE_H
#define CUDACORE_LIB_BUNDLE_H

/* Bundles that the library makes around those of its callers. */

#include "base/kinds.h"

/*
 * Makes a bundle around a box and a bundle of the caller, either of which may be NULL, with zeroed bytes of the
 * library. The new bundle takes references to both.
 */
int cch__bundle_wrap(cch_bundle **out, void *box, cch_bundle *bundle, size_t payload_size, const char *operation);
/* The bundle of the caller, borrowed; NULL if there is none. */
cch_bundle *cch__bundle_given(cch_bundle *bundle);

#endif
