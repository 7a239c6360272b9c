/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kinds.h"

#include <dlfcn.h>
#include <string.h>

static int adopt(cch__program **out, cch_kind kind, void *raw, void *library, const char *destroyer,
                 const char *operation) {
  void *entry = library ? dlsym(library, destroyer) : NULL;
  if (entry == NULL)
    return cch__fail(CCH_ENOSYMBOL, operation, "the compiler library has no %s", destroyer);
  cch__program *program = cch__box_new(kind, sizeof *program, operation);
  if (program == NULL)
    return CCH_ENOMEM;
  program->raw = raw;
  memcpy(&program->destroy, &entry, sizeof entry);
  program->destroyer = destroyer;
  program->box.owned = true;
  *out = program;
  return 0;
}

/* The two kinds, by the names that CUDA gives them. */
#define CCH__DEFINE_PROGRAM(type, Raw, KIND, destroyer)                                                                \
  int type##_adopt(type **out, Raw raw, void *library) {                                                               \
    cch__program *program = NULL;                                                                                      \
    int status = adopt(&program, KIND, raw, library, destroyer, #type "_adopt");                                       \
    if (status == 0)                                                                                                   \
      *out = (type *)program;                                                                                          \
    return status;                                                                                                     \
  }                                                                                                                    \
  type *type##_ref(type *box) { return cch__box_ref(box); }                                                            \
  void type##_unref(type *box) { cch__box_unref(box); }                                                                \
  Raw type##_raw(const type *box) { return box != NULL ? ((const cch__program *)box)->raw : NULL; }

CCH__DEFINE_PROGRAM(cch_nvrtc_program, nvrtcProgram, CCH_KIND_NVRTC_PROGRAM, "nvrtcDestroyProgram")
CCH__DEFINE_PROGRAM(cch_nvvm_program, nvvmProgram, CCH_KIND_NVVM_PROGRAM, "nvvmDestroyProgram")

/* Compilers own host memory only: these need no driver, and no context. */
bool cch__program_end(cch__program *program) {
  int result = program->destroy(&program->raw);
  if (result != 0)
    cch__report(cch__fail(CCH_EINVAL, program->destroyer, "%.*sResult %d",
                          program->box.kind == CCH_KIND_NVRTC_PROGRAM ? 5 : 4, program->destroyer, result));
  return true;
}
