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

/*
 * Describes a compiler library. The table of a loaded one begins with a cch__compiler and has its function pointers
 * after it.
 */
typedef struct cch__compiler_kind {
  const char *title;
  cch_domain domain;
  const char *const *sonames; /* newest first; NULL at the end */
  const cch__entry *entries;
  size_t count, size;
  /* Called after the functions were looked up by name, for anything else that the library needs. May be NULL. */
  void (*complete)(void *table);
  /* Gets the version from the library. */
  int (*version)(int *major, int *minor, const void *table);
} cch__compiler_kind;

/* A loaded library. It is never freed and never closed, because programs call it when they are destroyed. */
struct cch__compiler {
  const cch__compiler_kind *kind;
  void *handle;
  /* The simulated driver's replacement for dlsym, if the program runs on that driver; else NULL. */
  void *(*symbol)(void *library, const char *name, void *(*look_up)(void *, const char *));
  struct cch__compiler *next;
};

int cch__compiler_load(void *out, const cch__compiler_kind *kind, const char *path, const char *operation);
/*
 * Looks up a function of a compiler library. On the simulated driver, it returns a function whose cubins contain their
 * PTX.
 */
void *cch__compiler_symbol(const struct cch__compiler *compiler, const char *name);
int cch__compiler_wrap(void *out, const cch__compiler_kind *kind, void *handle, const char *operation);

/* Record that a library's function failed, or that the library lacks it. */
int cch__fail_compiler(const void *compiler, int result, const char *operation);
int cch__fail_compiler_missing(const void *compiler, const char *operation);
/* Appends the first line of a log that mentions an error, or else its first line, to the message of the failure. */
void cch__fail_explain_log(char *log);

static inline int cch__compiled(const void *compiler, int result, const char *operation) {
  return result == 0 ? 0 : cch__fail_compiler(compiler, result, operation);
}

/* Records that an argument is NULL, or not a loaded library of the wanted kind. */
int cch__fail_compiler_argument(const void *argument, const cch__compiler_kind *kind, const char *name,
                                const char *operation);

/* Checks an argument that is a loaded library, like the macros of arguments.h. Each compiler's file defines `kind`. */
#define CCH__REQUIRE_COMPILER(argument)                                                                                \
  do {                                                                                                                 \
    if ((argument) == NULL || (argument)->base.kind != &kind)                                                          \
      return cch__fail_compiler_argument(argument, &kind, #argument, __func__);                                        \
  } while (0)

/* Calls a compiler: CCH__COMPILER_CALL(nvrtc, nvrtcVersion, (major, minor)) is 0 or a recorded failure. */
#define CCH__COMPILER_CALL(table, name, arguments)                                                                     \
  ((table)->name ? cch__compiled(table, (table)->name arguments, #name) : cch__fail_compiler_missing(table, #name))

/* Makes a box for a program of a compiler. The caller creates the program itself. */
cch__program *cch__program_new(cch_kind kind, const void *compiler, int (*destroy)(void *raw), const char *destroyer,
                               const char *operation);

/* An output is read by two functions: one gives its size, the other its bytes. */
typedef int (*cch__size_fn)(void *raw, size_t *size);
typedef int (*cch__bytes_fn)(void *raw, char *bytes);
int cch__program_get(void *out, size_t *size, const cch__program *program, cch__size_fn size_of, cch__bytes_fn bytes_of,
                     const char *size_name, const char *bytes_name, const char *operation);
/* A log as a string that the caller frees; NULL if there is none. */
char *cch__program_log(const cch__program *program, cch__size_fn size_of, cch__bytes_fn bytes_of);

/* The functions ref, unref and raw of a kind of program. */
#define CCH__DEFINE_PROGRAM(type, Raw)                                                                                 \
  type *type##_ref(type *box) { return cch__box_ref(box); }                                                            \
  void type##_unref(type *box) { cch__box_unref(box); }                                                                \
  Raw type##_raw(const type *box) {                                                                                    \
    if (box == NULL)                                                                                                   \
      return NULL;                                                                                                     \
    CCH__REQUIRE_ELSE(NULL, box);                                                                                      \
    return (Raw)((const cch__program *)box)->raw;                                                                      \
  }

#endif
