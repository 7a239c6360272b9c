/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/program.h. */
int cch_nvrtc_program_adopt(cch_nvrtc_program **out, nvrtcProgram raw, void *nvrtc);
cch_nvrtc_program *cch_nvrtc_program_ref(cch_nvrtc_program *program);
void cch_nvrtc_program_unref(cch_nvrtc_program *program);
nvrtcProgram cch_nvrtc_program_raw(const cch_nvrtc_program *program);
int cch_nvvm_program_adopt(cch_nvvm_program **out, nvvmProgram raw, void *nvvm);
cch_nvvm_program *cch_nvvm_program_ref(cch_nvvm_program *program);
void cch_nvvm_program_unref(cch_nvvm_program *program);
nvvmProgram cch_nvvm_program_raw(const cch_nvvm_program *program);
