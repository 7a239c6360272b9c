/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_ERRORS_H
#define CUDACORE_ERRORS_H

/* Records the calling thread's failures. Failures of destructors are recorded separately. */

#include <cudacore_internal/base.h>

#include <stdbool.h>

/* Marks functions that run only after a failure, so that the compiler places them away from hot code. */
#if defined(__GNUC__)
#define CCH__COLD __attribute__((cold))
#else
#define CCH__COLD
#endif

/* Record a failure of this library for the calling thread and return its code. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
CCH__COLD int
cch__fail(int code, const char *operation, const char *format, ...);
int cch__fail_nomem(const char *operation);

/* Record a CUresult and return it. CUDA_ERROR_NOT_READY is not a failure: it is returned and not recorded. */
int cch__fail_driver(int result, const char *operation);
/* Record the result of a compiler library and return CCH_ECOMPILER. */
int cch__fail_in(cch_domain domain, int result, const char *operation);
/* Appends an explanation to the message of the calling thread's last failure. */
void cch__fail_explain(const char *why);
/* Records the graph node that the calling thread's last failure is about. */
void cch__fail_at_node(void *node);

/*
 * Between cch__destructor_enter() and cch__destructor_leave(), failures on this thread are recorded separately, and do
 * not change the last failure of the caller.
 */
void cch__destructor_enter(void);
void cch__destructor_leave(void);

/* Evaluates an expression between the two. The result is its status, whose record is not that of the caller's failure.
 */
#define CCH__ASIDE(...)                                                                                                \
  __extension__({                                                                                                      \
    cch__destructor_enter();                                                                                           \
    const int status_aside = (__VA_ARGS__);                                                                            \
    cch__destructor_leave();                                                                                           \
    status_aside;                                                                                                      \
  })

/*
 * Call these before and after an owner's release function, which is ordinary code and may query its own errors. Its
 * failures do not change the error record that was current before.
 */
typedef struct cch__errors {
  cch_error last;
  unsigned destructors;
} cch__errors;

void cch__owner_enter(cch__errors *saved);
void cch__owner_leave(const cch__errors *saved);

/* Reports a failure that cannot be returned to a caller. Returns the status. */
int cch__report(int status);

/*
 * Copies a structure of a caller, which can be of another version: later versions have more fields at the end. `size`
 * is the size that the caller's structure states, at least `oldest`, and `known` is the size in this version. Missing
 * fields become zero; surplus fields must be zero.
 */
int cch__read_sized(void *into, size_t known, const void *given, size_t size, size_t oldest, const char *name,
                    const char *operation);

#endif
