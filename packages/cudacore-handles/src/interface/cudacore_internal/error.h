/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_ERROR_H
#define CUDACORE_INTERNAL_ERROR_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * Restores a copy of the last failure, for code that must run other calls before the failure is read. Destructor-safe.
 */
CCH_EXPORT void cch_error_restore(const cch_error *error);

/** Name of a code of a cch_domain: "NVRTC_ERROR_COMPILATION". Never NULL. */
CCH_EXPORT const char *cch_error_name_in(int domain, int code);

/** The meaning of a code of a cch_domain, in one line without a full stop. Never NULL. */
CCH_EXPORT const char *cch_error_string_in(int domain, int code);

CCH_END_DECLS

#endif
