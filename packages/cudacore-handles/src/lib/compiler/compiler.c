/* SPDX-License-Identifier: Apache-2.0 */
/* Loads compiler libraries, reports their failures, and destroys their programs. */
#define _GNU_SOURCE
#include "compiler/compiler.h"
#include "driver/driver_table.h"

#include <cudacore_internal/base.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The loaded libraries. The list is short: entries are only prepended, and are searched under the lock. */
static struct cch__compiler *loaded;
static pthread_mutex_t loaded_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(void) { pthread_mutex_lock(&loaded_lock); }
static void unlock(void) { pthread_mutex_unlock(&loaded_lock); }

atomic_int cch__compiler_calls;
atomic_bool cch__compilers_end;

void cch_compilers_finish(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  atomic_store(&cch__compilers_end, true);
  while (atomic_load(&cch__compiler_calls) > 0)
    nanosleep(&pause, NULL);
  atomic_store(&cch__compilers_end, false);
}

/* The threads that call compilers do not exist in a forked child. */
static void unlock_in_child(void) {
  atomic_store(&cch__compiler_calls, 0);
  unlock();
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(lock, unlock, unlock_in_child); }

static struct cch__compiler *find_loaded(const cch__compiler_type *type, void *handle) {
  for (struct cch__compiler *compiler = loaded; compiler != NULL; compiler = compiler->next)
    if (compiler->type == type && compiler->handle == handle)
      return compiler;
  return NULL;
}

void *cch__compiler_symbol(const struct cch__compiler *compiler, const char *name) {
  return compiler->symbol != NULL ? compiler->symbol(compiler->handle, name, NULL) : dlsym(compiler->handle, name);
}

static void fill(struct cch__compiler *compiler) {
  const cch__compiler_type *type = compiler->type;
  for (size_t i = 0; i < type->count; i++) {
    void *function = cch__compiler_symbol(compiler, type->entries[i].name);
    memcpy((char *)compiler + type->entries[i].offset, &function, sizeof function);
  }
  if (type->complete != NULL)
    type->complete(compiler);
}

static bool has(const struct cch__compiler *compiler, size_t index) {
  void *function;
  memcpy(&function, (const char *)compiler + compiler->type->entries[index].offset, sizeof function);
  return function != NULL;
}

int cch__compiler_wrap(void *out, const cch__compiler_type *type, void *handle, const char *operation) {
  struct cch__compiler *made = calloc(1, type->size);
  if (made == NULL)
    return cch__fail_nomem(operation);
  made->type = type;
  made->handle = handle;
  const cch__driver_hooks *hooks = cch__driver_find_hooks();
  made->symbol = hooks != NULL ? hooks->symbol : NULL;
  fill(made);
  /* The first two functions create and destroy a program. A library is of this type if it has both. */
  for (size_t i = 0; i < 2; i++)
    if (!has(made, i)) {
      free(made);
      return cch__fail(CCH_ENOCOMPILER, operation, "the library is not %s: it has no %s", type->title,
                       type->entries[i].name);
    }
  lock();
  struct cch__compiler *compiler = find_loaded(type, handle);
  if (compiler == NULL) {
    compiler = made;
    compiler->next = loaded;
    loaded = compiler;
    made = NULL;
  }
  unlock();
  free(made);
  memcpy(out, &compiler, sizeof compiler);
  return 0;
}

int cch__fail_compiler_argument(const void *argument, const cch__compiler_type *wanted, const char *name,
                                const char *operation) {
  return cch__fail(CCH_EINVAL, operation,
                   argument == NULL ? "the argument %s is NULL" : "the argument %s is not a loaded %s", name,
                   wanted->title);
}

int cch__fail_compiler(const void *compiler, int result, const char *operation) {
  return cch__fail_in(((const struct cch__compiler *)compiler)->type->domain, result, operation);
}

int cch__fail_compiler_missing(const void *opaque, const char *operation) {
  const struct cch__compiler *compiler = opaque;
  const cch__compiler_type *type = compiler->type;
  int needed = 0, result, major, minor;
  for (size_t i = 0; i < type->count; i++)
    if (strcmp(type->entries[i].name, operation) == 0)
      needed = type->entries[i].version;
  if (!type->version(&result, &major, &minor, compiler) || result != 0)
    return cch__fail(CCH_ENOSYMBOL, operation, "needs %s of CUDA %d.%d or newer", type->title, needed / 1000,
                     needed % 1000 / 10);
  return cch__fail(CCH_ENOSYMBOL, operation, "needs %s of CUDA %d.%d or newer; the loaded one has version %d.%d",
                   type->title, needed / 1000, needed % 1000 / 10, major, minor);
}

int cch__compiler_version(int *major, int *minor, const void *opaque, const char *operation) {
  const struct cch__compiler *compiler = opaque;
  int result, found[2];
  if (!compiler->type->version(&result, &found[0], &found[1], compiler))
    return cch__fail_compiler_missing(compiler, operation);
  CCH__RETURN_FAILURE(cch__compiled(compiler, result, operation));
  *major = found[0];
  *minor = found[1];
  return 0;
}

cch__program *cch__program_new(cch_kind kind, const void *compiler, int (*destroy)(void *raw), const char *destroyer,
                               const char *operation) {
  cch__program *program = cch__box_new(kind, sizeof *program, operation);
  if (program != NULL) {
    program->compiler = compiler;
    program->destroy = destroy;
    program->destroyer = destroyer;
  }
  return program;
}

typedef int (*size_fn)(void *raw, size_t *size);
typedef int (*bytes_fn)(void *raw, char *bytes);

int cch__program_get(void *out, size_t *size, const cch__program *program, int output, const char *operation) {
  const struct cch__compiler *compiler = program->compiler;
  if (output < 0 || output >= compiler->type->output_count)
    return cch__fail(CCH_EINVAL, operation, "%d is not an output of %s", output, compiler->type->title);
  const cch__output *wanted = &compiler->type->outputs[output];
  size_fn size_of;
  bytes_fn bytes_of;
  memcpy(&size_of, (const char *)compiler + wanted->size_offset, sizeof size_of);
  memcpy(&bytes_of, (const char *)compiler + wanted->bytes_offset, sizeof bytes_of);
  if (size_of == NULL || bytes_of == NULL)
    return cch__fail_compiler_missing(compiler, wanted->bytes_name);
  size_t there = 0;
  int status = cch__compiled(compiler, size_of(program->raw, &there), wanted->size_name);
  if (status != 0)
    return status;
  if (out != NULL && *size < there)
    return cch__fail(CCH_EINVAL, operation, "the buffer has %zu bytes, and the output has %zu", *size, there);
  /* For an empty output, libraries fail or write a NUL, so the library is not called. */
  if (out != NULL && there > 0)
    status = cch__compiled(compiler, bytes_of(program->raw, out), wanted->bytes_name);
  if (status == 0)
    *size = there;
  return status;
}

/* Compilers own only host memory, so this needs neither the driver nor a context. */
bool cch__program_destroy(cch__program *program) {
  if (program->raw == NULL)
    return true;
  cch__report(cch__compiled(program->compiler, program->destroy(&program->raw), program->destroyer));
  return true;
}
