/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_ERRORS_H
#define CUDACORE_ERRORS_H

/* How failures are recorded for the calling thread, and those of destructors apart from them. */

#include <cudacore/error.h>

#include <stdbool.h>

/* What only runs after something failed: the compiler keeps it out of the way of the rest. */
#if defined(__GNUC__)
#define CCH__COLD __attribute__((cold))
#else
#define CCH__COLD
#endif

/* Record a failure of ours for the calling thread and return its code. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
CCH__COLD int
cch__fail(int code, const char *operation, const char *format, ...);
int cch__fail_nomem(const char *operation);

/* Record a CUresult and return it. CUDA_ERROR_NOT_READY is an answer: it is returned and not recorded. */
int cch__fail_driver(int result, const char *operation);
int cch__fail_missing(const char *operation);
int cch__fail_missing_version(const char *operation, int needed); /* of CUDA, such as 12030 */
/* Record the result of a compiler library and return CCH_ECOMPILER. */
int cch__fail_in(cch_domain domain, int result, const char *operation);
/* The name of a compiler's result, and what it means; NULL for other domains. */
const char *cch__compiler_result(int domain, int code, const char **meaning);
/* Says more of the calling thread's last failure, behind its message. */
void cch__fail_explain(const char *why);
/* Says which graph node the calling thread's last failure is of. */
void cch__fail_at_node(void *node);

/* Between these, on one thread, failures are recorded apart from those of the caller's own calls. */
void cch__destructor_enter(void);
void cch__destructor_leave(void);

/*
 * Around a foreign owner's callback, which is ordinary code again: what fails in it, it can ask for itself. What fails
 * in between leaves the record around it as it was.
 */
typedef struct cch__errors {
  cch_error_record last;
  unsigned destructors;
} cch__errors;

void cch__owner_enter(cch__errors *saved);
void cch__owner_leave(const cch__errors *saved);

/* Report a failure that has nobody to return to. */
void cch__report(int status);

/*
 * Structures that a caller passes grow by fields at their end. Makes one of `known` bytes of one that says to have
 * `size` bytes, `oldest` at least: what it lacks is zero, and what it has beyond must be zero.
 */
int cch__read_sized(void *into, size_t known, const void *given, size_t size, size_t oldest, const char *name,
                    const char *operation);

#endif
