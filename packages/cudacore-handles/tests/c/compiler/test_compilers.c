/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compilers and their programs. One library, fakecompiler.c, replaces NVRTC, libNVVM and nvJitLink. No driver is
 * needed.
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library, *old_library;
static cch_nvrtc *nvrtc, *old_nvrtc;
static cch_nvvm *nvvm, *old_nvvm;
static cch_nvjitlink *nvjitlink, *old_nvjitlink;
static int (*programs)(void);
static int (*destroyed)(void);
static void (*compiler_result)(int);

static void open(void) {
  library = dlopen(getenv("FAKE_COMPILER"), RTLD_NOW | RTLD_LOCAL);
  old_library = dlopen(getenv("FAKE_OLD_COMPILER"), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL && old_library != NULL);
  void *entry = dlsym(library, "fake_programs");
  memcpy(&programs, &entry, sizeof entry);
  entry = dlsym(library, "fake_destroyed");
  memcpy(&destroyed, &entry, sizeof entry);
  entry = dlsym(library, "fake_compiler_result");
  memcpy(&compiler_result, &entry, sizeof entry);
}

static cch_nvrtc_program *nvrtc_program(const char *source) {
  cch_nvrtc_program *program = NULL;
  OK(cch_nvrtc_program_create(&program, nvrtc, source, "name", 0, NULL, NULL));
  return program;
}

/* One library would have several function tables. */
static void libraries_are_found_once(void) {
  cch_nvrtc *again;
  OK(cch_nvrtc_wrap(&nvrtc, library));
  OK(cch_nvrtc_wrap(&again, library));
  CHECK(again == nvrtc);
  OK(cch_nvvm_wrap(&nvvm, library));
  OK(cch_nvjitlink_wrap(&nvjitlink, library));
  OK(cch_nvrtc_wrap(&old_nvrtc, old_library));
  OK(cch_nvvm_wrap(&old_nvvm, old_library));
  OK(cch_nvjitlink_wrap(&old_nvjitlink, old_library));
  CHECK(old_nvrtc != nvrtc);
}

/* A library that is not a compiler would be accepted. */
static void other_libraries_are_refused(void) {
  cch_nvrtc *no_nvrtc = NULL;
  cch_nvvm *no_nvvm = NULL;
  cch_nvjitlink *no_nvjitlink = NULL;
  /* Not libm, which sanitizers have loaded: opening it again is a leak in glibc. */
  void *other = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
  FAILS(CCH_ENOCOMPILER, cch_nvrtc_wrap(&no_nvrtc, other));
  CHECK_HAS(check_error()->message, "not NVRTC: it has no nvrtcCreateProgram");
  FAILS(CCH_ENOCOMPILER, cch_nvvm_wrap(&no_nvvm, other));
  CHECK_HAS(check_error()->message, "not libNVVM");
  FAILS(CCH_ENOCOMPILER, cch_nvjitlink_wrap(&no_nvjitlink, other));
  CHECK_HAS(check_error()->message, "not nvJitLink");
  FAILS(CCH_EINVAL, cch_nvvm_wrap(&no_nvvm, NULL));
  CHECK(no_nvrtc == NULL && no_nvvm == NULL && no_nvjitlink == NULL);
  dlclose(other);
}

/* NVRTC, which opens its builtins library without a path, would not find the library in NVRTC's own folder. */
static void builtins_are_found(void) {
  const char *name = "libnvrtc-builtins.so.12.1";
  cch_nvrtc *found = NULL;
  CHECK(dlopen(name, RTLD_NOW | RTLD_NOLOAD) == NULL);
  OK(cch_nvrtc_wrap(&found, dlopen(getenv("FAKE_NVRTC"), RTLD_NOW | RTLD_LOCAL)));
  void *builtins = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  CHECK(builtins != NULL);
  dlclose(builtins);
}

