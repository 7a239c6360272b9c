/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_MEMORY_STATE_H
#define CUDACORE_NATIVE_MEMORY_STATE_H

/* The part of the module's state that belongs to the room `memory`. */

#define MEMORY_FACES(X)                                                                                                \
  X(memory, buffer)      /* the class Buffer */                                                                        \
  X(memory, free_memory) /* (memory resource, address, size, address of the stream's box or 0): frees memory */

#define MEMORY_TYPES(X) X(buffer)

#endif
