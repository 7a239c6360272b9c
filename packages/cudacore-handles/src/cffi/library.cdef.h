/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/library.h. */
int cch_library_load(cch_library **out, const void *image, size_t size);
int cch_library_wrap(cch_library **out, CUlibrary raw, void *owner, cch_release_fn release);
cch_library *cch_library_ref(cch_library *library);
void cch_library_unref(cch_library *library);
CUlibrary cch_library_raw(const cch_library *library);