/* The version of a compiler would not be reported, or would be reported incorrectly. */
static void versions(void) {
  int major, minor, debug_major, debug_minor, llvm;
  OK(cch_nvrtc_version(&major, &minor, nvrtc));
  CHECK_EQ(100 * major + minor, 1201);
  OK(cch_nvvm_version(&major, &minor, nvvm));
  CHECK_EQ(100 * major + minor, 200);
  OK(cch_nvvm_ir_version(&major, &minor, &debug_major, &debug_minor, nvvm));
  CHECK_EQ(1000 * major + 100 * minor + 10 * debug_major + debug_minor, 2134);
  OK(cch_nvvm_llvm_version(&llvm, nvvm, "compute_100"));
  CHECK_EQ(llvm, 20);
  OK(cch_nvjitlink_version(&major, &minor, nvjitlink));
  CHECK_EQ(100 * major + minor, 1302);
  OK(cch_nvjitlink_version(&major, &minor, old_nvjitlink)); /* nvJitLink 12.1 has no nvJitLinkVersion() */
  CHECK_EQ(100 * major + minor, 1201);
}

/* A failure of the library's function, whatever its code, would be reported as a missing function. */
static void failures_of_versions(void) {
  int major = 7, minor = 7;
  compiler_result(-1);
  FAILS(CCH_ECOMPILER, cch_nvrtc_version(&major, &minor, nvrtc));
  CHECK_EQ(check_error()->code, -1);
  CHECK_STR(check_error()->operation, "nvrtcVersion");
  FAILS(CCH_ECOMPILER, cch_nvvm_version(&major, &minor, nvvm));
  CHECK_EQ(check_error()->domain, CCH_DOMAIN_NVVM);
  compiler_result(0);
  CHECK(major == 7 && minor == 7);
}

/* The list of architectures would be written beyond the end of the caller's array. */
static void architectures(void) {
  int out[2] = {0, 0};
  size_t count = 0;
  OK(cch_nvrtc_architectures(NULL, &count, nvrtc));
  CHECK_EQ(count, 2);
  count = 1;
  FAILS(CCH_EINVAL, cch_nvrtc_architectures(out, &count, nvrtc));
  CHECK_EQ(out[0], 0);
  count = 2;
  OK(cch_nvrtc_architectures(out, &count, nvrtc));
  CHECK(out[0] == 80 && out[1] == 90);
}

/* NVRTC would be called for an output that it did not generate, and could crash. */
static void empty_output_is_not_fetched(void) {
  static const char *const options[] = {"-arch=compute_90", "-dlto"};
  cch_nvrtc_program *program = nvrtc_program("source");
  char out[8];
  size_t size = sizeof out;
  OK(cch_nvrtc_program_compile(program, 2, options));
  OK(cch_nvrtc_program_get(out, &size, program, CCH_NVRTC_CUBIN));
  CHECK_EQ(size, 0);
  size = sizeof out;
  OK(cch_nvrtc_program_get(out, &size, program, CCH_NVRTC_LTOIR));
  CHECK(size == 5 && memcmp(out, "ltoir", 5) == 0);
  cch_nvrtc_program_unref(program);
}

/*
 * CHECK_OUTPUT checks that `get` returns the given text as an output of `program`; CHECK_NO_OUTPUT, that it returns
 * nothing.
 */
#define CHECK_OUTPUT(get, program, output, text)                                                                       \
  do {                                                                                                                 \
    char out[128];                                                                                                     \
    size_t size = sizeof out;                                                                                          \
    OK(get(out, &size, program, output));                                                                              \
    CHECK_STR(out, text);                                                                                              \
  } while (0)
#define CHECK_NO_OUTPUT(get, program, output)                                                                          \
  do {                                                                                                                 \
    char out[128];                                                                                                     \
    size_t size = sizeof out;                                                                                          \
    OK(get(out, &size, program, output));                                                                              \
    CHECK_EQ(size, 0);                                                                                                 \
  } while (0)

