/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_LAUNCH_STATE_H
#define CUDACORE_NATIVE_LAUNCH_STATE_H

/* The part of the module's state that belongs to the room `launch`. */

#include <Python.h>
#include <stdatomic.h>

#define LAUNCH_FACES(X)                                                                                                \
  X(launch, config)       /* the class LaunchConfig */                                                                 \
  X(launch, init_config)  /* (config, ...): the constructor, for all arguments that config.c does not take */          \
  X(launch, kernel)       /* the class Kernel */                                                                       \
  X(launch, check_launch) /* (stream, config, kernel, args) -> (stream, config, kernel), checked and prepared */       \
  X(launch, explain)      /* (status, config, kernel): raises for a launch that was refused */                         \
  X(launch, resolve)      /* (type, value) -> whether values of a type, which it registers, can be arguments */        \
  X(launch, read_array)   /* (array, size) -> the address of an array that arrays.c cannot read itself */              \
  X(launch,                                                                                                            \
    refuse_element)       /* (array, wanted, given): raises for an array of another type than the kernel's pointer */  \
  X(launch, check_device) /* (value, address, device): raises if the device cannot access the memory */                \
  X(kernel, kernel_attributes) /* the class KernelAttributes, when its module has been imported */                     \
  X(kernel, kernel_occupancy)  /* the class KernelOccupancy */

#define LAUNCH_TYPES(X) X(kernel) X(kernel_part) X(config)

enum { KNOWN_DTYPES = 8 };

/* The type of a NumPy dtype's elements, as in elements.c. An entry is complete when it has its dtype. */
typedef struct known_dtype {
  PyObject *_Atomic dtype;
  unsigned element;
} known_dtype;

/* The arguments of LaunchConfig, in their order. */
#define CONFIG_ARGUMENTS(X)                                                                                            \
  X(grid, "grid")                                                                                                      \
  X(cluster, "cluster")                                                                                                \
  X(block, "block")                                                                                                    \
  X(shmem_size, "shmem_size")                                                                                          \
  X(is_cooperative, "is_cooperative")                                                                                  \
  X(programmatic, "programmatic_stream_serialization")                                                                 \
  X(priority, "priority")

/* Names of arguments, and of attributes of arguments. */
#define LAUNCH_NAMES(X)                                                                                                \
  CONFIG_ARGUMENTS(X)                                                                                                  \
  X(value, "value")

typedef struct launch_state {
  known_dtype dtypes[KNOWN_DTYPES];
  atomic_uint dtypes_used;
  atomic_bool any_element; /* whether arrays of all types are accepted (set_array_type_checks) */
} launch_state;

#endif
