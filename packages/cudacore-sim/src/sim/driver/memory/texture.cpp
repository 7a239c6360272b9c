/* SPDX-License-Identifier: Apache-2.0 */
/* Texture objects and surface objects. */
#include "sim/driver/memory/array.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

using Resource = CUDA_RESOURCE_DESC;
using Sampling = CUDA_TEXTURE_DESC;

bool is_aligned(uint64_t value, CUdevice_attribute attribute, const Device &device) {
  return value % static_cast<uint64_t>(device_attribute(attribute, device)) == 0;
}

bool is_within_limit(uint64_t value, CUdevice_attribute attribute, const Device &device) {
  return value <= static_cast<uint64_t>(device_attribute(attribute, device));
}

/* Sets the format and the number of channels of texels. */
CUresult read_type(CUarray_format format, unsigned channels, Texels &out) {
  if (channel_bytes(format) == 0 || (channels != 1 && channels != 2 && channels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  auto like = std::make_shared<Array>();
  like->descriptor = {1, 0, 0, format, channels, 0};
  out = texels_of({like});
  return CUDA_SUCCESS;
}

CUresult read_linear(const Context &context, const Resource &resource, Texels &out) {
  const auto &linear = resource.res.linear;
  const Device &device = *context.device;
  SIM_RETURN_FAILURE(read_type(linear.format, linear.numChannels, out));
  uint64_t texels = linear.sizeInBytes / out.texel_bytes();
  if (linear.devPtr == 0 || !is_aligned(linear.devPtr, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device))
    return CUDA_ERROR_INVALID_VALUE;
  out.shape = Texels::Shape::linear;
  uint64_t pitch = texels * out.texel_bytes();
  out.levels = {{linear.devPtr, static_cast<uint32_t>(texels), 1, 1, pitch, pitch}};
  return CUDA_SUCCESS;
}

CUresult read_pitched(const Context &context, const Resource &resource, Texels &out) {
  const auto &rows = resource.res.pitch2D;
  const Device &device = *context.device;
  SIM_RETURN_FAILURE(read_type(rows.format, rows.numChannels, out));
  if (rows.devPtr == 0 || !is_aligned(rows.devPtr, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device) ||
      !is_aligned(rows.pitchInBytes, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device) ||
      !is_within_limit(rows.width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, device) ||
      !is_within_limit(rows.height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, device) ||
      !is_within_limit(rows.pitchInBytes, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, device))
    return CUDA_ERROR_INVALID_VALUE;
  out.shape = Texels::Shape::plane;
  out.levels = {{rows.devPtr, static_cast<uint32_t>(rows.width), static_cast<uint32_t>(rows.height), 1,
                 rows.pitchInBytes, rows.pitchInBytes * rows.height}};
  return CUDA_SUCCESS;
}

CUresult read_resource(const Context &context, const Resource &resource, Texels &out) {
  if (resource.flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Array> array;
  std::shared_ptr<MipmappedArray> whole;
  bool is_array = resource.resType == CU_RESOURCE_TYPE_ARRAY || resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (is_array && resource.res.array.hArray == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(resource.resType)) {
  case CU_RESOURCE_TYPE_ARRAY:
    SIM_RETURN_FAILURE(find_array(resource.res.array.hArray, array));
    out = texels_of({array});
    return CUDA_SUCCESS;
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
    if (CUresult result =
            find_object(state().mipmapped_arrays, Kind::mipmapped_array, resource.res.mipmap.hMipmappedArray, whole))
      return result;
    out = texels_of(whole->levels);
    return CUDA_SUCCESS;
  case CU_RESOURCE_TYPE_LINEAR:
    return read_linear(context, resource, out);
  case CU_RESOURCE_TYPE_PITCH2D:
    return read_pitched(context, resource, out);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult read_sampling(const Sampling &from, Sampler &out) {
  auto is_filter = [](CUfilter_mode mode) {
    return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
  };
  constexpr unsigned known = 0x7F; /* the driver accepts two flags that cuda.h does not have */
  bool is_reserved =
      std::any_of(std::begin(from.reserved), std::end(from.reserved), [](int word) { return word != 0; });
  bool is_cube = out.texels.shape == Texels::Shape::cube;
  if (is_reserved || ((from.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0 && !is_cube) || (from.flags & ~known) != 0 ||
      !is_filter(from.filterMode) || !is_filter(from.mipmapFilterMode))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t axis = 0; axis < 3; axis++) {
    int mode = from.addressMode[axis];
    bool is_known = mode >= CU_TR_ADDRESS_MODE_WRAP && mode <= CU_TR_ADDRESS_MODE_BORDER;
    if (!is_known && axis == 2 && out.texels.shape != Texels::Shape::volume)
      continue; /* a flat texture has no third axis, so the driver ignores this mode */
    if (!is_known)
      return CUDA_ERROR_INVALID_VALUE;
    /* If coordinates are not normalized, the modes that repeat a texture act as clamping. */
    bool repeats = mode == CU_TR_ADDRESS_MODE_WRAP || mode == CU_TR_ADDRESS_MODE_MIRROR;
    bool is_normalized = (from.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    out.modes[axis] = repeats && !is_normalized ? Sampler::Address::clamp : static_cast<Sampler::Address>(mode);
  }
  out.linear = from.filterMode == CU_TR_FILTER_MODE_LINEAR;
  out.linear_levels = from.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  /*
   * Mipmapped arrays always have normalized coordinates: the driver accepts them without the flag, although the
   * hardware supports no other coordinates.
   */
  out.normalized = (from.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0 || out.texels.levels.size() > 1;
  out.as_integer = (from.flags & CU_TRSF_READ_AS_INTEGER) != 0;
  out.srgb = (from.flags & CU_TRSF_SRGB) != 0;
  out.seamless = (from.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  out.anisotropy = from.maxAnisotropy;
  out.bias = from.mipmapLevelBias;
  out.min_level = from.minMipmapLevelClamp;
  out.max_level = from.maxMipmapLevelClamp;
  std::copy(std::begin(from.borderColor), std::end(from.borderColor), out.border.begin());
  return CUDA_SUCCESS;
}

using Table = Handles<TextureObject>;

/* Finds the object of a handle, and stores get(object) in `out`. */
template <class T, class Get> CUresult read(Table &table, Kind kind, CUtexObject handle, T *out, Get get) {
  std::shared_ptr<TextureObject> object;
  if (out == nullptr || find_object(table, kind, handle_of<const void *>(handle), object) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  *out = get(*object);
  return CUDA_SUCCESS;
}

CUDA_RESOURCE_DESC resource_of(const TextureObject &object) { return object.resource; }

CUtexObject add(Table &table, const ContextPtr &context, const CUDA_RESOURCE_DESC &resource,
                std::shared_ptr<const Sampler> sampler, const CUDA_TEXTURE_DESC &sampling = {}) {
  auto object = std::make_shared<TextureObject>();
  object->context = context;
  object->resource = resource;
  object->sampling = sampling;
  object->sampler = std::move(sampler);
  object->handle = table.add(object);
  state().samplers = nullptr;
  return object->handle;
}

CUresult destroy(Table &table, Kind kind, CUtexObject handle) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (handle == 0)
    return CUDA_SUCCESS;
  /* Like the driver, this function returns no error for an invalid handle. */
  if (table.was_destroyed(handle)) {
    report_stale(kind, handle);
    return CUDA_SUCCESS;
  }
  if (table.peek(handle) == nullptr) {
    report(std::string(symbol_of(Call::current().entry)) + " was given " + hex(handle) + ", which is not a " +
           name_of(kind));
    return CUDA_SUCCESS;
  }
  table.remove(handle);
  state().samplers = nullptr;
  return CUDA_SUCCESS;
}

} // namespace

std::shared_ptr<const SamplerMap> samplers() {
  State &s = state();
  if (s.samplers == nullptr && (s.textures.size() != 0 || s.surfaces.size() != 0)) {
    auto made = std::make_shared<SamplerMap>();
    for (Table *table : {&s.textures, &s.surfaces})
      for (const auto &object : table->all())
        made->emplace(object->handle, object->sampler);
    s.samplers = made;
  }
  return s.samplers;
}

void forget_arrays(const ContextPtr &context) {
  State &s = state();
  auto forget = [&](auto &table) {
    for (const auto &object : table.all())
      if (context == nullptr || object->context.lock() == context)
        table.remove(object->handle);
  };
  forget(s.textures);
  forget(s.surfaces);
  forget(s.mipmapped_arrays);
  forget(s.arrays);
  s.samplers = nullptr;
}

namespace api {

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                           const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_REQUIRE(pTexObject != nullptr && pResDesc != nullptr && pTexDesc != nullptr);
  if (pResViewDesc != nullptr) {
    explain("a texture with a resource view: views are not simulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto sampler = std::make_shared<Sampler>();
  SIM_RETURN_FAILURE(read_resource(*context, *pResDesc, sampler->texels));
  SIM_RETURN_FAILURE(read_sampling(*pTexDesc, *sampler));
  *pTexObject = add(state().textures, context, *pResDesc, std::move(sampler), *pTexDesc);
  return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject) { return destroy(state().textures, Kind::texture, texObject); }

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject) {
  return read(state().textures, Kind::texture, texObject, pResDesc, resource_of);
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject) {
  return read(state().textures, Kind::texture, texObject, pTexDesc, [](const TextureObject &object) {
    CUDA_TEXTURE_DESC sampling = object.sampling;
    /* The driver reports zeros as the border color. */
    std::fill(std::begin(sampling.borderColor), std::end(sampling.borderColor), 0.0F);
    return sampling;
  });
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject) {
  return read(state().textures, Kind::texture, texObject, pResViewDesc,
              [](const TextureObject &) { return CUDA_RESOURCE_VIEW_DESC{}; });
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) {
  ContextPtr context;
  std::shared_ptr<Array> array;
  SIM_RETURN_FAILURE(need_context(context));
  if (pSurfObject == nullptr || pResDesc == nullptr || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY ||
      pResDesc->flags != 0 || pResDesc->res.array.hArray == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_array(pResDesc->res.array.hArray, array));
  if ((array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0)
    report("cuSurfObjectCreate was given an array that was created without CUDA_ARRAY3D_SURFACE_LDST");
  auto sampler = std::make_shared<Sampler>();
  sampler->is_surface = true;
  sampler->texels = texels_of({array});
  *pSurfObject = add(state().surfaces, context, *pResDesc, std::move(sampler));
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject) { return destroy(state().surfaces, Kind::surface, surfObject); }

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject) {
  return read(state().surfaces, Kind::surface, surfObject, pResDesc, resource_of);
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, unsigned numChannels,
                                            CUdevice dev) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(dev, device));
  if (maxWidthInElements == nullptr || channel_bytes(format) == 0 ||
      (numChannels != 1 && numChannels != 2 && numChannels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  constexpr size_t max_texels = size_t{1} << 30, max_bytes = size_t{1} << 32;
  *maxWidthInElements = std::min(max_texels, max_bytes / (channel_bytes(format) * numChannels));
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
