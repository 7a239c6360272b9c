/* SPDX-License-Identifier: Apache-2.0 */
/* libNVVM, loaded at run time. */
#include "compiler/compiler.h"

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

typedef struct cch_nvvm {
  struct cch__compiler base;
  NVVM_FUNCTIONS(CCH__COMPILER_FIELD)
} library;

static bool version_of(int *result, int *major, int *minor, const void *table) {
  const cch_nvvm *nvvm = table;
  if (nvvm->nvvmVersion == NULL)
    return false;
  *result = nvvm->nvvmVersion(major, minor);
  return true;
}

static const cch__entry entries[] = {NVVM_FUNCTIONS(CCH__COMPILER_ENTRY)};
static const cch__output outputs[] = {
    [CCH_NVVM_LOG] = CCH__OUTPUT(nvvmGetProgramLog),
    [CCH_NVVM_CODE] = CCH__OUTPUT(nvvmGetCompiledResult),
};

static const cch__compiler_type type = {
    CCH__COMPILER_TABLE(entries, outputs),
    .title = "libNVVM",
    .domain = CCH_DOMAIN_NVVM,
    .version = version_of,
};

/* cch_nvvm_wrap() and cch_nvvm_version() */
CCH__DEFINE_COMPILER(nvvm, "nvvmVersion")
/* struct cch_nvvm_program and cch_nvvm_program_raw() */
CCH__DEFINE_PROGRAM(cch_nvvm_program, nvvmProgram)

cch_status cch_nvvm_ir_version(int *major, int *minor, int *debug_major, int *debug_minor, cch_nvvm *nvvm) {
  CCH__REQUIRE(major, minor, debug_major, debug_minor);
  CCH__REQUIRE_COMPILER(nvvm);
  return CCH__COMPILER_CALL(nvvm, nvvmIRVersion, (major, minor, debug_major, debug_minor));
}

cch_status cch_nvvm_llvm_version(int *out, cch_nvvm *nvvm, const char *arch) {
  CCH__REQUIRE(out, arch);
  CCH__REQUIRE_COMPILER(nvvm);
  return CCH__COMPILER_CALL(nvvm, nvvmLLVMVersion, (arch, out));
}

cch_status cch_nvvm_program_create(cch_nvvm_program **out, cch_nvvm *nvvm) {
  CCH__REQUIRE(out);
  CCH__REQUIRE_COMPILER(nvvm);
  cch__program *program =
      cch__program_new(CCH_KIND_NVVM_PROGRAM, nvvm, nvvm->nvvmDestroyProgram, "nvvmDestroyProgram", __func__);
  if (program == NULL)
    return CCH_ENOMEM;
  int status = CCH__COMPILER_CALL(nvvm, nvvmCreateProgram, (&program->raw));
  if (status != 0) {
    cch__box_free(program);
    return status;
  }
  *out = (cch_nvvm_program *)program;
  return 0;
}

cch_status cch_nvvm_program_add(cch_nvvm_program *program, const void *module, size_t size, const char *name,
                                int lazy) {
  CCH__REQUIRE(program, module);
  return lazy ? CCH__COMPILER_CALL(library_of(program), nvvmLazyAddModuleToProgram,
                                   (handle_of(program), module, size, name))
              : CCH__COMPILER_CALL(library_of(program), nvvmAddModuleToProgram,
                                   (handle_of(program), module, size, name));
}

cch_status cch_nvvm_program_verify(cch_nvvm_program *program, size_t count, const char *const *options) {
  CCH__REQUIRE(program);
  CCH__REQUIRE_ALL(options, count);
  return CCH__COMPILER_CALL(library_of(program), nvvmVerifyProgram, (handle_of(program), (int)count, options));
}

cch_status cch_nvvm_program_compile(cch_nvvm_program *program, size_t count, const char *const *options) {
  CCH__REQUIRE(program);
  CCH__REQUIRE_ALL(options, count);
  return CCH__COMPILER_CALL(library_of(program), nvvmCompileProgram, (handle_of(program), (int)count, options));
}

cch_status cch_nvvm_program_get(void *out, size_t *size, cch_nvvm_program *program, int output) {
  CCH__REQUIRE(size, program);
  return cch__program_get(out, size, &program->program, output, __func__);
}
