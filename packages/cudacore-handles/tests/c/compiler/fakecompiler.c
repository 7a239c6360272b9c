/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC, libNVVM and nvJitLink in one library, for test_compilers.c. The "compiled" code is a prefix, followed by the
 * source. A source that contains "wrong" does not compile. Built with OLD, this library imitates CUDA 12.1: it lacks
 * later functions, and has only the versioned names of nvJitLink's functions.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_int created, destroyed, result;

typedef struct program {
  char source[256], log[256], code[512];
  int compiled, real, lto;
  int (*callback)(void *data, void *reserved);
  void *data;
} program;

/* The counts and the result code that the tests read and set. */
EXPORT int fake_programs(void) { return atomic_load(&created) - atomic_load(&destroyed); }
EXPORT int fake_destroyed(void) { return atomic_load(&destroyed); }
EXPORT void fake_compiler_result(int value) { atomic_store(&result, value); }

static int create(void **out, const char *source) {
  program *made = calloc(1, sizeof *made);
  snprintf(made->source, sizeof made->source, "%s", source);
  *out = made;
  atomic_fetch_add(&created, 1);
  return 0;
}

static int destroy(void *at) {
  void **program = at;
  free(*program);
  *program = NULL;
  atomic_fetch_add(&destroyed, 1);
  return atomic_load(&result);
}

static int build(program *program, const char *word, int failure) {
  if (strstr(program->source, "wrong") != NULL) {
    snprintf(program->log, sizeof program->log, "a remark\n%s(1): ERROR: \"wrong\"\x01 is wrong\nanother", word);
    return failure;
  }
  program->compiled = 1;
  snprintf(program->code, sizeof program->code, "%s %s", word, program->source);
  return 0;
}

static int size_of(const char *text, size_t *size) {
  *size = text[0] == '\0' ? 0 : strlen(text) + 1;
  return 0;
}

static int copy(const char *text, char *out) {
  memcpy(out, text, strlen(text) + 1);
  return 0;
}

/* ---- NVRTC */

EXPORT int nvrtcVersion(int *major, int *minor) {
  *major = 12;
  *minor = 1;
  return atomic_load(&result);
}
EXPORT int nvrtcGetNumSupportedArchs(int *count) {
  *count = 2;
  return 0;
}
EXPORT int nvrtcGetSupportedArchs(int *out) {
  out[0] = 80;
  out[1] = 90;
  return 0;
}
EXPORT int nvrtcCreateProgram(void **out, const char *source, const char *name, int count, const char *const *headers,
                              const char *const *names) {
  if (strcmp(name, "refused") == 0)
    return 3;
  if (count == 1)
    source = strcmp(names[0], source) == 0 ? headers[0] : "wrong header";
  return create(out, source);
}
EXPORT int nvrtcDestroyProgram(void **at) { return destroy(at); }
EXPORT int nvrtcAddNameExpression(program *program, const char *expression) {
  (void)expression;
  return program->compiled ? 8 : 0;
}
EXPORT int nvrtcCompileProgram(program *program, int count, const char *const *options) {
  for (int i = 0; i < count; i++) {
    program->real |= strncmp(options[i], "-arch=sm_", 9) == 0;
    program->lto |= strcmp(options[i], "-dlto") == 0;
    if (strcmp(options[i], "--unknown") == 0)
      return 77;
  }
  /* The compilation of "endless" runs until it is cancelled, at most for some seconds. */
  for (int i = 0; i < 100000 && strstr(program->source, "endless") != NULL; i++)
    if (program->callback != NULL && program->callback(program->data, NULL))
      return 16;
    else
      thrd_sleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return build(program, "ptx", 6);
}
EXPORT int nvrtcGetLoweredName(program *program, const char *expression, const char **name) {
  static char lowered[64];
  if (!program->compiled)
    return 9;
  snprintf(lowered, sizeof lowered, "_Z%s", expression);
  *name = lowered;
  return 0;
}
EXPORT int nvrtcGetProgramLogSize(program *program, size_t *size) {
  *size = strlen(program->log) + 1;
  return 0;
}
EXPORT int nvrtcGetProgramLog(program *program, char *out) { return copy(program->log, out); }
EXPORT int nvrtcGetPTXSize(program *program, size_t *size) { return size_of(program->code, size); }
EXPORT int nvrtcGetPTX(program *program, char *out) { return copy(program->code, out); }
EXPORT int nvrtcGetCUBINSize(program *program, size_t *size) {
  *size = program->real ? 5 : 0;
  return 0;
}
EXPORT int nvrtcGetCUBIN(program *program, char *out) {
  if (!program->real)
    abort(); /* callers must not ask for a cubin that was not generated */
  memcpy(out, "cubin", 5);
  return 0;
}
EXPORT int nvrtcGetLTOIRSize(program *program, size_t *size) {
  *size = 5;
  return program->lto ? 0 : 4;
}
EXPORT int nvrtcGetLTOIR(program *program, char *out) {
  (void)program;
  memcpy(out, "ltoir", 5);
  return 0;
}
#ifndef OLD
EXPORT int nvrtcGetOptiXIRSize(program *program, size_t *size) {
  (void)program;
  *size = 5;
  return 0;
}
EXPORT int nvrtcGetOptiXIR(program *program, char *out) {
  (void)program;
  memcpy(out, "optix", 5);
  return 0;
}
static size_t heap = 1000;
EXPORT int nvrtcGetPCHHeapSize(size_t *size) {
  *size = heap;
  return 0;
}
EXPORT int nvrtcSetPCHHeapSize(size_t size) {
  heap = size;
  return 0;
}
EXPORT int nvrtcGetPCHCreateStatus(program *program) { return program->compiled ? 14 : 13; }
EXPORT int nvrtcGetPCHHeapSizeRequired(program *program, size_t *size) {
  (void)program;
  *size = 2000;
  return 0;
}
EXPORT int nvrtcSetFlowCallback(program *program, int (*callback)(void *data, void *reserved), void *data) {
  program->callback = callback;
  program->data = data;
  return strcmp(program->source, "no callback") == 0 ? 11 : 0;
}
#endif

