/* SPDX-License-Identifier: Apache-2.0 */
/* Determines what code is, and compiles it. */
#include "sim/driver/code/image.h"

#include "sim/control/config.h"
#include "sim/control/report.h"
#include "sim/driver/base/host_memory.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <elf.h>
#include <string_view>

namespace sim {
namespace {

constexpr uint32_t wrapper_magic = 0x466243B1, fat_magic = 0xBA55ED50;
constexpr size_t largest = size_t{1} << 31;

struct FatWrapper {
  uint32_t magic, version;
  const void *data;
  const void *more;
};

struct FatHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};

/* The first members of the header of an entry of a fat binary. The whole header has header_bytes bytes. */
struct FatEntry {
  uint16_t kind, unused;
  uint32_t header_bytes;
  uint64_t bytes; /* size of the data, with padding */
  uint32_t packed_bytes, unused2;
  uint16_t minor, major;
  uint32_t capability;
  uint32_t name_offset, name_bytes;
  uint64_t flags, unused3, unpacked_bytes;
};
constexpr uint16_t kind_ptx = 1, kind_elf = 2;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;

template <class T> bool read_at(const std::vector<char> &bytes, size_t offset, T &out) {
  if (offset > bytes.size() || sizeof out > bytes.size() - offset)
    return false;
  std::memcpy(&out, bytes.data() + offset, sizeof out);
  return true;
}

int device_capability() { return config().compute_major * 10 + config().compute_minor; }

/* The newest PTX version that a driver accepts: 90 is 9.0. */
int newest_ptx(int driver_version) {
  int major = driver_version / 1000, minor = driver_version % 1000 / 10;
  if (major >= 13)
    return (major - 4) * 10 + minor;
  if (major == 12) {
    constexpr int by_minor[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
    return by_minor[std::min(minor, 9)];
  }
  return 70 + minor;
}

/* Finds the number after a directive such as ".version 9.0" or ".target sm_90a", before the first kernel. */
bool find_directive(std::string_view text, std::string_view directive, std::string_view &out) {
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.compare(at, 2, "/*") == 0) {
      at = text.find("*/", at);
      at = at == text.npos ? text.size() : at + 2;
    } else if (text.compare(at, directive.size(), directive) == 0) {
      size_t from = text.find_first_not_of(" \t\r\n", at + directive.size());
      if (from == text.npos)
        return false;
      out = text.substr(from, text.find_first_of(" \t\r\n,;/", from) - from);
      return true;
    } else if (text[at] == '{') {
      return false;
    } else {
      at++;
    }
  }
  return false;
}

/* The length of a text. Memory that is not mapped is not accessed. */
bool text_length(const char *text, size_t &out) {
  for (size_t length = 0; length < largest;) {
    uint64_t here = reinterpret_cast<uint64_t>(text + length), to_page_end = page_below(here) + system_page() - here;
    if (!is_usable(here, 1, false))
      return false;
    if (const void *end = std::memchr(text + length, 0, to_page_end)) {
      out = static_cast<size_t>(static_cast<const char *>(end) - text);
      return true;
    }
    length += to_page_end;
  }
  return false;
}

} // namespace

/* The magic number of an image: its first four bytes. 0: one of these bytes is zero, or cannot be read. */
static uint32_t magic_of(const void *code) {
  const auto *bytes = static_cast<const unsigned char *>(code);
  uint64_t address = reinterpret_cast<uint64_t>(code);
  uint32_t magic = 0;
  for (size_t i = 0; i < sizeof magic; i++) {
    if (((address + i) % system_page() == 0 || i == 0) && !is_usable(address + i, 1, false))
      return 0;
    if (bytes[i] == 0)
      return 0;
    magic |= uint32_t{bytes[i]} << 8 * i;
  }
  return magic;
}

std::shared_ptr<Image> Image::take(std::vector<char> bytes) {
  auto image = std::make_shared<Image>();
  image->bytes = std::move(bytes);
  return image;
}

std::shared_ptr<Image> Image::copy(const void *code) {
  FatWrapper wrapper{};
  if (magic_of(code) == wrapper_magic && is_usable(reinterpret_cast<uint64_t>(code), sizeof wrapper, false)) {
    std::memcpy(&wrapper, code, sizeof wrapper);
    code = wrapper.data;
  }
  const char *data = static_cast<const char *>(code);
  uint64_t address = reinterpret_cast<uint64_t>(code);
  uint32_t magic = magic_of(code);
  size_t size = 0;
  FatHeader header{};
  if (magic == fat_magic && is_usable(address, sizeof header, false)) {
    std::memcpy(&header, code, sizeof header);
    size = header.bytes < largest ? header.header_bytes + header.bytes : 0;
  } else if (std::memcmp(&magic, "\177ELF", 4) == 0) {
    size = is_usable(address, 64, false) ? elf_size(data, 64) : 0;
    size = std::max<size_t>(size, 4);
  } else if (!text_length(data, size)) {
    return nullptr;
  }
  if (size > largest || !is_usable(address, std::max<size_t>(size, 1), false))
    size = 0; /* damaged: understand() reports that */
  return take(std::vector<char>(data, data + size));
}

