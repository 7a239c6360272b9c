/* SPDX-License-Identifier: Apache-2.0 */
/* libNVVM, loaded at run time. */
#include "compiler/compiler.h"

#include <stdlib.h>

#define NVVM_FUNCTIONS(X)                                                                                              \
  X(nvvmCreateProgram, 12000, (void **program))                                                                        \
  X(nvvmDestroyProgram, 12000, (void *program))                                                                        \
  X(nvvmVersion, 12000, (int *major, int *minor))                                                                      \
  X(nvvmIRVersion, 12000, (int *major, int *minor, int *debug_major, int *debug_minor))                                \
  X(nvvmLLVMVersion, 13010, (const char *arch, int *major))                                                            \
  X(nvvmAddModuleToProgram, 12000, (void *program, const char *module, size_t size, const char *name))                 \
  X(nvvmLazyAddModuleToProgram, 12000, (void *program, const char *module, size_t size, const char *name))             \
  X(nvvmVerifyProgram, 12000, (void *program, int count, const char *const *options))                                  \
  X(nvvmCompileProgram, 12000, (void *program, int count, const char *const *options))                                 \
  X(nvvmGetCompiledResultSize, 12000, (void *program, size_t *size))                                                   \
  X(nvvmGetCompiledResult, 12000, (void *program, char *bytes))                                                        \
  X(nvvmGetProgramLogSize, 12000, (void *program, size_t *size))                                                       \
  X(nvvmGetProgramLog, 12000, (void *program, char *bytes))

struct cch_nvvm {
  struct cch__compiler base;
#define FIELD(name, version, parameters) int(*name) parameters;
  NVVM_FUNCTIONS(FIELD)
#undef FIELD
};

static int version_of(int *major, int *minor, const void *table) {
  const cch_nvvm *nvvm = table;
  return nvvm->nvvmVersion != NULL ? nvvm->nvvmVersion(major, minor) : -1;
}

static const cch__entry entries[] = {
#define ENTRY(name, version, parameters) {#name, offsetof(cch_nvvm, name), version},
    NVVM_FUNCTIONS(ENTRY)
#undef ENTRY
};
static const char *const sonames[] = {"libnvvm.so.4", "libnvvm.so", NULL};
static const cch__compiler_kind kind = {
    .title = "libNVVM",
    .domain = CCH_DOMAIN_NVVM,
    .sonames = sonames,
    .entries = entries,
    .count = sizeof entries / sizeof *entries,
    .size = sizeof(cch_nvvm),
    .version = version_of,
};

struct cch_nvvm_program {
  cch__program program;
};

CCH__DEFINE_PROGRAM(cch_nvvm_program, nvvmProgram)

static const cch_nvvm *compiler_of(const cch_nvvm_program *program) { return program->program.compiler; }

static void *raw(const cch_nvvm_program *program) { return program->program.raw; }

int cch_nvvm_load(cch_nvvm **out, const char *path) {
  CCH__REQUIRE(out);
  return cch__compiler_load(out, &kind, path, __func__);
}

int cch_nvvm_wrap(cch_nvvm **out, void *handle) {
  CCH__REQUIRE(out, handle);
  return cch__compiler_wrap(out, &kind, handle, __func__);
}

int cch_nvvm_version(int *major, int *minor, cch_nvvm *nvvm) {
  CCH__REQUIRE(major, minor);
  CCH__REQUIRE_COMPILER(nvvm);
  return CCH__COMPILER_CALL(nvvm, nvvmVersion, (major, minor));
}

int cch_nvvm_ir_version(int *major, int *minor, int *debug_major, int *debug_minor, cch_nvvm *nvvm) {
  CCH__REQUIRE(major, minor, debug_major, debug_minor);
  CCH__REQUIRE_COMPILER(nvvm);
  return CCH__COMPILER_CALL(nvvm, nvvmIRVersion, (major, minor, debug_major, debug_minor));
}

int cch_nvvm_llvm_version(int *out, cch_nvvm *nvvm, const char *arch) {
  CCH__REQUIRE(out, arch);
  CCH__REQUIRE_COMPILER(nvvm);
  return CCH__COMPILER_CALL(nvvm, nvvmLLVMVersion, (arch, out));
}

int cch_nvvm_program_create(cch_nvvm_program **out, cch_nvvm *nvvm) {
  CCH__REQUIRE(out);
  CCH__REQUIRE_COMPILER(nvvm);
  cch__program *program =
      cch__program_new(CCH_KIND_NVVM_PROGRAM, nvvm, nvvm->nvvmDestroyProgram, "nvvmDestroyProgram", __func__);
  if (program == NULL)
    return CCH_ENOMEM;
  int status = CCH__COMPILER_CALL(nvvm, nvvmCreateProgram, (&program->raw));
  if (status != 0) {
    cch__box_discard(program);
    return status;
  }
  *out = (cch_nvvm_program *)program;
  return 0;
}

/* Adds a line of the log to the failure that was just recorded, and returns `status`. */
static int explained(int status, const cch_nvvm_program *program) {
  const cch_nvvm *nvvm = compiler_of(program);
  if (status == CCH_ECOMPILER) {
    char *log = cch__program_log(&program->program, nvvm->nvvmGetProgramLogSize, nvvm->nvvmGetProgramLog);
    if (log != NULL)
      cch__fail_explain_log(log);
    free(log);
  }
  return status;
}

int cch_nvvm_program_add(cch_nvvm_program *program, const void *module, size_t size, const char *name, int lazy) {
  CCH__REQUIRE(program, module);
  const cch_nvvm *nvvm = compiler_of(program);
  return explained(lazy ? CCH__COMPILER_CALL(nvvm, nvvmLazyAddModuleToProgram, (raw(program), module, size, name))
                        : CCH__COMPILER_CALL(nvvm, nvvmAddModuleToProgram, (raw(program), module, size, name)),
                   program);
}

int cch_nvvm_program_verify(cch_nvvm_program *program, size_t count, const char *const *options) {
  CCH__REQUIRE(program);
  CCH__REQUIRE_ALL(options, count);
  return explained(CCH__COMPILER_CALL(compiler_of(program), nvvmVerifyProgram, (raw(program), (int)count, options)),
                   program);
}

int cch_nvvm_program_compile(cch_nvvm_program *program, size_t count, const char *const *options) {
  CCH__REQUIRE(program);
  CCH__REQUIRE_ALL(options, count);
  return explained(CCH__COMPILER_CALL(compiler_of(program), nvvmCompileProgram, (raw(program), (int)count, options)),
                   program);
}

int cch_nvvm_program_get(void *out, size_t *size, cch_nvvm_program *program, int output) {
  CCH__REQUIRE(size, program);
  const cch_nvvm *nvvm = compiler_of(program);
  switch (output) {
  case CCH_NVVM_LOG:
    return cch__program_get(out, size, &program->program, nvvm->nvvmGetProgramLogSize, nvvm->nvvmGetProgramLog,
                            "nvvmGetProgramLogSize", "nvvmGetProgramLog", __func__);
  case CCH_NVVM_CODE:
    return cch__program_get(out, size, &program->program, nvvm->nvvmGetCompiledResultSize, nvvm->nvvmGetCompiledResult,
                            "nvvmGetCompiledResultSize", "nvvmGetCompiledResult", __func__);
  default:
    return cch__fail(CCH_EINVAL, __func__, "%d is not an output of libNVVM", output);
  }
}
