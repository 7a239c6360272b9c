/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays. */
#include "sim/driver/memory/array.h"

#include "sim/control/report.h"

#include <algorithm>

namespace sim {
namespace {

using Descriptor = CUDA_ARRAY3D_DESCRIPTOR;

constexpr unsigned cube_faces = 6;

/* The simulated flags of arrays. The others are not simulated: sparse arrays, and arrays that other APIs map. */
constexpr unsigned simulated_flags =
    CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;

bool has(const Descriptor &d, unsigned flag) { return (d.Flags & flag) != 0; }

/* The attributes of the device that limit the extents of an array; 0: this extent must be 0. */
struct Extents {
  CUdevice_attribute width, height, depth;
};
constexpr auto no_extent = static_cast<CUdevice_attribute>(0);

bool fits(const Device &device, const Extents &limit, const Descriptor &d) {
  auto is_in = [&](size_t value, CUdevice_attribute attribute) {
    return attribute == no_extent ? value == 0
                                  : value >= 1 && value <= static_cast<size_t>(device_attribute(attribute, device));
  };
  return is_in(d.Width, limit.width) && is_in(d.Height, limit.height) && is_in(d.Depth, limit.depth);
}

#define LIMIT(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name
/* Whether the device can have arrays of these extents. */
bool has_extents(const Device &device, const Descriptor &d, bool is_mipmapped) {
  bool surface = has(d, CUDA_ARRAY3D_SURFACE_LDST), layered = has(d, CUDA_ARRAY3D_LAYERED);
  auto choose = [&](const Extents &texture, const Extents &of_surface) {
    return fits(device, texture, d) && (!surface || fits(device, of_surface, d));
  };
  if (has(d, CUDA_ARRAY3D_CUBEMAP)) {
    if (d.Width != d.Height || d.Depth == 0 || (layered ? d.Depth % cube_faces != 0 : d.Depth != cube_faces))
      return false;
    return layered ? choose({LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH), LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH),
                             LIMIT(TEXTURECUBEMAP_LAYERED_LAYERS)},
                            {LIMIT(SURFACECUBEMAP_LAYERED_WIDTH), LIMIT(SURFACECUBEMAP_LAYERED_WIDTH),
                             LIMIT(SURFACECUBEMAP_LAYERED_LAYERS)})
                   : choose({LIMIT(TEXTURECUBEMAP_WIDTH), LIMIT(TEXTURECUBEMAP_WIDTH), LIMIT(TEXTURECUBEMAP_WIDTH)},
                            {LIMIT(SURFACECUBEMAP_WIDTH), LIMIT(SURFACECUBEMAP_WIDTH), LIMIT(SURFACECUBEMAP_WIDTH)});
  }
  if (layered)
    return d.Height == 0 ? choose({LIMIT(TEXTURE1D_LAYERED_WIDTH), no_extent, LIMIT(TEXTURE1D_LAYERED_LAYERS)},
                                  {LIMIT(SURFACE1D_LAYERED_WIDTH), no_extent, LIMIT(SURFACE1D_LAYERED_LAYERS)})
                         : choose({LIMIT(TEXTURE2D_LAYERED_WIDTH), LIMIT(TEXTURE2D_LAYERED_HEIGHT),
                                   LIMIT(TEXTURE2D_LAYERED_LAYERS)},
                                  {LIMIT(SURFACE2D_LAYERED_WIDTH), LIMIT(SURFACE2D_LAYERED_HEIGHT),
                                   LIMIT(SURFACE2D_LAYERED_LAYERS)});
  if (d.Depth != 0) {
    const Extents surfaces{LIMIT(SURFACE3D_WIDTH), LIMIT(SURFACE3D_HEIGHT), LIMIT(SURFACE3D_DEPTH)};
    return choose({LIMIT(TEXTURE3D_WIDTH), LIMIT(TEXTURE3D_HEIGHT), LIMIT(TEXTURE3D_DEPTH)}, surfaces) ||
           choose(
               {LIMIT(TEXTURE3D_WIDTH_ALTERNATE), LIMIT(TEXTURE3D_HEIGHT_ALTERNATE), LIMIT(TEXTURE3D_DEPTH_ALTERNATE)},
               surfaces);
  }
  if (d.Height != 0) {
    const Extents surfaces{LIMIT(SURFACE2D_WIDTH), LIMIT(SURFACE2D_HEIGHT), no_extent};
    if (is_mipmapped)
      return choose({LIMIT(TEXTURE2D_MIPMAPPED_WIDTH), LIMIT(TEXTURE2D_MIPMAPPED_HEIGHT), no_extent}, surfaces);
    if (has(d, CUDA_ARRAY3D_TEXTURE_GATHER))
      return choose({LIMIT(TEXTURE2D_GATHER_WIDTH), LIMIT(TEXTURE2D_GATHER_HEIGHT), no_extent}, surfaces);
    return choose({LIMIT(TEXTURE2D_WIDTH), LIMIT(TEXTURE2D_HEIGHT), no_extent}, surfaces);
  }
  return choose({is_mipmapped ? LIMIT(TEXTURE1D_MIPMAPPED_WIDTH) : LIMIT(TEXTURE1D_WIDTH), no_extent, no_extent},
                {LIMIT(SURFACE1D_WIDTH), no_extent, no_extent});
}
#undef LIMIT

