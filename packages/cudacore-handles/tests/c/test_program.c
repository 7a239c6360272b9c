/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler programs: adopted, destroyed once, by the library that made them, with no driver at all. */
#include "check.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static void *compiler;
static int (*nvrtc_destroyed)(void);
static int (*nvvm_destroyed)(void);
static void (*compiler_result)(int);

static void open(void) {
  compiler = dlopen(getenv("FAKE_COMPILER"), RTLD_NOW | RTLD_LOCAL);
  CHECK(compiler != NULL);
  void *entry = dlsym(compiler, "fake_nvrtc_destroyed");
  memcpy(&nvrtc_destroyed, &entry, sizeof entry);
  entry = dlsym(compiler, "fake_nvvm_destroyed");
  memcpy(&nvvm_destroyed, &entry, sizeof entry);
  entry = dlsym(compiler, "fake_compiler_result");
  memcpy(&compiler_result, &entry, sizeof entry);
}

/* A program is destroyed under somebody who still holds it, twice, or never. */
static void program_is_destroyed_once(void) {
  int dummy;
  cch_nvrtc_program *nvrtc;
  cch_nvvm_program *nvvm;
  int before = nvrtc_destroyed(), nvvm_before = nvvm_destroyed();
  OK(cch_nvrtc_program_adopt(&nvrtc, (nvrtcProgram)&dummy, compiler));
  OK(cch_nvvm_program_adopt(&nvvm, (nvvmProgram)&dummy, compiler));
  CHECK_PTR(cch_nvrtc_program_raw(nvrtc), &dummy);
  CHECK_PTR(cch_nvvm_program_raw(nvvm), &dummy);
  CHECK(cch_nvrtc_program_ref(nvrtc) == nvrtc);
  CHECK(cch_nvvm_program_ref(nvvm) == nvvm);
  cch_nvrtc_program_unref(nvrtc);
  cch_nvvm_program_unref(nvvm);
  CHECK_EQ(nvrtc_destroyed(), before);
  CHECK_EQ(cch_live_count(CCH_KIND_NVRTC_PROGRAM), 1);
  CHECK_EQ(cch_live_count(CCH_KIND_NVVM_PROGRAM), 1);
  cch_nvrtc_program_unref(nvrtc);
  cch_nvvm_program_unref(nvvm);
  CHECK_EQ(nvrtc_destroyed(), before + 1);
  CHECK_EQ(nvvm_destroyed(), nvvm_before + 1);
}

/* Compiling needs a driver. */
static void no_driver_is_needed(void) {
  int dummy;
  char *path = strdup(getenv("CUDACORE_DRIVER"));
  cch_nvrtc_program *program;
  setenv("CUDACORE_DRIVER", "libno-such-driver.so.1", 1);
  OK(cch_nvrtc_program_adopt(&program, (nvrtcProgram)&dummy, compiler));
  cch_nvrtc_program_unref(program);
  setenv("CUDACORE_DRIVER", path, 1);
  free(path);
  CHECK_EQ(fake_calls(NULL), 0);
}

/* A library that is no compiler is taken for one. */
static void other_library_is_refused(void) {
  int dummy;
  cch_nvrtc_program *nvrtc = NULL;
  cch_nvvm_program *nvvm = NULL;
  void *other = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  CHECK(other != NULL);
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_program_adopt(&nvrtc, (nvrtcProgram)&dummy, other));
  CHECK_HAS(check_error()->message, "nvrtcDestroyProgram");
  FAILS(CCH_ENOSYMBOL, cch_nvvm_program_adopt(&nvvm, (nvvmProgram)&dummy, other));
  CHECK_HAS(check_error()->message, "nvvmDestroyProgram");
  FAILS(CCH_ENOSYMBOL, cch_nvrtc_program_adopt(&nvrtc, (nvrtcProgram)&dummy, NULL));
  CHECK(nvrtc == NULL && nvvm == NULL);
  dlclose(other);
}

static cch_error reported;
static void report(const cch_error *error) { reported = *error; }

/* A compiler that cannot destroy its program is not heard of. */
static void failure_is_reported(void) {
  int dummy;
  cch_nvrtc_program *program;
  OK(cch_nvrtc_program_adopt(&program, (nvrtcProgram)&dummy, compiler));
  compiler_result(4);
  cch_error_set_report(report);
  cch_nvrtc_program_unref(program);
  cch_error_set_report(NULL);
  compiler_result(0);
  CHECK_STR(reported.operation, "nvrtcDestroyProgram");
  CHECK_HAS(reported.message, "4");
}

/* A program that is dropped in a CUDA callback is destroyed there and then, or never. */
static void dropped_in_a_callback(void) {
  int dummy, before = nvrtc_destroyed();
  cch_nvrtc_program *program;
  OK(cch_nvrtc_program_adopt(&program, (nvrtcProgram)&dummy, compiler));
  cch_unref_deferred(program);
  cch_reclaim_drain();
  CHECK_EQ(nvrtc_destroyed(), before + 1);
}

static void work(int index, void *argument) {
  (void)argument;
  for (int i = 0; i < 1000; i++) {
    cch_nvrtc_program *program;
    OK(cch_nvrtc_program_adopt(&program, (nvrtcProgram)&index, compiler));
    cch_nvrtc_program_unref(cch_nvrtc_program_ref(program));
    cch_nvrtc_program_unref(program);
  }
}

/* Threads that compile at once lose programs or counts. */
static void threads_compile_at_once(void) {
  int before = nvrtc_destroyed();
  check_threads(4, work, NULL);
  CHECK_EQ(nvrtc_destroyed(), before + 4000);
}

/* A forked child enters the compiler, a lock of which another thread of the parent may have held. */
static void child_leaves_inherited_programs_alone(void) {
  int dummy, count;
  cch_nvrtc_program *program;
  OK(cch_device_count(&count));
  OK(cch_nvrtc_program_adopt(&program, (nvrtcProgram)&dummy, compiler));
  pid_t child = fork();
  if (child == 0) {
    int before = nvrtc_destroyed();
    cch_nvrtc_program_unref(program);
    _exit(nvrtc_destroyed() == before ? 0 : 1);
  }
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  cch_nvrtc_program_unref(program);
}

int main(void) {
  check_open();
  open();
  RUN(no_driver_is_needed);
  RUN(program_is_destroyed_once);
  RUN(other_library_is_refused);
  RUN(failure_is_reported);
  RUN(dropped_in_a_callback);
  RUN(threads_compile_at_once);
  RUN(child_leaves_inherited_programs_alone);
  dlclose(compiler);
  return 0;
}
