/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_TABLE_H
#define CUDACORE_TABLE_H

/*
 * A hash table with open addressing and linear probing, for the library and the extension module. Its entries are
 * structures of one size that begin with their key: a pointer, which is not NULL. The table has the entries themselves,
 * so entering or removing one can move others. A table of zeros is empty. It has no lock.
 *
 * Each function gets the size of an entry, which is a constant at each use.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct cch__table {
  char *entries;
  size_t count, capacity; /* the capacity is a power of two, or 0 */
} cch__table;

static inline size_t cch__hash(const void *key) {
  uintptr_t h = (uintptr_t)key; /* mostly aligned addresses, so the middle bits are mixed into the low ones */
  h ^= h >> 17;
  h *= (uintptr_t)0x9E3779B97F4A7C15u;
  return (size_t)(h >> 32);
}

static inline const void *cch__key_of(const void *entry) {
  const void *key;
  memcpy(&key, entry, sizeof key);
  return key;
}

/* Returns the entry of a key, or the free slot where it would be. There must be a free slot. */
static inline void *cch__table_place(const cch__table *table, size_t size, const void *key) {
  size_t i = cch__hash(key) & (table->capacity - 1);
  for (const void *found; (found = cch__key_of(table->entries + i * size)) != NULL && found != key;)
    i = (i + 1) & (table->capacity - 1);
  return table->entries + i * size;
}

/* Returns the entry of a key, or NULL. */
static inline void *cch__table_find(const cch__table *table, size_t size, const void *key) {
  void *place = table->count != 0 ? cch__table_place(table, size, key) : NULL;
  return place != NULL && cch__key_of(place) != NULL ? place : NULL;
}

/* Returns the entry after another one, or the first one if that is NULL; NULL at the end. */
static inline void *cch__table_next(const cch__table *table, size_t size, const void *entry) {
  const char *end = table->entries + table->capacity * size;
  for (char *next = entry != NULL ? (char *)(uintptr_t)entry + size : table->entries; next != end; next += size)
    if (cch__key_of(next) != NULL)
      return next;
  return NULL;
}

/* Makes room for `more` entries, so that cch__table_enter() cannot fail; false if memory ran out. */
static inline bool cch__table_reserve(cch__table *table, size_t size, size_t more) {
  if (table->count + more <= table->capacity / 2)
    return true;
  cch__table grown = {.count = table->count, .capacity = table->capacity == 0 ? 8 : table->capacity};
  while (grown.count + more > grown.capacity / 2)
    grown.capacity *= 2;
  grown.entries = calloc(grown.capacity, size);
  if (grown.entries == NULL)
    return false;
  for (void *entry = NULL; (entry = cch__table_next(table, size, entry)) != NULL;)
    memcpy(cch__table_place(&grown, size, cch__key_of(entry)), entry, size);
  free(table->entries);
  *table = grown;
  return true;
}

/* Returns the entry of a key; if it is new, everything behind the key is zero. There must be room for it. */
static inline void *cch__table_enter(cch__table *table, size_t size, const void *key) {
  void *place = cch__table_place(table, size, key);
  if (cch__key_of(place) == NULL) {
    memcpy(place, &key, sizeof key);
    table->count++;
  }
  return place;
}

/* Removes an entry, and moves up those that it had displaced, so that free slots need no markers. */
static inline void cch__table_remove(cch__table *table, size_t size, void *entry) {
  const size_t mask = table->capacity - 1;
  size_t hole = (size_t)((char *)entry - table->entries) / size;
  const void *key;
  for (size_t i = (hole + 1) & mask; (key = cch__key_of(table->entries + i * size)) != NULL; i = (i + 1) & mask)
    if (((i - cch__hash(key)) & mask) >= ((i - hole) & mask)) {
      memcpy(table->entries + hole * size, table->entries + i * size, size);
      hole = i;
    }
  memset(table->entries + hole * size, 0, size);
  table->count--;
}

static inline void cch__table_free(cch__table *table) {
  free(table->entries);
  *table = (cch__table){0};
}

#endif
