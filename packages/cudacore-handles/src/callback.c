/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the host that CUDA calls, for graphs and for streams. */
#include "capture.h"
#include "current.h"
#include "graph.h"
#include "reclaim.h"

void CUDA_CB cch__host_trampoline(void *data) {
  const cch__host_call *call = data;
  cch_callback_enter();
  call->function(call->data);
  cch_callback_leave();
}

/* The one call of a stream, which ends what is kept for it: that is destroyed later, as CUDA is forbidden here. */
static void CUDA_CB call_once(void *data) {
  cch_bundle *kept = data;
  cch__host_trampoline(kept->payload);
  cch_callback_enter();
  cch_bundle_unref(kept);
  cch_callback_leave();
}

static int call_in_stream(const cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle,
                          const char *operation) {
  cch_bundle *kept;
  int status = cch__bundle_wrap(&kept, NULL, bundle, sizeof(cch__host_call), operation);
  if (status != 0)
    return status;
  *(cch__host_call *)kept->payload = (cch__host_call){function, data};
  cch__current current;
  status = cch__current_enter(&current, stream->context);
  if (status == 0) {
    status = CCH__CALL(cuLaunchHostFunc, (stream->raw, call_once, kept));
    cch__current_leave(&current);
  }
  if (status != 0)
    cch_bundle_unref(kept);
  return status;
}

int cch_stream_callback(cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle) {
  int status = cch__usable(stream, __func__);
  if (status != 0)
    return status;
  if (stream == NULL || function == NULL)
    return cch__fail(CCH_EINVAL, __func__, stream == NULL ? "the stream is NULL" : "the function is NULL");
  cch__poll();
  int capturing = 0;
  if (cch__driver.cuStreamIsCapturing != NULL) {
    status = cch_stream_is_capturing(&capturing, stream);
    if (status != 0)
      return status;
  } else { /* what the driver cannot say, the library knows of its own captures */
    cch_graph *graph = NULL;
    capturing = cch_capture_graph(&graph, stream) == 0 && graph != NULL;
    cch_graph_unref(graph);
  }
  if (!capturing)
    return call_in_stream(stream, function, data, bundle, __func__);
  cch_host_node node = {.size = sizeof node, .function = function, .data = data};
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_HOST, .params = &node, .bundle = bundle};
  return cch_capture_add(NULL, stream, &spec);
}
