/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_ERROR_H
#define CUDACORE_ERROR_H

/**
 * @file error.h
 * The details of failures. A failing call returns a code. The calling thread can then read the operation that failed
 * and a message of one line. Like errno, the record belongs to the thread, and is only meaningful directly after a
 * failed call: success does not clear it.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Codes of this library. Positive codes are CUresult. */
typedef enum cch_code {
  CCH_OK = 0,
  CCH_ENOMEM = -1,      /**< host memory ran out */
  CCH_EINVAL = -2,      /**< an argument is not valid; the message names it */
  CCH_ENODRIVER = -3,   /**< the CUDA driver library cannot be loaded */
  CCH_ENOSYMBOL = -4,   /**< the loaded driver (or compiler library) lacks an entry point */
  CCH_EFORKED = -5,     /**< CUDA was initialised before fork(): it cannot be used in the child */
  CCH_EIMAGE = -6,      /**< a module image is truncated or not of a known format */
  CCH_EMISMATCH = -7,   /**< objects of different contexts, or arguments of the wrong total size */
  CCH_EGONE = -8,       /**< the resource was destroyed by its owner; see cch_is_valid() */
  CCH_ENOCOMPILER = -9, /**< a compiler library cannot be loaded, or a library is not that compiler */
  CCH_ECOMPILER = -10,  /**< a compiler library refused a call: the error record has its domain and its code */
  CCH_ELIMIT = -11      /**< an allocation would exceed the limit of a tracker */
} cch_code;

/** Results of the driver that callers treat differently from failures, with CUDA's numbers. */
#define CCH_NOT_READY 600       /**< CUDA_ERROR_NOT_READY: the work is not done yet */
#define CCH_INVALID_CONTEXT 201 /**< CUDA_ERROR_INVALID_CONTEXT: no context is current */

/** The source of the code in a cch_error. */
typedef enum cch_domain {
  CCH_DOMAIN_NONE = 0,
  CCH_DOMAIN_HANDLES = 1,  /**< a CCH_E* code of this library */
  CCH_DOMAIN_DRIVER = 2,   /**< a CUresult */
  CCH_DOMAIN_NVRTC = 3,    /**< an nvrtcResult */
  CCH_DOMAIN_NVVM = 4,     /**< an nvvmResult */
  CCH_DOMAIN_NVJITLINK = 5 /**< an nvJitLinkResult */
} cch_domain;

/** One failure: the domain and the code, the operation (a CUDA or cch_ function's name), and a message of one line. */
typedef struct cch_error {
  int32_t domain;
  int32_t code;
  char operation[64];
  char message[440];
} cch_error;

/** Copies the calling thread's last failure to *out (domain CCH_DOMAIN_NONE when there was none). Destructor-safe.
 * @since 0.1 */
CCH_EXPORT void cch_error_last(cch_error *out);

/** A cch_error to which later versions can add fields. Set `size`, which determines the fields that exist. */
typedef struct cch_error_record {
  size_t size; /**< sizeof(cch_error_record) */
  int32_t domain;
  int32_t code;
  char operation[64];
  char message[440];
  void *node; /**< the CUgraphNode that failed, or NULL */
} cch_error_record;

/** Copies the calling thread's last failure to *out, up to out->size bytes. Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_error_get(cch_error_record *out);

/** Clears the calling thread's last failure. Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_error_clear(void);

/**
 * Restores a record from cch_error_last() on the same thread, for code that must run other calls before the failure is
 * read. The restored record has no node; cch_error_put() restores the node, too. Destructor-safe. @since 0.1
 */
CCH_EXPORT void cch_error_restore(const cch_error *error);

/** Restores a complete record from cch_error_get(), like cch_error_restore(). Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_error_put(const cch_error_record *error);

/** Name of a code: "CCH_ENOMEM", or the driver's own, such as "CUDA_ERROR_INVALID_VALUE". Never NULL. @since 0.1 */
CCH_EXPORT const char *cch_error_name(int code);

/** The meaning of a code, in one line without a full stop. Never NULL. @since 0.1 */
CCH_EXPORT const char *cch_error_string(int code);

/** Name of a code of a cch_domain: "NVRTC_ERROR_COMPILATION". Never NULL. @since 0.1 */
CCH_EXPORT const char *cch_error_name_in(int domain, int code);

/** The meaning of a code of a cch_domain, in one line without a full stop. Never NULL. @since 0.1 */
CCH_EXPORT const char *cch_error_string_in(int domain, int code);

/** Receives failures of destructors, which cannot be returned to a caller. */
typedef void (*cch_report_fn)(const cch_error *error);

/**
 * Sets the function that receives failures of destructors; NULL restores the default, one line on stderr. Each pair of
 * operation and code is reported once in a process. Failures during the driver's shutdown are not reported. The
 * callback can run on any thread. @since 0.1
 */
CCH_EXPORT void cch_error_set_report(cch_report_fn CCH_NULLABLE report);

CCH_END_DECLS

#endif
