/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC, loaded at run time. */
#define _GNU_SOURCE
#include "compiler/compiler.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions of NVRTC, with the types of CUDA's headers. nvrtcResult is declared as int, its type in the ABI. */
#define NVRTC_FUNCTIONS(X)                                                                                             \
  X(nvrtcCreateProgram, 12000,                                                                                         \
    (void **program, const char *source, const char *name, int count, const char *const *headers,                      \
     const char *const *names))                                                                                        \
  X(nvrtcDestroyProgram, 12000, (void *program))                                                                       \
  X(nvrtcVersion, 12000, (int *major, int *minor))                                                                     \
  X(nvrtcGetNumSupportedArchs, 12000, (int *count))                                                                    \
  X(nvrtcGetSupportedArchs, 12000, (int *architectures))                                                               \
  X(nvrtcAddNameExpression, 12000, (void *program, const char *expression))                                            \
  X(nvrtcCompileProgram, 12000, (void *program, int count, const char *const *options))                                \
  X(nvrtcGetLoweredName, 12000, (void *program, const char *expression, const char **name))                            \
  X(nvrtcGetProgramLogSize, 12000, (void *program, size_t *size))                                                      \
  X(nvrtcGetProgramLog, 12000, (void *program, char *bytes))                                                           \
  X(nvrtcGetPTXSize, 12000, (void *program, size_t *size))                                                             \
  X(nvrtcGetPTX, 12000, (void *program, char *bytes))                                                                  \
  X(nvrtcGetCUBINSize, 12000, (void *program, size_t *size))                                                           \
  X(nvrtcGetCUBIN, 12000, (void *program, char *bytes))                                                                \
  X(nvrtcGetLTOIRSize, 12000, (void *program, size_t *size))                                                           \
  X(nvrtcGetLTOIR, 12000, (void *program, char *bytes))                                                                \
  X(nvrtcGetOptiXIRSize, 12000, (void *program, size_t *size))                                                         \
  X(nvrtcGetOptiXIR, 12000, (void *program, char *bytes))                                                              \
  X(nvrtcGetPCHHeapSize, 12080, (size_t *size))                                                                        \
  X(nvrtcSetPCHHeapSize, 12080, (size_t size))                                                                         \
  X(nvrtcGetPCHCreateStatus, 12080, (void *program))                                                                   \
  X(nvrtcGetPCHHeapSizeRequired, 12080, (void *program, size_t *size))                                                 \
  X(nvrtcSetFlowCallback, 12080, (void *program, int (*callback)(void *data, void *reserved), void *data))

typedef struct cch_nvrtc {
  struct cch__compiler base;
  NVRTC_FUNCTIONS(CCH__COMPILER_FIELD)
} library;

static bool version_of(int *result, int *major, int *minor, const void *table) {
  const cch_nvrtc *nvrtc = table;
  if (nvrtc->nvrtcVersion == NULL)
    return false;
  *result = nvrtc->nvrtcVersion(major, minor);
  return true;
}

static const cch__entry entries[] = {NVRTC_FUNCTIONS(CCH__COMPILER_ENTRY)};

/* Opens the builtins library in the folder of NVRTC: libnvrtc-builtins.so.13.0 for libnvrtc.so.13. */
static bool open_builtins(const char *nvrtc_path, int major, int minor) {
  static const char prefix[] = "libnvrtc";
  const char *slash = strrchr(nvrtc_path, '/'), *name = slash != NULL ? slash + 1 : nvrtc_path;
  const char *suffix = strstr(name, ".so");
  char path[PATH_MAX];
  if (slash == NULL || suffix == NULL || strncmp(name, prefix, sizeof prefix - 1) != 0)
    return false;
  name += sizeof prefix - 1; /* the remainder may name a variant: libnvrtc.alt.so.13 */
  int length = snprintf(path, sizeof path, "%.*s/%s-builtins%.*s.so.%d.%d", (int)(slash - nvrtc_path), nvrtc_path,
                        prefix, (int)(suffix - name), name, major, minor);
  return length > 0 && (size_t)length < sizeof path && dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
}

/*
 * NVRTC opens its builtins library by its bare name at the first compilation. In some versions, such as 13.0, the
 * dynamic linker does not search NVRTC's own folder. A library that is already loaded is found by its name, so the
 * builtins are opened here, and stay open like NVRTC. If they are not in that folder, NVRTC searches for them itself.
 */
