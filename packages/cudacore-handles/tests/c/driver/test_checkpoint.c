/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of this process, which only the simulated driver allows. */
#include "check.h"

#include <unistd.h>

static int state(void) {
  int out = 77;
  OK(cch_checkpoint_state(&out, getpid()));
  return out;
}

/* The reported state of a process would be wrong, or calls would affect another process. */
static void states_follow_the_calls(void) {
  const int self = getpid();
  CHECK_EQ(state(), CU_PROCESS_STATE_RUNNING);
  OK(cch_checkpoint_lock(self, 0));
  CHECK_EQ(state(), CU_PROCESS_STATE_LOCKED);
  OK(cch_checkpoint_save(self));
  CHECK_EQ(state(), CU_PROCESS_STATE_CHECKPOINTED);
  OK(cch_checkpoint_restore(self, NULL, 0));
  CHECK_EQ(state(), CU_PROCESS_STATE_LOCKED);
  OK(cch_checkpoint_unlock(self));
  CHECK_EQ(state(), CU_PROCESS_STATE_RUNNING);
}

/* An operation on a process in the wrong state would be reported as done. */
static void wrong_states_are_refused(void) {
  const int self = getpid();
  FAILS(CUDA_ERROR_ILLEGAL_STATE, cch_checkpoint_save(self));
  CHECK_STR(check_error()->operation, "cuCheckpointProcessCheckpoint");
  FAILS(CUDA_ERROR_ILLEGAL_STATE, cch_checkpoint_restore(self, NULL, 0));
  FAILS(CUDA_ERROR_ILLEGAL_STATE, cch_checkpoint_unlock(self));
  OK(cch_checkpoint_lock(self, 1000));
  FAILS(CUDA_ERROR_ILLEGAL_STATE, cch_checkpoint_lock(self, 1000));
  OK(cch_checkpoint_unlock(self));
}

/* The UUIDs of a mapping of devices would be passed in a wrong layout, or an incomplete mapping would be accepted. */
static void devices_are_mapped(void) {
  const int self = getpid();
  unsigned char uuids[4 * 16];
  OK(cch_device_uuid(uuids, 0));
  OK(cch_device_uuid(uuids + 16, 0));
  OK(cch_device_uuid(uuids + 32, 1));
  OK(cch_device_uuid(uuids + 48, 1));
  OK(cch_checkpoint_lock(self, 0));
  OK(cch_checkpoint_save(self));
  FAILS(CCH_EINVAL, cch_checkpoint_restore(self, NULL, 1));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cch_checkpoint_restore(self, uuids + 16, 1)); /* maps only one device */
  OK(cch_checkpoint_restore(self, uuids, 2));
  OK(cch_checkpoint_unlock(self));
}

static void wait_for_flag(void *flag) {
  while (__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE) == 0)
    usleep(100);
}

/* A process whose work does not end would be locked nevertheless, or would remain partly locked. */
static void limits_of_time_end(void) {
  int flag = 0, out = 77;
  cch_context *context;
  cch_stream *stream;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_stream_callback(stream, wait_for_flag, &flag, NULL));
  CHECK_EQ(cch_checkpoint_lock(getpid(), 20), CCH_NOT_READY);
  CHECK_EQ(state(), CU_PROCESS_STATE_RUNNING);
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
  OK(cch_stream_synchronize(stream));
  FAILS(CUDA_ERROR_OPERATING_SYSTEM, cch_checkpoint_state(&out, 0));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cch_checkpoint_restore_thread(&out, getpid()));
  CHECK_EQ(out, 77);
  cch_stream_unref(stream);
  cch_context_unref(context);
}

int main(void) {
  check_open();
  RUN(states_follow_the_calls);
  RUN(wrong_states_are_refused);
  RUN(devices_are_mapped);
  RUN(limits_of_time_end);
  return 0;
}
