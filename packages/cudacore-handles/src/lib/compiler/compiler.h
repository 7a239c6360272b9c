/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_COMPILER_H
#define CUDACORE_COMPILER_H

/* Shared by the compiler libraries: loading, functions, failures, and the boxes of programs. */

#include "base/kinds.h"

/* A function of a library: the offset of its pointer in the table, and the first version that has it. */
typedef struct cch__entry {
  const char *name;
  size_t offset;
  int version; /* a CUDA version, 1000 * major + 10 * minor */
} cch__entry;

/* The two functions that read an output: their offsets in the table, and their names. */
typedef struct cch__output {
  size_t size_offset, bytes_offset;
  const char *size_name, *bytes_name;
} cch__output;

/*
 * Describes a compiler library. The table of a loaded library begins with a cch__compiler, and has its function
 * pointers after it.
 */
typedef struct cch__compiler_type {
  const char *title;
  cch_domain domain;
  const cch__entry *entries;
  size_t count, size;
  const cch__output *outputs; /* indexed by the output numbers of the public header */
  int output_count;
  /* Does anything else that loading the library requires, after its functions were looked up by name. May be NULL. */
  void (*complete)(void *table);
  /*
   * Gets the version from the library, and the result of the call. False if the library lacks a function that returns
   * its version.
   */
  bool (*version)(int *result, int *major, int *minor, const void *table);
} cch__compiler_type;

/*
 * A loaded compiler library. It is never freed and never closed, because destroying the box of a program or a linker
 * calls it.
 */
struct cch__compiler {
  const cch__compiler_type *type;
  void *handle;
  /* The driver's replacement for dlsym, if it has one; else NULL. */
  void *(*symbol)(void *library, const char *name, void *(*look_up)(void *, const char *));
  struct cch__compiler *next;
};

/*
 * The source file for a compiler defines `library`, the structure of its function table, and `type`, an object of type
 * cch__compiler_type. From the list of the library's functions, these macros make the fields of the table, the rows of
 * `entries` and `outputs`, and the fields of `type` that describe the table. All functions return a result code.
 */
#define CCH__COMPILER_FIELD(name, version, parameters) int(*name) parameters;
#define CCH__COMPILER_ENTRY(name, version, parameters) {#name, offsetof(library, name), version},
#define CCH__OUTPUT(function)                                                                                          \
  {offsetof(library, function##Size), offsetof(library, function), #function "Size", #function}
#define CCH__COMPILER_TABLE(list, list_of_outputs)                                                                     \
  .entries = (list), .count = sizeof(list) / sizeof *(list), .size = sizeof(library), .outputs = (list_of_outputs),    \
  .output_count = sizeof(list_of_outputs) / sizeof *(list_of_outputs)

/*
 * Looks up a function of a compiler library. A driver can replace some of them.
 */
void *cch__compiler_symbol(const struct cch__compiler *compiler, const char *name);
int cch__compiler_wrap(void *out, const cch__compiler_type *type, void *handle, const char *operation);
int cch__compiler_version(int *major, int *minor, const void *compiler, const char *operation);

/* Record that a function of a compiler library failed, or that the library lacks the function. */
int cch__fail_compiler(const void *compiler, int result, const char *operation);
int cch__fail_compiler_missing(const void *compiler, const char *operation);
static inline int cch__compiled(const void *compiler, int result, const char *operation) {
  return result == 0 ? 0 : cch__fail_compiler(compiler, result, operation);
}

/* Records that an argument is NULL, or not a loaded library of the wanted type. */
int cch__fail_compiler_argument(const void *argument, const cch__compiler_type *type, const char *name,
                                const char *operation);

/* Checks an argument that is a loaded library, like the macros of arguments.h. */
#define CCH__REQUIRE_COMPILER(argument)                                                                                \
  do {                                                                                                                 \
    if ((argument) == NULL || (argument)->base.type != &type)                                                          \
      return cch__fail_compiler_argument(argument, &type, #argument, __func__);                                        \
  } while (0)

/* Defines the functions wrap and version of a compiler. */
#define CCH__DEFINE_COMPILER(name, version_function)                                                                   \
  cch_status cch_##name##_wrap(cch_##name **out, void *handle) {                                                       \
    CCH__REQUIRE(out, handle);                                                                                         \
    return cch__compiler_wrap(out, &type, handle, __func__);                                                           \
  }                                                                                                                    \
  cch_status cch_##name##_version(int *major, int *minor, cch_##name *name) {                                          \
    CCH__REQUIRE(major, minor);                                                                                        \
    CCH__REQUIRE_COMPILER(name);                                                                                       \
    return cch__compiler_version(major, minor, name, version_function);                                                \
  }

/* The calls of compilers that run now. At its end, the process waits for them: see cch_compilers_finish(). */
extern atomic_int cch__compiler_calls;
/* Whether the process waits for the calls that still run, and whose results nobody can get any more. */
extern atomic_bool cch__compilers_end;

/* Calls a compiler: CCH__COMPILER_CALL(nvrtc, nvrtcVersion, (major, minor)) is 0 or a recorded failure. */
#define CCH__COMPILER_CALL(table, name, arguments)                                                                     \
  __extension__({                                                                                                      \
    int result_of_##name = 0;                                                                                          \
    const bool has_##name = (table)->name != NULL;                                                                     \
    if (has_##name) {                                                                                                  \
      atomic_fetch_add(&cch__compiler_calls, 1);                                                                       \
      result_of_##name = (table)->name arguments;                                                                      \
      atomic_fetch_sub(&cch__compiler_calls, 1);                                                                       \
    }                                                                                                                  \
    has_##name ? cch__compiled(table, result_of_##name, #name) : cch__fail_compiler_missing(table, #name);             \
  })

/* Makes a box for a program of a compiler. The caller creates the program itself. */
cch__program *cch__program_new(cch_kind kind, const void *compiler, int (*destroy)(void *raw), const char *destroyer,
                               const char *operation);

/* Copies an output of a program, as cch_nvrtc_program_get() does. */
int cch__program_get(void *out, size_t *size, const cch__program *program, int output, const char *operation);

/*
 * Defines the structure of a kind of program, its function raw, and two functions for use in its own
 * file: library_of() and handle_of().
 */
#define CCH__DEFINE_PROGRAM(type, Raw)                                                                                 \
  struct type {                                                                                                        \
    cch__program program;                                                                                              \
  };                                                                                                                   \
  static const library *library_of(const type *box) { return box->program.compiler; }                                  \
  static void *handle_of(const type *box) { return box->program.raw; }                                                 \
  Raw type##_raw(const type *box) {                                                                                    \
    if (box == NULL)                                                                                                   \
      return NULL;                                                                                                     \
    CCH__REQUIRE_ELSE(NULL, box);                                                                                      \
    return (Raw)((const cch__program *)box)->raw;                                                                      \
  }

/* Returns the name and the meaning of a compiler's result; NULL for other domains. */
const char *cch__compiler_result(int domain, int code, const char **meaning);

#endif