/* nvJitLink's inputs would be lost, or an old version, whose functions have other names, would not be usable. */
static void nvjitlink_links(void) {
  static const char *const options[] = {"-arch=sm_90"};
  cch_nvjitlink *each[] = {nvjitlink, old_nvjitlink};
  for (int i = 0; i < 2; i++) {
    cch_nvjitlink_linker *linker = NULL;
    char out[64];
    size_t size = sizeof out;
    OK(cch_nvjitlink_linker_create(&linker, each[i], 1, options));
    OK(cch_nvjitlink_linker_add(linker, CCH_NVJITLINK_PTX, "ptx", 3, "a"));
    OK(cch_nvjitlink_linker_add(linker, CCH_NVJITLINK_LTOIR, "ltoir", 5, NULL));
    OK(cch_nvjitlink_linker_link(linker));
    CHECK_OUTPUT(cch_nvjitlink_linker_get, linker, CCH_NVJITLINK_LINKED_CUBIN, "linked ptx(2 a)ltoir(3 no name)");
    CHECK_OUTPUT(cch_nvjitlink_linker_get, linker, CCH_NVJITLINK_INFO_LOG, "info");
    CHECK_NO_OUTPUT(cch_nvjitlink_linker_get, linker, CCH_NVJITLINK_ERROR_LOG);
    FAILS(CCH_EINVAL, cch_nvjitlink_linker_get(out, &size, linker, 99));
    if (i == 0) {
      CHECK_OUTPUT(cch_nvjitlink_linker_get, linker, CCH_NVJITLINK_LINKED_LTOIR, "linked ptx(2 a)ltoir(3 no name)");
    } else {
      FAILS(CCH_ENOSYMBOL, cch_nvjitlink_linker_get(out, &size, linker, CCH_NVJITLINK_LINKED_LTOIR));
      CHECK_STR(check_error()->message, "needs nvJitLink of CUDA 13.2 or newer; the loaded one has version 12.1");
    }
    cch_nvjitlink_linker_unref(linker);
  }
}

/*
 * If an old library lacks a function, other functions would be disabled, or the error would not name the missing one.
 */
static void old_libraries_do_without(void) {
  cch_nvrtc_program *program = NULL;
  char out[64];
  size_t size = sizeof out;
  int status;
  OK(cch_nvrtc_program_create(&program, old_nvrtc, "source", "name", 0, NULL, NULL));
  OK(cch_nvrtc_program_compile(program, 0, NULL));
  OK(cch_nvrtc_program_get(out, &size, program, CCH_NVRTC_PTX));
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_program_get(out, &size, program, CCH_NVRTC_OPTIXIR));
  CHECK_STR(check_error()->operation, "nvrtcGetOptiXIR");
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_program_pch_status(&status, program));
  CHECK_STR(check_error()->message, "needs NVRTC of CUDA 12.8 or newer; the loaded one has version 12.1");
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_program_pch_heap(&size, program));
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_pch_heap(&size, old_nvrtc));
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_set_pch_heap(old_nvrtc, 1));
  FAILS(CCH_ENOSYMBOL, cch_nvvm_llvm_version(&status, old_nvvm, "compute_90"));
  cch_nvrtc_program_unref(program);
}

static void *cancel_soon(void *program) {
  usleep(20000);
  OK(cch_nvrtc_program_cancel(program));
  return NULL;
}

/* A compilation that is no longer needed could not be cancelled by another thread, or before it begins. */
static void compilations_are_cancelled(void) {
  int before = programs();
  cch_nvrtc_program *program = nvrtc_program("endless");
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, cancel_soon, program), 0);
  FAILS(CCH_ECOMPILER, cch_nvrtc_program_compile(program, 0, NULL));
  CHECK_STR(check_error()->message, "NVRTC_ERROR_CANCELLED: the compilation was cancelled");
  pthread_join(thread, NULL);
  cch_nvrtc_program_unref(program);
  program = nvrtc_program("endless");
  OK(cch_nvrtc_program_cancel(program));
  FAILS(CCH_ECOMPILER, cch_nvrtc_program_compile(program, 0, NULL));
  cch_nvrtc_program_unref(program);
  OK(cch_nvrtc_program_create(&program, old_nvrtc, "source", "name", 0, NULL, NULL));
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_program_cancel(program));
  CHECK_STR(check_error()->message, "needs NVRTC of CUDA 12.8 or newer; the loaded one has version 12.1");
  OK(cch_nvrtc_program_compile(program, 0, NULL));
  cch_nvrtc_program_unref(program);
  program = NULL;
  FAILS(CCH_ECOMPILER, cch_nvrtc_program_create(&program, nvrtc, "no callback", "name", 0, NULL, NULL));
  CHECK(program == NULL);
  CHECK_STR(check_error()->operation, "nvrtcSetFlowCallback");
  CHECK_EQ(programs(), before);
}

