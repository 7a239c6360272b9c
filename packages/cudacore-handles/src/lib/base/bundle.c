/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bundle.h"

#include <stdlib.h>
#include <string.h>

cch_status cch_bundle_create(cch_bundle **out, size_t capacity) {
  CCH__REQUIRE(out);
  if (capacity > (SIZE_MAX - sizeof(cch_bundle)) / sizeof(cch__owner))
    return cch__fail_nomem(__func__);
  cch_bundle *bundle = cch__box_new(CCH_KIND_BUNDLE, sizeof *bundle + capacity * sizeof *bundle->first, __func__);
  if (bundle == NULL)
    return CCH_ENOMEM;
  bundle->owners = bundle->first;
  bundle->capacity = capacity;
  *out = bundle;
  return 0;
}

int cch__bundle_grow(cch_bundle *bundle, const char *operation) {
  size_t capacity = bundle->capacity < 4 ? 8 : bundle->capacity * 2;
  cch__owner *owners = calloc(capacity, sizeof *owners);
  if (owners == NULL)
    return cch__fail_nomem(operation);
  if (bundle->count > 0)
    memcpy(owners, bundle->owners, bundle->count * sizeof *owners);
  if (bundle->owners != bundle->first)
    free(bundle->owners);
  bundle->owners = owners;
  bundle->capacity = capacity;
  return 0;
}

cch_status cch_bundle_add(cch_bundle *bundle, void *box) {
  CCH__REQUIRE(bundle, box);
  if (box == bundle)
    return cch__fail(CCH_EINVAL, __func__, "a bundle cannot own itself");
  return cch__bundle_add(bundle, box, __func__);
}

cch_status cch_bundle_add_object(cch_bundle *bundle, void *object, cch_release_fn release) {
  CCH__REQUIRE(bundle, release);
  CCH__RETURN_FAILURE(cch__bundle_put(bundle, object, release, __func__));
  bundle->foreign = true;
  return 0;
}

int cch__bundle_wrap(cch_bundle **out, void *box, cch_bundle *bundle, size_t payload_size, const char *operation) {
  enum { OWNERS = 2 };
  cch_bundle *made =
      cch__box_new(CCH_KIND_BUNDLE, sizeof *made + OWNERS * sizeof *made->first + payload_size, operation);
  if (made == NULL)
    return CCH_ENOMEM;
  made->owners = made->first;
  made->capacity = OWNERS;
  made->wraps = true;
  made->payload = made->first + OWNERS;
  made->payload_size = payload_size;
  if (box != NULL)
    made->owners[made->count++] = (cch__owner){cch__box_ref(box), NULL};
  if (bundle != NULL)
    made->owners[made->count++] = (cch__owner){cch__box_ref(bundle), NULL};
  made->given = bundle;
  *out = made;
  return 0;
}

cch_bundle *cch__bundle_given(cch_bundle *bundle) { return bundle != NULL && bundle->wraps ? bundle->given : bundle; }

cch_status cch_bundle_get(void **out, cch_release_fn *release, const cch_bundle *bundle, size_t index) {
  CCH__REQUIRE(out, release, bundle);
  if (index >= bundle->count)
    return cch__fail(CCH_EINVAL, __func__, "the bundle has no owner number %zu, but %zu of them", index, bundle->count);
  *out = bundle->owners[index].object;
  *release = bundle->owners[index].release;
  return 0;
}

void cch__bundle_unref_held(cch_bundle *bundle) {
  for (size_t i = 0; i < bundle->count; i++) {
    if (bundle->owners[i].release == NULL)
      cch__box_unref(bundle->owners[i].object);
    else
      cch__release_owner(bundle->owners[i].object, bundle->owners[i].release);
  }
  if (bundle->owners != bundle->first)
    free(bundle->owners);
}
