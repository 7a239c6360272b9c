/* SPDX-License-Identifier: Apache-2.0 */
/* Textures of linear memory do not read outside of the memory. */
#include "check.h"

enum { PITCH = 512, WIDTH = 16, HEIGHT = 4, ROW = WIDTH * 4, WHOLE = (HEIGHT - 1) * PITCH + ROW };

static int create_in(cch_context *context, size_t size, const cch_texture_resource *resource) {
  cch_deviceptr *memory;
  OK(cch_deviceptr_alloc(&memory, context, size));
  cch_texture *texture = NULL;
  cch_texture_resource reads = *resource;
  reads.source = memory;
  const cch_texture_desc sampling = {0};
  int status = cch_texture_create(&texture, context, &reads, &sampling);
  cch_deviceptr_unref(memory); /* the texture keeps the memory */
  CHECK_EQ(cch_live_count(CCH_KIND_DEVICEPTR), status == 0);
  cch_texture_unref(texture);
  return status;
}

/* A kernel would read beyond the memory in the last row, which has no padding. */
static void pitched_memory_has_all_texels(void) {
  cch_context *context;
  OK(cch_context_primary(&context, 0));
  cch_texture_resource image = {
      .width = WIDTH, .height = HEIGHT, .pitch = PITCH, .format = CCH_FORMAT_FLOAT, .channels = 1};
  OK(create_in(context, WHOLE, &image));
  FAILS(CCH_EINVAL, create_in(context, WHOLE - 1, &image));
  CHECK_HAS(check_error()->message, "beyond the memory");
  FAILS(CCH_EINVAL, create_in(context, WHOLE - ROW, &image));
  image.width = SIZE_MAX / 2;
  FAILS(CCH_EINVAL, create_in(context, WHOLE, &image));
  image.height = SIZE_MAX;
  FAILS(CCH_EINVAL, create_in(context, WHOLE, &image));
  cch_context_unref(context);
}

/* A kernel would read beyond the end of linear memory. */
static void linear_memory_has_all_texels(void) {
  cch_context *context;
  OK(cch_context_primary(&context, 0));
  cch_texture_resource line = {.width = WHOLE, .format = CCH_FORMAT_FLOAT, .channels = 1};
  OK(create_in(context, WHOLE, &line));
  FAILS(CCH_EINVAL, create_in(context, WHOLE - 1, &line));
  cch_context_unref(context);
}

int main(void) {
  check_open();
  RUN(pitched_memory_has_all_texels);
  RUN(linear_memory_has_all_texels);
  return 0;
}
