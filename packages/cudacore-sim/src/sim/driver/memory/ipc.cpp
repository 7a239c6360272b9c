/* SPDX-License-Identifier: Apache-2.0 */
/* Shares objects between processes: handles, records and files. */
#include "sim/driver/memory/ipc.h"

#include <array>
#include <cstring>
#include <sys/random.h>
#include <unistd.h>

namespace sim {
namespace {

constexpr uint64_t magic = 0x314350494D495343; /* "CSIMIPC1" */
constexpr int32_t of_host = -1;

/* A checksum of all bytes (FNV-1a). Changed handles are refused, even if their process and descriptor name a file. */
uint64_t seal_of(const Reference &reference) {
  std::array<unsigned char, sizeof reference> bytes;
  std::memcpy(bytes.data(), &reference, sizeof reference);
  uint64_t seal = magic;
  for (size_t i = sizeof reference.seal; i < bytes.size(); i++)
    seal = (seal ^ bytes[i]) * 0x100000001B3;
  return seal;
}

uint64_t new_name() {
  uint64_t name = 0;
  while (name == 0)
    if (getrandom(&name, sizeof name, 0) != sizeof name)
      name = 0;
  return name;
}

void write(Record &record, Shared kind, const Device *device) {
  record.kind = kind;
  record.device = device != nullptr ? device->number : of_host;
  __atomic_store_n(&record.name, new_name(), __ATOMIC_SEQ_CST);
}

bool is_good(const Record &record, Shared kind, const SharedFile &file) {
  return record.name != 0 && record.kind == kind && record.offset <= file.size() &&
         record.size <= file.size() - record.offset;
}

} // namespace

Export::Export(Arena &arena, uint64_t address, Shared kind, const Device *device)
    : arena(arena), address(address), entry(reinterpret_cast<Record *>(arena.host(address))) {
  *entry = {};
  write(*entry, kind, device);
}

std::unique_ptr<Export> Export::make(Arena &arena, Shared kind, const Device *device) {
  uint64_t address = arena.take(sizeof(Record));
  return std::unique_ptr<Export>(address != 0 ? new Export(arena, address, kind, device) : nullptr);
}

Export::~Export() {
  /* The record is not reused if another process still holds it. */
  if (!withdraw())
    arena.give_back(address, sizeof(Record));
}

bool Export::withdraw() {
  __atomic_store_n(&entry->name, uint64_t{0}, __ATOMIC_SEQ_CST);
  return arena.file().is_held_by_others(arena.offset(address));
}

Reference Export::reference(uint32_t count) const {
  Reference reference{};
  reference.count = count;
  reference.name = entry->name;
  reference.offset = arena.offset(address);
  reference.kind = entry->kind;
  reference.process = getpid();
  reference.descriptor = arena.file().number();
  reference.seal = seal_of(reference);
  return reference;
}

std::shared_ptr<Import> import_reference(const void *handle, std::shared_ptr<SharedFile> file, Shared kind,
                                         Record &copy) {
  Reference reference;
  std::memcpy(&reference, handle, sizeof reference);
  if (reference.seal != seal_of(reference) || reference.kind != kind)
    return nullptr;
  if (file == nullptr)
    file = SharedFile::open(reference.process, reference.descriptor);
  if (file == nullptr || !file->hold(reference.offset))
    return nullptr;
  /* The record is held before its name is read, and withdraw() clears the name before it looks for holds. */
  auto import = std::make_shared<Import>(file, reference.offset, reference.name);
  bool is_it =
      file->read(reference.offset, &copy, sizeof copy) && copy.name == reference.name && is_good(copy, kind, *file);
  return is_it ? import : nullptr;
}

void write_header(SharedFile &file, Header header, Shared kind, const Device *device) {
  write(header.record, kind, device);
  std::memcpy(file.at(0), &header, sizeof header);
}

std::unique_ptr<SharedFile> import_descriptor(const void *descriptor, Shared kind, Header &copy) {
  if (value_of(descriptor) > INT32_MAX)
    return nullptr;
  std::unique_ptr<SharedFile> file = SharedFile::open(getpid(), static_cast<int>(value_of(descriptor)));
  bool is_it = file != nullptr && file->read(0, &copy, sizeof copy) && is_good(copy.record, kind, *file);
  return is_it ? std::move(file) : nullptr;
}

CUresult device_of(const Record &record, Device *&out) {
  out = nullptr;
  if (record.device == of_host)
    return CUDA_SUCCESS;
  for (const std::unique_ptr<Device> &device : state().devices)
    if (device->number == record.device)
      out = device.get();
  return out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

} // namespace sim
