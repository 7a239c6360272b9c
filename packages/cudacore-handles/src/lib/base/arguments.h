/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_ARGUMENTS_H
#define CUDACORE_ARGUMENTS_H

/*
 * The first statement of a public function: it checks the pointer arguments. The type of a parameter determines the
 * kind of its box, so a function only lists its parameters:
 *
 *   CCH__REQUIRE(out, bundle);               no pointer is NULL, and each box is of its parameter's kind
 *   CCH__REQUIRE_USABLE(out, event, stream); also, the boxes can be used, and the driver is ready
 *   CCH__REQUIRE_USABLE_OR_NULL(context);    the same, but the box may be NULL
 *   CCH__REQUIRE_ELSE(0, event);             for functions that return no status: the value to return
 *   CCH__REQUIRE_ARRAY(ptrs, count);         the array is not NULL, or its count is 0
 *   CCH__REQUIRE_ALL(names, count);          the same, and no pointer in it is NULL
 *
 * If an argument is wrong, each macro records a failure that names the argument, and returns from the function.
 */

#include "base/box.h"
#include "base/kind_list.h"

/* The box kind that a pointer type corresponds to; -1 for pointers that are not to a box. */
#define CCH__KIND_OF_TYPE(KIND, type, ...) type * : CCH_KIND_##KIND, const type * : CCH_KIND_##KIND,
/* clang-format off */
#define CCH__KIND(pointer) _Generic((pointer), CCH__KINDS(CCH__KIND_OF_TYPE) default: -1)
/* clang-format on */

/* `kind` is a compile-time constant at each use, so the compiler removes the branches that depend on it alone. */
static inline bool cch__fits(const void *argument, int kind) {
  return argument != NULL && (kind < 0 || ((const cch__box *)argument)->kind == kind);
}

/* Records that an argument is NULL, or is a box whose kind is not `kind`. `what` names the argument. */
CCH__COLD int cch__fail_argument(const void *argument, int kind, const char *what, const char *operation);
/* If a check of an array element failed, adds the element's index to the message. */
CCH__COLD int cch__explain_place(int status, size_t place);
static inline int cch__fail_at_place(int status, size_t place) {
  return status == 0 ? 0 : cch__explain_place(status, place);
}

static inline int cch__check(const void *argument, int kind, const char *what, const char *operation) {
  return __builtin_expect(cch__fits(argument, kind), 1) ? 0 : cch__fail_argument(argument, kind, what, operation);
}

/*
 * Checks an argument like cch__check(), and that its resource still exists. Also fails for graphs in a function that
 * CUDA calls, where the driver may deadlock.
 */
static inline int cch__check_usable(const void *argument, int kind, const char *what, const char *operation) {
  int status = cch__check(argument, kind, what, operation);
  if (status != 0 || kind < 0)
    return status;
  bool is_graph = kind == CCH_KIND_GRAPH || kind == CCH_KIND_GRAPH_NODE || kind == CCH_KIND_GRAPH_EXEC;
  if (is_graph && cch__in_callback())
    return cch__fail_forbidden(operation);
  return cch__is_gone(argument) ? cch__fail_gone(argument, operation) : 0;
}

/* Checks a box that is a member of a structure or an array. Returns 0 or a recorded failure. */
#define CCH__USABLE(box, what, operation) cch__check_usable(box, CCH__KIND(box), what, operation)
#define CCH__USABLE_OR_NULL(box, what, operation) ((box) == NULL ? 0 : CCH__USABLE(box, what, operation))

#define CCH__RETURN_FAILURE(...)                                                                                       \
  do {                                                                                                                 \
    int status_of_check = __VA_ARGS__;                                                                                 \
    if (status_of_check != 0)                                                                                          \
      return status_of_check;                                                                                          \
  } while (0)

