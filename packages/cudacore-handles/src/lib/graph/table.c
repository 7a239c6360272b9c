/* SPDX-License-Identifier: Apache-2.0 */
/* The records of the nodes of graphs. */
#include "graph/graph.h"
#include "base/reclaim.h"
#include "stream/capture.h"

#include <stdlib.h>

cch__record *cch__record_find(const cch__level *level, CUgraphNode raw) {
  return level != NULL ? cch__table_find(&level->records, sizeof(cch__record), raw) : NULL;
}

bool cch__level_reserve(cch__level *level, size_t more) {
  return cch__table_reserve(&level->records, sizeof(cch__record), more);
}

cch__record *cch__record_enter(cch__level *level, CUgraphNode raw) {
  return cch__table_enter(&level->records, sizeof(cch__record), raw);
}

cch__record *cch__record_next(const cch__level *level, const cch__record *record) {
  return cch__table_next(&level->records, sizeof *record, record);
}

static void take_out(cch__level *level, cch__record *record) {
  cch__table_remove(&level->records, sizeof *record, record);
}

void cch__record_trim(cch__level *level, cch__record *record) {
  if (record->box == NULL && record->bundle == NULL && record->children == NULL && record->context == NULL)
    take_out(level, record);
}

void cch__children_trim(cch__level *level, cch__record *record) {
  for (cch__level **at = &record->children, *child; (child = *at) != NULL;)
    if (child->box == NULL && child->records.count == 0 && child->kept == NULL) {
      *at = child->next;
      cch__table_free(&child->records);
      free(child);
    } else {
      at = &child->next;
    }
  cch__record_trim(level, record);
}

bool cch__record_is_captured(const cch__record *record) {
  for (const cch__level *child = record->children; child != NULL; child = child->next) {
    if (child->box != NULL && cch__graph_is_captured(child->box))
      return true;
    for (const cch__record *inner = NULL; (inner = cch__record_next(child, inner)) != NULL;)
      if (cch__record_is_captured(inner))
        return true;
  }
  return false;
}

void cch__record_close_children(cch__record *record) {
  for (cch__level *child = record->children, *next; child != NULL; child = next) {
    next = child->next;
    cch__level_close(child);
    if (child->box != NULL) {
      child->box->level = NULL;
      cch__invalidate(child->box);
    }
    free(child);
  }
  record->children = NULL;
}

static void clear_record(cch__record *record) {
  if (record->box != NULL)
    cch__invalidate(record->box);
  cch__unref_later(record->bundle);
  record->bundle = NULL;
  cch__record_close_children(record);
}

void cch__record_close(cch__level *level, cch__record *record) {
  clear_record(record);
  take_out(level, record);
}

cch__record *cch__record_begin(cch__level *level, CUgraphNode raw) {
  cch__record *stale = cch__record_find(level, raw);
  if (stale != NULL)
    cch__record_close(level, stale);
  return cch__record_enter(level, raw);
}

void cch__level_close(cch__level *level) {
  for (cch__record *record = NULL; (record = cch__record_next(level, record)) != NULL;)
    clear_record(record);
  cch__table_free(&level->records);
  cch__unref_later(level->kept);
  level->kept = NULL;
}
