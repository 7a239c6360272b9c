/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of conditional nodes. */
#include "graph/node_kinds.h"

int read_condition(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  size_t count = kind->class == CLASS_IF_ELSE ? 2 : 1;
  if (!PyType_IsSubtype(Py_TYPE(given[0]), st->condition_type))
    return raise_about(PyExc_TypeError, "condition must be a GraphCondition, not '%U'; create_condition() makes one",
                       given[0], 0, 0);
  if (kind->class == CLASS_SWITCH && read_size(st, given[1], "count", 1, &count) < 0)
    return -1;
  if (count > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "count is %zu; a switch has at most 2**31 - 1 branches", count);
    return -1;
  }
  Py_INCREF(given[0]);
  out->condition = given[0];
  out->of.conditional = (cch_conditional_node){
      .size = sizeof out->of.conditional,
      .condition = ((condition *)given[0])->handle,
      .type = kind->class == CLASS_WHILE    ? CCH_CONDITIONAL_WHILE
              : kind->class == CLASS_SWITCH ? CCH_CONDITIONAL_SWITCH
                                            : CCH_CONDITIONAL_IF,
      .count = (uint32_t)count,
  };
  return 0;
}
