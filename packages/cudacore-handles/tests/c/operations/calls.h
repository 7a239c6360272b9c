/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLS_H
#define CALLS_H

/* Macros that define operations. Flags can follow the arguments of MAKES, GIVES and DOES. */

#include "operations/world.h"

/* The value of an out-parameter before a call, which must not change if the call fails. */
static char untouched;

/* Adds an operation to the list. `undo_` can be NULL. */
#define OPERATION(name_, undo_, ...)                                                                                   \
  __attribute__((constructor)) static void add_##name_(void) {                                                         \
    static operation added = {#name_, name_, undo_, __VA_ARGS__ + 0, NULL};                                            \
    operation_add(&added);                                                                                             \
  }

/* Defines an operation that creates a box of a type. */
#define MAKES(name_, type, call, ...)                                                                                  \
  static int name_(world *w, void **made) {                                                                            \
    (void)w;                                                                                                           \
    type *out = (type *)&untouched;                                                                                    \
    int status = call;                                                                                                 \
    CHECK((status != 0) == (out == (type *)&untouched));                                                               \
    *made = status == 0 ? out : NULL;                                                                                  \
    return status;                                                                                                     \
  }                                                                                                                    \
  static void undo_##name_(void *made) { type##_unref(made); }                                                         \
  OPERATION(name_, undo_##name_, __VA_ARGS__)

/* Defines an operation whose out-parameter is a number of a type. */
#define GIVES(name_, type, call, ...)                                                                                  \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    const type before = (type)0x5a5a5a5a;                                                                              \
    type out = before;                                                                                                 \
    int status = call;                                                                                                 \
    CHECK(status == 0 || memcmp(&out, &before, sizeof out) == 0);                                                      \
    return status;                                                                                                     \
  }                                                                                                                    \
  OPERATION(name_, NULL, __VA_ARGS__)

/* Defines an operation without an out-parameter. */
#define DOES(name_, call, ...)                                                                                         \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    return call;                                                                                                       \
  }                                                                                                                    \
  OPERATION(name_, NULL, __VA_ARGS__)

#endif
