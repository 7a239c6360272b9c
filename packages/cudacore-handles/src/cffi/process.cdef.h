/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/process.h. */
void cch_process_exiting(void);
int cch_process_forked(void);
void cch_callback_enter(void);
void cch_callback_leave(void);
void cch_unref_deferred(void *box);
size_t cch_reclaim_drain(void);
size_t cch_reclaim_pending(void);
