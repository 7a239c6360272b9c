/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_NVJITLINK_H
#define CUDACORE_INTERNAL_NVJITLINK_H

/**
 * @file nvjitlink.h
 * nvJitLink, the linker of device code: the library, and its linkers. As for nvrtc.h, no driver is needed, and linkers
 * can be destroyed even where CUDA calls are forbidden. If nvJitLink refuses a call, the result is CCH_ECOMPILER, in
 * the domain CCH_DOMAIN_NVJITLINK.
 */

#include <cudacore/cudacore.h>

/** A loaded nvJitLink. It is not a box: it exists until the end of the process, once for each library. */
typedef struct cch_nvjitlink cch_nvjitlink;

/** The nvJitLink of a dlopen() handle, which must stay open. */
CCH_EXPORT cch_status cch_nvjitlink_wrap(cch_nvjitlink **out, void *handle);

/** The version of nvJitLink: nvJitLinkVersion, or before 12.3 the version in the names of its functions. */
CCH_EXPORT cch_status cch_nvjitlink_version(int *major, int *minor, cch_nvjitlink *nvjitlink);

/**
 * Makes a linker with its options (nvJitLinkCreate). *Caller serialises* all calls for the linker until it has linked.
 */
CCH_EXPORT cch_status cch_nvjitlink_linker_create(cch_nvjitlink_linker **out, cch_nvjitlink *nvjitlink, size_t count,
                                                  const char *const *options);

/** Types of input, with nvJitLink's numbers. */
typedef enum cch_nvjitlink_input {
  CCH_NVJITLINK_CUBIN = 1,
  CCH_NVJITLINK_PTX = 2,
  CCH_NVJITLINK_LTOIR = 3,
  CCH_NVJITLINK_FATBIN = 4,
  CCH_NVJITLINK_OBJECT = 5,  /**< a host object with device code */
  CCH_NVJITLINK_LIBRARY = 6, /**< an archive of host objects */
  CCH_NVJITLINK_ANY = 10     /**< the type is determined from the contents; needs nvJitLink 12.5 */
} cch_nvjitlink_input;

/** Adds code of a type (nvJitLinkAddData). The code is copied. `name` is its name in messages. */
CCH_EXPORT cch_status cch_nvjitlink_linker_add(cch_nvjitlink_linker *linker, int input, const void *code, size_t size,
                                               const char *CCH_NULLABLE name);

/** Links the input, once (nvJitLinkComplete). The logs are available even after a failure. */
CCH_EXPORT cch_status cch_nvjitlink_linker_link(cch_nvjitlink_linker *linker);

/** The outputs of a linker, once it has linked. */
typedef enum cch_nvjitlink_output {
  CCH_NVJITLINK_ERROR_LOG = 0,
  CCH_NVJITLINK_INFO_LOG = 1,
  CCH_NVJITLINK_LINKED_CUBIN = 2,
  CCH_NVJITLINK_LINKED_PTX = 3,  /**< PTX, with the options `-lto -ptx` */
  CCH_NVJITLINK_LINKED_LTOIR = 4 /**< LTO-IR, with the options `-lto -r`; needs nvJitLink 13.2 */
} cch_nvjitlink_output;

/** Copies an output to `out`, as cch_nvrtc_program_get() does. */
CCH_EXPORT cch_status cch_nvjitlink_linker_get(void *CCH_NULLABLE out, size_t *size, cch_nvjitlink_linker *linker,
                                               int output);

CCH_EXPORT nvJitLinkHandle cch_nvjitlink_linker_raw(const cch_nvjitlink_linker *linker);

#endif
