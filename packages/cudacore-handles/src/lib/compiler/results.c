/* SPDX-License-Identifier: Apache-2.0 */
/* Names and meanings of the compilers' result codes. No compiler needs to be loaded. */
#include "compiler/compiler.h"

#include <cudacore_internal/base.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct result {
  const char *name, *meaning;
} result;

/* Indexed by the codes, which are stable. */
static const result nvrtc[] = {
    {"NVRTC_SUCCESS", "no error"},
    {"NVRTC_ERROR_OUT_OF_MEMORY", "host memory ran out"},
    {"NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "the program could not be created"},
    {"NVRTC_ERROR_INVALID_INPUT", "an argument is not valid"},
    {"NVRTC_ERROR_INVALID_PROGRAM", "the program is not valid"},
    {"NVRTC_ERROR_INVALID_OPTION", "an option is not valid"},
    {"NVRTC_ERROR_COMPILATION", "the program does not compile"},
    {"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "a file that belongs to NVRTC could not be read or unpacked"},
    {"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "the program is compiled: it takes no more name expressions"},
    {"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "the program has not been compiled yet"},
    {"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "a name expression names nothing in the program"},
    {"NVRTC_ERROR_INTERNAL_ERROR", "the compiler failed internally"},
    {"NVRTC_ERROR_TIME_FILE_WRITE_FAILED", "the file for the times of the phases could not be written"},
    {"NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED", "no precompiled header was to be made"},
    {"NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED", "the heap for precompiled headers was too small"},
    {"NVRTC_ERROR_PCH_CREATE", "the precompiled header could not be made"},
    {"NVRTC_ERROR_CANCELLED", "the compilation was cancelled"},
    {"NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED", "the file for the compiler's profile could not be written"},
    {"NVRTC_ERROR_BUSY", "another process is unpacking the headers"},
};

static const result nvvm[] = {
    {"NVVM_SUCCESS", "no error"},
    {"NVVM_ERROR_OUT_OF_MEMORY", "host memory ran out"},
    {"NVVM_ERROR_PROGRAM_CREATION_FAILURE", "the program could not be created"},
    {"NVVM_ERROR_IR_VERSION_MISMATCH", "the modules are of different versions of NVVM IR, or of one that is not taken"},
    {"NVVM_ERROR_INVALID_INPUT", "an argument is not valid"},
    {"NVVM_ERROR_INVALID_PROGRAM", "the program is not valid"},
    {"NVVM_ERROR_INVALID_IR", "a module is not valid NVVM IR"},
    {"NVVM_ERROR_INVALID_OPTION", "an option is not valid"},
    {"NVVM_ERROR_NO_MODULE_IN_PROGRAM", "the program has no module"},
    {"NVVM_ERROR_COMPILATION", "the program does not compile"},
    {"NVVM_ERROR_CANCELLED", "the compilation was cancelled"},
};

static const result nvjitlink[] = {
    {"NVJITLINK_SUCCESS", "no error"},
    {"NVJITLINK_ERROR_UNRECOGNIZED_OPTION", "an option is not known"},
    {"NVJITLINK_ERROR_MISSING_ARCH", "the architecture is missing"},
    {"NVJITLINK_ERROR_INVALID_INPUT", "an input or an argument is not valid"},
    {"NVJITLINK_ERROR_PTX_COMPILE", "PTX does not compile"},
    {"NVJITLINK_ERROR_NVVM_COMPILE", "LTO-IR does not compile"},
    {"NVJITLINK_ERROR_INTERNAL", "the linker failed internally"},
    {"NVJITLINK_ERROR_THREADPOOL", "the linker's threads failed"},
    {"NVJITLINK_ERROR_UNRECOGNIZED_INPUT", "an input is of no known format"},
    {"NVJITLINK_ERROR_FINALIZE", "the inputs do not link"},
    {"NVJITLINK_ERROR_NULL_INPUT", "an input is NULL"},
    {"NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS", "options do not go together"},
    {"NVJITLINK_ERROR_INCORRECT_INPUT_TYPE", "an input is not of the type that it was given as"},
    {"NVJITLINK_ERROR_ARCH_MISMATCH", "an input is for another architecture"},
    {"NVJITLINK_ERROR_OUTDATED_LIBRARY", "an input is newer than the linker"},
    {"NVJITLINK_ERROR_MISSING_FATBIN", "an input has no device code"},
    {"NVJITLINK_ERROR_UNRECOGNIZED_ARCH", "the architecture is not known"},
    {"NVJITLINK_ERROR_UNSUPPORTED_ARCH", "the architecture is not supported"},
    {"NVJITLINK_ERROR_LTO_NOT_ENABLED", "LTO-IR needs link-time optimization"},
};

const char *cch__compiler_result(int domain, int code, const char **meaning) {
  static const struct {
    const result *results;
    size_t count;
    result unknown;
  } domains[] = {
      [CCH_DOMAIN_NVRTC] = {nvrtc, sizeof nvrtc / sizeof *nvrtc, {"NVRTC_ERROR_UNRECOGNIZED", "the compiler failed"}},
      [CCH_DOMAIN_NVVM] = {nvvm, sizeof nvvm / sizeof *nvvm, {"NVVM_ERROR_UNRECOGNIZED", "the compiler failed"}},
      [CCH_DOMAIN_NVJITLINK] = {nvjitlink,
                                sizeof nvjitlink / sizeof *nvjitlink,
                                {"NVJITLINK_ERROR_UNRECOGNIZED", "the linker failed"}},
  };
  if (domain < CCH_DOMAIN_NVRTC || domain > CCH_DOMAIN_NVJITLINK)
    return NULL;
  bool known = code >= 0 && (size_t)code < domains[domain].count;
  const result *found = known ? &domains[domain].results[code] : &domains[domain].unknown;
  if (meaning != NULL)
    *meaning = found->meaning;
  return found->name;
}
