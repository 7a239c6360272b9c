/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/context.h. */
int cch_context_primary(cch_context **out, int device);
int cch_context_wrap(cch_context **out, CUcontext raw, void *owner, cch_release_fn release);
int cch_context_current(cch_context **out);
int cch_context_set_current(cch_context *context);
int cch_context_synchronize(cch_context *context);
int cch_context_priorities(int *lowest, int *highest, cch_context *context);
int cch_current_device(int *out);
int cch_context_device(const cch_context *context);
int cch_context_is_primary(const cch_context *context);
cch_context *cch_context_ref(cch_context *context);
void cch_context_unref(cch_context *context);
CUcontext cch_context_raw(const cch_context *context);