static void complete(void *table) {
  const cch_nvrtc *nvrtc = table;
  struct link_map *loaded = NULL;
  char real[PATH_MAX];
  int result, major, minor;
  if (!version_of(&result, &major, &minor, nvrtc) || result != 0 ||
      dlinfo(nvrtc->base.handle, RTLD_DI_LINKMAP, &loaded) != 0)
    return;
  if (!open_builtins(loaded->l_name, major, minor) && realpath(loaded->l_name, real) != NULL)
    open_builtins(real, major, minor);
}

static const cch__output outputs[] = {
    [CCH_NVRTC_LOG] = CCH__OUTPUT(nvrtcGetProgramLog),  [CCH_NVRTC_PTX] = CCH__OUTPUT(nvrtcGetPTX),
    [CCH_NVRTC_CUBIN] = CCH__OUTPUT(nvrtcGetCUBIN),     [CCH_NVRTC_LTOIR] = CCH__OUTPUT(nvrtcGetLTOIR),
    [CCH_NVRTC_OPTIXIR] = CCH__OUTPUT(nvrtcGetOptiXIR),
};

static const cch__compiler_type type = {
    CCH__COMPILER_TABLE(entries, outputs),
    .title = "NVRTC",
    .domain = CCH_DOMAIN_NVRTC,
    .complete = complete,
    .version = version_of,
};

/* cch_nvrtc_wrap() and cch_nvrtc_version() */
CCH__DEFINE_COMPILER(nvrtc, "nvrtcVersion")
/* struct cch_nvrtc_program and cch_nvrtc_program_raw() */
CCH__DEFINE_PROGRAM(cch_nvrtc_program, nvrtcProgram)

cch_status cch_nvrtc_architectures(int *out, size_t *count, cch_nvrtc *nvrtc) {
  CCH__REQUIRE(count);
  CCH__REQUIRE_COMPILER(nvrtc);
  int there = 0;
  int status = CCH__COMPILER_CALL(nvrtc, nvrtcGetNumSupportedArchs, (&there));
  if (status != 0)
    return status;
  if (out != NULL && *count < (size_t)there)
    return cch__fail(CCH_EINVAL, __func__, "the array has %zu elements, and there are %d architectures", *count, there);
  if (out != NULL)
    status = CCH__COMPILER_CALL(nvrtc, nvrtcGetSupportedArchs, (out));
  if (status == 0)
    *count = (size_t)there;
  return status;
}

cch_status cch_nvrtc_pch_heap(size_t *out, cch_nvrtc *nvrtc) {
  CCH__REQUIRE(out);
  CCH__REQUIRE_COMPILER(nvrtc);
  return CCH__COMPILER_CALL(nvrtc, nvrtcGetPCHHeapSize, (out));
}

cch_status cch_nvrtc_set_pch_heap(cch_nvrtc *nvrtc, size_t size) {
  CCH__REQUIRE_COMPILER(nvrtc);
  return CCH__COMPILER_CALL(nvrtc, nvrtcSetPCHHeapSize, (size));
}

/* During a compilation, NVRTC calls this some 100,000 times a second, and stops compiling when this returns 1. */
static int is_cancelled(void *flag, void *reserved) {
  (void)reserved;
  return atomic_load_explicit((atomic_bool *)flag, memory_order_relaxed) ||
         atomic_load_explicit(&cch__compilers_end, memory_order_relaxed);
}

cch_status cch_nvrtc_program_create(cch_nvrtc_program **out, cch_nvrtc *nvrtc, const char *source, const char *name,
                                    size_t count, const char *const *headers, const char *const *header_names) {
  CCH__REQUIRE(out, source);
  CCH__REQUIRE_COMPILER(nvrtc);
  CCH__REQUIRE_ARRAY(header_names, count);
  CCH__REQUIRE_ALL(headers, count);
  CCH__REQUIRE_ALL(header_names, count);
  cch__program *program =
      cch__program_new(CCH_KIND_NVRTC_PROGRAM, nvrtc, nvrtc->nvrtcDestroyProgram, "nvrtcDestroyProgram", __func__);
  if (program == NULL)
    return CCH_ENOMEM;
  int status =
      CCH__COMPILER_CALL(nvrtc, nvrtcCreateProgram, (&program->raw, source, name, (int)count, headers, header_names));
  if (status != 0) {
    cch__box_free(program);
    return status;
  }
  if (nvrtc->nvrtcSetFlowCallback != NULL)
    status = CCH__COMPILER_CALL(nvrtc, nvrtcSetFlowCallback, (program->raw, is_cancelled, &program->cancelled));
  if (status != 0) {
    cch__box_unref(program);
    return status;
  }
  *out = (cch_nvrtc_program *)program;
  return 0;
}

