/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration that the environment gives. */
#include "config.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace sim {
namespace {

const char *setting(const char *name) {
  const char *text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

void ignore(const char *name, const char *text, const char *wanted) {
  std::fprintf(stderr, "cudacore-sim: %s=%s is ignored: %s is wanted\n", name, text, wanted);
}

/* A whole number in base 10 or, after 0x, 16, with an optional binary unit. */
std::optional<uint64_t> parse_number(const char *text, bool unit) {
  char *end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text, &end, 0);
  if (errno != 0 || end == text || *text == '-')
    return std::nullopt;
  int shift = 0;
  if (unit && *end != '\0') {
    switch (*end) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    case 'T':
      shift = 40;
      break;
    default:
      return std::nullopt;
    }
    end++;
    if (*end == 'i')
      end++;
    if (*end == 'B')
      end++;
  }
  if (*end != '\0' || (shift != 0 && value >> (64 - shift) != 0))
    return std::nullopt;
  return value << shift;
}

void read_number(const char *name, uint64_t lowest, uint64_t highest, bool unit, uint64_t &out) {
  const char *text = setting(name);
  if (text == nullptr)
    return;
  std::optional<uint64_t> value = parse_number(text, unit);
  if (!value || *value < lowest || *value > highest) {
    char wanted[128];
    std::snprintf(wanted, sizeof wanted, "a number from %llu to %llu%s", static_cast<unsigned long long>(lowest),
                  static_cast<unsigned long long>(highest), unit ? ", of bytes or with K, M, G or T," : "");
    ignore(name, text, wanted);
    return;
  }
  out = *value;
}

void read_flag(const char *name, bool &out) {
  uint64_t value = out;
  read_number(name, 0, 1, false, value);
  out = value != 0;
}

void read_capability(Config &config) {
  const char *name = "CUDACORE_SIM_COMPUTE_CAPABILITY", *text = setting(name);
  int major = 0, minor = 0;
  char rest = 0;
  if (text == nullptr)
    return;
  if (std::sscanf(text, "%d.%d%c", &major, &minor, &rest) != 2 || major < 5 || major > 99 || minor < 0 || minor > 9) {
    ignore(name, text, "a compute capability such as 9.0");
    return;
  }
  config.compute_major = major;
  config.compute_minor = minor;
}

void read_version(Config &config) {
  const char *name = "CUDACORE_SIM_DRIVER_VERSION", *text = setting(name);
  int major = 0, minor = 0;
  char rest = 0;
  if (text == nullptr)
    return;
  int version = 0;
  if (std::sscanf(text, "%d.%d%c", &major, &minor, &rest) == 2 && minor >= 0 && minor < 100)
    version = major * 1000 + minor * 10;
  else if (std::sscanf(text, "%d%c", &version, &rest) != 1)
    version = 0;
  if (version < 11030 || version >= 100000) {
    ignore(name, text, "a CUDA version such as 13000 or 13.0");
    return;
  }
  config.driver_version = version;
  config.any_ptx = false;
}

Config read_config() {
  Config config;
  uint64_t devices = 1;
  read_number("CUDACORE_SIM_DEVICES", 0, 64, false, devices);
  config.devices = static_cast<int>(devices);
  read_number("CUDACORE_SIM_MEMORY", 64 << 20, uint64_t{1} << 42, true, config.memory);
  read_number("CUDACORE_SIM_INSTRUCTION_LIMIT", 0, UINT64_MAX, false, config.instruction_limit);
  read_capability(config);
  read_version(config);
  if (setting("CUDACORE_SIM_SHUFFLE") != nullptr) {
    uint64_t seed = 0;
    read_number("CUDACORE_SIM_SHUFFLE", 0, UINT64_MAX, false, seed);
    config.shuffle = seed;
  }
  if (const char *name = setting("CUDACORE_SIM_NAME"))
    config.name = name;
  else if (config.compute_major == 9 && config.compute_minor == 0)
    config.name = "NVIDIA H200";
  else
    config.name = "cudacore-sim sm_" + std::to_string(config.compute_major * 10 + config.compute_minor);
  if (const char *path = setting("CUDACORE_SIM_LOG"))
    config.log = path;
  read_flag("CUDACORE_SIM_LEAKS", config.leaks);
  read_flag("CUDACORE_SIM_REPORTS", config.reports);
  read_flag("CUDACORE_SIM_REUSE", config.reuse_handles);
  return config;
}

} // namespace

const Config &config() {
  static const Config *const instance = new Config(read_config()); /* never destroyed: threads outlive exit() */
  return *instance;
}

} // namespace sim
