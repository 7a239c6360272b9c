/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter.h"

#include <unistd.h>

static int to_exporter[2], from_exporter[2];

static cch_ipc_handle make_event(void) {
  cch_context *context;
  cch_event *event;
  cch_ipc_handle handle;
  check_open();
  OK(cch_context_primary(&context, 0));
  OK(cch_event_create(&event, context, CCH_EVENT_INTERPROCESS | CCH_EVENT_DISABLE_TIMING));
  OK(cch_event_export(&handle, event));
  return handle;
}

/*
 * Sends the event's handle to the other process for each byte that the other process sends. Returns when the other
 * process has closed the pipe.
 */
static void serve(void) {
  char request;
  cch_ipc_handle handle;
  for (int i = 0; read(to_exporter[0], &request, 1) == 1; i++) {
    if (i == 0)
      handle = make_event();
    CHECK(write(from_exporter[1], &handle, sizeof handle) == sizeof handle);
  }
}

/* The process is forked before main, because a process that has used the driver cannot be forked. */
__attribute__((constructor)) static void fork_exporter(void) {
  CHECK(pipe(to_exporter) == 0 && pipe(from_exporter) == 0);
  pid_t process = fork();
  CHECK(process >= 0);
  if (process == 0) {
    close(to_exporter[1]);
    close(from_exporter[0]);
    serve();
    _exit(0);
  }
  close(to_exporter[0]);
  close(from_exporter[1]);
}

cch_ipc_handle exported_event(void) {
  static cch_ipc_handle handle;
  static bool is_known;
  if (!is_known) {
    CHECK(write(to_exporter[1], "", 1) == 1);
    CHECK(read(from_exporter[0], &handle, sizeof handle) == sizeof handle);
    is_known = true;
  }
  return handle;
}
