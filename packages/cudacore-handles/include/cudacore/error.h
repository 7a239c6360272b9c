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
  CCH_ENOMEM = -1,     /**< host memory ran out */
  CCH_EINVAL = -2,     /**< an argument is not valid; the message names it */
  CCH_ENODRIVER = -3,  /**< the CUDA driver library cannot be loaded */
  CCH_ENOSYMBOL = -4,  /**< the loaded driver (or compiler library) lacks an entry point */
  CCH_EFORKED = -5,    /**< CUDA was initialised before fork(): it cannot be used in the child */
  CCH_EIMAGE = -6,     /**< a module image is truncated or not of a known format */
  CCH_EMISMATCH = -7,  /**< objects of different contexts, or arguments of the wrong total size */
  CCH_EGONE = -8,      /**< the resource was destroyed by its owner; see cch_is_valid() */
  CCH_ECOMPILER = -10, /**< a compiler library refused a call: the error record has its domain and its code */
  CCH_ELIMIT = -11     /**< an allocation would exceed the limit of a tracker */
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

/** One failure. Later versions can add fields. */
typedef struct cch_error {
  int32_t domain;     /**< a cch_domain; CCH_DOMAIN_NONE if nothing has failed */
  int32_t code;       /**< a code of that domain */
  char operation[64]; /**< the name of a CUDA or cch_ function */
  char message[440];  /**< one line */
  void *node;         /**< the CUgraphNode that failed, or NULL */
} cch_error;

/** The calling thread's last failure. It is valid until the next call on this thread. Destructor-safe. @since 0.1 */
CCH_EXPORT const cch_error *cch_error_last(void);

/** Clears the calling thread's last failure. Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_error_clear(void);

/** Name of a code: "CCH_ENOMEM", or the driver's own, such as "CUDA_ERROR_INVALID_VALUE". Never NULL. @since 0.1 */
CCH_EXPORT const char *cch_error_name(int code);

/** The meaning of a code, in one line without a full stop. Never NULL. @since 0.1 */
CCH_EXPORT const char *cch_error_string(int code);

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
