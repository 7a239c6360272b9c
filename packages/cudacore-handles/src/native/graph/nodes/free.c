/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that free memory. */
#include "graph/nodes/operand.h"

const int type_of_deallocate = CCH_NODE_FREE;
int read_deallocate(state *st, const node_arguments *arguments, node_params *out) {
  CUdeviceptr address = 0;
  if (read_address(st, arguments->named[0], "dptr", &address) < 0)
    return -1;
  if (address == 0)
    return raise_error(PyExc_ValueError, "dptr is NULL: there is nothing to free");
  out->of.free = (cch_free_node){.size = sizeof out->of.free, .address = address};
  return 0;
}
