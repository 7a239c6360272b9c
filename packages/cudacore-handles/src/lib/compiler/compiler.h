/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_COMPILER_H
#define CUDACORE_COMPILER_H

/* What the compiler libraries share: how one is found, its functions, its failures, and the boxes of its programs. */

#include "base/kinds.h"

/* A function: where its pointer is in the table of its library, and the version that brought it. */
typedef struct cch__entry {
  const char *name;
  size_t offset;
  int version; /* 1000 * major + 10 * minor, of CUDA */
} cch__entry;

/* What is known of a library before it is loaded. Its table is a cch__compiler with function pointers behind it. */
typedef struct cch__compiler_kind {
  const char *title;
  cch_domain domain;
  const char *const *sonames; /* newest first; NULL at the end */
  const cch__entry *entries;
  size_t count, size;
  /* Does what else the library needs, once its plain names are looked up. May be NULL. */
  void (*complete)(void *table);
  /* The version, as its own functions say it. */
  int (*version)(int *major, int *minor, const void *table);
} cch__compiler_kind;

/* One that is loaded. It is never freed, nor its library closed: programs call it whenever they die. */
struct cch__compiler {
  const cch__compiler_kind *kind;
  void *handle;
  /* The simulated driver's own kind of dlsym, where it runs what is compiled; else NULL. */
  void *(*symbol)(void *library, const char *name, void *(*look_up)(void *, const char *));
  struct cch__compiler *next;
};

int cch__compiler_load(void *out, const cch__compiler_kind *kind, const char *path, const char *operation);
/* A function of a compiler library; one whose cubins carry their PTX, where the simulated driver is what runs them. */
void *cch__compiler_symbol(const struct cch__compiler *compiler, const char *name);
int cch__compiler_wrap(void *out, const cch__compiler_kind *kind, void *handle, const char *operation);

/* A failure of a library's function, recorded; and of one that it does not have. */
int cch__fail_compiler(const void *compiler, int result, const char *operation);
int cch__fail_compiler_missing(const void *compiler, const char *operation);
/* Says more of it: the first line of a log that speaks of an error, or else the first. */
void cch__fail_explain_log(char *log);

static inline int cch__compiled(const void *compiler, int result, const char *operation) {
  return result == 0 ? 0 : cch__fail_compiler(compiler, result, operation);
}

/* Records that an argument is NULL, or anything but a loaded library of a kind. */
int cch__fail_compiler_argument(const void *argument, const cch__compiler_kind *kind, const char *name,
                                const char *operation);

/* The check of an argument that is a loaded library: arguments.h. Each compiler's file has its `kind`. */
#define CCH__REQUIRE_COMPILER(argument)                                                                                \
  do {                                                                                                                 \
    if ((argument) == NULL || (argument)->base.kind != &kind)                                                          \
      return cch__fail_compiler_argument(argument, &kind, #argument, __func__);                                        \
  } while (0)

/* Call a compiler: CCH__COMPILER_CALL(nvrtc, nvrtcVersion, (major, minor)) is 0 or a recorded failure. */
#define CCH__COMPILER_CALL(table, name, arguments)                                                                     \
  ((table)->name ? cch__compiled(table, (table)->name arguments, #name) : cch__fail_compiler_missing(table, #name))

/* A box for a program of a compiler, whose resource is still to be made. */
cch__program *cch__program_new(cch_kind kind, const void *compiler, int (*destroy)(void *raw), const char *destroyer,
                               const char *operation);

/* How an output is had: its size, then its bytes. */
typedef int (*cch__size_fn)(void *raw, size_t *size);
typedef int (*cch__bytes_fn)(void *raw, char *bytes);
int cch__program_get(void *out, size_t *size, const cch__program *program, cch__size_fn size_of, cch__bytes_fn bytes_of,
                     const char *size_name, const char *bytes_name, const char *operation);
/* A log as a string of the caller's, NULL where there is none. */
char *cch__program_log(const cch__program *program, cch__size_fn size_of, cch__bytes_fn bytes_of);

/* The verbs of a kind of program. */
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
