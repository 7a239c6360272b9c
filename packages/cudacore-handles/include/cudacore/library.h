/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIBRARY_H
#define CUDACORE_LIBRARY_H

/**
 * @file library.h
 * Libraries: loaded module images. A kernel keeps its library loaded.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/**
 * Loads a cubin, fatbin or PTX from memory (cuLibraryLoadData). The driver does not get the length of an image, so its
 * headers are checked against `size` first: CCH_EIMAGE if it is truncated or of an unknown format. PTX need not end
 * with a NUL. The image can be freed afterwards. The driver may postpone loading, and errors about the contents, until
 * the first kernel is requested. @since 0.1
 */
CCH_EXPORT cch_status cch_library_load(cch_library **out, const void *image, size_t size);

/** Borrows a library. `owner` and `release` are as in cch_context_wrap(). @since 0.1 */
CCH_EXPORT cch_status cch_library_wrap(cch_library **out, CUlibrary raw, void *CCH_NULLABLE owner,
                                       cch_release_fn CCH_NULLABLE release);

/** The handle, borrowed. Other code must not unload it. */
CCH_EXPORT CUlibrary cch_library_raw(const cch_library *library);

CCH_END_DECLS

#endif
