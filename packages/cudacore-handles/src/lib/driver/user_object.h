/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_USER_OBJECT_H
#define CUDACORE_USER_OBJECT_H

#include "driver/driver_table.h"

/*
 * Makes the driver keep a bundle through a user object, as long as the graph and everything made from it exist. The
 * graph has `count` references to the object.
 */
int cch__driver_keep(CUuserObject *out, CUgraph graph, cch_bundle *bundle, size_t count);
/* Makes the graph give back `count` references to the user object of a bundle. */
void cch__driver_unref(CUgraph graph, CUuserObject object, size_t count);

#endif
