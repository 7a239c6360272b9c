/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams on which memory was used, apart from the stream that orders its free: those of closed parts, and recorded
 * ones. They are a set of resolved streams, in the box of the whole allocation. The free is ordered behind all work
 * that these streams have at the time of the free.
 */
#include "memory/deviceptr.h"

#include "driver/current.h"
#include "stream/capture.h"
#include "stream/stream.h"
#include "base/reclaim.h"

#include <pthread.h>
#include <stdlib.h>

struct cch__use {
  cch__use *next;
  cch_stream *stream;
};

enum { MIN_MANY_USES = 16 };

static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the set ---- */

/* Finds the use of a stream, and makes it the first one, because it is likely to recur. The lock is held. */
static bool is_known(cch_deviceptr *whole, const cch_stream *stream) {
  cch__use **at = &whole->uses;
  while (*at != NULL && !cch__stream_is_same((*at)->stream, stream))
    at = &(*at)->next;
  cch__use *use = *at;
  if (use != NULL) {
    *at = use->next;
    use->next = whole->uses;
    whole->uses = use;
  }
  return use != NULL;
}

/* Adds a use. The lock is held. */
static void add(cch_deviceptr *whole, cch__use *use) {
  use->next = whole->uses;
  whole->uses = use;
  whole->use_count++;
  use->stream->uses++;
}

/* Frees uses that are no longer in a set. */
static void free_uses(cch__use *uses) {
  for (cch__use *use = uses; use != NULL; use = use->next) {
    pthread_mutex_lock(&uses_lock);
    use->stream->uses--;
    pthread_mutex_unlock(&uses_lock);
  }
  for (cch__use *use = uses, *next; use != NULL; use = next) {
    next = use->next;
    cch_stream_unref(use->stream);
    free(use);
  }
}

/*
 * Takes the uses of streams that get no more work, because the library owns them and only uses refer to them. The lock
 * is held.
 */
static cch__use *take_unreachable(cch_deviceptr *whole) {
  cch__use *taken = NULL;
  for (cch__use **at = &whole->uses, *use; (use = *at) != NULL;)
    if (use->stream->box.owned && cch__box_references(&use->stream->box) == use->stream->uses) {
      *at = use->next;
      use->next = taken;
      taken = use;
      whole->use_count--;
    } else {
      at = &use->next;
    }
  return taken;
}

/* Returns whether a stream is being captured. A context must be current. */
static bool is_captured(const cch_stream *stream) {
  cch__current current;
  if (cch__current_enter(&current, cch__stream_needs(stream)) != 0)
    return false;
  bool captured = cch__is_capturing(cch__stream_here(stream));
  cch__current_leave(&current);
  return captured;
}

static int query(cch_stream *stream) {
  return is_captured(stream) ? CCH_NOT_READY : CCH__RELAXED(cch_stream_query(stream));
}

static bool is_done(cch_stream *stream) {
  int status = CCH__ASIDE(CCH__IN_CONTEXT(stream->context, query(stream)));
  return status == 0 || status == CCH_EGONE;
}

/*
 * Removes the uses of unreachable streams whose work has ended, so that long-lived memory does not keep every stream on
 * which it was used.
 */
static void prune(cch_deviceptr *whole) {
  pthread_mutex_lock(&uses_lock);
  cch__use *taken = take_unreachable(whole), *done = NULL;
  pthread_mutex_unlock(&uses_lock);
  for (cch__use *use = taken, *next; use != NULL; use = next) {
    next = use->next;
    if (is_done(use->stream)) {
      use->next = done;
      done = use;
      continue;
    }
    pthread_mutex_lock(&uses_lock);
    use->stream->uses--; /* add() counts it again */
    add(whole, use);
    pthread_mutex_unlock(&uses_lock);
  }
  free_uses(done);
  pthread_mutex_lock(&uses_lock);
  whole->many_uses = whole->use_count < MIN_MANY_USES / 2 ? MIN_MANY_USES : 2 * whole->use_count;
  pthread_mutex_unlock(&uses_lock);
}

int cch__use_record(cch_deviceptr *whole, cch_stream *resolved, const char *operation) {
  pthread_mutex_lock(&uses_lock);
  bool known = is_known(whole, resolved);
  cch__use *use = known ? NULL : malloc(sizeof *use);
  if (use != NULL) {
    use->stream = cch_stream_ref(resolved);
    add(whole, use);
  }
  bool many = use != NULL && whole->use_count >= (whole->many_uses > 0 ? whole->many_uses : MIN_MANY_USES);
  pthread_mutex_unlock(&uses_lock);
  if (many)
    prune(whole);
  return known || use != NULL ? 0 : cch__fail_nomem(operation);
}

cch_status cch_deviceptr_record_stream(cch_deviceptr *ptr, cch_stream *stream) {
  CCH__REQUIRE_USABLE(ptr, stream);
  cch_deviceptr *whole = cch_deviceptr_whole(ptr);
  cch_stream *resolved;
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, stream, whole->context));
  int status = cch__use_record(whole, resolved, __func__);
  cch_stream_unref(resolved);
  return status;
}

