/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_TEXTURE_H
#define CUDACORE_NATIVE_TEXTURE_H

/* Arrays, textures and surfaces. */

#include "base/native.h"

extern PyMethodDef texture_functions[];

#endif
