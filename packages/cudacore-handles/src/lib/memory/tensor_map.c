/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps. The driver refuses invalid ones with CUDA_ERROR_INVALID_VALUE and no explanation. So this file checks
 * the driver's rules first. The messages use the names of the fields in Python.
 */
#include "base/arguments.h"
#include "driver/current.h"

#include <cudacore_internal/driver.h>
#include <cudacore_internal/tensor_map.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_RANK = CCH_TENSOR_MAP_MAX_RANK, MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8, MAX_PIXELS = 1024 };
#define MAX_EXTENT (INT64_C(1) << 32)
#define MAX_STRIDE (INT64_C(1) << 40)

_Static_assert(sizeof(cch_tensor_map) == sizeof(CUtensorMap), "tensor maps have another size");

typedef struct type {
  const char *name;
  int64_t size;
  bool is_float;
} type;

static const type types[] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = {"UINT8", 1, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT16] = {"UINT16", 2, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT32] = {"UINT32", 4, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT32] = {"INT32", 4, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT64] = {"UINT64", 8, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT64] = {"INT64", 8, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = {"FLOAT16", 2, true},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = {"FLOAT32", 4, true},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = {"FLOAT64", 8, true},
    [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = {"BFLOAT16", 2, true},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = {"FLOAT32_FTZ", 4, true},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = {"TFLOAT32", 4, true},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = {"TFLOAT32_FTZ", 4, true},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

static const char OPERATION[] = "cch_tensor_map_encode";

#define REFUSE(...) return cch__fail(CCH_EINVAL, OPERATION, __VA_ARGS__)

static int check_range(const char *name, int64_t value, int64_t min, int64_t max) {
  if (value < min || value > max)
    REFUSE("%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, name, value, min, max);
  return 0;
}

static int check_at(const char *name, int axis, int64_t value, int64_t min, int64_t max) {
  if (value < min || value > max)
    REFUSE("%s[%d] is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, name, axis, value, min, max);
  return 0;
}

/* Returns the alignment of addresses and strides. */
static int64_t unit_of(const cch_tensor_map_config *config) {
  return config->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
}

static const char *because_of_interleave(const cch_tensor_map_config *config) {
  return config->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? " with INTERLEAVE_32B" : "";
}

static int check_choices(const cch_tensor_map_config *config) {
  CCH__RETURN_FAILURE(check_range("kind", config->kind, 0, CCH_TENSOR_MAP_IM2COL_WIDE));
  CCH__RETURN_FAILURE(check_range("data_type", config->data_type, 0, TYPE_COUNT - 1));
  CCH__RETURN_FAILURE(check_range("interleave", config->interleave, 0, CU_TENSOR_MAP_INTERLEAVE_32B));
  CCH__RETURN_FAILURE(check_range("swizzle", config->swizzle, 0, CU_TENSOR_MAP_SWIZZLE_128B));
  CCH__RETURN_FAILURE(check_range("l2_promotion", config->l2_promotion, 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
  CCH__RETURN_FAILURE(check_range("oob_fill", config->oob_fill, 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA));
  const type *element = &types[config->data_type];
  if (config->oob_fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !element->is_float)
    REFUSE("oob_fill is NAN_REQUEST_ZERO_FMA, which only floating-point types have, and the data type is %s",
           element->name);
  if (config->interleave == CU_TENSOR_MAP_INTERLEAVE_32B && config->swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
    REFUSE("interleave is INTERLEAVE_32B, which needs the swizzle SWIZZLE_32B");
  return 0;
}

static int check_tensor(const cch_tensor_map_config *config) {
  const type *element = &types[config->data_type];
  int64_t unit = unit_of(config);
  int32_t min_rank =
      config->kind != CCH_TENSOR_MAP_TILED || config->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ? 3 : 1;
  if (config->rank < min_rank || config->rank > MAX_RANK)
    REFUSE("the tensor has %" PRId32 " axes; %s takes from %" PRId32 " to %d", config->rank,
           config->kind != CCH_TENSOR_MAP_TILED ? "an im2col tensor map"
           : min_rank > 1                       ? "an interleaved layout"
                                                : "a tensor map",
           min_rank, MAX_RANK);
  if (config->address % (uint64_t)unit != 0)
    REFUSE("the address %#" PRIx64 " of the tensor is not a multiple of %" PRId64 " bytes, as a tensor map needs%s",
           config->address, unit, because_of_interleave(config));
  for (int i = 0; i < config->rank; i++) {
    CCH__RETURN_FAILURE(check_at("shape", i, config->shape[i], 1, MAX_EXTENT));
  }
  int last = config->rank - 1;
  if (config->strides[last] != element->size && config->shape[last] > 1)
    REFUSE("the stride of axis %d is %" PRId64 " bytes; the elements of the last axis must be adjacent, and those of "
           "%s have %" PRId64,
           last, config->strides[last], element->name, element->size);
  for (int i = 0; i < last; i++) {
    int64_t stride = config->strides[i];
    if (stride < 0 || stride >= MAX_STRIDE || stride % unit != 0)
      REFUSE("the stride of axis %d is %" PRId64 " bytes; it must be a multiple of %" PRId64 "%s, and less than 2**40",
             i, stride, unit, because_of_interleave(config));
  }
  return 0;
}

/* Checks the number of bytes that a copy moves along the last axis in one piece. */
static int check_inner(const cch_tensor_map_config *config, const char *name, int64_t count) {
  static const int64_t spans[] = {
      [CU_TENSOR_MAP_SWIZZLE_32B] = 32, [CU_TENSOR_MAP_SWIZZLE_64B] = 64, [CU_TENSOR_MAP_SWIZZLE_128B] = 128};
  const type *element = &types[config->data_type];
  int64_t bytes = count * element->size;
  if (bytes % 16 != 0)
    REFUSE("%s is %" PRId64 ", which is %" PRId64 " bytes of %s; it must be a multiple of 16 bytes", name, count, bytes,
           element->name);
  bool together = config->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
  if (together && config->swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && bytes > spans[config->swizzle])
    REFUSE("%s is %" PRId64 ", which is %" PRId64 " bytes of %s; SWIZZLE_%" PRId64 "B takes at most %" PRId64, name,
           count, bytes, element->name, spans[config->swizzle], spans[config->swizzle]);
  return 0;
}

/* Checks the number of bytes of shared memory that a copy needs, as the driver counts them. */
static int check_volume(const cch_tensor_map_config *config, int64_t bytes) {
  enum { ALWAYS_THERE = 100 << 10 };
  int room = 0;
  if (bytes <= ALWAYS_THERE || config->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    return 0;
  int status = cch_device_attribute(&room, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, config->device);
  if (status == 0 && bytes > room)
    REFUSE("a copy moves %" PRId64 " bytes, and a multiprocessor of device %" PRId32 " has %d bytes of shared memory; "
           "make %s smaller",
           bytes, config->device, room, config->kind == CCH_TENSOR_MAP_TILED ? "box_dim" : "pixels_per_column");
  return status;
}

static int check_box(const cch_tensor_map_config *config) {
  int64_t bytes = types[config->data_type].size;
  char name[sizeof "box_dim[4]"] = "box_dim[0]";
  for (int i = 0; i < config->rank; i++) {
    int status = check_at("box_dim", i, config->box_dim[i], 1, MAX_BOX);
    if (status != 0)
      return status;
    bytes *= config->box_dim[i] / config->element_strides[i];
  }
  name[sizeof "box_dim[" - 1] = (char)('0' + config->rank - 1);
  int status = check_inner(config, name, config->box_dim[config->rank - 1]);
  return status != 0 ? status : check_volume(config, bytes);
}

static int check_corners(const cch_tensor_map_config *config) {
  static const int64_t limits[] = {[3] = 1 << 15, [4] = 1 << 7, [5] = 1 << 4};
  bool wide = config->kind == CCH_TENSOR_MAP_IM2COL_WIDE;
  int64_t limit = wide ? limits[3] : limits[config->rank];
  int count = wide ? 1 : config->rank - 2, first = wide ? config->rank - 2 : 1;
  for (int i = 0; i < count; i++) {
    int64_t lower = config->lower_corner[i], upper = config->upper_corner[i], extent = config->shape[first + i];
    CCH__RETURN_FAILURE(check_at("shape", first + i, extent, 1, INT32_MAX));
    CCH__RETURN_FAILURE(check_at("pixel_box_lower_corner", i, lower, -limit, limit - 1));
    CCH__RETURN_FAILURE(check_at("pixel_box_upper_corner", i, upper, -limit, limit - 1));
    if (extent + upper <= lower)
      REFUSE("the bounding box is empty along axis %d, which has %" PRId64 " pixels: its lower corner is %" PRId64
             ", its upper one %" PRId64,
             first + i, extent, lower, upper);
  }
  return 0;
}

static int check_pixels(const cch_tensor_map_config *config) {
  CCH__RETURN_FAILURE(check_range("channels_per_pixel", config->channels_per_pixel, 1, MAX_BOX));
  CCH__RETURN_FAILURE(check_range("pixels_per_column", config->pixels_per_column, 1, MAX_PIXELS));
  CCH__RETURN_FAILURE(check_corners(config));
  CCH__RETURN_FAILURE(check_inner(config, "channels_per_pixel", config->channels_per_pixel));
  return check_volume(config, types[config->data_type].size * config->channels_per_pixel * config->pixels_per_column);
}

static int check_wide(const cch_tensor_map_config *config) {
  CCH__RETURN_FAILURE(check_range("mode", config->wide_mode, 0, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128));
  if (config->swizzle != CU_TENSOR_MAP_SWIZZLE_64B && config->swizzle != CU_TENSOR_MAP_SWIZZLE_128B)
    REFUSE("swizzle is %" PRId32 "; an im2col-wide map needs SWIZZLE_64B or SWIZZLE_128B", config->swizzle);
  return 0;
}

/* Checks that the device supports tensor maps. The answer never changes, so it is cached. */
static int check_device(const cch_tensor_map_config *config) {
  enum { KNOWN = 64 };
  static atomic_uchar known[KNOWN]; /* for each device, the major number of its compute capability; 0: unknown */
  int device = config->device, major = 0, minor = 0;
  int needed = config->kind == CCH_TENSOR_MAP_IM2COL_WIDE ? 10 : 9;
  if (device >= 0 && device < KNOWN)
    major = atomic_load_explicit(&known[device], memory_order_relaxed);
  if (major >= needed)
    return 0;
  CCH__RETURN_FAILURE(cch_device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CCH__RETURN_FAILURE(cch_device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  if (major < needed)
    REFUSE("device %d has the compute capability %d.%d; %s maps need %d.0 or later", device, major, minor,
           config->kind == CCH_TENSOR_MAP_IM2COL_WIDE ? "im2col-wide tensor" : "tensor", needed);
  if (device < KNOWN)
    atomic_store_explicit(&known[device], (unsigned char)major, memory_order_relaxed);
  return 0;
}

static int check(const cch_tensor_map_config *config) {
  CCH__RETURN_FAILURE(check_choices(config));
  CCH__RETURN_FAILURE(check_tensor(config));
  for (int i = 0; i < config->rank; i++) {
    CCH__RETURN_FAILURE(check_at("element_strides", i, config->element_strides[i], 1, MAX_ELEMENT_STRIDE));
  }
  CCH__RETURN_FAILURE(config->kind == CCH_TENSOR_MAP_TILED ? check_box(config) : check_pixels(config));
  if (config->kind == CCH_TENSOR_MAP_IM2COL_WIDE)
    CCH__RETURN_FAILURE(check_wide(config));
  return check_device(config);
}

/* Calls the driver. The driver's arrays begin with the innermost axis. */
static int encode(CUtensorMap *map, const cch_tensor_map_config *config) {
  cuuint64_t dims[MAX_RANK], strides[MAX_RANK];
  cuuint32_t box[MAX_RANK], steps[MAX_RANK], rank = (cuuint32_t)config->rank;
  int lower[MAX_RANK] = {0}, upper[MAX_RANK] = {0};
  for (int i = 0; i < config->rank; i++) {
    int axis = config->rank - 1 - i;
    dims[i] = (cuuint64_t)config->shape[axis];
    strides[i] = axis > 0 ? (cuuint64_t)config->strides[axis - 1] : 0;
    box[i] = (cuuint32_t)config->box_dim[axis];
    steps[i] = (cuuint32_t)config->element_strides[axis];
  }
  CUtensorMapDataType data_type = (CUtensorMapDataType)config->data_type;
  CUtensorMapInterleave interleave = (CUtensorMapInterleave)config->interleave;
  CUtensorMapSwizzle swizzle = (CUtensorMapSwizzle)config->swizzle;
  CUtensorMapL2promotion promotion = (CUtensorMapL2promotion)config->l2_promotion;
  CUtensorMapFloatOOBfill fill = (CUtensorMapFloatOOBfill)config->oob_fill;
  void *address = (void *)(uintptr_t)config->address;
  cuuint32_t channels = (cuuint32_t)config->channels_per_pixel, pixels = (cuuint32_t)config->pixels_per_column;
  switch (config->kind) {
  case CCH_TENSOR_MAP_TILED:
    return CCH__CALL(cuTensorMapEncodeTiled,
                     (map, data_type, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill));
  case CCH_TENSOR_MAP_IM2COL:
    for (int i = 0; i < config->rank - 2; i++) {
      lower[i] = (int)config->lower_corner[config->rank - 3 - i];
      upper[i] = (int)config->upper_corner[config->rank - 3 - i];
    }
    return CCH__CALL(cuTensorMapEncodeIm2col, (map, data_type, rank, address, dims, strides, lower, upper, channels,
                                               pixels, steps, interleave, swizzle, promotion, fill));
  default:
    return CCH__CALL(cuTensorMapEncodeIm2colWide,
                     (map, data_type, rank, address, dims, strides, (int)config->lower_corner[0],
                      (int)config->upper_corner[0], channels, pixels, steps, interleave,
                      (CUtensorMapIm2ColWideMode)config->wide_mode, swizzle, promotion, fill));
  }
}

static int encode_in_primary(CUtensorMap *map, const cch_tensor_map_config *config) {
  cch_context *context = NULL;
  int status = cch_context_primary(&context, config->device);
  if (status == 0)
    status = CCH__IN_CONTEXT(context, encode(map, config));
  cch_context_unref(context);
  return status;
}

cch_status cch_tensor_map_encode(cch_tensor_map *out, const cch_tensor_map_config *config) {
  CCH__REQUIRE_USABLE(out, config);
  CCH__RETURN_FAILURE(check(config));
  CUtensorMap map;
  int status = encode(&map, config);
  if (status == CUDA_ERROR_INVALID_CONTEXT) /* the driver needs a current context; any context will do */
    status = encode_in_primary(&map, config);
  if (status == 0)
    memcpy(out, &map, sizeof *out);
  return status;
}