/* ---- libNVVM */

EXPORT int nvvmVersion(int *major, int *minor) {
  *major = 2;
  *minor = 0;
  return atomic_load(&result);
}
EXPORT int nvvmIRVersion(int *major, int *minor, int *debug_major, int *debug_minor) {
  *major = 2, *minor = 1, *debug_major = 3, *debug_minor = 4;
  return 0;
}
#ifndef OLD
EXPORT int nvvmLLVMVersion(const char *arch, int *major) {
  *major = strcmp(arch, "compute_100") == 0 ? 20 : 7;
  return 0;
}
#endif
EXPORT int nvvmCreateProgram(void **out) { return create(out, ""); }
EXPORT int nvvmDestroyProgram(void **at) { return destroy(at); }
static int nvvm_add(program *program, const char *module, size_t size, const char *how) {
  size_t length = strlen(program->source);
  snprintf(program->source + length, sizeof program->source - length, "%.*s%s", (int)size, module, how);
  return 0;
}
EXPORT int nvvmAddModuleToProgram(program *program, const char *module, size_t size, const char *name) {
  (void)name;
  return nvvm_add(program, module, size, ";");
}
EXPORT int nvvmLazyAddModuleToProgram(program *program, const char *module, size_t size, const char *name) {
  (void)name;
  return nvvm_add(program, module, size, "?");
}
EXPORT int nvvmVerifyProgram(program *program, int count, const char *const *options) {
  (void)count, (void)options;
  return program->source[0] == '\0' ? 8 : strstr(program->source, "wrong") ? 6 : 0;
}
EXPORT int nvvmCompileProgram(program *program, int count, const char *const *options) {
  return build(program, count > 0 && strcmp(options[0], "-gen-lto") == 0 ? "lto" : "nvvm", 9);
}
EXPORT int nvvmGetCompiledResultSize(program *program, size_t *size) { return size_of(program->code, size); }
EXPORT int nvvmGetCompiledResult(program *program, char *out) { return copy(program->code, out); }
EXPORT int nvvmGetProgramLogSize(program *program, size_t *size) { return size_of(program->log, size); }
EXPORT int nvvmGetProgramLog(program *program, char *out) { return copy(program->log, out); }

/* ---- nvJitLink */

#ifdef OLD
#define NAMED(name) __##name##_12_1
#else
#define NAMED(name) name
#endif

EXPORT int NAMED(nvJitLinkCreate)(void **out, uint32_t count, const char *const *options) {
  if (count == 0)
    return 2;
  create(out, "");
  /* Despite the error, returns a linker, which has a log, as the real library does. */
  if (strcmp(options[0], "-arch=wrong") == 0) {
    snprintf(((program *)*out)->log, 256, "error: wrong is no architecture");
    return 16;
  }
  return 0;
}
EXPORT int NAMED(nvJitLinkDestroy)(void **at) { return destroy(at); }
EXPORT int NAMED(nvJitLinkAddData)(program *program, int input, const void *code, size_t size, const char *name) {
  char how[64];
  snprintf(how, sizeof how, "(%d %s)", input, name ? name : "no name");
  return nvvm_add(program, code, size, how);
}
EXPORT int NAMED(nvJitLinkComplete)(program *program) { return build(program, "linked", 9); }
EXPORT int NAMED(nvJitLinkGetErrorLogSize)(program *program, size_t *size) { return size_of(program->log, size); }
EXPORT int NAMED(nvJitLinkGetErrorLog)(program *program, char *out) { return copy(program->log, out); }
EXPORT int NAMED(nvJitLinkGetInfoLogSize)(program *program, size_t *size) {
  (void)program;
  *size = 5;
  return 0;
}
EXPORT int NAMED(nvJitLinkGetInfoLog)(program *program, char *out) {
  (void)program;
  return copy("info", out);
}
EXPORT int NAMED(nvJitLinkGetLinkedCubinSize)(program *program, size_t *size) { return size_of(program->code, size); }
EXPORT int NAMED(nvJitLinkGetLinkedCubin)(program *program, char *out) { return copy(program->code, out); }
EXPORT int NAMED(nvJitLinkGetLinkedPtxSize)(program *program, size_t *size) { return size_of(program->code, size); }
EXPORT int NAMED(nvJitLinkGetLinkedPtx)(program *program, char *out) { return copy(program->code, out); }
#ifdef OLD
EXPORT int __nvJitLinkCreate_12_0(void **out, uint32_t count, const char *const *options) {
  (void)out, (void)count, (void)options;
  abort(); /* callers must use the function with the suffix of the library's version, _12_1 */
}
#else
EXPORT int nvJitLinkGetLinkedLTOIRSize(program *program, size_t *size) { return size_of(program->code, size); }
EXPORT int nvJitLinkGetLinkedLTOIR(program *program, char *out) { return copy(program->code, out); }
EXPORT int nvJitLinkVersion(unsigned *major, unsigned *minor) {
  *major = 13;
  *minor = 2;
  return 0;
}
#endif
