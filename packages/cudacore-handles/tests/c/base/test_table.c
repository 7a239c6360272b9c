/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table of the library and of the extension module. */
#include "check.h"

#include <cudacore_shared/table.h>

typedef struct entry {
  const void *key;
  unsigned value;
} entry;
enum { KEYS = 64, ROUNDS = 20000 };

static void *key_number(unsigned i) { return (void *)(uintptr_t)(0x1000 + 16 * i); }

/* An entry would be lost, found under another key, or remain, when entries are entered, removed and moved. */
static void entries_are_found_until_they_are_removed(void) {
  cch__table table = {0};
  unsigned expected[KEYS] = {0}, random = 1; /* 0: not in the table */
  CHECK(cch__table_find(&table, sizeof(entry), key_number(0)) == NULL);
  CHECK(cch__table_next(&table, sizeof(entry), NULL) == NULL);
  for (unsigned round = 1; round <= ROUNDS; round++) {
    random = random * 1664525u + 1013904223u;
    const unsigned i = random >> 16 & (round / 2000 % 2 ? KEYS - 1 : 7); /* many entries, then few */
    entry *found = cch__table_find(&table, sizeof *found, key_number(i));
    CHECK_EQ(found != NULL ? found->value : 0, expected[i]);
    if (found != NULL && (random >> 30 || round / 2000 % 2 == 0)) {
      cch__table_remove(&table, sizeof *found, found);
      expected[i] = 0;
    } else {
      CHECK(cch__table_reserve(&table, sizeof *found, 1));
      found = cch__table_enter(&table, sizeof *found, key_number(i));
      CHECK_EQ(found->value, expected[i]);
      found->value = expected[i] = round;
    }
    size_t count = 0;
    for (unsigned k = 0; k < KEYS; k++)
      count += expected[k] != 0;
    CHECK_EQ(table.count, count);
    for (const entry *one = NULL; (one = cch__table_next(&table, sizeof *one, one)) != NULL; count--)
      CHECK_EQ(one->value, expected[((uintptr_t)one->key - 0x1000) / 16]);
    CHECK_EQ(count, 0);
  }
  cch__table_free(&table);
  CHECK(table.entries == NULL && table.count == 0);
}

/* A table that cannot grow would lose its entries, or claim to have room. */
static void tables_that_cannot_grow_are_unchanged(void) {
  cch__table table = {0};
  CHECK(cch__table_reserve(&table, sizeof(entry), 1));
  ((entry *)cch__table_enter(&table, sizeof(entry), key_number(1)))->value = 7;
  CHECK(!cch__table_reserve(&table, sizeof(entry), (size_t)1 << 50));
  const entry *found = cch__table_find(&table, sizeof *found, key_number(1));
  CHECK(found != NULL && found->value == 7 && table.count == 1);
  cch__table_free(&table);
}

int main(void) {
  check_open();
  RUN(entries_are_found_until_they_are_removed);
  RUN(tables_that_cannot_grow_are_unchanged);
  return 0;
}
