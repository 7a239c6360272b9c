/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that record an event, or wait for one. */
#include "graph/nodes/nodes.h"

static int fill_event(cch__node_params *out, const cch__node_source *from) {
  const cch_event_node *node = from->given;
  CCH__RETURN_FAILURE(CCH__USABLE(node->event, "the event", from->operation));
  _Static_assert(offsetof(CUgraphNodeParams, eventWait.event) == offsetof(CUgraphNodeParams, eventRecord.event),
                 "the parameters of both types are one event");
  out->native.eventRecord.event = node->event->raw;
  return cch__bundle_wrap(&out->kept, node->event, from->bundle, 0, from->operation);
}

static int get_event(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)operation;
  cch_event_node *out = params;
  CUevent raw = NULL;
  int status = node->type == CCH_NODE_EVENT_RECORD ? CCH__CALL(cuGraphEventRecordNodeGetEvent, (node->raw, &raw))
                                                   : CCH__CALL(cuGraphEventWaitNodeGetEvent, (node->raw, &raw));
  if (status != 0)
    return status;
  cch__box *first = bundle != NULL && bundle->wraps && bundle->count > 0 ? bundle->owners[0].object : NULL;
  if (first == NULL || first->kind != CCH_KIND_EVENT || ((cch_event *)first)->raw != raw)
    return cch_event_wrap(&out->event, raw, NULL, NULL);
  out->event = cch_event_ref((cch_event *)first);
  return 0;
}

/* ---- drivers before 12.2 ---- */

static int older_record(const cch__older_call *to, CUgraphNodeParams *params) {
  return CCH__OLDER_NODE(to, AddEventRecordNode, EventRecordNodeSetEvent, ExecEventRecordNodeSetEvent,
                         params->eventRecord.event);
}

static int older_wait(const cch__older_call *to, CUgraphNodeParams *params) {
  return CCH__OLDER_NODE(to, AddEventWaitNode, EventWaitNodeSetEvent, ExecEventWaitNodeSetEvent,
                         params->eventWait.event);
}

const cch__node_type cch__node_type_event_record = {CCH__NODE_STRUCT(cch_event_node, event), .fill = fill_event,
                                                    .get = get_event, .older = older_record};

const cch__node_type cch__node_type_event_wait = {CCH__NODE_STRUCT(cch_event_node, event), .fill = fill_event,
                                                  .get = get_event, .older = older_wait};
