/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses all kinds of memory on a system that seems to have pages of 64 KiB, as many systems for aarch64 have. The
 * functions of this program replace those of the C library. They refuse addresses and offsets that are not those of a
 * page, and count them.
 */
#undef _FILE_OFFSET_BITS /* mmap and mmap64 are both defined here */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t page = 64 << 10, real_page = 4096;
std::atomic<int> misaligned{0};

bool begins_page(uint64_t at) {
  if (at % page == 0)
    return true;
  misaligned++;
  errno = EINVAL;
  return false;
}

bool begins_page(const void *at) { return begins_page(reinterpret_cast<uint64_t>(at)); }

template <class... Arguments> long system_call(long number, Arguments... arguments) {
  return syscall(number, arguments...);
}

} // namespace

extern "C" {

long sysconf(int name) noexcept {
  return name == _SC_PAGESIZE ? static_cast<long>(page) : name == _SC_NPROCESSORS_ONLN ? 2 : -1;
}

void *mmap(void *where, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  if ((file >= 0 && !begins_page(static_cast<uint64_t>(offset))) || ((flags & MAP_FIXED) != 0 && !begins_page(where)))
    return MAP_FAILED;
  if ((flags & MAP_FIXED) == 0) { /* the rest of a page is never given back */
    long room =
        system_call(SYS_mmap, nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == -1)
      return MAP_FAILED;
    where = reinterpret_cast<void *>((static_cast<uint64_t>(room) + page - 1) / page * page);
  }
  return reinterpret_cast<void *>(system_call(SYS_mmap, where, size, protection, flags | MAP_FIXED, file, offset));
}

void *mmap64(void *where, size_t size, int protection, int flags, int file, off64_t offset) noexcept {
  return mmap(where, size, protection, flags, file, offset);
}

int munmap(void *where, size_t size) noexcept {
  return begins_page(where) ? static_cast<int>(system_call(SYS_munmap, where, size)) : -1;
}

int madvise(void *where, size_t size, int advice) noexcept {
  return begins_page(where) ? static_cast<int>(system_call(SYS_madvise, where, size, advice)) : -1;
}

int msync(void *where, size_t size, int flags) {
  return begins_page(where) ? static_cast<int>(system_call(SYS_msync, where, size, flags)) : -1;
}

int mincore(void *where, size_t size, unsigned char *out) noexcept {
  if (!begins_page(where))
    return -1;
  std::vector<unsigned char> parts((size + real_page - 1) / real_page);
  if (system_call(SYS_mincore, where, size, parts.data()) != 0)
    return -1;
  std::memset(out, 0, (size + page - 1) / page);
  for (size_t i = 0; i < parts.size(); i++)
    out[i * real_page / page] |= parts[i] & 1;
  return 0;
}
}

namespace {

#define REQUIRE(condition)                                                                                             \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                             \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)
#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

/* Memory of the application. What malloc() returns is not in pages of this size. */
std::byte *allocate(size_t size) {
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return static_cast<std::byte *>(memory);
}

/* Memory would be out of reach for the host, or another process would map another part of the file. */
void use_virtual_memory(CUmemLocationType place, bool shared) {
  constexpr size_t size = 4 << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = place;
  if (shared)
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0, imported = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CUmemAccessDesc access[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                               {{place, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  CUdeviceptr first = 0, second = 0;
  CHECK(cuMemAddressReserve(&first, size, 0, 0, 0));
  CHECK(cuMemMap(first, size, 0, memory, 0));
  CHECK(cuMemSetAccess(first, size, access, place == CU_MEM_LOCATION_TYPE_DEVICE ? 1 : 2));
  CHECK(cuMemsetD8(first, 7, size));
  if (shared) {
    int file = -1;
    CHECK(cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void *>(static_cast<intptr_t>(file)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
  } else {
    CHECK(cuMemRetainAllocationHandle(&imported, reinterpret_cast<void *>(first)));
  }
  CHECK(cuMemAddressReserve(&second, size, 0, 0, 0));
  CHECK(cuMemMap(second, size, 0, imported, 0));
  CHECK(cuMemSetAccess(second, size, access, 1));
  unsigned char byte = 0;
  CHECK(cuMemcpyDtoH(&byte, second + size - 1, 1));
  REQUIRE(byte == 7);
  if (place == CU_MEM_LOCATION_TYPE_HOST)
    REQUIRE(reinterpret_cast<volatile unsigned char *>(first)[size - 1] == 7);
  for (CUdeviceptr at : {first, second}) {
    CHECK(cuMemUnmap(at, size));
    CHECK(cuMemAddressFree(at, size));
  }
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRelease(imported));
}

/* Freed memory would keep its contents and pages; bytes that are not written would count as written. */
void use_device_memory() {
  constexpr size_t size = 300 << 10;
  std::byte *there = allocate(size), *back = allocate(size);
  std::memset(there, 5, size);
  for (int round = 0; round < 3; round++) {
    CUdeviceptr memory = 0, next = 0;
    CHECK(cuMemAlloc(&memory, size));
    CHECK(cuMemAlloc(&next, 100));
    CHECK(cuMemcpyHtoD(memory, there, size));
    CHECK(cuMemsetD8(memory + 100, 0, size - 200));
    CHECK(cuMemcpyDtoH(back, memory, size));
    for (size_t i = 0; i < size; i++)
      REQUIRE(back[i] == std::byte(i < 100 || i >= size - 100 ? 5 : 0));
    CHECK(cuMemFree(memory));
    CHECK(cuMemFree(next));
  }
}

/* The application's memory would be taken for unusable, or what it uses of managed memory could not be counted. */
void use_host_memory() {
  std::byte *memory = allocate(4 * page);
  CHECK(cuMemHostRegister(memory + 100, 3 * page, 0));
  CUdeviceptr registered = 0, managed = 0;
  void *pinned = nullptr;
  CHECK(cuMemHostGetDevicePointer(&registered, memory + 100, 0));
  CHECK(cuMemsetD8(registered + 5000, 3, page));
  REQUIRE(memory[100 + 5000] == std::byte{3});
  CHECK(cuMemHostUnregister(memory + 100));
  CHECK(cuMemAllocHost(&pinned, 100));
  CHECK(cuMemFreeHost(pinned));
  CHECK(cuMemAllocManaged(&managed, 3 << 20, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemsetD8(managed, 1, 3 << 20));
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  CHECK(cuMemFree(managed));
}

} // namespace

int main() {
  setenv("CUDACORE_SIM_HOST_MEMORY", "8M", 1); /* counts the pages of managed memory */
  CHECK(cuInit(0));
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  use_virtual_memory(CU_MEM_LOCATION_TYPE_DEVICE, false);
  use_virtual_memory(CU_MEM_LOCATION_TYPE_DEVICE, true);
  use_virtual_memory(CU_MEM_LOCATION_TYPE_HOST, false);
  use_device_memory();
  use_host_memory();
  REQUIRE(misaligned == 0);
  return 0;
}
