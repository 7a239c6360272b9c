/* SPDX-License-Identifier: Apache-2.0 */
/* Makes graphs keep the objects that captured work uses, for captures of this library and of other code. */
#include "stream/capture.h"

#include "base/registry.h"
#include "driver/current.h"
#include "driver/user_object.h"

/*
 * Returns whether a box is memory that the capture, or a capture into the same hierarchy, allocates: the body of a
 * conditional node uses memory of the graph that contains the node. The free of such memory is captured too, and waits
 * for nothing. The graph may be NULL.
 */
static bool is_own_memory(const void *box, uint64_t capture, const cch_graph *graph) {
  if (((const cch__box *)box)->kind != CCH_KIND_DEVICEPTR)
    return false;
  const cch_deviceptr *memory = cch__whole(box);
  return (memory->capture != 0 && memory->capture == capture) ||
         (memory->graph != NULL && graph != NULL && memory->graph->hierarchy == graph->hierarchy);
}

/* Returns whether a box was among the last ones kept. The same few boxes usually recur. */
static bool is_kept(const cch_bundle *kept, const void *box) {
  enum { LAST = 4 };
  for (size_t i = kept->count; i > 0 && i + LAST > kept->count; i--)
    if (kept->owners[i - 1].object == box)
      return true;
  return false;
}

static int keep_boxes(cch_bundle *kept, void *const *boxes, size_t count, uint64_t capture, const cch_graph *graph) {
  int status = 0;
  for (size_t i = 0; i < count && status == 0; i++)
    if (!is_own_memory(boxes[i], capture, graph) && !is_kept(kept, boxes[i]))
      status = cch_bundle_add(kept, boxes[i]);
  return status;
}

/* Makes a capture that this library began keep boxes. False if no such capture adds to the graph. The lock is held. */
static bool keep_here(int *status, const cch_graph *graph, void *const *boxes, size_t count) {
  const cch__capture *capture = graph->capture;
  if (capture != NULL)
    *status = keep_boxes(capture->kept, boxes, count, capture->id, graph);
  return capture != NULL;
}

/* Makes the capture that this library began on a stream keep boxes. False if there is no such capture. */
static bool keep_with_known(int *status, cch_stream *stream, void *const *boxes, size_t count) {
  if (atomic_load_explicit(&stream->capture, memory_order_relaxed) == NULL)
    return false;
  pthread_mutex_lock(&cch__captures_lock);
  const cch_graph *known = atomic_load_explicit(&stream->capture, memory_order_relaxed);
  bool kept = known != NULL && cch__box_is_alive(&known->box) && keep_here(status, known, boxes, count);
  pthread_mutex_unlock(&cch__captures_lock);
  return kept;
}

/*
 * Makes the capture into a graph keep boxes. False if there is no such capture. Takes over a reference to the graph,
 * which may be NULL.
 */
static bool keep_with_graph(int *status, cch_graph *graph, void *const *boxes, size_t count) {
  if (graph == NULL)
    return false;
  pthread_mutex_lock(&cch__captures_lock);
  bool kept = keep_here(status, graph, boxes, count);
  pthread_mutex_unlock(&cch__captures_lock);
  cch_graph_unref(graph);
  return kept;
}

/*
 * Gets the bundle of a capture that other code began, as a new reference. Only the driver keeps it, through a user
 * object, as long as the graph and everything made from it exist. The registry finds it by the number of the capture,
 * which is unique.
 */
static int bundle_of_others(cch_bundle **out, const cch__capture_info *info) {
  const void *key = (const void *)(uintptr_t)info->id;
  cch_bundle *kept = cch__registry_find(CCH_KIND_BUNDLE, key);
  if (kept == NULL) {
    CUuserObject object;
    int status = cch_bundle_create(&kept, 0);
    if (status == 0)
      status = cch__driver_keep(&object, info->graph, kept, 1);
    if (status != 0) {
      cch_bundle_unref(kept);
      return status;
    }
    cch_bundle *known = cch__registry_insert_unless_known(kept, key);
    if (known != NULL) { /* another thread was first; the graph also keeps our empty bundle */
      cch_bundle_unref(kept);
      kept = known;
    }
  }
  *out = kept;
  return 0;
}

static int keep_with_others(const cch__capture_info *info, void *const *boxes, size_t count) {
  cch_bundle *kept;
  CCH__RETURN_FAILURE(bundle_of_others(&kept, info));
  pthread_mutex_lock(&cch__captures_lock);
  int status = keep_boxes(kept, boxes, count, info->id, NULL);
  pthread_mutex_unlock(&cch__captures_lock);
  cch_bundle_unref(kept);
  return status;
}

/*
 * Keeps boxes as cch_capture_keep_all() does. *captured: whether the stream is captured. The stream's context must be
 * current.
 */
static int keep_all(bool *captured, cch_stream *stream, void *const *boxes, size_t count) {
  int status = 0;
  *captured = true;
  if (keep_with_known(&status, stream, boxes, count))
    return status;
  cch__capture_info info;
  status = cch__capture_info_of(&info, stream->raw);
  *captured = info.graph != NULL;
  if (status != 0 || !*captured)
    return status;
  if (keep_with_graph(&status, cch__registry_find(CCH_KIND_GRAPH, info.graph), boxes, count))
    return status;
  return keep_with_others(&info, boxes, count);
}

int cch__capture_keep(bool *captured, cch_stream *stream, void *const *boxes, size_t count) {
  int status = cch__capture_query(captured, stream);
  return status == 0 && *captured ? keep_all(captured, stream, boxes, count) : status;
}

cch_status cch_capture_keep_all(cch_stream *stream, void *const *boxes, size_t count) {
  CCH__REQUIRE_USABLE(stream);
  CCH__REQUIRE_ALL(boxes, count);
  int status = 0;
  if (keep_with_known(&status, stream, boxes, count))
    return status;
  bool captured;
  return CCH__IN_CONTEXT(stream->context, keep_all(&captured, stream, boxes, count));
}

cch_status cch_capture_keep(cch_graph *graph, void *object, cch_release_fn release) {
  CCH__REQUIRE_USABLE(graph, object);
  int status = 0;
  pthread_mutex_lock(&cch__captures_lock);
  cch__capture *capture = graph->capture;
  if (capture == NULL)
    status = cch__fail(CCH_EINVAL, __func__, "no stream is being captured into the graph");
  else if (release == NULL)
    status = keep_boxes(capture->kept, &object, 1, capture->id, graph);
  else
    status = cch_bundle_add_object(capture->kept, object, release);
  pthread_mutex_unlock(&cch__captures_lock);
  return status;
}
