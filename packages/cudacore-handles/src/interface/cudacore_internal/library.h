/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_LIBRARY_H
#define CUDACORE_INTERNAL_LIBRARY_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * Gives up ownership of a library permanently: it is not unloaded with its last reference. Call it before passing the
 * handle to code that may unload the library, because the driver crashes if a library is unloaded twice. From then on,
 * the library is borrowed. For a borrowed library, nothing changes.
 */
CCH_EXPORT cch_status cch_library_disown(cch_library *library);

CCH_END_DECLS

#endif
