/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process that has live objects in various places: its status is 0, and stderr is empty. Each case is a
 * separate run of this program, with the case's name as argument.
 */
#include "operations.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static world left; /* reachable, so that a leak checker does not report it */
static cch_event *left_event;

static void leave_everything(void) {
  world_open(&left);
  OK(cch_context_set_current(left.context));
}

static void close_left_world(void) { world_close(&left); }

static void leave_queued(void) {
  world_open(&left);
  cch_unref_deferred(left.second_stream);
  cch_unref_deferred(left.end);
  CHECK_EQ(cch_reclaim_pending(), 2);
}

static void *use_for_ever(void *argument) {
  (void)argument;
  for (;;) {
    cch_event *event;
    if (cch_event_create(&event, left.context, 0) == 0)
      cch_event_unref(event);
  }
  return NULL;
}

static void leave_threads_running(void) {
  pthread_t thread;
  world_open(&left);
  for (int i = 0; i < 2; i++) {
    CHECK_EQ(pthread_create(&thread, NULL, use_for_ever, NULL), 0);
    pthread_detach(thread);
  }
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void close_in_atexit(void) {
  world_open(&left);
  atexit(close_left_world);
}

/* Drops the last objects after the driver has shut down. This must not be reported as a failure. */
static void drop_after_the_driver(void) {
  world_open(&left);
  sim.fail(NULL, 0, CUDA_ERROR_DEINITIALIZED);
  cch_deviceptr_unref(left.ptr);
  cch_deviceptr_unref(left.pinned);
  cch_event_unref(left.start);
  cch_stream_unref(left.second_stream);
  cch_kernel_unref(left.kernel);
  cch_library_unref(left.library);
  cch_pool_unref(left.pool);
  cch_context_unref(left.context);
}

static int released;
static void release(void *owner) {
  (void)owner;
  released++;
}
static void free_memory(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream) {
  (void)ptr, (void)size, (void)stream;
  release(owner);
}

/*
 * Drops objects after the interpreter has ended. The interpreter's callbacks must not be called; everything else is
 * still freed.
 */
static void drop_after_the_runtime(void) {
  cch_deviceptr *wrapped, *queued;
  cch_context *shared;
  world_open(&left);
  OK(cch_event_wrap(&left_event, left.foreign_event, &left, release));
  OK(cch_deviceptr_wrap(&wrapped, 0x1000, 1, NULL, &left, free_memory));
  OK(cch_deviceptr_wrap(&queued, 0x1000, 1, left.context, &left, free_memory));
  cch_unref_deferred(queued);
  cch_process_exiting();
  cch_process_exiting();
  cch_event_unref(left_event);
  cch_deviceptr_unref(wrapped);
  CHECK_EQ(cch_reclaim_drain(), 1);
  /*
   * The library already has a box of this context, so it does not need the owner, and would normally release the owner
   * now.
   */
  OK(cch_context_wrap(&shared, cch_context_raw(left.context), &left, release));
  cch_context_unref(shared);
  CHECK_EQ(released, 0);
  world_close(&left);
  CHECK_CLEAN();
}

static void destroy_in_destructor(void) { world_open(&left); }
static const char *mode = "";
__attribute__((destructor)) static void last(void) {
  if (strcmp(mode, "destroy_in_destructor") == 0)
    world_close(&left);
}

static const struct {
  const char *name;
  void (*function)(void);
} cases[] = {
#define CASE(function) {#function, function}
    CASE(leave_everything),      CASE(leave_queued),           CASE(leave_threads_running), CASE(close_in_atexit),
    CASE(drop_after_the_driver), CASE(drop_after_the_runtime), CASE(destroy_in_destructor),
};

static void run_alone(const char *program, const char *name) {
  int pipe_ends[2];
  char output[4096];
  size_t length = 0;
  ssize_t n;
  printf("%s\n", name);
  fflush(stdout);
  CHECK_EQ(pipe(pipe_ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    execl(program, program, name, (char *)NULL);
    _exit(127);
  }
  close(pipe_ends[1]);
  while (length < sizeof output - 1 && (n = read(pipe_ends[0], output + length, sizeof output - 1 - length)) > 0)
    length += (size_t)n;
  output[length] = '\0';
  close(pipe_ends[0]);
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || length != 0)
    check_fail(__FILE__, __LINE__, "%s ends with status %#x and says: %s", name, (unsigned)status, output);
}

int main(int argc, char **argv) {
  check_open();
  if (argc > 1)
    mode = argv[1];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (*mode == '\0')
      run_alone(argv[0], cases[i].name);
    else if (strcmp(mode, cases[i].name) == 0)
      cases[i].function();
  }
  return 0;
}
