/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_TEXTURE_STATE_H
#define CUDACORE_NATIVE_TEXTURE_STATE_H

/* The part of the module's state that belongs to the room `texture`. */

#include "base/shared.h"

#define TEXTURE_FACES(X)                                                                                               \
  X(texture, array)                                                                                                    \
  X(texture, mipmapped_array)                                                                                          \
  X(texture, texture)                                                                                                  \
  X(texture, surface)                                                                                                  \
  X(texture, resource)     /* these are the classes */                                                                 \
  X(texture, last_options) /* by kind << 16 | device: (class, names, values, result of the check) */                   \
  X(texture, check_array)  /* (options, device) -> (copy, bytes), see options_read() */                                \
  X(texture, check_mipmapped_array)                                                                                    \
  X(texture, check_texture)                                                                                            \
  X(texture, check_memory)  /* (resource, device): raises for memory that the device cannot sample */                  \
  X(texture, refuse_format) /* (resource, options): raises for texels that cannot be sampled with the options */

#define TEXTURE_TYPES(X) X(resource) X(texture)

typedef struct texture_state {
  shared_word imported; /* the Python modules of this room were imported */
} texture_state;

#endif
