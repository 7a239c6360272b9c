// SPDX-License-Identifier: Apache-2.0
// PyTorch would use NULL as an address, or get no message, if a failed allocation did not throw a C++ exception.
extern "C" {
#include <cudacore_internal/all.h>
}

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

static int checks;

static bool fails(int64_t size, int device, const char *message) {
  checks++;
  try {
    std::printf("%p\n", cch_torch_alloc(size, device, nullptr));
  } catch (const std::runtime_error &error) {
    if (std::strstr(error.what(), message) != nullptr)
      return true;
    std::printf("%s\n", error.what());
  }
  return false;
}

int main() {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer's library defines functions of libstdc++ itself, so some linkers do not link libstdc++.
  if (dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD) == nullptr) {
    std::puts("needs a shared libstdc++, whose function throws the exception");
    return 77;
  }
#endif
  cch_pool *pool;
  cch_tracker *tracker;
  cch_tracker_config config = {};
  config.limit = 1000;
  cch_allocator *allocator;
  if (!fails(100, 0, "device 0 has no allocator") || !fails(100, -1, "device -1 has no allocator"))
    return checks;
  if (cch_pool_current(&pool, 0) != 0 || cch_tracker_create(&tracker, &config) != 0 ||
      cch_allocator_create(&allocator, pool, &tracker, 1) != 0 || cch_torch_set_allocator(0, allocator) != 0)
    return 100;
  void *memory = cch_torch_alloc(600, 0, nullptr);
  if (memory == nullptr || !fails(600, 0, "CUDA out of memory: cudacore could not allocate 600 bytes on device 0") ||
      cch_torch_try_alloc(600, 0, nullptr) != nullptr || cch_torch_alloc(0, 0, nullptr) != nullptr ||
      cch_torch_try_alloc(0, 0, nullptr) != nullptr)
    return checks;
  cch_torch_free(cch_torch_try_alloc(300, 0, nullptr), 300, 0, nullptr);
  cch_torch_free(memory, 600, 0, nullptr);
  cch_torch_set_allocator(0, nullptr);
  cch_allocator_unref(allocator);
  cch_tracker_unref(tracker);
  cch_pool_unref(pool);
  return cch_live_count(CCH_KIND_ALLOCATOR) + cch_live_count(CCH_KIND_DEVICEPTR) != 0 ? 101 : 0;
}
