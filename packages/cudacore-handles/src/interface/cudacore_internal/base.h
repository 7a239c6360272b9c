/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_BASE_H
#define CUDACORE_INTERNAL_BASE_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/** Path of the loaded shared library, or an empty string. The string lives as long as the library. */
CCH_EXPORT const char *cch_library_path(void);

/**
 * Drops a reference, unless that would call CUDA or a release function. So this function can be called with a lock
 * held, even if CUDA or the release function could wait for that lock. Returns NULL if the reference was dropped.
 * Otherwise returns a box with a reference that the caller must pass to cch_unref(). NULL does nothing.
 * Destructor-safe.
 */
CCH_EXPORT void *cch_unref_lightly(void *CCH_NULLABLE box);

CCH_END_DECLS

#endif
