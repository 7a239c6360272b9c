/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions that CUDA calls, for graphs and for streams. */
#include "graph/graph.h"
#include "driver/current.h"
#include "base/reclaim.h"

void CUDA_CB cch__host_trampoline(void *data) {
  const cch__host_call *call = data;
  cch_callback_enter();
  call->function(call->data);
  cch_callback_leave();
}

/*
 * Calls the function of cch_stream_callback() on a stream that is not being captured, and releases the objects that
 * were kept for the call. CUDA calls are forbidden here, so the objects are destroyed later.
 */
static void CUDA_CB call_once(void *data) {
  cch_bundle *kept = data;
  cch__host_trampoline(kept->payload);
  cch_callback_enter();
  cch_bundle_unref(kept);
  cch_callback_leave();
}

/*
 * Submits the call. If other code captures the stream, each launch of its graph calls the function. *captured: whether
 * that can be; then, whether it is so.
 */
static int submit(bool *captured, cch_stream *stream, cch_bundle *kept) {
  if (*captured)
    CCH__RETURN_FAILURE(cch__capture_keep(captured, stream, (void *[]){kept}, 1));
  return *captured ? CCH__CALL(cuLaunchHostFunc, (stream->raw, cch__host_trampoline, kept->payload))
                   : CCH__CALL(cuLaunchHostFunc, (stream->raw, call_once, kept));
}

cch_status cch_stream_callback(cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle) {
  CCH__REQUIRE_USABLE(stream, function);
  CCH__REQUIRE_USABLE_OR_NULL(bundle);
  cch__poll();
  int is_capturing = cch_capture_count() != 0;
  cch_graph *graph = NULL;
  /* A call on the legacy stream that only the driver refuses would invalidate the captures of blocking streams. */
  if (cch__driver.cuStreamIsCapturing != NULL)
    CCH__RETURN_FAILURE(cch_stream_is_capturing(&is_capturing, stream));
  if (is_capturing)
    CCH__RETURN_FAILURE(cch__capture_graph(&graph, stream));
  if (graph != NULL) {
    cch_graph_unref(graph);
    const cch_host_node node = {.size = sizeof node, .function = function, .data = data};
    return cch_capture_add(
        NULL, stream,
        &(cch_node_spec){.size = sizeof(cch_node_spec), .type = CCH_NODE_HOST, .params = &node, .bundle = bundle});
  }
  cch_bundle *kept;
  CCH__RETURN_FAILURE(cch__bundle_wrap(&kept, NULL, bundle, sizeof(cch__host_call), __func__));
  *(cch__host_call *)kept->payload = (cch__host_call){function, data};
  bool captured = is_capturing;
  const int status = CCH__IN_CONTEXT(stream->context, submit(&captured, stream, kept));
  if (status != 0 || captured)
    cch_bundle_unref(kept);
  return status;
}