CUresult check(const Device &device, const Descriptor &d, bool is_mipmapped) {
  if (d.NumChannels != 1 && d.NumChannels != 2 && d.NumChannels != 4)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned known = 0x1FF & ~(CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT);
  if ((d.Flags & ~known) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((d.Flags & ~simulated_flags) != 0) {
    explain("an array with flags " + hex(d.Flags) +
            ": only layered arrays, cube maps, and those for surfaces and gathering are simulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (channel_bytes(d.Format) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  bool gathers_from_a_plane = d.Height != 0 && d.Depth == 0;
  if (has(d, CUDA_ARRAY3D_TEXTURE_GATHER) && !gathers_from_a_plane)
    return CUDA_ERROR_INVALID_VALUE;
  return has_extents(device, d, is_mipmapped) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Allocates memory for an array. It counts as memory of the context, but not as an allocation of the application. */
CUresult new_array_memory(const ContextPtr &context, uint64_t bytes, AllocationPtr &out) {
  SIM_RETURN_FAILURE(new_device_memory(context, bytes, out));
  out->internal = out->is_array = true;
  fill_new_memory(out->host, bytes);
  return CUDA_SUCCESS;
}

std::shared_ptr<Array> add_array(const ContextPtr &context, const Descriptor &descriptor, const AllocationPtr &memory,
                                 uint64_t address) {
  auto array = std::make_shared<Array>();
  array->context = context;
  array->descriptor = descriptor;
  array->memory = memory;
  array->address = address;
  array->handle = state().arrays.add(array);
  return array;
}

Descriptor level_of(const Descriptor &base, unsigned level) {
  auto halved = [level](size_t extent) { return extent == 0 ? 0 : std::max<size_t>(extent >> level, 1); };
  Descriptor made = base;
  made.Width = halved(base.Width);
  made.Height = halved(base.Height);
  if (!has(base, CUDA_ARRAY3D_LAYERED) && !has(base, CUDA_ARRAY3D_CUBEMAP))
    made.Depth = halved(base.Depth);
  return made;
}

/* The number of levels of a mipmapped array whose last level is a single texel. */
unsigned max_levels(const Descriptor &d) {
  size_t longest = std::max(d.Width, d.Height);
  if (!has(d, CUDA_ARRAY3D_LAYERED) && !has(d, CUDA_ARRAY3D_CUBEMAP))
    longest = std::max(longest, d.Depth);
  unsigned levels = 0;
  for (; longest != 0; longest /= 2)
    levels++;
  return levels;
}

CUresult create(CUarray *out, const Descriptor *descriptor) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_REQUIRE(out != nullptr && descriptor != nullptr);
  SIM_RETURN_FAILURE(check(*context->device, *descriptor, false));
  Array sized;
  sized.descriptor = *descriptor;
  AllocationPtr memory;
  SIM_RETURN_FAILURE(new_array_memory(context, sized.bytes(), memory));
  *out = handle_of<CUarray>(add_array(context, *descriptor, memory, memory->base)->handle);
  return CUDA_SUCCESS;
}

CUresult find_mipmapped(CUmipmappedArray handle, std::shared_ptr<MipmappedArray> &out) {
  return find_object(state().mipmapped_arrays, Kind::mipmapped_array, handle, out);
}

/* Waits for the work of the context, as cuMemFree does, and frees the memory. */
CUresult free_after_work(const std::weak_ptr<Context> &of, AllocationPtr &memory) {
  if (ContextPtr context = of.lock(); context != nullptr && !context->destroyed)
    SIM_RETURN_FAILURE(synchronize(context));
  if (memory != nullptr)
    release_memory(memory, symbol_of(Call::current().entry));
  memory = nullptr;
  return CUDA_SUCCESS;
}

} // namespace

unsigned channel_bytes(CUarray_format format) {
  switch (static_cast<int>(format)) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT8:
    return 1;
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_HALF:
    return 2;
  case CU_AD_FORMAT_UNSIGNED_INT32:
  case CU_AD_FORMAT_SIGNED_INT32:
  case CU_AD_FORMAT_FLOAT:
    return 4;
  default:
    return 0;
  }
}

uint64_t Array::texel_bytes() const { return uint64_t{channel_bytes(descriptor.Format)} * descriptor.NumChannels; }

CUresult find_array(CUarray handle, std::shared_ptr<Array> &out) {
  return find_object(state().arrays, Kind::array, handle, out);
}

std::string text_of(const Array &array) {
  const Descriptor &d = array.descriptor;
  std::string text = std::to_string(d.Width);
  if (d.Height != 0 || d.Depth != 0)
    text += " x " + std::to_string(d.Height);
  if (d.Depth != 0)
    text += " x " + std::to_string(d.Depth);
  return text + " texels of " + std::to_string(array.texel_bytes()) + " bytes";
}

Texels texels_of(const std::vector<std::shared_ptr<Array>> &levels) {
  const Descriptor &d = levels.front()->descriptor;
  Texels out;
  out.layered = has(d, CUDA_ARRAY3D_LAYERED);
  bool is_cube = has(d, CUDA_ARRAY3D_CUBEMAP);
  out.shape = is_cube         ? Texels::Shape::cube
              : out.layered   ? (d.Height != 0 ? Texels::Shape::plane : Texels::Shape::line)
              : d.Depth != 0  ? Texels::Shape::volume
              : d.Height != 0 ? Texels::Shape::plane
                              : Texels::Shape::line;
  if (out.layered)
    out.layers = static_cast<uint32_t>(is_cube ? d.Depth / cube_faces : d.Depth);
  int format = d.Format;
  out.type = format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT ? Texels::Type::real
             : format >= CU_AD_FORMAT_SIGNED_INT8                        ? Texels::Type::signed_integer
                                                                         : Texels::Type::unsigned_integer;
  out.channels = static_cast<uint8_t>(d.NumChannels);
  out.channel_bytes = static_cast<uint8_t>(channel_bytes(d.Format));
  for (const std::shared_ptr<Array> &level : levels) {
    const Descriptor &l = level->descriptor;
    auto extent = [](size_t value) { return static_cast<uint32_t>(std::max<size_t>(value, 1)); };
    uint32_t depth = out.shape == Texels::Shape::volume ? extent(l.Depth) : 1;
    out.levels.push_back(
        {level->address, extent(l.Width), extent(l.Height), depth, level->pitch(), level->pitch() * level->rows()});
  }
  return out;
}

namespace api {

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
  return create(pHandle, pAllocateArray);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
  if (pAllocateArray == nullptr)
    return create(pHandle, nullptr);
  const CUDA_ARRAY_DESCRIPTOR &d = *pAllocateArray;
  Descriptor descriptor{d.Width, d.Height, 0, d.Format, d.NumChannels, 0};
  return create(pHandle, &descriptor);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  std::shared_ptr<Array> array;
  SIM_REQUIRE(pArrayDescriptor != nullptr);
  SIM_RETURN_FAILURE(find_array(hArray, array));
  *pArrayDescriptor = array->descriptor;
  return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY3D_DESCRIPTOR whole{};
  SIM_RETURN_FAILURE(api::cuArray3DGetDescriptor_v2(pArrayDescriptor != nullptr ? &whole : nullptr, hArray));
  *pArrayDescriptor = {whole.Width, whole.Height, whole.Format, whole.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArrayGetPlane(CUarray *, CUarray hArray, unsigned int) {
  std::shared_ptr<Array> array;
  SIM_RETURN_FAILURE(find_array(hArray, array));
  return CUDA_ERROR_INVALID_VALUE; /* arrays with several planes are not simulated */
}

/* An array has its memory from the beginning: arrays that are mapped later are not simulated. */
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray array, CUdevice) {
  std::shared_ptr<Array> found;
  SIM_RETURN_FAILURE(find_array(array, found));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayDestroy(CUarray hArray) {
  std::shared_ptr<Array> array;
  SIM_RETURN_FAILURE(find_array(hArray, array));
  if (array->whole.lock() != nullptr) {
    report("cuArrayDestroy was given a level of a mipmapped array, which is destroyed with that");
    return CUDA_SUCCESS; /* like the driver, does nothing */
  }
  SIM_RETURN_FAILURE(free_after_work(array->context, array->memory));
  if (state().arrays.find(array->handle) == array)
    state().arrays.remove(array->handle);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_REQUIRE(pHandle != nullptr && pMipmappedArrayDesc != nullptr);
  const Descriptor &descriptor = *pMipmappedArrayDesc;
  SIM_RETURN_FAILURE(check(*context->device, descriptor, true));
  unsigned levels = std::clamp(numMipmapLevels, 1u, max_levels(descriptor)); /* the driver also limits the number */
  constexpr uint64_t alignment = 512;                                        /* alignment of a level's first texel */
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; level++) {
    Array sized;
    sized.descriptor = level_of(descriptor, level);
    offsets.push_back(bytes);
    bytes = (bytes + sized.bytes() + alignment - 1) / alignment * alignment;
  }
  auto made = std::make_shared<MipmappedArray>();
  SIM_RETURN_FAILURE(new_array_memory(context, bytes, made->memory));
  made->context = context;
  made->descriptor = descriptor;
  for (unsigned level = 0; level < levels; level++) {
    made->levels.push_back(
        add_array(context, level_of(descriptor, level), made->memory, made->memory->base + offsets[level]));
    made->levels.back()->whole = made;
  }
  made->handle = state().mipmapped_arrays.add(made);
  *pHandle = handle_of<CUmipmappedArray>(made->handle);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level) {
  std::shared_ptr<MipmappedArray> array;
  SIM_REQUIRE(pLevelArray != nullptr);
  SIM_RETURN_FAILURE(find_mipmapped(hMipmappedArray, array));
  if (level >= array->levels.size())
    return CUDA_ERROR_INVALID_VALUE;
  *pLevelArray = handle_of<CUarray>(array->levels[level]->handle);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUmipmappedArray mipmap, CUdevice) {
  std::shared_ptr<MipmappedArray> found;
  SIM_RETURN_FAILURE(find_mipmapped(mipmap, found));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  std::shared_ptr<MipmappedArray> array;
  SIM_RETURN_FAILURE(find_mipmapped(hMipmappedArray, array));
  SIM_RETURN_FAILURE(free_after_work(array->context, array->memory));
  if (state().mipmapped_arrays.find(array->handle) != array)
    return CUDA_SUCCESS; /* another thread has destroyed the array meanwhile */
  for (const std::shared_ptr<Array> &level : array->levels)
    state().arrays.remove(level->handle);
  state().mipmapped_arrays.remove(array->handle);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
