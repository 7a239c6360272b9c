/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_BUNDLE_H
#define CUDACORE_INTERNAL_BUNDLE_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/** Number of owners. */
CCH_EXPORT size_t cch_bundle_count(const cch_bundle *bundle);

/** The owner at a position, borrowed from the bundle. Owners are in the order in which they were added. `*release` is
 * NULL if the owner is a box. CCH_EINVAL if `index` is out of range. */
CCH_EXPORT cch_status cch_bundle_get(void **out, cch_release_fn *release, const cch_bundle *bundle, size_t index);

CCH_END_DECLS

#endif
