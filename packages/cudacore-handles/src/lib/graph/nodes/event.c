/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that record an event, or wait for one. */
#include "graph/nodes/nodes.h"

static int fill_event(cch_event **out, cch__node_params *filled, const cch__node_source *from) {
  cch_event_node node;
  int status = CCH__NODE_READ(node, from, event);
  if (status == 0)
    status = CCH__USABLE(node.event, "the event", from->operation);
  if (status != 0)
    return status;
  *out = node.event;
  return cch__bundle_wrap(&filled->kept, node.event, from->bundle, 0, from->operation);
}

static int fill_record(cch__node_params *out, const cch__node_source *from) {
  cch_event *event;
  int status = fill_event(&event, out, from);
  if (status == 0)
    out->native.eventRecord.event = event->raw;
  return status;
}

static int fill_wait(cch__node_params *out, const cch__node_source *from) {
  cch_event *event;
  int status = fill_event(&event, out, from);
  if (status == 0)
    out->native.eventWait.event = event->raw;
  return status;
}

/* `status` is the result of the call that read the event. */
static int get_event(void *params, int status, CUevent raw, const cch_bundle *bundle, const char *operation) {
  cch_event_node known = {0};
  if (status != 0)
    return status;
  cch__box *first = bundle != NULL && bundle->wraps && bundle->count > 0 ? bundle->owners[0].object : NULL;
  if (first != NULL && first->kind == CCH_KIND_EVENT && ((cch_event *)first)->raw == raw)
    known.event = cch_event_ref((cch_event *)first);
  else
    status = cch_event_wrap(&known.event, raw, NULL, NULL);
  if (status != 0)
    return status;
  status = CCH__NODE_GIVE(params, known, event);
  if (status != 0)
    cch_event_unref(known.event);
  return status;
}

static int get_record(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  CUevent raw = NULL;
  int status = CCH__CALL(cuGraphEventRecordNodeGetEvent, (node->raw, &raw));
  return get_event(params, status, raw, bundle, operation);
}

static int get_wait(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  CUevent raw = NULL;
  int status = CCH__CALL(cuGraphEventWaitNodeGetEvent, (node->raw, &raw));
  return get_event(params, status, raw, bundle, operation);
}

/* ---- drivers before 12.2 ---- */

static int older_record_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                            CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphAddEventRecordNode, (out, graph, before, count, params->eventRecord.event));
}

static int older_record_set(CUgraphNode node, const CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphEventRecordNodeSetEvent, (node, params->eventRecord.event));
}

static int older_record_set_exec(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphExecEventRecordNodeSetEvent, (exec, node, params->eventRecord.event));
}

static int older_wait_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                          CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphAddEventWaitNode, (out, graph, before, count, params->eventWait.event));
}

static int older_wait_set(CUgraphNode node, const CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphEventWaitNodeSetEvent, (node, params->eventWait.event));
}

static int older_wait_set_exec(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphExecEventWaitNodeSetEvent, (exec, node, params->eventWait.event));
}

const cch__node_type cch__node_type_event_record = {.fill = fill_record,
                                                    .get = get_record,
                                                    .older_add = older_record_add,
                                                    .older_set = older_record_set,
                                                    .older_set_exec = older_record_set_exec};

const cch__node_type cch__node_type_event_wait = {.fill = fill_wait,
                                                  .get = get_wait,
                                                  .older_add = older_wait_add,
                                                  .older_set = older_wait_set,
                                                  .older_set_exec = older_wait_set_exec};
