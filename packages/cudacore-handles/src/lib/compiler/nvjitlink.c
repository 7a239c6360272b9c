/* SPDX-License-Identifier: Apache-2.0 */
/* nvJitLink, loaded at run time. */
#include "compiler/compiler.h"

#include <stdio.h>
#include <string.h>

#define NVJITLINK_FUNCTIONS(X)                                                                                         \
  X(nvJitLinkCreate, 12000, (void **linker, uint32_t count, const char *const *options))                               \
  X(nvJitLinkDestroy, 12000, (void *linker))                                                                           \
  X(nvJitLinkAddData, 12000, (void *linker, int input, const void *code, size_t size, const char *name))               \
  X(nvJitLinkComplete, 12000, (void *linker))                                                                          \
  X(nvJitLinkGetErrorLogSize, 12000, (void *linker, size_t *size))                                                     \
  X(nvJitLinkGetErrorLog, 12000, (void *linker, char *bytes))                                                          \
  X(nvJitLinkGetInfoLogSize, 12000, (void *linker, size_t *size))                                                      \
  X(nvJitLinkGetInfoLog, 12000, (void *linker, char *bytes))                                                           \
  X(nvJitLinkGetLinkedCubinSize, 12000, (void *linker, size_t *size))                                                  \
  X(nvJitLinkGetLinkedCubin, 12000, (void *linker, char *bytes))                                                       \
  X(nvJitLinkGetLinkedPtxSize, 12000, (void *linker, size_t *size))                                                    \
  X(nvJitLinkGetLinkedPtx, 12000, (void *linker, char *bytes))                                                         \
  X(nvJitLinkGetLinkedLTOIRSize, 13020, (void *linker, size_t *size))                                                  \
  X(nvJitLinkGetLinkedLTOIR, 13020, (void *linker, char *bytes))                                                       \
  X(nvJitLinkVersion, 12030, (unsigned *major, unsigned *minor))

typedef struct cch_nvjitlink {
  struct cch__compiler base;
  int minor; /* minor version of a 12.x library with versioned function names; 0 if the library has nvJitLinkVersion */
  NVJITLINK_FUNCTIONS(CCH__COMPILER_FIELD)
} library;

static bool version_of(int *result, int *major, int *minor, const void *table) {
  const cch_nvjitlink *nvjitlink = table;
  *result = 0;
  if (nvjitlink->nvJitLinkVersion == NULL) {
    *major = 12;
    *minor = nvjitlink->minor;
    return true;
  }
  unsigned version[2] = {0};
  *result = nvjitlink->nvJitLinkVersion(&version[0], &version[1]);
  *major = (int)version[0];
  *minor = (int)version[1];
  return true;
}

static const cch__entry entries[] = {NVJITLINK_FUNCTIONS(CCH__COMPILER_ENTRY)};

/*
 * Versions 12.0 to 12.2 have names such as __nvJitLinkCreate_12_0, for each version up to their own, and no plain
 * names.
 */
static void complete(void *table) {
  cch_nvjitlink *nvjitlink = table;
  for (int minor = 2; minor >= 0 && nvjitlink->nvJitLinkVersion == NULL; minor--)
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
      char name[64];
      snprintf(name, sizeof name, "__%s_12_%d", entries[i].name, minor);
      void *found = cch__compiler_symbol(&nvjitlink->base, name), *have;
      char *field = (char *)nvjitlink + entries[i].offset;
      memcpy(&have, field, sizeof have);
      if (found == NULL || have != NULL)
        continue;
      memcpy(field, &found, sizeof found);
      if (minor > nvjitlink->minor)
        nvjitlink->minor = minor;
    }
}

static const cch__output outputs[] = {
    [CCH_NVJITLINK_ERROR_LOG] = CCH__OUTPUT(nvJitLinkGetErrorLog),
    [CCH_NVJITLINK_INFO_LOG] = CCH__OUTPUT(nvJitLinkGetInfoLog),
    [CCH_NVJITLINK_LINKED_CUBIN] = CCH__OUTPUT(nvJitLinkGetLinkedCubin),
    [CCH_NVJITLINK_LINKED_PTX] = CCH__OUTPUT(nvJitLinkGetLinkedPtx),
    [CCH_NVJITLINK_LINKED_LTOIR] = CCH__OUTPUT(nvJitLinkGetLinkedLTOIR),
};

static const cch__compiler_type type = {
    CCH__COMPILER_TABLE(entries, outputs),
    .title = "nvJitLink",
    .domain = CCH_DOMAIN_NVJITLINK,
    .complete = complete,
    .version = version_of,
};

/* cch_nvjitlink_wrap() and cch_nvjitlink_version() */
CCH__DEFINE_COMPILER(nvjitlink, "nvJitLinkVersion")
/* struct cch_nvjitlink_linker and cch_nvjitlink_linker_raw() */
CCH__DEFINE_PROGRAM(cch_nvjitlink_linker, nvJitLinkHandle)

cch_status cch_nvjitlink_linker_create(cch_nvjitlink_linker **out, cch_nvjitlink *nvjitlink, size_t count,
                                       const char *const *options) {
  CCH__REQUIRE(out);
  CCH__REQUIRE_COMPILER(nvjitlink);
  CCH__REQUIRE_ALL(options, count);
  cch__program *linker =
      cch__program_new(CCH_KIND_NVJITLINK_LINKER, nvjitlink, nvjitlink->nvJitLinkDestroy, "nvJitLinkDestroy", __func__);
  if (linker == NULL)
    return CCH_ENOMEM;
  int status = CCH__COMPILER_CALL(nvjitlink, nvJitLinkCreate, (&linker->raw, (uint32_t)count, options));
  if (status != 0) {
    cch__box_unref(linker);
    return status;
  }
  *out = (cch_nvjitlink_linker *)linker;
  return 0;
}

cch_status cch_nvjitlink_linker_add(cch_nvjitlink_linker *linker, int input, const void *code, size_t size,
                                    const char *name) {
  CCH__REQUIRE(linker, code);
  return CCH__COMPILER_CALL(library_of(linker), nvJitLinkAddData, (handle_of(linker), input, code, size, name));
}

cch_status cch_nvjitlink_linker_link(cch_nvjitlink_linker *linker) {
  CCH__REQUIRE(linker);
  return CCH__COMPILER_CALL(library_of(linker), nvJitLinkComplete, (handle_of(linker)));
}

cch_status cch_nvjitlink_linker_get(void *out, size_t *size, cch_nvjitlink_linker *linker, int output) {
  CCH__REQUIRE(size, linker);
  return cch__program_get(out, size, &linker->program, output, __func__);
}
