/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <string.h>

CCH__DEFINE_VERBS(cch_nvrtc_program, nvrtcProgram)
CCH__DEFINE_VERBS(cch_nvvm_program, nvvmProgram)

static int find(void *out, void *library, const char *name, const char *operation) {
  void *entry = library ? dlsym(library, name) : NULL;
  if (entry == NULL)
    return cch__fail(CCH_ENOSYMBOL, operation, "the compiler library has no %s", name);
  memcpy(out, &entry, sizeof entry);
  return 0;
}

int cch_nvrtc_program_adopt(cch_nvrtc_program **out, nvrtcProgram raw, void *nvrtc) {
  int (*destroy)(nvrtcProgram *) = NULL;
  int status = find(&destroy, nvrtc, "nvrtcDestroyProgram", __func__);
  if (status != 0)
    return status;
  cch_nvrtc_program *program = cch__box_new(CCH_KIND_NVRTC_PROGRAM, sizeof *program, __func__);
  if (program == NULL)
    return CCH_ENOMEM;
  program->raw = raw;
  program->destroy = destroy;
  program->box.owned = true;
  *out = program;
  return 0;
}

int cch_nvvm_program_adopt(cch_nvvm_program **out, nvvmProgram raw, void *nvvm) {
  int (*destroy)(nvvmProgram *) = NULL;
  int status = find(&destroy, nvvm, "nvvmDestroyProgram", __func__);
  if (status != 0)
    return status;
  cch_nvvm_program *program = cch__box_new(CCH_KIND_NVVM_PROGRAM, sizeof *program, __func__);
  if (program == NULL)
    return CCH_ENOMEM;
  program->raw = raw;
  program->destroy = destroy;
  program->box.owned = true;
  *out = program;
  return 0;
}

/* Compilers own host memory only: these need no driver, and no context. */
void cch__nvrtc_program_destroy(cch_nvrtc_program *program) {
  int result = program->destroy(&program->raw);
  if (result != 0)
    cch__report(cch__fail(CCH_EINVAL, "nvrtcDestroyProgram", "nvrtcResult %d", result));
}

void cch__nvvm_program_destroy(cch_nvvm_program *program) {
  int result = program->destroy(&program->raw);
  if (result != 0)
    cch__report(cch__fail(CCH_EINVAL, "nvvmDestroyProgram", "nvvmResult %d", result));
}
