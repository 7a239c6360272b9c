/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on pools, allocations, arrays, textures and graphics resources. */
#include "operations/calls.h"

#include <unistd.h>

static char registered[64];

static const cch_texture_desc sampling = {.flags = CCH_TEXTURE_AS_INTEGER};
static const cch_copy_attributes now = {.order = CCH_COPY_DURING_CALL};
static const cch_copy_attributes *const read_now[] = {&now};
static const cch_location on_device[] = {{CCH_LOCATION_DEVICE, 0}, {CCH_LOCATION_DEVICE, 0}};
static const cch_pool_config pool_config = {.size = sizeof pool_config, .location_type = 1};

MAKES(pool_create, cch_pool, cch_pool_create(&out, &pool_config))
MAKES(pool_current, cch_pool, cch_pool_current(&out, 1))
GIVES(pool_attribute, uint64_t, cch_pool_attribute(&out, w->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
DOES(pool_set_attribute, cch_pool_set_attribute(w->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4096))
GIVES(pool_access, int, cch_pool_access(&out, w->pool, 1))
DOES(pool_set_access, cch_pool_set_access(w->pool, &(int){1}, &(int){3}, 1))
MAKES(pool_wrap, cch_pool, cch_pool_wrap(&out, w->foreign_pool, 0, NULL, NULL))
MAKES(deviceptr_alloc_async, cch_deviceptr, cch_deviceptr_alloc_async(&out, w->pool, 64, w->stream))
static int deviceptr_alloc_tracked(world *w, void **made) {
  (void)made;
  cch_tracker *tracker, *limited;
  int status = cch_tracker_create(&tracker, &(cch_tracker_config){.lists = true, .log = "/dev/null"});
  if (status != 0)
    return status;
  status = cch_tracker_create(&limited, &(cch_tracker_config){.limit = 64});
  if (status != 0) {
    cch_tracker_unref(tracker);
    return status;
  }
  cch_deviceptr *out;
  status = cch_deviceptr_alloc_tracked(&out, w->pool, 64, w->stream, (cch_tracker *[]){tracker, limited}, 2);
  cch_tracker_counts counts;
  OK(cch_tracker_read(&counts, tracker));
  CHECK_EQ(counts.current_count, status == 0);
  OK(cch_tracker_read(&counts, limited));
  CHECK_EQ(counts.current_bytes, status == 0 ? 64 : 0);
  if (status != 0) {
    OK(cch_trackers_begin(&limited, 1, 64, NULL)); /* the failed allocation does not count against the limit */
    cch_trackers_cancel(&limited, 1, 64, NULL);
  } else {
    cch_deviceptr_unref(out);
  }
  cch_tracker_unref(tracker);
  cch_tracker_unref(limited);
  return status;
}
OPERATION(deviceptr_alloc_tracked, NULL)
static int allocate_from(world *w, int (*allocate)(CUdeviceptr *out, cch_allocator *, world *w)) {
  cch_allocator *allocator;
  CUdeviceptr ptr = 0;
  int status = cch_allocator_create(&allocator, w->pool, NULL, 0);
  if (status != 0)
    return status;
  status = allocate(&ptr, allocator, w);
  CHECK((status == 0) == (ptr != 0));
  if (status == 0) {
    status = cch_allocator_record_stream(ptr, cch_stream_raw(w->second_stream));
    if (status == 0)
      status = cch_allocator_free_async(ptr, cch_stream_raw(w->second_stream));
    else
      OK(cch_allocator_free(ptr));
    cch_error failure = *cch_error_last();
    FAILS(CCH_EINVAL, cch_allocator_free(ptr)); /* the memory was freed, even if a driver call failed */
    cch_error_restore(&failure);
  }
  cch_allocator_unref(allocator);
  return status;
}
static int allocate_on_stream(CUdeviceptr *out, cch_allocator *allocator, world *w) {
  return cch_allocator_alloc(out, allocator, 64, cch_stream_raw(w->stream));
}
static int allocate_for_torch(CUdeviceptr *out, cch_allocator *allocator, world *w) {
  int status = cch_torch_set_allocator(0, allocator);
  if (status == 0) {
    status = allocate_on_stream(out, allocator, w);
    cch_error failure = *cch_error_last();
    OK(cch_torch_set_allocator(0, NULL));
    cch_error_restore(&failure);
  }
  return status;
}
DOES(allocator_alloc, allocate_from(w, allocate_on_stream))
DOES(torch_set_allocator, allocate_from(w, allocate_for_torch))
MAKES(deviceptr_alloc, cch_deviceptr, cch_deviceptr_alloc(&out, w->context, 64))
MAKES(deviceptr_alloc_host, cch_deviceptr, cch_deviceptr_alloc_host(&out, w->context, 64, 0))
MAKES(deviceptr_alloc_managed, cch_deviceptr, cch_deviceptr_alloc_managed(&out, w->context, 64, CU_MEM_ATTACH_GLOBAL))
MAKES(deviceptr_register_host, cch_deviceptr,
      cch_deviceptr_register_host(&out, w->context, registered, sizeof registered, 0, NULL, NULL))
MAKES(deviceptr_wrap, cch_deviceptr, cch_deviceptr_wrap(&out, 0x1000, 64, w->context, NULL, NULL))
static int pool_export(world *w, void **made) {
  int descriptor = -77;
  int status = cch_pool_export(&descriptor, w->pool);
  (void)made;
  if (status == 0)
    close(descriptor);
  CHECK((status == 0) == (descriptor != -77));
  return status;
}
OPERATION(pool_export, NULL)
MAKES(pool_import, cch_pool, cch_pool_import(&out, w->descriptor, 1, 0))
static int deviceptr_export(world *w, void **made) {
  cch_ipc_handle handle;
  (void)made;
  return cch_deviceptr_export(&handle, w->ptr);
}
OPERATION(deviceptr_export, NULL)
MAKES(deviceptr_import, cch_deviceptr, cch_deviceptr_import_part(&out, w->imported_pool, &w->handle, 0, 64, w->stream))
static int event_export(world *w, void **made) {
  cch_ipc_handle handle;
  (void)made;
  return cch_event_export(&handle, w->shared_event);
}
OPERATION(event_export, NULL)
MAKES(event_import, cch_event, cch_event_import(&out, w->context, &w->event_handle, 0))

/* Imports the same memory twice, for use on two streams, and drops both imports. */
static int deviceptr_import_twice(world *w, void **made) {
  cch_deviceptr *first, *second;
  (void)made;
  int status = cch_deviceptr_import_part(&first, w->imported_pool, &w->handle, 0, 64, w->stream);
  if (status != 0)
    return status;
  status = cch_deviceptr_import_part(&second, w->imported_pool, &w->handle, 0, 64, w->second_stream);
  cch_deviceptr_unref(first);
  if (status == 0)
    cch_deviceptr_unref(second);
  return status;
}
OPERATION(deviceptr_import_twice, NULL)
MAKES(deviceptr_import_part, cch_deviceptr,
      cch_deviceptr_import_part(&out, w->imported_pool, &w->handle, 8, 16, w->stream))
MAKES(deviceptr_part, cch_deviceptr, cch_deviceptr_part(&out, w->ptr, 8, 16))

/* Uses memory and a part of it on two streams, and drops both. */
static int use_on_two_streams(world *w, cch_deviceptr *whole) {
  cch_deviceptr *part;
  int status = cch_deviceptr_part(&part, whole, 8, 16);
  if (status == 0) {
    status = cch_deviceptr_set_stream(part, w->second_stream);
    cch_deviceptr_unref(part);
  }
  cch_deviceptr_unref(whole);
  return status;
}
static int pool_part_on_another_stream(world *w, void **made) {
  cch_deviceptr *whole;
  (void)made;
  int status = cch_deviceptr_alloc_async(&whole, w->pool, 64, w->stream);
  return status != 0 ? status : use_on_two_streams(w, whole);
}
OPERATION(pool_part_on_another_stream, NULL)
static int host_part_on_another_stream(world *w, void **made) {
  cch_deviceptr *whole;
  (void)made;
  int status = cch_deviceptr_alloc_host(&whole, w->context, 64, 0);
  return status != 0 ? status : use_on_two_streams(w, whole);
}
OPERATION(host_part_on_another_stream, NULL)
MAKES(deviceptr_alloc_legacy, cch_deviceptr, cch_deviceptr_alloc_async(&out, w->pool, 64, cch_stream_legacy()),
      OPERATION_NEEDS_CURRENT)
DOES(deviceptr_set_stream, cch_deviceptr_set_stream(w->ptr, w->second_stream))
DOES(deviceptr_copy, cch_deviceptr_copy(w->ptr, w->pinned, 64, w->stream))
DOES(deviceptr_fill_1, cch_deviceptr_fill(w->ptr, 1, 1, w->stream))
DOES(deviceptr_fill_2, cch_deviceptr_fill(w->ptr, 1, 2, w->stream))
DOES(deviceptr_fill_4, cch_deviceptr_fill(w->ptr, 1, 4, w->stream))
DOES(deviceptr_fill_8, cch_deviceptr_fill(w->ptr, 1, 8, w->stream))
DOES(pointer_check, cch_pointer_check(cch_deviceptr_raw(w->pinned)), OPERATION_NEEDS_CURRENT)
GIVES(pointer_attributes, int, cch_pointer_attributes(&out, &(int){0}, &(int){0}, cch_deviceptr_raw(w->pinned)))
MAKES(pool_of, cch_pool, cch_pool_of(&out, CCH_LOCATION_HOST, 0, CCH_ALLOCATION_PINNED))
DOES(pool_trim, cch_pool_trim(w->pool, 0))
DOES(copy_batch, cch_copy_batch(&w->pinned, &w->ptr, 1, NULL, w->stream))
DOES(copy_batch_in_order, cch_copy_batch(&w->pinned, &w->ptr, 1, read_now, cch_stream_legacy()),
     OPERATION_NEEDS_CURRENT)
DOES(copy_part, cch_copy_part(w->pinned, w->ptr, &(cch_copy_shape){.width = 8, .height = 1, .depth = 1}, w->stream))
DOES(managed_advise, cch_managed_advise(w->managed, CU_MEM_ADVISE_SET_READ_MOSTLY, CCH_LOCATION_DEVICE, 0))
GIVES(managed_attribute, int, cch_managed_attribute(&out, 1, w->managed, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY))
DOES(managed_prefetch, cch_managed_move(&w->managed, on_device, 1, false, w->stream))
DOES(managed_prefetch_batch,
     cch_managed_move((cch_deviceptr *[]){w->managed, w->managed}, on_device, 2, false, w->stream))
DOES(managed_discard, cch_managed_move(&w->managed, NULL, 1, true, w->stream))
DOES(managed_discard_prefetch, cch_managed_move(&w->managed, on_device, 1, true, w->stream))
#define GIVES_TENSOR_MAP(name, kind)                                                                                   \
  static int name(world *w, void **made) {                                                                             \
    cch_tensor_map out, before;                                                                                        \
    (void)made;                                                                                                        \
    memset(&out, 0x55, sizeof out);                                                                                    \
    before = out;                                                                                                      \
    int status = tensor_map_of(&out, w, kind);                                                                         \
    CHECK((status != 0) == (memcmp(&out, &before, sizeof out) == 0));                                                  \
    return status;                                                                                                     \
  }                                                                                                                    \
  OPERATION(name, NULL)
GIVES_TENSOR_MAP(tensor_map_encode, CCH_TENSOR_MAP_TILED)
GIVES_TENSOR_MAP(tensor_map_encode_im2col, CCH_TENSOR_MAP_IM2COL)
/* Growing memory needs the addresses behind it, which later operations take. */
GIVES(virtual_granularity, size_t, cch_virtual_granularity(&out, &virtual_config))
MAKES(virtual_alloc, cch_deviceptr, cch_virtual_alloc(&out, &virtual_config, 1))
MAKES(virtual_grow, cch_deviceptr, cch_virtual_grow(&out, &(int){0}, w->grows, &virtual_config, 1 << 22),
      OPERATION_ONCE)
static int virtual_export(world *w, void **made) {
  int descriptor = -1, status;
  size_t size = 0;
  (void)made;
  status = cch_virtual_export(&descriptor, &size, 1, w->moves);
  CHECK((status == 0) == (descriptor >= 0));
  if (status == 0)
    close(descriptor);
  return status;
}
OPERATION(virtual_export, NULL)
MAKES(virtual_import, cch_deviceptr,
      cch_virtual_import(&out, &virtual_config, &w->memory_descriptor, &w->memory_size, 1))
MAKES(virtual_move, cch_deviceptr, cch_virtual_grow(&out, &(int){0}, w->moves, &virtual_config, 1 << 22))
MAKES(array_create, cch_array, cch_array_create(&out, w->context, &world_line))
MAKES(mipmapped_array_create, cch_mipmapped_array, cch_mipmapped_array_create(&out, w->context, &world_plane))
/*
 * Operations that need an array, or a level of a mipmapped array, create it. With an array in the world, the objects of
 * the next world would have other addresses.
 */
static int with_array(world *w, int (*call)(world *w, cch_array *array)) {
  cch_array *array;
  int status = cch_array_create(&array, w->context, &world_line);
  if (status != 0)
    return status;
  status = call(w, array);
  cch_array_unref(array);
  return status;
}
static int copy_from(world *w, cch_array *array) { return cch_array_copy_from(array, w->ptr, 0, w->stream); }
static int copy_to(world *w, cch_array *array) { return cch_array_copy_to(array, w->ptr, 0, w->stream); }
DOES(array_copy_from, with_array(w, copy_from))
DOES(array_copy_to, with_array(w, copy_to))
static int level_of(cch_array **out, world *w) {
  cch_mipmapped_array *levels;
  int status = cch_mipmapped_array_create(&levels, w->context, &world_plane);
  if (status != 0)
    return status;
  status = cch_mipmapped_array_level(out, levels, 1);
  cch_mipmapped_array_unref(levels);
  return status;
}
MAKES(mipmapped_array_level, cch_array, level_of(&out, w))
static int wrapped(cch_array **out, world *w) {
  cch_array *level;
  int status = level_of(&level, w);
  if (status != 0)
    return status;
  status = cch_array_wrap(out, cch_array_raw(level), w->context, NULL, NULL);
  cch_array_unref(level);
  return status;
}
MAKES(array_wrap, cch_array, wrapped(&out, w))
static int texture_of(cch_texture **out, world *w) {
  cch_array *array;
  int status = cch_array_create(&array, w->context, &world_line);
  if (status != 0)
    return status;
  status = cch_texture_create(out, w->context, &(cch_texture_resource){.source = array}, &sampling);
  cch_array_unref(array);
  return status;
}
MAKES(texture_create, cch_texture, texture_of(&out, w))
static int surface_of(cch_surface **out, world *w) {
  cch_array *array;
  int status = cch_array_create(&array, w->context, &world_line);
  if (status != 0)
    return status;
  status = cch_surface_create(out, w->context, array);
  cch_array_unref(array);
  return status;
}
MAKES(surface_create, cch_surface, surface_of(&out, w))
MAKES(graphics_register_gl_buffer, cch_graphics,
      cch_graphics_register(&out, w->context, w->gl_buffer, 0, CCH_GRAPHICS_READ_ONLY))
MAKES(graphics_register_gl_image, cch_graphics, cch_graphics_register(&out, w->context, w->gl_buffer, 0x0DE1, 0))
MAKES(graphics_map, cch_deviceptr, cch_graphics_map(&out, w->graphics, w->stream))
static int graphics_unmap(world *w, void **made) {
  cch_deviceptr *memory;
  (void)made;
  int status = cch_graphics_map(&memory, w->graphics, w->stream);
  if (status != 0)
    return status;
  status = cch_graphics_unmap(w->graphics, w->second_stream);
  CHECK_EQ(cch_is_valid(memory), status != 0);
  cch_deviceptr_unref(memory);
  return status;
}
OPERATION(graphics_unmap, NULL)
static int graphics_unregister(world *w, void **made) {
  cch_graphics *resource;
  cch_deviceptr *memory;
  (void)made;
  int status = cch_graphics_register(&resource, w->context, w->gl_buffer, 0, 0);
  if (status != 0)
    return status;
  status = cch_graphics_map(&memory, resource, w->stream);
  if (status == 0) {
    status = cch_graphics_unregister(resource, NULL);
    CHECK_EQ(cch_is_valid(resource), status != 0);
    cch_deviceptr_unref(memory);
  }
  cch_graphics_unref(resource);
  return status;
}
OPERATION(graphics_unregister, NULL)
/* Fills more memory than the first fills of 8 bytes write, so that the rest is copied. */
static int deviceptr_fill_long(world *w, void **made) {
  cch_deviceptr *ptr;
  (void)made;
  int status = cch_deviceptr_alloc_async(&ptr, w->pool, 1 << 16, w->stream);
  if (status != 0)
    return status;
  status = cch_deviceptr_fill(ptr, 1, 8, w->stream);
  cch_deviceptr_unref(ptr);
  return status;
}
OPERATION(deviceptr_fill_long, NULL)