CUresult Image::prepare() {
  std::call_once(once, [this] {
    result = understand();
    std::vector<char>().swap(bytes);
  });
  return result;
}

bool Image::is_code() const {
  uint32_t magic = 0;
  return (read_at(bytes, 0, magic) && (magic == fat_magic || std::memcmp(&magic, "\177ELF", 4) == 0)) ||
         starts_as_ptx({bytes.data(), bytes.size()});
}

CUresult Image::understand() {
  uint32_t magic = 0;
  std::vector<char> unpacked;
  if (read_at(bytes, 0, magic) && magic == fat_magic) {
    bool beside_cubin = false;
    if (CUresult failed = unpack_fat_binary(bytes, unpacked, messages, &beside_cubin))
      return failed;
    if (beside_cubin)
      origin = PtxOrigin::cubin;
    bytes = std::move(unpacked);
    magic = 0;
    read_at(bytes, 0, magic);
  }
  if (std::memcmp(&magic, "\177ELF", 4) == 0)
    return read_cubin(bytes.data(), bytes.size());
  if (starts_as_ptx({bytes.data(), bytes.size()})) { /* PTX in a fat binary may be padded with zeros */
    CUresult failed = read_ptx({{"", std::string(bytes.data(), strnlen(bytes.data(), bytes.size()))}});
    if (lacks_instruction)
      explain("PTX with an instruction that the simulator does not have: " + messages);
    return failed;
  }
  messages = "neither PTX nor a cubin nor a fat binary";
  return CUDA_ERROR_INVALID_IMAGE;
}

/*
 * The newest version of PTX that can run. If PTX was loaded, the version that the driver accepts; if a cubin was
 * loaded, any minor version of the same major version, because drivers run such cubins (minor version compatibility).
 */
static int newest_ptx_of(PtxOrigin origin) {
  int newest = newest_ptx(config().driver_version);
  return origin == PtxOrigin::cubin ? newest / 10 * 10 + 9 : newest;
}