/* A program would be destroyed while it is referenced, be destroyed twice, or never. */
static void programs_are_destroyed_once(void) {
  static const char *const options[] = {"-arch=sm_90"};
  cch_nvrtc_program *program = nvrtc_program("source");
  cch_nvvm_program *module;
  cch_nvjitlink_linker *linker;
  int before = destroyed();
  OK(cch_nvvm_program_create(&module, nvvm));
  OK(cch_nvjitlink_linker_create(&linker, nvjitlink, 1, options));
  CHECK(cch_nvrtc_program_raw(program) != NULL && cch_nvvm_program_raw(module) != NULL);
  CHECK(cch_nvjitlink_linker_raw(linker) != NULL);
  CHECK(cch_nvrtc_program_ref(program) == program);
  CHECK(cch_nvvm_program_ref(module) == module);
  CHECK(cch_nvjitlink_linker_ref(linker) == linker);
  for (int i = 0; i < 2; i++) {
    CHECK_EQ(destroyed(), before);
    CHECK_EQ(cch_live_count(CCH_KIND_NVRTC_PROGRAM), 1);
    CHECK_EQ(cch_live_count(CCH_KIND_NVVM_PROGRAM), 1);
    CHECK_EQ(cch_live_count(CCH_KIND_NVJITLINK_LINKER), 1);
    cch_nvrtc_program_unref(program);
    cch_nvvm_program_unref(module);
    cch_nvjitlink_linker_unref(linker);
  }
  CHECK_EQ(destroyed(), before + 3);
}

/* Compiling would need a driver. */
static void no_driver_is_needed(void) {
  char *path = strdup(getenv("CUDACORE_DRIVER"));
  setenv("CUDACORE_DRIVER", "libno-such-driver.so.1", 1);
  cch_nvrtc_program *program = nvrtc_program("source");
  OK(cch_nvrtc_program_compile(program, 0, NULL));
  cch_nvrtc_program_unref(program);
  setenv("CUDACORE_DRIVER", path, 1);
  free(path);
  CHECK_EQ(sim.calls(NULL), 0);
}

static cch_error reported;
static void report(const cch_error *error) { reported = *error; }

/* The failure of a compiler to destroy its program would not be reported. */
static void failure_is_reported(void) {
  cch_nvrtc_program *program = nvrtc_program("source");
  compiler_result(4);
  cch_error_set_report(report);
  cch_nvrtc_program_unref(program);
  cch_error_set_report(NULL);
  compiler_result(0);
  CHECK_STR(reported.operation, "nvrtcDestroyProgram");
  CHECK_EQ(reported.domain, CCH_DOMAIN_NVRTC);
  CHECK_HAS(reported.message, "NVRTC_ERROR_INVALID_PROGRAM");
}

/* cch_unref_deferred() would destroy a program at once, or never. */
static void dropped_in_a_callback(void) {
  cch_nvrtc_program *program = nvrtc_program("source");
  int before = destroyed();
  cch_unref_deferred(program);
  CHECK_EQ(destroyed(), before);
  cch_reclaim_drain();
  CHECK_EQ(destroyed(), before + 1);
}

/* A forked child would call the compiler, although a thread of the parent may have held one of the compiler's locks. */
static void child_leaves_inherited_programs_alone(void) {
  int count;
  OK(cch_device_count(&count));
  cch_nvrtc_program *program = nvrtc_program("source");
  pid_t child = fork();
  if (child == 0) {
    int before = destroyed();
    cch_nvrtc_program_unref(program);
    _exit(destroyed() == before ? 0 : 1);
  }
  if (child < 0 && errno == ENOMEM) {
    puts("  left out: there is no memory for what ThreadSanitizer maps, twice");
    cch_nvrtc_program_unref(program);
    return;
  }
  CHECK(child > 0);
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  cch_nvrtc_program_unref(program);
}

int main(void) {
  check_open();
  open();
  RUN(libraries_are_found_once);
  RUN(no_driver_is_needed);
  RUN(other_libraries_are_refused);
  RUN(builtins_are_found);
  RUN(versions);
  RUN(failures_of_versions);
  RUN(architectures);
  RUN(empty_output_is_not_fetched);
  RUN(nvjitlink_links);
  RUN(old_libraries_do_without);
  RUN(compilations_are_cancelled);
  RUN(programs_are_destroyed_once);
  RUN(failure_is_reported);
  RUN(dropped_in_a_callback);
  RUN(child_leaves_inherited_programs_alone);
  return 0;
}
