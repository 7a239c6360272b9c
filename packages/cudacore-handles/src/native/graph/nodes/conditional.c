/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of conditional nodes. */
#include "graph/node_methods.h"

static int read_condition(const state *st, PyObject *given, int type, int class, size_t count, node_params *out) {
  if (!PyType_IsSubtype(Py_TYPE(given), st->condition_type))
    return raise_about(PyExc_TypeError, "condition must be a GraphCondition, not '%U'; create_condition() makes one",
                       given, 0, 0);
  out->class = class;
  out->condition = Py_NewRef(given);
  out->of.conditional = (cch_conditional_node){.size = sizeof out->of.conditional,
                                               .condition = ((condition *)given)->handle,
                                               .type = type,
                                               .count = (uint32_t)count};
  return 0;
}

const int type_of_if_then = CCH_NODE_CONDITIONAL;
int read_if_then(state *st, const node_arguments *given, node_params *out) {
  return read_condition(st, given->named[0], CCH_CONDITIONAL_IF, CLASS_IF, 1, out);
}

const int type_of_if_else = CCH_NODE_CONDITIONAL;
int read_if_else(state *st, const node_arguments *given, node_params *out) {
  return read_condition(st, given->named[0], CCH_CONDITIONAL_IF, CLASS_IF_ELSE, 2, out);
}

const int type_of_while_loop = CCH_NODE_CONDITIONAL;
int read_while_loop(state *st, const node_arguments *given, node_params *out) {
  return read_condition(st, given->named[0], CCH_CONDITIONAL_WHILE, CLASS_WHILE, 1, out);
}

const int type_of_switch = CCH_NODE_CONDITIONAL;
int read_switch(state *st, const node_arguments *given, node_params *out) {
  size_t count = 0;
  if (read_condition(st, given->named[0], CCH_CONDITIONAL_SWITCH, CLASS_SWITCH, 0, out) < 0 ||
      read_size(st, given->named[1], "count", 1, &count) < 0)
    return -1;
  if (count > INT32_MAX)
    return raise_error(PyExc_ValueError, "count is %zu; a switch has at most 2**31 - 1 branches", count);
  out->of.conditional.count = (uint32_t)count;
  return 0;
}
