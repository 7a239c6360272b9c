/* SPDX-License-Identifier: Apache-2.0 */
/* Forked children: CUDA cannot be used in the child of a process that initialised CUDA, and no call there may hang. */
#include "operations.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Runs a function in a child, which must succeed within 30 seconds. */
static void in_child(void (*function)(void *argument), void *argument) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(30);
    function(argument);
    _exit(0);
  }
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status))
    check_fail(__FILE__, __LINE__, "the child hung or crashed: signal %d", WTERMSIG(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
}

static void use_cuda(void *argument) {
  cch_context *context;
  cch_stream *stream;
  (void)argument;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_stream_synchronize(stream));
  cch_stream_unref(stream);
  cch_context_unref(context);
  CHECK_CLEAN();
}

/*
 * If a process had not used CUDA before a fork, the child could not use CUDA, or the parent could not use CUDA
 * afterwards.
 */
static void fork_before_init(void) {
  in_child(use_cuda, NULL);
  use_cuda(NULL);
}

static void use_world_in_child(void *argument) {
  world *w = argument;
  size_t calls = sim.calls(NULL);
  FAILS(CCH_EFORKED, cch_driver_init());
  CHECK_HAS(check_error()->message, "fork");
  CHECK_EQ(check_error()->domain, CCH_DOMAIN_HANDLES);
  FOR_EACH_OPERATION(operation) {
    void *made = NULL;
    check_status(operation->call(w, &made), CCH_EFORKED, operation->name, __FILE__, __LINE__);
    CHECK(made == NULL);
  }
  /* Functions that need no driver still work. */
  CHECK_EQ(cch_context_device(w->context), 0);
  CHECK_EQ(cch_deviceptr_size(w->ptr), 64);
  CHECK(cch_stream_context(w->stream) == w->context);
  CHECK_STR(cch_error_name(CCH_EFORKED), "CCH_EFORKED");
  /* Releasing copies of the parent's objects does not destroy them. */
  cch_kernel_unref(w->kernel);
  cch_library_unref(w->library);
  cch_deviceptr_unref(w->pinned);
  cch_deviceptr_unref(w->ptr);
  cch_pool_unref(w->pool);
  cch_event_unref(w->end);
  cch_unref_deferred(w->start);
  CHECK(cch_unref_lightly(w->node) == w->node); /* a thread of the parent may hold the lock of the graph */
  cch_unref(w->node);
  cch_reclaim_drain();
  cch_callback_enter();
  cch_stream_unref(w->stream);
  cch_callback_leave();
  cch_context_unref(w->context);
  CHECK_EQ(sim.calls(NULL), calls);
  CHECK_EQ(sim.report(sim.reports(), NULL, 0), 0);
}

/* A child would call the driver of its parent, or free or damage the parent's objects. */
static void fork_after_init(void) {
  world w;
  world_open(&w);
  in_child(use_world_in_child, &w);
  OK(cch_stream_synchronize(w.stream));
  OK(cch_deviceptr_copy(w.ptr, w.pinned, 64, w.stream));
  world_close(&w);
}

static atomic_bool stop;

static void *hammer(void *argument) {
  world *w = argument;
  while (!atomic_load(&stop)) {
    cch_event *event, *found;
    OK(cch_event_create(&event, w->context, 0));
    OK(cch_event_wrap(&found, cch_event_raw(event), NULL, NULL));
    cch_event_unref(found);
    cch_unref_deferred(event);
    cch_bundle_unref(cch_graph_node_bundle(w->node));
    cch_reclaim_drain();
  }
  return NULL;
}

static void touch_everything(void *argument) {
  world *w = argument;
  cch_event *event;
  FAILS(CCH_EFORKED, cch_event_wrap(&event, cch_event_raw(w->start), NULL, NULL));
  cch_event_unref(w->start);
  cch_stream_unref(w->stream);
  cch_kernel_unref(w->kernel);
  cch_unref(cch_unref_lightly(w->copy));
  cch_reclaim_drain();
  cch_error_set_report(NULL);
  check_error();
  cch_live_count(CCH_KIND_EVENT);
}

/* If another thread held a lock of the library when the process forked, the child would wait for the lock forever. */
static void fork_while_locks_are_held(void) {
  enum { THREADS = 4, FORKS = CHECK_SANITIZED ? 20 : 100 };
  world w;
  pthread_t threads[THREADS];
  world_open(&w);
  atomic_store(&stop, false);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, hammer, &w), 0);
  for (int i = 0; i < FORKS; i++)
    in_child(touch_everything, &w);
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ(pthread_join(threads[i], NULL), 0);
  cch_reclaim_drain();
  world_close(&w);
}

static void *initialise(void *argument) {
  (void)argument;
  OK(cch_driver_init());
  return NULL;
}

static void must_be_forked(void *argument) {
  (void)argument;
  FAILS(CCH_EFORKED, cch_driver_init());
}

static void fork_in_the_middle_of_init(void *argument) {
  (void)argument;
  pthread_t initialiser;
  const struct timespec moment = {.tv_nsec = 20000000};
  sim.hold("cuInit");
  CHECK_EQ(pthread_create(&initialiser, NULL, initialise, NULL), 0);
  while (sim.held("cuInit") == 0)
    nanosleep(&moment, NULL);
  in_child(must_be_forked, NULL);
  sim.let_go("cuInit");
  CHECK_EQ(pthread_join(initialiser, NULL), 0);
}

/*
 * A child that is forked while another thread initialises the driver would get a partly loaded driver. Or the fork
 * would wait for the initialisation, which may wait for a lock of the driver that the driver's fork handlers hold.
 */
static void fork_during_init(void) { in_child(fork_in_the_middle_of_init, NULL); }

static void init_fails_and_is_tried_again(void *argument) {
  pthread_t threads[4];
  sim.fail("cuInit", 1, CUDA_ERROR_NO_DEVICE);
  FAILS(CUDA_ERROR_NO_DEVICE, cch_driver_init());
  in_child(use_cuda, argument);
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, initialise, NULL), 0);
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
    CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* A failed initialisation of the driver would keep the child, or later threads of the parent, from trying again. */
static void fork_after_failed_init(void) { in_child(init_fails_and_is_tried_again, NULL); }

int main(void) {
  check_open();
  RUN(fork_during_init);
  RUN(fork_after_failed_init);
  RUN(fork_before_init);
  RUN(fork_after_init);
  RUN(fork_while_locks_are_held);
  return 0;
}
