/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_MEMORY_STATE_H
#define CUDACORE_NATIVE_MEMORY_STATE_H

/* The part of the module's state that belongs to the room `memory`. */

#define MEMORY_FACES(X)                                                                                                \
  X(memory, buffer)          /* the class Buffer */                                                                    \
  X(memory, memory_resource) /* the class MemoryResource; None before its module is imported */                        \
  X(memory, check_memory)    /* (ptr, size, mr, owner) -> (ptr, size, keeper, lender) for from_handle() */             \
  X(memory, free_memory)     /* (memory resource, address, size, address of the stream's box or 0): frees memory */

#define MEMORY_TYPES(X) X(buffer)

/* Names of attributes of memory resources. */
#define MEMORY_NAMES(X)                                                                                                \
  X(device_id, "device_id")                                                                                            \
  X(is_device_accessible, "is_device_accessible")                                                                      \
  X(is_host_accessible, "is_host_accessible")                                                                          \
  X(is_managed, "is_managed")

#endif
