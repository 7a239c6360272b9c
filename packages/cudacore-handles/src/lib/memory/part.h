/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PART_H
#define CUDACORE_PART_H

#include "base/kinds.h"

/* Gives back the references that only the box of a part has. */
void cch__part_drop(cch_deviceptr *ptr);

#endif
