/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the configuration from the environment. */
#include "sim/control/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <unistd.h>

namespace sim {
namespace {

/* The settings that are read here, and those of the Python module and of tests. */
std::set<std::string> &known() {
  static auto *const names =
      new std::set<std::string>{"CUDACORE_SIM_LIBRARY", "CUDACORE_SIM_ENGINE", "CUDACORE_SIM_FUZZ"};
  return *names;
}

const char *setting(const char *name) {
  known().insert(name);
  const char *text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

void ignore(Config &config, const char *name, const char *text, const std::string &wanted) {
  config.ignored.push_back(std::string(name) + "=" + text + " is ignored: " + wanted + " is wanted");
  std::fprintf(stderr, "cudacore-sim: %s\n", config.ignored.back().c_str());
}

/* A whole number, decimal or (with 0x) hexadecimal, with an optional binary unit. */
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

/* Reads a variable that contains a number. Returns an empty value if the variable is not set, or is invalid. */
std::optional<uint64_t> read_number(Config &config, const char *name, uint64_t lowest, uint64_t highest,
                                    bool unit = false) {
  const char *text = setting(name);
  if (text == nullptr)
    return std::nullopt;
  std::optional<uint64_t> value = parse_number(text, unit);
  if (value && *value >= lowest && *value <= highest)
    return value;
  ignore(config, name, text,
         "a number from " + std::to_string(lowest) + " to " + std::to_string(highest) +
             (unit ? ", of bytes or with K, M, G or T," : ""));
  return std::nullopt;
}

bool read_flag(Config &config, const char *name, bool otherwise) {
  return read_number(config, name, 0, 1).value_or(otherwise) != 0;
}

bool parse_pair(const char *text, int &major, int &minor) {
  char rest = 0;
  return std::sscanf(text, "%d.%d%c", &major, &minor, &rest) == 2;
}

void read_capability(Config &config) {
  const char *name = "CUDACORE_SIM_COMPUTE_CAPABILITY", *text = setting(name);
  int major = 0, minor = 0;
  if (text == nullptr)
    return;
  static constexpr int existing[] = {50, 52, 53, 60, 61, 62,  70,  72,  75,  80,
                                     86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
  if (!parse_pair(text, major, minor) || minor < 0 || minor > 9 ||
      std::find(std::begin(existing), std::end(existing), major * 10 + minor) == std::end(existing))
    return ignore(config, name, text, "a compute capability that exists, such as 9.0,");
  config.compute_major = major;
  config.compute_minor = minor;
}

void read_version(Config &config) {
  const char *name = "CUDACORE_SIM_DRIVER_VERSION", *text = setting(name);
  int major = 0, minor = 0, version = 0;
  char rest = 0;
  if (text == nullptr)
    return;
  if (parse_pair(text, major, minor) && minor >= 0 && minor < 100)
    version = major * 1000 + minor * 10;
  else if (std::sscanf(text, "%d%c", &version, &rest) != 1)
    version = 0;
  if (version < 11030 || version >= 100000)
    return ignore(config, name, text, "a CUDA version such as 13000 or 13.0");
  config.driver_version = version;
  config.any_ptx = false;
}

void read_checks(Config &config) {
  const char *name = "CUDACORE_SIM_CHECK", *text = setting(name);
  if (text == nullptr)
    return;
  Checks checks;
  std::stringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    if (one == "sync")
      checks.sync = true;
    else if (one == "init")
      checks.init = true;
    else if (one == "race")
      checks.race = true;
    else if (one == "order")
      checks.order = true;
    else
      return ignore(config, name, text, "a list of race, sync, init and order, with commas between them,");
  }
  config.checks = checks;
}

/* A name that is misspelt would have no effect, and nobody would notice. */
void read_unknown(Config &config) {
  constexpr char prefix[] = "CUDACORE_SIM_";
  for (char **entry = environ; *entry != nullptr; entry++) {
    std::string name(*entry, std::strcspn(*entry, "="));
    if (name.compare(0, sizeof prefix - 1, prefix) == 0 && known().count(name) == 0)
      ignore(config, name.c_str(), *entry + std::min(name.size() + 1, std::strlen(*entry)),
             "there is no such setting, a name from the documentation");
  }
}

Config read_config() {
  Config config;
  config.devices = static_cast<int>(read_number(config, "CUDACORE_SIM_DEVICES", 0, 64).value_or(1));
  config.memory = read_number(config, "CUDACORE_SIM_MEMORY", 64 << 20, uint64_t{1} << 42, true).value_or(config.memory);
  config.host_memory = read_number(config, "CUDACORE_SIM_HOST_MEMORY", 1 << 20, uint64_t{1} << 50, true).value_or(0);
  config.instruction_limit = read_number(config, "CUDACORE_SIM_INSTRUCTION_LIMIT", 0, UINT64_MAX).value_or(0);
  read_capability(config);
  read_version(config);
  config.fill = static_cast<uint8_t>(read_number(config, "CUDACORE_SIM_FILL", 0, UINT8_MAX).value_or(0));
  config.shuffle = read_number(config, "CUDACORE_SIM_SHUFFLE", 0, UINT64_MAX);
  if (const char *name = setting("CUDACORE_SIM_NAME"))
    config.name = name;
  else if (config.compute_major == 9 && config.compute_minor == 0)
    config.name = "NVIDIA H200";
  else
    config.name = "cudacore-sim sm_" + std::to_string(config.compute_major * 10 + config.compute_minor);
  if (const char *path = setting("CUDACORE_SIM_LOG"))
    config.log = path;
  if (const char *path = setting("CUDACORE_SIM_TRACE"))
    config.trace = path;
  read_checks(config);
  config.leaks = read_flag(config, "CUDACORE_SIM_LEAKS", config.leaks);
  config.reports = read_flag(config, "CUDACORE_SIM_REPORTS", config.reports);
  config.reuse_handles = read_flag(config, "CUDACORE_SIM_REUSE", config.reuse_handles);
  read_unknown(config);
  return config;
}

} // namespace

const Config &config() {
  static const Config *const instance = new Config(read_config()); /* never destroyed, because threads outlive exit() */
  return *instance;
}

} // namespace sim
