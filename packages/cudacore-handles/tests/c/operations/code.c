/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on libraries and kernels, and launches. */
#include "operations/calls.h"

static const cch_launch_config launch_config = {.size = sizeof launch_config, .grid = {1, 1, 1}, .block = {1, 1, 1}};

MAKES(library_load, cch_library, cch_library_load(&out, check_ptx, strlen(check_ptx)))
MAKES(library_wrap, cch_library, cch_library_wrap(&out, w->foreign_library, NULL, NULL))
MAKES(kernel_get, cch_kernel, cch_kernel_get(&out, w->library, "mixed"))
MAKES(kernel_wrap, cch_kernel, cch_kernel_wrap(&out, w->foreign_kernel, NULL, NULL, NULL))

static int kernel_layout(world *w, void **made) {
  (void)made;
  const void *bytes = &untouched;
  size_t size = 0x5a5a;
  int status = cch_kernel_layout(&bytes, &size, w->kernel, "kinds", 5);
  CHECK(status != 0 ? bytes == &untouched && size == 0x5a5a : size == 5 && memcmp(bytes, "kinds", 5) == 0);
  if (status == 0) { /* bytes that are known stay */
    const void *known = bytes;
    CHECK(cch_kernel_layout(&bytes, &size, w->kernel, "others", 6) == 0 && bytes == known && size == 5);
  }
  return status;
}
OPERATION(kernel_layout, NULL)
static int kernel_params(world *w, void **made) {
  (void)made;
  const cch_param *params = (const cch_param *)&untouched;
  size_t count = 0x5a5a;
  int status = cch_kernel_params(&params, &count, w->kernel, w->context);
  CHECK(status == 0 || (params == (const cch_param *)&untouched && count == 0x5a5a));
  return status;
}
OPERATION(kernel_params, NULL)

static int kernel_set_params(world *w, void **made) {
  (void)made;
  const cch_param param = {0, 8};
  return cch_kernel_set_params(w->kernel, &param, 1);
}
OPERATION(kernel_set_params, NULL)

GIVES(occupancy_clusters, int, cch_occupancy_clusters(&out, false, w->stream, &launch_config, w->kernel))
GIVES(occupancy_largest_cluster, int, cch_occupancy_clusters(&out, true, w->stream, &launch_config, w->kernel))
DOES(launch, cch_launch(w->stream, &launch_config, w->kernel, launch_arguments, sizeof launch_arguments))
static int launch_keep(void *data) {
  (void)data;
  return 0;
}
DOES(launch_keeping, cch_launch_keeping(w->stream, &launch_config, w->kernel, launch_arguments, sizeof launch_arguments,
                                        launch_keep, NULL))
