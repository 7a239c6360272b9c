/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_NVRTC_H
#define CUDACORE_INTERNAL_NVRTC_H

/**
 * @file nvrtc.h
 * NVRTC, the compiler of CUDA C++: the library, and its programs. No driver is needed, and programs can be destroyed
 * even where CUDA calls are forbidden.
 *
 * A function that the loaded NVRTC lacks fails with CCH_ENOSYMBOL, and the message states the required version. If
 * NVRTC refuses a call, the result is CCH_ECOMPILER. The error record has the domain CCH_DOMAIN_NVRTC and the
 * nvrtcResult; its message has the name of the nvrtcResult.
 */

#include <cudacore/cudacore.h>

/** A loaded NVRTC. It is not a box: it exists until the end of the process, once for each library. */
typedef struct cch_nvrtc cch_nvrtc;

/**
 * The NVRTC of a dlopen() handle, which must stay open. CCH_ENOCOMPILER if the library is not an NVRTC. The library
 * that NVRTC opens when it compiles (libnvrtc-builtins) is loaded from the same folder.
 */
CCH_EXPORT cch_status cch_nvrtc_wrap(cch_nvrtc **out, void *handle);

/** The version of NVRTC (nvrtcVersion). */
CCH_EXPORT cch_status cch_nvrtc_version(int *major, int *minor, cch_nvrtc *nvrtc);

/**
 * The architectures that an NVRTC supports, as numbers such as 90 (nvrtcGetSupportedArchs). `*count` is the size of
 * `out` before the call, and the number of architectures after it. `out` may be NULL, to get the number.
 */
CCH_EXPORT cch_status cch_nvrtc_architectures(int *CCH_NULLABLE out, size_t *count, cch_nvrtc *nvrtc);

/** The size of the heap for precompiled headers (nvrtcGetPCHHeapSize; NVRTC 12.8). */
CCH_EXPORT cch_status cch_nvrtc_pch_heap(size_t *out, cch_nvrtc *nvrtc);
/** Sets the size of the heap for precompiled headers, for all programs of the process (nvrtcSetPCHHeapSize;
 * NVRTC 12.8). */
CCH_EXPORT cch_status cch_nvrtc_set_pch_heap(cch_nvrtc *nvrtc, size_t size);

/**
 * Makes a program (nvrtcCreateProgram). The source is copied. The contents and names of headers in memory are arrays of
 * `count` elements. *Caller serialises* all calls for the program until it is compiled.
 */
CCH_EXPORT cch_status cch_nvrtc_program_create(cch_nvrtc_program **out, cch_nvrtc *nvrtc, const char *source,
                                               const char *CCH_NULLABLE name, size_t count, const char *const *headers,
                                               const char *const *header_names);

/**
 * Adds an expression whose lowered name is needed, before the program is compiled (nvrtcAddNameExpression).
 */
CCH_EXPORT cch_status cch_nvrtc_program_add_name(cch_nvrtc_program *program, const char *expression);

/** Compiles a program, once (nvrtcCompileProgram). The log is available even after a failure. */
CCH_EXPORT cch_status cch_nvrtc_program_compile(cch_nvrtc_program *program, size_t count, const char *const *options);

/**
 * Cancels the compilation of a program, even one that has not begun (nvrtcSetFlowCallback; NVRTC 12.8). The compilation
 * fails with NVRTC_ERROR_CANCELLED, usually within 0.3 seconds; a compilation that is nearly done may still succeed.
 * Any thread may call this while the program is being compiled.
 */
CCH_EXPORT cch_status cch_nvrtc_program_cancel(cch_nvrtc_program *program);

/** The outputs of a program, once it is compiled. */
typedef enum cch_nvrtc_output {
  CCH_NVRTC_LOG = 0,    /**< text with a NUL at its end, like PTX; there may be more NULs between the logs of phases */
  CCH_NVRTC_PTX = 1,    /**< PTX, even if a cubin was requested */
  CCH_NVRTC_CUBIN = 2,  /**< a cubin, for an architecture such as `sm_90` */
  CCH_NVRTC_LTOIR = 3,  /**< LTO-IR, with the option `-dlto` */
  CCH_NVRTC_OPTIXIR = 4 /**< OptiX-IR, with the option `--optix-ir` */
} cch_nvrtc_output;

/**
 * Copies an output to `out`. `*size` is the size of `out` in bytes before the call, and the size of the output after
 * it. CCH_EINVAL if the output is larger than `out`. `out` may be NULL, to get the size. If the output was not
 * generated, its size is 0, or the call fails.
 */
CCH_EXPORT cch_status cch_nvrtc_program_get(void *CCH_NULLABLE out, size_t *size, cch_nvrtc_program *program,
                                            int output);

/** The lowered name of an expression that was added (nvrtcGetLoweredName), valid while the program exists.
 */
CCH_EXPORT cch_status cch_nvrtc_program_lowered_name(const char **out, cch_nvrtc_program *program,
                                                     const char *expression);

/** The status of the precompiled header (nvrtcGetPCHCreateStatus; NVRTC 12.8): 0 if it was created, else an nvrtcResult
 * with the reason. */
CCH_EXPORT cch_status cch_nvrtc_program_pch_status(int *out, cch_nvrtc_program *program);

/**
 * The size of the heap that the precompiled header needed, or would have needed (nvrtcGetPCHHeapSizeRequired; NVRTC
 * 12.8).
 */
CCH_EXPORT cch_status cch_nvrtc_program_pch_heap(size_t *out, cch_nvrtc_program *program);

CCH_EXPORT nvrtcProgram cch_nvrtc_program_raw(const cch_nvrtc_program *program);

#endif
