/* SPDX-License-Identifier: Apache-2.0 */
/* The function table, for programs that open the library at run time. */
#include "check.h"

#include <dlfcn.h>

/* A compatible program would not get the function table, or an incompatible program would get it. */
static void table_is_sized_and_versioned(void) {
  const cch_api *api = cch_get_api(CCH_ABI_VERSION, sizeof(cch_api));
  CHECK(api != NULL);
  CHECK_EQ(api->size, sizeof(cch_api));
  CHECK(cch_get_api(CCH_ABI_VERSION, sizeof(size_t)) == api); /* an older header has fewer functions */
  CHECK(cch_get_api(CCH_ABI_VERSION, 0) == api);
  CHECK(cch_get_api(CCH_ABI_VERSION, sizeof(cch_api) + 1) == NULL); /* a newer header has more functions */
  CHECK(cch_get_api(CCH_ABI_VERSION, (size_t)-1) == NULL);
  CHECK(cch_get_api(CCH_ABI_VERSION + 1, sizeof(cch_api)) == NULL);
  CHECK(cch_get_api(0, sizeof(cch_api)) == NULL);
}

/* An entry would be empty, or another function's. */
static void entries_are_the_functions(void) {
  const cch_api *api = cch_get_api(CCH_ABI_VERSION, sizeof(cch_api));
  void *entry;
#define ENTRY(name)                                                                                                    \
  entry = dlsym(RTLD_DEFAULT, "cch_" #name);                                                                           \
  if (entry == NULL || memcmp(&entry, &api->name, sizeof entry) != 0)                                                  \
    check_fail(__FILE__, __LINE__, "the table's %s is not cch_%s", #name, #name);
#include "api_entries.h"
#undef ENTRY
}

int main(void) {
  check_open();
  RUN(table_is_sized_and_versioned);
  RUN(entries_are_the_functions);
  return 0;
}
