/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a graph's nodes: a hash table with open addressing. Removing a record moves up those that it
 * displaced, so deleted records need no markers.
 */
#include "graph/graph.h"
#include "base/reclaim.h"
#include "stream/capture.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 8 };

static size_t home_of(const cch__level *level, CUgraphNode raw) {
  uintptr_t h = (uintptr_t)raw; /* handles are aligned addresses, so the middle bits are mixed into the low ones */
  h ^= h >> 17;
  h *= (uintptr_t)0x9E3779B97F4A7C15u;
  return (size_t)(h >> 32) & (level->capacity - 1);
}

/* Returns the record of a node, or the free slot where it would be. There is always a free slot. */
static cch__record *place_of(const cch__level *level, CUgraphNode raw) {
  size_t i = home_of(level, raw);
  while (level->records[i].raw != NULL && level->records[i].raw != raw)
    i = (i + 1) & (level->capacity - 1);
  return &level->records[i];
}

cch__record *cch__record_find(const cch__level *level, CUgraphNode raw) {
  if (level == NULL || level->count == 0)
    return NULL;
  cch__record *record = place_of(level, raw);
  return record->raw != NULL ? record : NULL;
}

bool cch__level_reserve(cch__level *level, size_t more) {
  if (level->count + more <= level->capacity / 4 * 3)
    return true;
  cch__level grown = *level;
  if (grown.capacity == 0)
    grown.capacity = FIRST_CAPACITY;
  while (level->count + more > grown.capacity / 4 * 3)
    grown.capacity *= 2;
  grown.records = calloc(grown.capacity, sizeof *grown.records);
  if (grown.records == NULL)
    return false;
  for (size_t i = 0; i < level->capacity; i++)
    if (level->records[i].raw != NULL)
      *place_of(&grown, level->records[i].raw) = level->records[i];
  free(level->records);
  *level = grown;
  return true;
}

cch__record *cch__record_enter(cch__level *level, CUgraphNode raw) {
  cch__record *record = place_of(level, raw);
  if (record->raw == NULL) {
    record->raw = raw;
    level->count++;
  }
  return record;
}

/* Empties a slot, and moves up the records that it had displaced. */
static void take_out(cch__level *level, cch__record *record) {
  size_t mask = level->capacity - 1, hole = (size_t)(record - level->records);
  for (size_t i = (hole + 1) & mask; level->records[i].raw != NULL; i = (i + 1) & mask) {
    size_t home = home_of(level, level->records[i].raw);
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      level->records[hole] = level->records[i];
      hole = i;
    }
  }
  memset(&level->records[hole], 0, sizeof *level->records);
  level->count--;
}

void cch__record_trim(cch__level *level, cch__record *record) {
  if (record->box == NULL && record->bundle == NULL && record->children == NULL && record->context == NULL)
    take_out(level, record);
}

void cch__children_trim(cch__level *level, cch__record *record) {
  for (cch__level **at = &record->children, *child; (child = *at) != NULL;)
    if (child->box == NULL && child->count == 0 && child->kept == NULL) {
      *at = child->next;
      free(child->records);
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
    for (size_t i = 0; i < child->capacity; i++)
      if (cch__record_is_captured(&child->records[i]))
        return true;
  }
  return false;
}

void cch__record_end_children(cch__record *record) {
  for (cch__level *child = record->children, *next; child != NULL; child = next) {
    next = child->next;
    cch__level_end(child);
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
  cch__record_end_children(record);
}

void cch__record_end(cch__level *level, cch__record *record) {
  clear_record(record);
  take_out(level, record);
}

cch__record *cch__record_begin(cch__level *level, CUgraphNode raw) {
  cch__record *stale = cch__record_find(level, raw);
  if (stale != NULL)
    cch__record_end(level, stale);
  return cch__record_enter(level, raw);
}

void cch__level_end(cch__level *level) {
  for (size_t i = 0; i < level->capacity; i++)
    if (level->records[i].raw != NULL)
      clear_record(&level->records[i]);
  free(level->records);
  level->records = NULL;
  level->count = level->capacity = 0;
  cch__unref_later(level->kept);
  level->kept = NULL;
}