void cch__uses_free(cch_deviceptr *ptr) { free_uses(ptr->uses); }

/* ---- the free ---- */

/* Returns whether a stream may still have work that the free must wait for: it is not lost with its context. */
static bool is_there(const cch_stream *stream) {
  return stream != NULL && !cch__is_gone(stream) && !cch__context_is_lost(stream->context);
}

/*
 * Makes `join` wait for the work of a stream or, if it is NULL, the host; false if that is not possible now.
 */
static bool wait_for(cch_stream *join, cch_stream *stream) {
  if (join != NULL) {
    int status = cch_stream_wait_stream(join, stream);
    if (status == 0)
      return true;
    if (cch__is_retryable(status))
      return false;
    cch__report(status); /* the host waits instead */
  }
  return cch__destroyed(CCH__IN_CONTEXT(stream->context, cch__wait_for_work(cch__stream_here(stream))));
}

bool cch__use_close(cch_deviceptr *whole, cch_stream *resolved) {
  return cch__use_record(whole, resolved, __func__) == 0 || !is_there(resolved) || wait_for(NULL, resolved);
}

/*
 * Frees memory after the work of all its streams. Memory whose free is ordered on a stream is freed on a helper stream
 * of the context, so that no stream of the program has to wait for another one; memory of a graph is freed on the
 * stream of the last launch. Before any other memory is freed, the
 * host waits for each of the streams. Code that frees foreign memory gets one of the streams, which waits for the
 * others.
 */
static bool free_after_all(cch_deviceptr *whole, cch_context *context, cch_stream *own, cch_stream *first) {
  if (own != NULL && is_captured(own))
    return false;
  for (const cch__use *use = whole->uses; use != NULL; use = use->next)
    if (is_there(use->stream) && is_captured(use->stream))
      return false;
  cch_stream helper = {.box = {.references = 1, .kind = CCH_KIND_STREAM}, .context = context}, *join = first;
  if (whole->graph != NULL) {
    /* the next launch of the graph, which allocates the memory again, waits for this stream */
  } else if (cch__free_is_ordered(whole) && context != NULL) {
    int status = cch__context_helper(&helper.raw, context);
    if (cch__is_retryable(status))
      return false;
    cch__report(status);
    if (status == 0 && helper.raw != NULL)
      join = &helper;
  } else if (whole->origin != CCH__FOREIGN) {
    join = NULL;
  }
  if (own != NULL && own != join && !wait_for(join, own))
    return false;
  for (const cch__use *use = whole->uses; use != NULL; use = use->next)
    if (use->stream != join && is_there(use->stream) && !wait_for(join, use->stream))
      return false;
  return cch__deviceptr_free_on(whole, join);
}

/* Replaces each stream that was joined in the capture of the memory by the stream that it was joined into. */
static void follow_joins(cch_deviceptr *whole) {
  for (cch__use *use = whole->uses; use != NULL; use = use->next) {
    cch_stream *joined = cch__capture_stream(use->stream, whole->capture), *left = use->stream;
    pthread_mutex_lock(&uses_lock);
    left->uses--;
    joined->uses++;
    pthread_mutex_unlock(&uses_lock);
    use->stream = joined;
    cch_stream_unref(left);
  }
}

bool cch__free_after_uses(cch_deviceptr *whole, cch_stream *own) {
  if (whole->graph != NULL)
    follow_joins(whole);
  /* One stream, such as that of the only part: the free itself finds whether the context was lost. */
  cch_stream *only = own == NULL && whole->uses->next == NULL ? whole->uses->stream : NULL;
  if (only != NULL && only->context == whole->context && whole->origin != CCH__FOREIGN && !cch__is_gone(only))
    return cch__deviceptr_free_on(whole, only);
  if (!is_there(own)) /* the work of the stream has ended */
    own = NULL;
  cch_stream *first = own;
  bool several = false;
  for (const cch__use *use = whole->uses; use != NULL && !several; use = use->next)
    if (first == NULL)
      first = is_there(use->stream) ? use->stream : NULL;
    else
      several = !cch__stream_is_same(use->stream, first) && is_there(use->stream);
  if (!several)
    return cch__deviceptr_free_on(whole, first);
  cch__current current;
  cch_context *context = whole->context, *after = NULL;
  int status = cch__current_enter(&current, context);
  if (status == CCH_EGONE) {
    context = after = cch__context_after(context);
    status = after != NULL ? cch__current_enter(&current, after) : status;
  }
  bool ended = false;
  if (!cch__is_retryable(status)) {
    CUstreamCaptureMode mode = cch__relaxed_enter();
    ended = free_after_all(whole, status == 0 ? context : NULL, own, first);
    cch__relaxed_leave(mode);
    if (status == 0)
      cch__current_leave(&current);
    else
      cch__report(status);
  }
  cch_context_unref(after);
  return ended;
}
