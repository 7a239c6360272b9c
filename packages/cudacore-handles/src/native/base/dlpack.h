/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_DLPACK_H
#define CUDACORE_NATIVE_DLPACK_H

/* The structures of DLPack, written from its specification: versions 1.x, and the unversioned structure of 0.x. */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_OPAQUE = 3, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };
enum { DL_NO_CODE = 255 }; /* our own code, for elements that have no type in DLPack */
enum { DL_READ_ONLY = 1, DL_PADDED = 4 };

/* Exported tensors are the same in all versions 1.x: minor versions add only codes that are not used here. */
enum { DL_MAJOR = 1, DL_MINOR = 0, DL_EXCHANGE_MINOR = 3 };

typedef struct dl_device {
  int32_t type;
  int32_t id;
} dl_device;

typedef struct dl_data_type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} dl_data_type;

typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_data_type dtype;
  int64_t *shape;
  int64_t *strides; /* in elements */
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed_tensor {
  dl_tensor tensor;
  void *manager_ctx;
  void (*deleter)(struct dl_managed_tensor *self);
} dl_managed_tensor;

typedef struct dl_version {
  uint32_t major;
  uint32_t minor;
} dl_version;

typedef struct dl_managed_tensor_versioned {
  dl_version version;
  void *manager_ctx;
  void (*deleter)(struct dl_managed_tensor_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed_tensor_versioned;

/* Returns the address of the first element. An empty tensor can have no address, whatever its offset. */
static inline uintptr_t dlpack_address(const dl_tensor *tensor) {
  return tensor->data != NULL ? (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset : 0;
}

/*
 * Fills in a tensor that describes an object whose type has this function. Returns -1 with an exception on failure. The
 * tensor owns nothing.
 */
typedef int (*dl_tensor_from_object)(void *object, dl_tensor *out);

/* The structure that the capsule in `__dlpack_c_exchange_api__` of a type points to (1.3 and later). */
#define DL_EXCHANGE_API "dlpack_exchange_api"
typedef struct dl_exchange_api {
  dl_version version;
  struct dl_exchange_api *previous; /* the API of an older major version, or NULL */
  /* Makes a tensor like the prototype. The error function is called if, and only if, this returns -1. */
  int (*managed_tensor_allocator)(dl_tensor *prototype, dl_managed_tensor_versioned **out, void *error_context,
                                  void (*set_error)(void *context, const char *kind, const char *message));
  int (*managed_tensor_from_object)(void *object, dl_managed_tensor_versioned **out);
  int (*managed_tensor_to_object)(dl_managed_tensor_versioned *tensor, void **out); /* takes over the tensor */
  dl_tensor_from_object tensor_from_object;                                         /* may be NULL */
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out);
} dl_exchange_api;

static_assert(sizeof(dl_device) == 8 && sizeof(dl_data_type) == 4, "layout of DLDevice, DLDataType");
static_assert(offsetof(dl_tensor, device) == sizeof(void *), "layout of DLTensor: device");
static_assert(offsetof(dl_tensor, ndim) == sizeof(void *) + 8, "layout of DLTensor: ndim");
static_assert(offsetof(dl_tensor, dtype) == sizeof(void *) + 12, "layout of DLTensor: dtype");
static_assert(offsetof(dl_tensor, shape) == sizeof(void *) + 16, "layout of DLTensor: shape");
static_assert(offsetof(dl_tensor, strides) == 2 * sizeof(void *) + 16, "layout of DLTensor: strides");
static_assert(offsetof(dl_tensor, byte_offset) == 3 * sizeof(void *) + 16, "layout of DLTensor: byte_offset");
static_assert(sizeof(dl_tensor) == 3 * sizeof(void *) + 24, "layout of DLTensor");
static_assert(offsetof(dl_managed_tensor, manager_ctx) == sizeof(dl_tensor), "layout of DLManagedTensor");
static_assert(sizeof(dl_managed_tensor) == sizeof(dl_tensor) + 2 * sizeof(void *), "layout of DLManagedTensor");
static_assert(offsetof(dl_managed_tensor_versioned, manager_ctx) == 8,
              "layout of DLManagedTensorVersioned: manager_ctx");
static_assert(offsetof(dl_managed_tensor_versioned, flags) == 8 + 2 * sizeof(void *),
              "layout of DLManagedTensorVersioned: flags");
static_assert(offsetof(dl_managed_tensor_versioned, tensor) == 16 + 2 * sizeof(void *),
              "layout of DLManagedTensorVersioned: tensor");
static_assert(offsetof(dl_exchange_api, previous) == 8, "layout of DLPackExchangeAPI: header");
static_assert(offsetof(dl_exchange_api, tensor_from_object) == 8 + 4 * sizeof(void *),
              "layout of DLPackExchangeAPI: dltensor_from_py_object_no_sync");

#endif
