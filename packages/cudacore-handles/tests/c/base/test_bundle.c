/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles of owners, and the functions that take a box of any kind. */
#include "device.h"

#include <stdatomic.h>

/* The owners in a bundle would be destroyed before the bundle, or never. */
static void owners_live_as_long_as_the_bundle(void) {
  int one = 1, ten = 10;
  cch_bundle *bundle;
  device_open();
  OK(cch_bundle_create(&bundle, 2));
  cch_event *first = new_event();
  OK(cch_bundle_add(bundle, first));
  OK(cch_bundle_add(bundle, first)); /* the same owner again: takes a second reference */
  cch_event_unref(first);
  for (int i = 0; i < 100; i++) { /* far more than the initial capacity */
    cch_event *more = new_event();
    OK(cch_bundle_add(bundle, more));
    cch_event_unref(more);
  }
  OK(cch_bundle_add_object(bundle, &one, check_release));
  OK(cch_bundle_add_object(bundle, &ten, check_release));
  void *owner = NULL;
  cch_release_fn how = NULL;
  OK(cch_bundle_get(&owner, &how, bundle, 103));
  CHECK(owner == &ten && how == check_release);
  OK(cch_bundle_get(&owner, &how, bundle, 50));
  CHECK(cch_kind_of(owner) == CCH_KIND_EVENT && how == NULL);
  FAILS(CCH_EINVAL, cch_bundle_get(&owner, &how, bundle, 104));
  CHECK_EQ(cch_live_count(CCH_KIND_BUNDLE), 1);
  CHECK(cch_bundle_ref(bundle) == bundle);
  cch_bundle_unref(bundle);
  CHECK_EQ(sim.live(CUDASIM_EVENT), 101);
  CHECK_EQ(check_released, 0);
  cch_bundle_unref(bundle);
  CHECK_EQ(sim.live(CUDASIM_EVENT), 0);
  CHECK_EQ(check_released, 11);
  device_close();
}

/* If an owner cannot be added to a bundle, the bundle would keep it nevertheless. */
static void refused_owners_stay_the_callers(void) {
  int one = 1;
  cch_bundle *bundle = NULL;
  FAILS(CCH_ENOMEM, cch_bundle_create(&bundle, SIZE_MAX / 2));
  CHECK(bundle == NULL);
  OK(cch_bundle_create(&bundle, 0));
  FAILS(CCH_EINVAL, cch_bundle_add(bundle, NULL));
  FAILS(CCH_EINVAL, cch_bundle_add(bundle, bundle));
  FAILS(CCH_EINVAL, cch_bundle_add_object(bundle, &one, NULL));
  CHECK_AFTER(cch_bundle_unref(bundle), check_released, 0);
}

/* The functions for boxes of any kind would not add and drop references, or would report a wrong kind. */
static void verbs_take_any_box(void) {
  cch_stream *legacy = cch_stream_legacy();
  cch_bundle *bundle;
  device_open();
  OK(cch_bundle_create(&bundle, 0));
  cch_event *made = new_event();
  CHECK_EQ(cch_kind_of(context), CCH_KIND_CONTEXT);
  CHECK_EQ(cch_kind_of(legacy), CCH_KIND_STREAM);
  CHECK_EQ(cch_kind_of(made), CCH_KIND_EVENT);
  CHECK_EQ(cch_kind_of(bundle), CCH_KIND_BUNDLE);
  CHECK_EQ(cch_kind_of(NULL), -1);
  CHECK(cch_is_valid(made) == 1 && cch_is_valid(legacy) == 1 && cch_is_valid(NULL) == 0);
  CHECK(cch_ref(made) == made && cch_ref(NULL) == NULL);
  cch_unref(made);
  CHECK_EQ(sim.live(CUDASIM_EVENT), 1);
  cch_unref(made);
  CHECK_EQ(sim.live(CUDASIM_EVENT), 0);
  cch_unref(NULL);
  cch_unref(bundle);
  cch_unref(legacy);
  device_close();
}

int main(void) {
  check_open();
  RUN(owners_live_as_long_as_the_bundle);
  RUN(refused_owners_stay_the_callers);
  RUN(verbs_take_any_box);
  return 0;
}
