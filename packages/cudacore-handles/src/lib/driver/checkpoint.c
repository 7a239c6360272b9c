/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"
#include "driver/driver_table.h"

#include <cudacore_internal/checkpoint.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* CUcheckpointRestoreArgs, whose fields differ between the versions of cuda.h. */
typedef struct restore_args {
  CUuuid *pairs;
  unsigned count;
  char reserved[64 - sizeof(CUuuid *) - sizeof(unsigned)];
} restore_args;
_Static_assert(sizeof(restore_args) == sizeof(CUcheckpointRestoreArgs), "the size that the driver reads");

cch_status cch_checkpoint_state(int *out, int pid) {
  CCH__REQUIRE_USABLE(out);
  CUprocessState state;
  CCH__RETURN_FAILURE(CCH__CALL(cuCheckpointProcessGetState, (pid, &state)));
  *out = (int)state;
  return 0;
}

cch_status cch_checkpoint_restore_thread(int *out, int pid) {
  CCH__REQUIRE_USABLE(out);
  return CCH__CALL(cuCheckpointProcessGetRestoreThreadId, (pid, out));
}

cch_status cch_checkpoint_lock(int pid, unsigned timeout_ms) {
  CUcheckpointLockArgs args = {.timeoutMs = timeout_ms};
  int status = cch__ready();
  return status != 0 ? status : CCH__CALL(cuCheckpointProcessLock, (pid, &args));
}

cch_status cch_checkpoint_save(int pid) {
  int status = cch__ready();
  return status != 0 ? status : CCH__CALL(cuCheckpointProcessCheckpoint, (pid, NULL));
}

cch_status cch_checkpoint_restore(int pid, const unsigned char *uuids, size_t count) {
  CCH__REQUIRE_ARRAY(uuids, count);
  CCH__RETURN_FAILURE(cch__ready());
  if (count == 0)
    return CCH__CALL(cuCheckpointProcessRestore, (pid, NULL));
  CUuuid *pairs = count <= UINT_MAX ? calloc(count, 2 * sizeof *pairs)
                                    : NULL; /* a copy, because the driver's parameter is not const */
  if (pairs == NULL)
    return cch__fail_nomem(__func__);
  memcpy(pairs, uuids, count * 2 * sizeof *pairs);
  restore_args args = {.pairs = pairs, .count = (unsigned)count};
  int status = CCH__CALL(cuCheckpointProcessRestore, (pid, (CUcheckpointRestoreArgs *)&args));
  free(pairs);
  return status;
}

cch_status cch_checkpoint_unlock(int pid) {
  int status = cch__ready();
  return status != 0 ? status : CCH__CALL(cuCheckpointProcessUnlock, (pid, NULL));
}
