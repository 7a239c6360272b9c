/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_COMPILER_H
#define CUDACORE_INTERNAL_COMPILER_H

/**
 * @file compiler.h
 * Calls of the compiler libraries (NVRTC, libNVVM, nvJitLink), and their programs. The caller knows the functions of
 * the libraries and their parameters. No driver is needed, and programs can be destroyed even where CUDA calls are
 * forbidden.
 */

#include <cudacore/cudacore.h>

#include <stdint.h>

/** A function of a compiler library, of whatever type. */
typedef void (*cch_compiler_fn)(void);

/**
 * Looks up a function in a library, given by its dlopen() handle, which must stay open. NULL if the library does not
 * have the function. A driver can replace functions of compilers.
 */
CCH_EXPORT cch_status cch_compiler_symbol(cch_compiler_fn *out, void *library, const char *name);

/**
 * Calls a function with up to six parameters that are pointers or integers: `arguments` is an array of six. The result
 * is the function's. The process waits for such calls at its end: see cch_compilers_finish().
 */
CCH_EXPORT cch_status cch_compiler_call(int *result, cch_compiler_fn function, const uintptr_t *arguments);

/**
 * Makes the box of a program: of the kind CCH_KIND_NVRTC_PROGRAM, CCH_KIND_NVVM_PROGRAM or CCH_KIND_NVJITLINK_LINKER.
 * Its handle is NULL until the function that creates the program stores it: see cch_program_handle(). `destroy` is
 * called with the address of the handle if that is not NULL. *Caller serialises* all calls for the program.
 */
CCH_EXPORT cch_status cch_program_create(void **out, cch_kind kind, cch_compiler_fn destroy);

/** The address of a program's handle, which is valid as long as the box exists. */
CCH_EXPORT cch_status cch_program_handle(void ***out, void *box);

/** Makes cch_program_is_cancelled() return 1. Any thread may call this while the program is being compiled. */
CCH_EXPORT cch_status cch_program_cancel(void *box);

/**
 * For nvrtcSetFlowCallback, with the address of a program's handle: 1 if the program was cancelled, or the process
 * ends; NVRTC then ends the compilation with NVRTC_ERROR_CANCELLED, usually within 0.3 seconds.
 */
CCH_EXPORT int cch_program_is_cancelled(void *handle, void *CCH_NULLABLE reserved);

#endif
