/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_NVVM_H
#define CUDACORE_INTERNAL_NVVM_H

/**
 * @file nvvm.h
 * NVVM, the compiler of NVVM IR: the library, and its programs. As for nvrtc.h, no driver is needed, and programs can
 * be destroyed even where CUDA calls are forbidden. If libNVVM refuses a call, the result is CCH_ECOMPILER, in the
 * domain CCH_DOMAIN_NVVM.
 */

#include <cudacore/cudacore.h>

/** A loaded libNVVM. It is not a box: it exists until the end of the process, once for each library. */
typedef struct cch_nvvm cch_nvvm;

/** The libNVVM of a dlopen() handle, which must stay open. */
CCH_EXPORT cch_status cch_nvvm_wrap(cch_nvvm **out, void *handle);

/** The version of libNVVM (nvvmVersion). It is not the version of CUDA. */
CCH_EXPORT cch_status cch_nvvm_version(int *major, int *minor, cch_nvvm *nvvm);

/** The supported versions of NVVM IR and of its debug information (nvvmIRVersion). */
CCH_EXPORT cch_status cch_nvvm_ir_version(int *major, int *minor, int *debug_major, int *debug_minor, cch_nvvm *nvvm);

/**
 * The supported version of LLVM IR for an architecture such as "compute_90" (nvvmLLVMVersion; CUDA 13.1).
 */
CCH_EXPORT cch_status cch_nvvm_llvm_version(int *out, cch_nvvm *nvvm, const char *arch);

/**
 * Makes an empty program (nvvmCreateProgram). *Caller serialises* all calls for the program until it is compiled.
 */
CCH_EXPORT cch_status cch_nvvm_program_create(cch_nvvm_program **out, cch_nvvm *nvvm);

/**
 * Adds a module, as text or bitcode (nvvmAddModuleToProgram). The module is copied. From a lazy module, such as
 * libdevice, only functions that are used are linked (nvvmLazyAddModuleToProgram).
 */
CCH_EXPORT cch_status cch_nvvm_program_add(cch_nvvm_program *program, const void *module, size_t size,
                                           const char *CCH_NULLABLE name, int lazy);

/** Checks the modules without compiling them (nvvmVerifyProgram). */
CCH_EXPORT cch_status cch_nvvm_program_verify(cch_nvvm_program *program, size_t count, const char *const *options);

/** Compiles the modules to PTX, or to LTO-IR with the option `-gen-lto` (nvvmCompileProgram). */
CCH_EXPORT cch_status cch_nvvm_program_compile(cch_nvvm_program *program, size_t count, const char *const *options);

/** The outputs of a program, once it is compiled. */
typedef enum cch_nvvm_output {
  CCH_NVVM_LOG = 0, /**< text with a NUL at its end, like a log of NVRTC */
  CCH_NVVM_CODE = 1 /**< the output of the compilation */
} cch_nvvm_output;

/** Copies an output to `out`, as cch_nvrtc_program_get() does. */
CCH_EXPORT cch_status cch_nvvm_program_get(void *CCH_NULLABLE out, size_t *size, cch_nvvm_program *program, int output);

CCH_EXPORT nvvmProgram cch_nvvm_program_raw(const cch_nvvm_program *program);

#endif
