/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/bundle.h. */
int cch_bundle_create(cch_bundle **out, size_t capacity);
int cch_bundle_add(cch_bundle *bundle, void *box);
int cch_bundle_add_object(cch_bundle *bundle, void *object, cch_release_fn release);
size_t cch_bundle_count(const cch_bundle *bundle);
cch_bundle *cch_bundle_ref(cch_bundle *bundle);
void cch_bundle_unref(cch_bundle *bundle);
