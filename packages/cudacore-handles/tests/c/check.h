/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_H
#define CHECK_H

/*
 * Shared by the test programs. The comment above a test says what would be broken if it failed. A program runs its
 * tests one by one with RUN and returns 0, or 77 if it is skipped. A failed check prints its line and ends the program
 * with 1. Each test starts with an empty log of driver calls. After a test, neither the library nor the driver may have
 * live objects, and the driver must not have reported misuse.
 */

#include "driver/driver_table.h"

#include <cudacore_internal/all.h>

#include <cudacore_sim.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SANITIZED 1
#else
#define CHECK_SANITIZED 0
#endif

enum { CHECK_SKIP = 77 };

void check_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition))                                                                                                  \
      check_fail(__FILE__, __LINE__, "%s", #condition);                                                                \
  } while (0)

/* Compares integers, or pointers cast to integers. */
#define CHECK_EQ(left, right) check_eq((long long)(left), (long long)(right), #left " == " #right, __FILE__, __LINE__)
#define CHECK_PTR(left, right)                                                                                         \
  check_eq((long long)(uintptr_t)(left), (long long)(uintptr_t)(right), #left " == " #right, __FILE__, __LINE__)
#define CHECK_STR(left, right) check_str(left, right, #left, __FILE__, __LINE__)
#define CHECK_HAS(text, part) check_has(text, part, #text, __FILE__, __LINE__)
/* Makes a call, after which a count must be `expected`. */
#define CHECK_AFTER(call, count, expected)                                                                             \
  do {                                                                                                                 \
    call;                                                                                                              \
    CHECK_EQ(count, expected);                                                                                         \
  } while (0)
void check_eq(long long left, long long right, const char *what, const char *file, int line);
void check_str(const char *left, const char *right, const char *what, const char *file, int line);
void check_has(const char *text, const char *part, const char *what, const char *file, int line);

/* OK is for a cch_ call that must succeed, FAILS for a cch_ call that must fail with the given code. */
#define OK(call) check_status(call, 0, #call, __FILE__, __LINE__)
#define FAILS(code, call) check_status(call, code, #call, __FILE__, __LINE__)
void check_status(int status, int expected, const char *what, const char *file, int line);

/* Returns the calling thread's last failure, valid until the next call of this function. */
const cch_error *check_error(void);

/* Opens the driver that $CUDACORE_DRIVER names. If it is not the simulated driver, ends the program with 77. */
void check_open(void);

/* Sets functions that RUN calls before and after each later test. */
void check_around(void (*before)(void), void (*after)(void));

#define RUN(test) check_run(test, #test)
void check_run(void (*test)(void), const char *name);

/* A release function for owners that are pointers to ints. It adds the ints to `check_released`. */
extern int check_released;
void check_release(void *owner);

/* Waits until the driver has no work. This makes no driver calls. */
void check_settle(void);

/* Fails if the library or the driver has a live object, or the driver was misused. RUN checks this after each test. */
#define CHECK_CLEAN() check_clean(__FILE__, __LINE__)
void check_clean(const char *file, int line);

/* Runs a function in `count` threads that start together, and waits for them. */
void check_threads(int count, void (*function)(int index, void *argument), void *argument);

/* The simulated driver's controls, which cudacore_sim.h describes: sim.fail is cudasim_fail, and so on. */
#define CHECK_CONTROLS(X)                                                                                              \
  X(calls)                                                                                                             \
  X(clear_errors)                                                                                                      \
  X(depth)                                                                                                             \
  X(fail)                                                                                                              \
  X(forbid)                                                                                                            \
  X(gl_buffer)                                                                                                         \
  X(gl_delete)                                                                                                         \
  X(held)                                                                                                              \
  X(hide)                                                                                                              \
  X(hold)                                                                                                              \
  X(kind_name)                                                                                                         \
  X(last_launch)                                                                                                       \
  X(let_go)                                                                                                            \
  X(live)                                                                                                              \
  X(log)                                                                                                               \
  X(report)                                                                                                            \
  X(reports)                                                                                                           \
  X(reset)

typedef struct check_sim {
#define FIELD(name) __typeof__(cudasim_##name) *name;
  CHECK_CONTROLS(FIELD)
#undef FIELD
} check_sim;
extern check_sim sim;

/* The driver itself, for calls that a foreign owner makes; NULL for functions that the driver does not have. */
#define CHECK_DRIVER(X)                                                                                                \
  CCH__DRIVER_FUNCTIONS(X)                                                                                             \
  X(cuMemcpy, 4000)

typedef struct check_driver {
#define FIELD(name, version) PFN_##name##_v##version name;
  CHECK_DRIVER(FIELD)
#undef FIELD
} check_driver;
extern check_driver driver;

/*
 * PTX with the kernels "empty", "store" (a pointer, and the number that it writes there), "add" (three pointers and a
 * count, which are not used) and "mixed" (one parameter of each kind).
 */
extern const char check_ptx[];

/* The arguments of "mixed", with the layout of the kernel's argument block. */
typedef struct check_mixed {
  uint64_t pointer;
  float single;
  uint32_t count;
  double value;
  uint32_t block[3];
} check_mixed;
enum { CHECK_MIXED_SIZE = 36, CHECK_MIXED_COUNT = 5 };

/* Returns the last launch. Fails the test if there was none. */
typedef struct check_launch {
  cudasim_launch given;
  char name[32]; /* the kernel's name */
  unsigned char arguments[64];
} check_launch;
check_launch check_last_launch(void);

#endif
