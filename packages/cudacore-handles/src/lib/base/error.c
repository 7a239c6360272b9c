/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last failure, and reports of failures in destructors. */
#include "base/arguments.h"

#include "compiler/compiler.h"
#include "driver/driver_table.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local cch_error last_error;

/*
 * A garbage collection can run destructors between a failing call and the caller's query of its error. So their
 * failures are recorded separately.
 */
static _Thread_local cch_error destructor_error;
static _Thread_local unsigned destructors;

void cch__destructor_enter(void) { destructors++; }

void cch__destructor_leave(void) { destructors--; }

void cch__owner_enter(cch__errors *saved) {
  saved->last = last_error;
  saved->destructors = destructors;
  destructors = 0;
  cch_error_clear();
}

void cch__owner_leave(const cch__errors *saved) {
  last_error = saved->last;
  destructors = saved->destructors;
}

static cch_error *record(void) { return destructors ? &destructor_error : &last_error; }

const cch_error *cch_error_last(void) { return &last_error; }

void cch_error_restore(const cch_error *error) {
  if (error != NULL)
    last_error = *error;
}

void cch_error_clear(void) { memset(&last_error, 0, sizeof last_error); }

static cch_error *fill(int domain, int code, const char *operation) {
  cch_error *error = record();
  error->node = NULL;
  error->domain = domain;
  error->code = code;
  snprintf(error->operation, sizeof error->operation, "%s", operation);
  return error;
}

int cch__fail(int code, const char *operation, const char *format, ...) {
  cch_error *error = fill(CCH_DOMAIN_HANDLES, code, operation);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  /* Messages are one line, but messages of the dynamic linker, and names from callers, can contain line breaks. */
  for (char *c = error->message; *c != '\0'; c++)
    if (*c == '\n')
      *c = ' ';
  return code;
}

int cch__fail_nomem(const char *operation) { return cch__fail(CCH_ENOMEM, operation, "out of host memory"); }

int cch__fail_driver(int result, const char *operation) {
  if (result == CUDA_ERROR_NOT_READY)
    return result;
  if (result == CCH_ENOSYMBOL) /* a function in older_driver.c needs a driver function that is missing */
    return cch__fail_missing(operation);
  operation = cch__really_called(operation);
  cch_error *error = fill(CCH_DOMAIN_DRIVER, result, operation);
  snprintf(error->message, sizeof error->message, "%s", cch_error_string(result));
  return result;
}

int cch__fail_in(cch_domain domain, int result, const char *operation) {
  cch_error *error = fill(domain, result, operation);
  snprintf(error->message, sizeof error->message, "%s: %s", cch_error_name_in(domain, result),
           cch_error_string_in(domain, result));
  return CCH_ECOMPILER;
}

void cch__fail_explain(const char *why) {
  char *message = record()->message;
  size_t length = strlen(message);
  snprintf(message + length, sizeof record()->message - length, "%s%s", length > 0 ? ": " : "", why);
}

void cch__fail_at_node(void *node) { record()->node = node; }

static const struct {
  int code;
  const char *name, *meaning;
} own_codes[] = {
    {CCH_OK, "CCH_OK", "no error"},
    {CCH_ENOMEM, "CCH_ENOMEM", "out of host memory"},
    {CCH_EINVAL, "CCH_EINVAL", "an argument is not valid"},
    {CCH_ENODRIVER, "CCH_ENODRIVER", "the CUDA driver cannot be loaded"},
    {CCH_ENOSYMBOL, "CCH_ENOSYMBOL", "the loaded library lacks an entry point"},
    {CCH_EFORKED, "CCH_EFORKED", "CUDA cannot be used in a process forked after it was initialised"},
    {CCH_EIMAGE, "CCH_EIMAGE", "the module image is truncated or of no known format"},
    {CCH_EMISMATCH, "CCH_EMISMATCH", "objects or arguments do not fit together"},
    {CCH_EGONE, "CCH_EGONE", "the resource was destroyed by its owner"},
    {CCH_ECOMPILER, "CCH_ECOMPILER", "the compiler library refused"},
    {CCH_ELIMIT, "CCH_ELIMIT", "the allocation would exceed a limit"},
};

const char *cch_error_name(int code) {
  for (size_t i = 0; i < sizeof own_codes / sizeof *own_codes; i++)
    if (own_codes[i].code == code)
      return own_codes[i].name;
  const char *name = cch__driver_error_name(code);
  return name ? name : "CUDA_ERROR_UNRECOGNIZED";
}

const char *cch_error_string(int code) {
  for (size_t i = 0; i < sizeof own_codes / sizeof *own_codes; i++)
    if (own_codes[i].code == code)
      return own_codes[i].meaning;
  const char *meaning = cch__driver_error_string(code);
  return meaning ? meaning : "unrecognized error code";
}

const char *cch_error_name_in(int domain, int code) {
  const char *name = cch__compiler_result(domain, code, NULL);
  return name != NULL ? name : cch_error_name(code);
}

const char *cch_error_string_in(int domain, int code) {
  const char *meaning = NULL;
  cch__compiler_result(domain, code, &meaning);
  return meaning != NULL ? meaning : cch_error_string(code);
}

static void report_to_stderr(const cch_error *error) {
  fprintf(stderr, "cudacore: %s failed while an object was being destroyed: %s: %s\n", error->operation,
          cch_error_name_in(error->domain, error->code), error->message);
}

static _Atomic(cch_report_fn) report = report_to_stderr;

void cch_error_set_report(cch_report_fn function) { atomic_store(&report, function ? function : report_to_stderr); }

int cch__report(int status) {
  /*
   * At exit the driver shuts down before this library. Its resources no longer exist then, as after a context was
   * reset.
   */
  if (status == 0 || status == CUDA_ERROR_DEINITIALIZED || status == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
      status == CCH_EGONE)
    return status;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct {
    int code;
    char operation[sizeof last_error.operation];
  } seen[256];
  static size_t count;
  cch_error error = *record(); /* the function that reports can fail itself */
  bool known = false;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && !known; i++)
    known = seen[i].code == error.code && strcmp(seen[i].operation, error.operation) == 0;
  if (!known && count < sizeof seen / sizeof *seen) {
    seen[count].code = error.code;
    memcpy(seen[count].operation, error.operation, sizeof error.operation);
    count++;
  } else {
    known = true; /* when the table is full, further failures are not reported */
  }
  pthread_mutex_unlock(&lock);
  if (!known)
    atomic_load (&report)(&error);
  return status;
}

int cch__read_sized(void *into, size_t known, const void *given, size_t size, size_t oldest, const char *name,
                    const char *operation) {
  if (size < oldest)
    return cch__fail(CCH_EINVAL, operation, "the size of the %s is %zu, and no %s has less than %zu bytes", name, size,
                     name, oldest);
  for (size_t i = known; i < size; i++)
    if (((const unsigned char *)given)[i] != 0)
      return cch__fail(CCH_EINVAL, operation, "the %s has fields that this version of the library does not have", name);
  memset(into, 0, known);
  memcpy(into, given, size < known ? size : known);
  return 0;
}
