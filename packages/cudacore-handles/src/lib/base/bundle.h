/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_BUNDLE_H
#define CUDACORE_LIB_BUNDLE_H

/* Bundles that the library makes around a bundle of its caller. */

#include "base/kinds.h"

/*
 * Makes a bundle that contains a box and a bundle of the caller, either of which may be NULL, and has zeroed bytes for
 * data of the library. The new bundle takes a reference to each.
 */
int cch__bundle_wrap(cch_bundle **out, void *box, cch_bundle *bundle, size_t payload_size, const char *operation);
/*
 * Returns the caller's bundle: the one that a bundle of the library was made around, or else `bundle` itself. Borrowed;
 * NULL if there is none.
 */
cch_bundle *cch__bundle_given(cch_bundle *bundle);

#endif
