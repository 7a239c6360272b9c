/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/current.h"
#include "code/kernel.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <stdlib.h>
#include <string.h>

/* cch_library_raw() */
CCH__DEFINE_RAW(cch_library, CUlibrary, raw)

atomic_size_t cch__printing;

static void set_prints(cch_library *library, bool prints) {
  library->prints = prints;
  if (prints)
    atomic_fetch_add_explicit(&cch__printing, 1, memory_order_relaxed);
}

cch_status cch_library_load(cch_library **out, const void *image, size_t size) {
  CCH__REQUIRE_USABLE(out, image);
  cch__poll();
  cch__format format;
  bool prints;
  CCH__RETURN_FAILURE(cch__image_check(&format, &prints, image, size));
  char *terminated = NULL;
  if (format == CCH__PTX && ((const char *)image)[size - 1] != '\0') {
    terminated = malloc(size + 1);
    if (terminated == NULL)
      return cch__fail_nomem(__func__);
    memcpy(terminated, image, size);
    terminated[size] = '\0';
    image = terminated;
  }
  cch_library *library = cch__box_new(CCH_KIND_LIBRARY, sizeof *library, __func__);
  int status = CCH_ENOMEM;
  if (library != NULL) {
    status = CCH__CALL(cuLibraryLoadData, (&library->raw, image, NULL, NULL, 0, NULL, NULL, 0));
    status = cch__box_created(library, status);
  }
  free(terminated);
  if (status != 0)
    return status;
  set_prints(library, prints);
  cch__registry_insert(library, library->raw);
  *out = library;
  return 0;
}

cch_status cch_library_wrap(cch_library **out, CUlibrary raw, void *owner, cch_release_fn release) {
  CCH__REQUIRE_USABLE(out, raw);
  bool is_new;
  int status = cch__box_of_handle(out, &is_new, CCH_KIND_LIBRARY, sizeof **out, raw, owner, release, __func__);
  if (status == 0 && is_new) {
    (*out)->raw = raw;
    set_prints(*out, true); /* the code is not known */
  }
  return status;
}

cch_status cch_library_disown(cch_library *library) {
  CCH__REQUIRE_USABLE(library);
  /*
   * After other code has unloaded the library, the driver can reuse its handle. So this box must no longer be found by
   * its handle.
   */
  cch__registry_remove(library);
  library->box.owned = false;
  return 0;
}

bool cch__library_destroy(cch_library *library) {
  if (library->box.owned && !cch__destroyed(CCH__RELAXED(CCH__CALL(cuLibraryUnload, (library->raw)))))
    return false;
  if (library->prints)
    atomic_fetch_sub_explicit(&cch__printing, 1, memory_order_relaxed);
  return true;
}