#define CCH__REQUIRE_1(argument)                                                                                       \
  CCH__RETURN_FAILURE(cch__check(argument, CCH__KIND(argument), "the argument " #argument, __func__));
#define CCH__REQUIRE_USABLE_1(argument) CCH__RETURN_FAILURE(CCH__USABLE(argument, "the argument " #argument, __func__));
#define CCH__REQUIRE_USABLE_OR_NULL_1(argument)                                                                        \
  CCH__RETURN_FAILURE(CCH__USABLE_OR_NULL(argument, "the argument " #argument, __func__));

/* Applies a macro to each of up to five arguments. */
#define CCH__EACH_1(macro, a) macro(a)
#define CCH__EACH_2(macro, a, ...) macro(a) CCH__EACH_1(macro, __VA_ARGS__)
#define CCH__EACH_3(macro, a, ...) macro(a) CCH__EACH_2(macro, __VA_ARGS__)
#define CCH__EACH_4(macro, a, ...) macro(a) CCH__EACH_3(macro, __VA_ARGS__)
#define CCH__EACH_5(macro, a, ...) macro(a) CCH__EACH_4(macro, __VA_ARGS__)
#define CCH__NAME_EACH(a, b, c, d, e, name, ...) name
#define CCH__EACH(macro, ...)                                                                                          \
  CCH__NAME_EACH(__VA_ARGS__, CCH__EACH_5, CCH__EACH_4, CCH__EACH_3, CCH__EACH_2, CCH__EACH_1, )(macro, __VA_ARGS__)

#define CCH__REQUIRE(...)                                                                                              \
  do {                                                                                                                 \
    CCH__EACH(CCH__REQUIRE_1, __VA_ARGS__)                                                                             \
  } while (0)

#define CCH__REQUIRE_USABLE(...)                                                                                       \
  do {                                                                                                                 \
    CCH__EACH(CCH__REQUIRE_USABLE_1, __VA_ARGS__)                                                                      \
    CCH__RETURN_FAILURE(cch__ready());                                                                                 \
  } while (0)

#define CCH__REQUIRE_USABLE_OR_NULL(...)                                                                               \
  do {                                                                                                                 \
    CCH__EACH(CCH__REQUIRE_USABLE_OR_NULL_1, __VA_ARGS__)                                                              \
    CCH__RETURN_FAILURE(cch__ready());                                                                                 \
  } while (0)

#define CCH__REQUIRE_ELSE(otherwise, argument)                                                                         \
  do {                                                                                                                 \
    if (cch__check(argument, CCH__KIND(argument), "the argument " #argument, __func__) != 0)                           \
      return otherwise;                                                                                                \
  } while (0)

#define CCH__REQUIRE_ALL(array, count)                                                                                 \
  do {                                                                                                                 \
    CCH__REQUIRE_ARRAY(array, count);                                                                                  \
    for (size_t i_of_check = 0; i_of_check < (count); i_of_check++)                                                    \
      CCH__RETURN_FAILURE(cch__fail_at_place(                                                                          \
          cch__check((array)[i_of_check], -1, "the argument " #array "[i]", __func__), i_of_check));                   \
  } while (0)

#define CCH__REQUIRE_ARRAY(array, count)                                                                               \
  do {                                                                                                                 \
    if ((count) > 0)                                                                                                   \
      CCH__REQUIRE_1(array)                                                                                            \
  } while (0)

/* Defines the function raw of a kind. */
#define CCH__DEFINE_RAW(type, Raw, field)                                                                              \
  Raw type##_raw(const type *box) {                                                                                    \
    if (box == NULL)                                                                                                   \
      return (Raw)0;                                                                                                   \
    CCH__REQUIRE_ELSE((Raw)0, box);                                                                                    \
    return !cch__is_gone(box) ? box->field : (Raw)0;                                                                   \
  }

/* Defines a function that returns a field of a box, or `otherwise` if its argument is wrong. */
#define CCH__DEFINE_GET(Type, function, type, argument, otherwise, field)                                              \
  Type function(const type *argument) {                                                                                \
    CCH__REQUIRE_ELSE(otherwise, argument);                                                                            \
    return argument->field;                                                                                            \
  }

#endif