cch_status cch_nvrtc_program_add_name(cch_nvrtc_program *program, const char *expression) {
  CCH__REQUIRE(program, expression);
  return CCH__COMPILER_CALL(library_of(program), nvrtcAddNameExpression, (handle_of(program), expression));
}

/*
 * NVRTC 12.0 to 13.0 handle these signals while they compile. They put the old handlers back, but with SA_RESTART: from
 * then on, Ctrl+C would no longer interrupt a read. So the flags are restored after each compilation. Those before the
 * first one of compilations that overlap count. There is no lock, because a child could be forked while it is held.
 */
static const int handled[] = {SIGINT, SIGTERM, SIGXFSZ};
enum { HANDLED = sizeof handled / sizeof *handled };
static _Atomic(uintptr_t) handlers[HANDLED];
static atomic_int flags_before[HANDLED], compiling;

static void keep_signals(void) {
  if (atomic_fetch_add(&compiling, 1) != 0)
    return;
  for (int i = 0; i < HANDLED; i++) {
    struct sigaction now;
    sigaction(handled[i], NULL, &now);
    atomic_store(&flags_before[i], now.sa_flags);
    atomic_store(&handlers[i], (uintptr_t)now.sa_sigaction);
  }
}

static void restore_signals(void) {
  for (int i = 0; i < HANDLED; i++) {
    struct sigaction now;
    sigaction(handled[i], NULL, &now);
    int flags = atomic_load(&flags_before[i]);
    if ((uintptr_t)now.sa_sigaction != atomic_load(&handlers[i]) || now.sa_flags == flags)
      continue;
    now.sa_flags = flags;
    sigaction(handled[i], &now, NULL);
  }
  atomic_fetch_sub(&compiling, 1);
}

cch_status cch_nvrtc_program_compile(cch_nvrtc_program *program, size_t count, const char *const *options) {
  CCH__REQUIRE(program);
  CCH__REQUIRE_ALL(options, count);
  keep_signals();
  int status = CCH__COMPILER_CALL(library_of(program), nvrtcCompileProgram, (handle_of(program), (int)count, options));
  restore_signals();
  return status;
}

cch_status cch_nvrtc_program_cancel(cch_nvrtc_program *program) {
  CCH__REQUIRE(program);
  const cch_nvrtc *nvrtc = library_of(program);
  if (nvrtc->nvrtcSetFlowCallback == NULL)
    return cch__fail_compiler_missing(nvrtc, "nvrtcSetFlowCallback");
  atomic_store_explicit(&program->program.cancelled, true, memory_order_relaxed);
  return 0;
}

cch_status cch_nvrtc_program_get(void *out, size_t *size, cch_nvrtc_program *program, int output) {
  CCH__REQUIRE(size, program);
  return cch__program_get(out, size, &program->program, output, __func__);
}

cch_status cch_nvrtc_program_lowered_name(const char **out, cch_nvrtc_program *program, const char *expression) {
  CCH__REQUIRE(out, program, expression);
  return CCH__COMPILER_CALL(library_of(program), nvrtcGetLoweredName, (handle_of(program), expression, out));
}

cch_status cch_nvrtc_program_pch_status(int *out, cch_nvrtc_program *program) {
  CCH__REQUIRE(out, program);
  const cch_nvrtc *nvrtc = library_of(program);
  if (nvrtc->nvrtcGetPCHCreateStatus == NULL)
    return cch__fail_compiler_missing(nvrtc, "nvrtcGetPCHCreateStatus");
  *out = nvrtc->nvrtcGetPCHCreateStatus(handle_of(program));
  return 0;
}

cch_status cch_nvrtc_program_pch_heap(size_t *out, cch_nvrtc_program *program) {
  CCH__REQUIRE(out, program);
  return CCH__COMPILER_CALL(library_of(program), nvrtcGetPCHHeapSizeRequired, (handle_of(program), out));
}
