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
 * Submits the call of a function to a stream. If other code is capturing the stream, each launch of the captured graph
 * calls the function, and that graph keeps the function.
 */
static int call_in_stream(cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle, int captured,
                          const char *operation) {
  cch_bundle *kept;
  int status = cch__bundle_wrap(&kept, NULL, bundle, sizeof(cch__host_call), operation);
  if (status != 0)
    return status;
  cch__host_call *call = kept->payload;
  *call = (cch__host_call){function, data};
  if (captured)
    status = cch_capture_keep_all(stream, (void *[]){kept}, 1);
  if (status == 0)
    status = CCH__IN_CONTEXT(stream->context,
                             captured ? CCH__CALL(cuLaunchHostFunc, (stream->raw, cch__host_trampoline, call))
                                      : CCH__CALL(cuLaunchHostFunc, (stream->raw, call_once, kept)));
  if (status != 0 || captured)
    cch_bundle_unref(kept);
  return status;
}

cch_status cch_stream_callback(cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle) {
  CCH__REQUIRE_USABLE(stream, function);
  CCH__REQUIRE_USABLE_OR_NULL(bundle);
  cch__poll();
  cch_graph *graph = NULL;
  int captured = 0, status = 0;
  if (cch__driver.cuStreamIsCapturing != NULL)
    status = cch_stream_is_capturing(&captured, stream);
  /* If the driver cannot be queried, only captures that this library began are found. */
  if (status == 0 && (captured || cch__driver.cuStreamIsCapturing == NULL))
    status = cch__capture_graph(&graph, stream);
  if (status != 0)
    return status;
  cch_graph_unref(graph);
  if (graph == NULL)
    return call_in_stream(stream, function, data, bundle, captured, __func__);
  cch_host_node node = {.size = sizeof node, .function = function, .data = data};
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_HOST, .params = &node, .bundle = bundle};
  return cch_capture_add(NULL, stream, &spec);
}
