/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the functions of NVRTC and nvJitLink for programs that are linked with these libraries. The dynamic linker
 * searches a preloaded library first, so such a program calls the functions below.
 */
#include "sim/embedded_ptx/preload.h"

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <link.h>

namespace sim {
namespace {

/* Returns the replacement of a function of another library, or null if the function belongs to this library. */
void *replaced(void *function, const char *name) {
  Dl_info where{};
  if (function == nullptr || is_own(function) || dladdr(function, &where) == 0)
    return nullptr;
  void *library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return library != nullptr ? replacement(library, name) : function;
}

void *find_in(const char *file, const char *name) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  return library != nullptr ? replaced(real_dlsym()(library, name), name) : nullptr;
}

struct Search {
  const char *name;
  void *found;
};

/* Looks the wanted function up in a loaded library, if this library is NVRTC or nvJitLink. */
int search(dl_phdr_info *info, size_t, void *data) {
  auto *wanted = static_cast<Search *>(data);
  if (std::strstr(info->dlpi_name, "libnvrtc.so") != nullptr ||
      std::strstr(info->dlpi_name, "libnvJitLink.so") != nullptr)
    wanted->found = find_in(info->dlpi_name, wanted->name);
  return wanted->found != nullptr;
}

} // namespace

void *linked_function(const char *name, const void *caller) {
  /* First search the caller's library and the libraries that it depends on. */
  Dl_info where{};
  if (dladdr(caller, &where) != 0 && where.dli_fname != nullptr)
    if (void *found = find_in(where.dli_fname, name))
      return found;
  /* If the caller is the program itself, the libraries that were loaded after this one have the function. */
  if (void *found = replaced(real_dlsym()(RTLD_NEXT, name), name))
    return found;
  /*
   * If the caller jumped here instead of calling, the return address is in other code: so search all loaded libraries.
   */
  Search wanted{name, nullptr};
  dl_iterate_phdr(search, &wanted);
  return wanted.found;
}

} // namespace sim

/* The results if the real function is not found. This cannot happen, because the program is linked with the library. */
constexpr int nvrtc_error = 11, nvjitlink_error = 6;

#define LINKED(name, parameters, arguments, error)                                                                     \
  extern "C" __attribute__((visibility("default"))) int name parameters {                                              \
    using Function = int(*) parameters;                                                                                \
    auto function = sim::as_function<Function>(sim::linked_function(#name, __builtin_return_address(0)));              \
    return function != nullptr ? function arguments : error;                                                           \
  }

LINKED(nvrtcGetCUBINSize, (void *program, size_t *size), (program, size), nvrtc_error)
LINKED(nvrtcGetCUBIN, (void *program, char *code), (program, code), nvrtc_error)

/* The names of the functions that the header of nvJitLink calls contain the version of the header. */
#define NVJITLINK(before, after)                                                                                       \
  LINKED(before##nvJitLinkCreate##after, (void **handle, uint32_t count, const char **options),                        \
         (handle, count, options), nvjitlink_error)                                                                    \
  LINKED(before##nvJitLinkDestroy##after, (void **handle), (handle), nvjitlink_error)                                  \
  LINKED(before##nvJitLinkAddData##after, (void *handle, int type, const void *data, size_t size, const char *name),   \
         (handle, type, data, size, name), nvjitlink_error)                                                            \
  LINKED(before##nvJitLinkAddFile##after, (void *handle, int type, const char *path), (handle, type, path),            \
         nvjitlink_error)                                                                                              \
  LINKED(before##nvJitLinkGetLinkedCubinSize##after, (void *handle, size_t *size), (handle, size), nvjitlink_error)    \
  LINKED(before##nvJitLinkGetLinkedCubin##after, (void *handle, char *code), (handle, code), nvjitlink_error)

#define NVJITLINK_OF(major)                                                                                            \
  NVJITLINK(__, _##major##_0)                                                                                          \
  NVJITLINK(__, _##major##_1)                                                                                          \
  NVJITLINK(__, _##major##_2)                                                                                          \
  NVJITLINK(__, _##major##_3)                                                                                          \
  NVJITLINK(__, _##major##_4)                                                                                          \
  NVJITLINK(__, _##major##_5)                                                                                          \
  NVJITLINK(__, _##major##_6)                                                                                          \
  NVJITLINK(__, _##major##_7)                                                                                          \
  NVJITLINK(__, _##major##_8)                                                                                          \
  NVJITLINK(__, _##major##_9)

NVJITLINK(, )
NVJITLINK_OF(12)
NVJITLINK_OF(13)
