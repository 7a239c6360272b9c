/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_DRIVER_STATE_H
#define CUDACORE_NATIVE_DRIVER_STATE_H

/* The part of the module's state that belongs to the room `driver`. */

#define DRIVER_FACES(X)                                                                                                \
  X(driver, context) /* the class Context */                                                                           \
  X(driver, device)  /* the class Device */

#define DRIVER_TYPES(X) X(context)

#endif