/* Checks that the device and the driver accept a PTX text. Sets `capability` to the capability that the text is for. */
static CUresult check_target(std::string_view text, PtxOrigin origin, int &capability, std::string &messages) {
  std::string_view version, target;
  int major = 0, minor = 0;
  if (!find_directive(text, ".version", version) ||
      std::sscanf(std::string(version).c_str(), "%d.%d", &major, &minor) != 2) {
    messages = "a .version directive is missing";
    return CUDA_ERROR_INVALID_PTX;
  }
  int newest = newest_ptx_of(origin);
  if (!config().any_ptx && major * 10 + minor > newest) {
    messages = "PTX " + std::string(version) + " is newer than PTX " + std::to_string(newest / 10) + "." +
               std::to_string(newest % 10) +
               ", the newest that this driver takes: CUDACORE_SIM_DRIVER_VERSION sets its version";
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  char feature = 0;
  if (!find_directive(text, ".target", target) ||
      std::sscanf(std::string(target).c_str(), "sm_%d%c", &capability, &feature) < 1) {
    messages = "a .target directive is missing";
    return CUDA_ERROR_INVALID_PTX;
  }
  bool fits = capability <= device_capability();
  if (feature == 'a')
    fits = capability == device_capability();
  else if (feature == 'f')
    fits = fits && capability / 10 == device_capability() / 10;
  if (!fits) {
    messages = "code for " + std::string(target) + " does not run on sm_" + std::to_string(device_capability());
    return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_SUCCESS;
}

void limit_registers(std::string &ptx, unsigned limit) {
  if (limit != 0)
    ptx += "\n.pragma \"" + std::string(register_pragma) + std::to_string(limit) + "\";\n";
}

CUresult Image::read_ptx(std::vector<PtxText> texts) {
  ptx = 0;
  for (PtxText &one : texts) {
    if (origin == PtxOrigin::text)
      sim::limit_registers(one.text, max_registers);
    int capability = 0;
    if (CUresult failed = check_target(one.text, origin, capability, messages))
      return failed;
    ptx = std::max(ptx, capability);
  }
  CompileResult compilation = compile(texts);
  if (compilation.module == nullptr) {
    messages = compilation.log.substr(0, compilation.log.find_last_not_of('\n') + 1);
    switch (compilation.failure) {
    case CompileResult::Failure::unsupported_instruction:
      lacks_instruction = true;
      return CUDA_ERROR_INVALID_PTX;
    case CompileResult::Failure::unsupported_version:
      return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    default:
      return CUDA_ERROR_INVALID_PTX;
    }
  }
  for (const Variable &variable : info(*compilation.module).variables)
    if (variable.is_external) {
      messages = "undefined reference to '" + variable.name + "'";
      return CUDA_ERROR_INVALID_PTX;
    }
  compiled = std::move(compilation.module);
  kernel_infos = info(*compiled).kernels;
  variable_infos = info(*compiled).variables;
  binary = device_capability();
  return CUDA_SUCCESS;
}

CUresult Image::read_cubin(const char *data, size_t size) {
  if (!read_elf(data, size, kernel_infos, variable_infos, binary)) {
    messages = "a broken ELF file, or one without device code";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  ptx = binary;
  if (binary / 10 != device_capability() / 10 || binary > device_capability()) {
    messages =
        "a cubin for sm_" + std::to_string(binary) + " does not run on sm_" + std::to_string(device_capability());
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  /* Compilers of CUDA 12 write the newer format only for devices of capability 10.0 and later. */
  bool is_new_form = static_cast<unsigned char>(data[EI_ABIVERSION]) >= 8 && binary < 100;
  if (!config().any_ptx && config().driver_version < 13000 && is_new_form) {
    messages = "a cubin of a compiler of CUDA 13 or later, in a form that drivers of CUDA 12 cannot read";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  origin = PtxOrigin::cubin;
  int target = binary;
  std::vector<KernelInfo> of_machine_code = std::move(kernel_infos);
  kernel_infos = of_machine_code;
  if (run_embedded(data, size) != CUDA_SUCCESS)
    return CUDA_SUCCESS; /* loading succeeds, as on a GPU; launches fail, and explain why */
  ptx = binary = target;
  for (KernelInfo &kernel : kernel_infos)
    for (const KernelInfo &known : of_machine_code)
      if (known.name == kernel.name) { /* values from the cubin replace the estimates */
        kernel.registers = known.registers;
        kernel.local_bytes = known.local_bytes;
      }
  return CUDA_SUCCESS;
}

void find_ptx(const std::string &name, std::vector<char> code, std::vector<PtxText> &found, std::string &lacking) {
  uint32_t magic = 0;
  std::string reason;
  std::vector<char> unpacked;
  if (read_at(code, 0, magic) && magic == fat_magic && unpack_fat_binary(code, unpacked, reason) == CUDA_SUCCESS)
    code = std::move(unpacked);
  if (starts_as_ptx({code.data(), code.size()})) { /* PTX in a fat binary may be padded with zeros */
    found.push_back({name, std::string(code.data(), strnlen(code.data(), code.size()))});
    return;
  }
  std::vector<EmbeddedPtx> parts = embedded_ptx(code.data(), code.size());
  for (const EmbeddedPtx &part : parts)
    find_ptx(part.name, std::vector<char>(part.code.begin(), part.code.end()), found, lacking);
  if (parts.empty() && is_device_runtime(name))
    found.push_back(device_runtime());
  else if (parts.empty())
    lacking += (lacking.empty() ? "'" : ", '") + name + "'";
}

/*
 * Compiles the PTX that a cubin carries. Fails if there is none, or if it cannot be compiled: for example because some
 * inputs that the cubin was linked from have no PTX.
 */
CUresult Image::run_embedded(const char *data, size_t size) {
  std::vector<PtxText> found;
  std::string lacking;
  for (const EmbeddedPtx &part : embedded_ptx(data, size))
    find_ptx(part.name, std::vector<char>(part.code.begin(), part.code.end()), found, lacking);
  CUresult result = CUDA_ERROR_INVALID_PTX;
  no_ptx = found.empty() && lacking.empty();
  if (found.empty())
    messages = "its PTX is not known";
  else
    result = read_ptx(std::move(found));
  if (lacks_instruction)
    messages = "its PTX has an instruction that the simulator does not have: " + messages;
  if (result != CUDA_SUCCESS && !lacking.empty())
    messages += "; it was linked with " + lacking + ", of which there is no PTX";
  else if (result == CUDA_SUCCESS)
    messages.clear();
  return result;
}

/* The entry of a fat binary whose code the device uses, and where the code begins. */
struct ChosenEntry {
  FatEntry entry{};
  size_t at = 0;
  bool is_set = false, beside_cubin = false;
};

/*
 * Prefers PTX to a cubin, because PTX can run. Of several PTX texts, chooses the one for the newest capability that
 * the device supports. False: the fat binary is broken.
 */
static bool choose_entry(const std::vector<char> &bytes, ChosenEntry &chosen) {
  FatHeader header{};
  if (!read_at(bytes, 0, header))
    return false;
  auto rank = [](const FatEntry &entry) {
    return (entry.kind == kind_ptx ? 100000 : 0) + static_cast<int>(entry.capability);
  };
  for (size_t at = header.header_bytes; at < bytes.size();) {
    FatEntry entry{};
    if (!read_at(bytes, at, entry) || entry.header_bytes < sizeof entry || entry.bytes > bytes.size() ||
        entry.header_bytes + entry.bytes > bytes.size() - at)
      return false;
    int capability = static_cast<int>(entry.capability);
    bool fits = capability <= device_capability() &&
                (entry.kind == kind_ptx || (entry.kind == kind_elf && capability / 10 == device_capability() / 10));
    chosen.beside_cubin |= fits && entry.kind == kind_elf;
    if (fits && (!chosen.is_set || rank(entry) > rank(chosen.entry))) {
      chosen.entry = entry;
      chosen.at = at + entry.header_bytes;
      chosen.is_set = true;
    }
    at += entry.header_bytes + entry.bytes;
  }
  return true;
}

/* Unpacks the code of an entry, if it is packed. */
static CUresult unpack_entry(const FatEntry &entry, std::vector<char> &code, std::string &messages) {
  bool is_zstd = (entry.flags & flag_zstd) != 0;
  if (!is_zstd && (entry.flags & flag_lz4) == 0)
    return CUDA_SUCCESS;
  if (is_zstd && !has_zstd()) {
    messages = "the fat binary's code is packed with Zstandard, and this system has no libzstd.so.1 to unpack it: "
               "install it (the package is called libzstd1, libzstd or zstd-libs), build with nvcc --no-compress or "
               "--compress-mode=speed, or load the PTX itself";
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::vector<char> unpacked(entry.unpacked_bytes < largest ? entry.unpacked_bytes : 0);
  auto unpack = is_zstd ? unpack_zstd : unpack_lz4;
  if (entry.packed_bytes > code.size() || !unpack(code.data(), entry.packed_bytes, unpacked)) {
    messages = "a broken fat binary";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  code = std::move(unpacked);
  return CUDA_SUCCESS;
}

CUresult unpack_fat_binary(const std::vector<char> &bytes, std::vector<char> &code, std::string &messages,
                           bool *beside_cubin) {
  ChosenEntry chosen;
  bool is_intact = choose_entry(bytes, chosen);
  if (beside_cubin != nullptr && chosen.beside_cubin)
    *beside_cubin = true;
  if (!is_intact) {
    messages = "a broken fat binary";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (!chosen.is_set) {
    messages = "a fat binary with no code for sm_" + std::to_string(device_capability());
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(chosen.at);
  code.assign(begin, begin + static_cast<std::ptrdiff_t>(chosen.entry.bytes));
  return unpack_entry(chosen.entry, code, messages);
}

bool unpack_lz4(const char *data, size_t size, std::vector<char> &out) {
  const char *in = data, *end = data + size;
  size_t made = 0;
  auto length = [&](size_t start) -> size_t {
    size_t all = start;
    for (unsigned char byte = 255; start == 15 && byte == 255 && in < end; all += byte)
      byte = static_cast<unsigned char>(*in++);
    return all;
  };
  while (in < end) {
    unsigned char token = static_cast<unsigned char>(*in++);
    size_t literals = length(token >> 4);
    if (literals > static_cast<size_t>(end - in) || literals > out.size() - made)
      return false;
    std::memcpy(out.data() + made, in, literals);
    made += literals;
    in += literals;
    if (in == end)
      break; /* the last sequence has no match */
    if (end - in < 2)
      return false;
    size_t distance = static_cast<unsigned char>(in[0]) | static_cast<size_t>(static_cast<unsigned char>(in[1])) << 8;
    in += 2;
    size_t match = length(token & 15) + 4;
    if (distance == 0 || distance > made || match > out.size() - made)
      return false;
    for (; match > 0; match--, made++)
      out[made] = out[made - distance];
  }
  return made == out.size();
}

} // namespace sim
