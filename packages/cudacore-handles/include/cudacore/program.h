/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PROGRAM_H
#define CUDACORE_PROGRAM_H

/**
 * @file program.h
 * Compiler programs. The caller, who loaded the compiler library and made the program, hands it over; the box
 * destroys it. No driver is needed, and these boxes may die anywhere.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/**
 * Takes over an NVRTC program. `nvrtc` is the dlopen() handle of the library that made it; nvrtcDestroyProgram
 * is looked up there (CCH_ENOSYMBOL). On failure `raw` stays the caller's. @since 0.1
 */
CCH_EXPORT int cch_nvrtc_program_adopt(cch_nvrtc_program **out, nvrtcProgram raw, void *nvrtc);
CCH_EXPORT cch_nvrtc_program *cch_nvrtc_program_ref(cch_nvrtc_program *program);
CCH_EXPORT void cch_nvrtc_program_unref(cch_nvrtc_program *program);
CCH_EXPORT nvrtcProgram cch_nvrtc_program_raw(const cch_nvrtc_program *program);

/** Takes over an NVVM program, as cch_nvrtc_program_adopt() does with nvvmDestroyProgram. @since 0.1 */
CCH_EXPORT int cch_nvvm_program_adopt(cch_nvvm_program **out, nvvmProgram raw, void *nvvm);
CCH_EXPORT cch_nvvm_program *cch_nvvm_program_ref(cch_nvvm_program *program);
CCH_EXPORT void cch_nvvm_program_unref(cch_nvvm_program *program);
CCH_EXPORT nvvmProgram cch_nvvm_program_raw(const cch_nvvm_program *program);

CCH_END_DECLS

#endif
