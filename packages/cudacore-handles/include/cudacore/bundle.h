/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_BUNDLE_H
#define CUDACORE_BUNDLE_H

/**
 * @file bundle.h
 * Bundles: one reference to many owners. A bundle keeps the objects that a piece of work uses: the boxes of its
 * arguments, and foreign objects. A launch, a prepared launch or a graph node holds the bundle.
 *
 * One thread fills a bundle (*caller serialises*). Once it is shared, it is immutable.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Makes an empty bundle with room for `capacity` owners; it grows if necessary. No driver is needed. @since 0.1 */
CCH_EXPORT cch_status cch_bundle_create(cch_bundle **out, size_t capacity);

/** Adds a box of any kind, and takes a reference to it. CCH_EINVAL for NULL and for the bundle itself. Caller
 * serialises. @since 0.1 */
CCH_EXPORT cch_status cch_bundle_add(cch_bundle *bundle, void *box);

/** Takes over a foreign object, which is passed to `release` when the bundle is destroyed. On failure, the caller keeps
 * `object`. Caller serialises. @since 0.1 */
CCH_EXPORT cch_status cch_bundle_add_object(cch_bundle *bundle, void *CCH_NULLABLE object, cch_release_fn release);

CCH_END_DECLS

#endif
