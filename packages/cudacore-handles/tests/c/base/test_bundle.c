/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles of owners, and the functions that take a box of any kind. */
#include "device.h"

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

int main(void) {
  check_open();
  RUN(refused_owners_stay_the_callers);
  return 0;
}
