/* SPDX-License-Identifier: Apache-2.0 */
/* A C interface of the kernel engine, so that tests can use it from Python without a driver. */
#include <cstring>
#include <mutex>
#include <string>

#include "sim/engine.h"

namespace {

struct Compiled {
  sim::CompileResult result;
  sim::Instance instance;
  std::shared_ptr<sim::Heap> heap = sim::make_heap();
};

struct FaultRecord {
  int32_t kind;
  uint32_t block[3], thread[3];
  uint32_t ptx_line, source_line;
  uint64_t address;
  uint32_t access_bytes;
  int32_t is_write;
  char kernel[128], source_file[256], space[32], detail[512];
};

template <size_t N> void copy(char (&to)[N], const std::string &from) {
  std::strncpy(to, from.c_str(), N - 1);
  to[N - 1] = '\0';
}

} // namespace

// Python calls these functions. All other symbols of the engine are hidden.
#pragma GCC visibility push(default)
extern "C" {

void *engine_compile(const char *text, size_t size) {
  auto *compiled = new Compiled;
  compiled->result = sim::compile(text, size);
  compiled->instance.module = compiled->result.module;
  if (compiled->result.module)
    compiled->instance.variable_addresses.resize(sim::info(*compiled->result.module).variables.size());
  return compiled;
}
void engine_free(void *handle) { delete static_cast<Compiled *>(handle); }
int32_t engine_failure(void *handle) { return static_cast<int32_t>(static_cast<Compiled *>(handle)->result.failure); }
const char *engine_log(void *handle) { return static_cast<Compiled *>(handle)->result.log.c_str(); }

size_t engine_kernel_count(void *handle) {
  return sim::info(*static_cast<Compiled *>(handle)->result.module).kernels.size();
}
const char *engine_kernel_name(void *handle, size_t index) {
  return sim::info(*static_cast<Compiled *>(handle)->result.module).kernels[index].name.c_str();
}
void engine_kernel_info(void *handle, size_t index, uint32_t *out) {
  const sim::KernelInfo &kernel = sim::info(*static_cast<Compiled *>(handle)->result.module).kernels[index];
  uint32_t values[] = {
      kernel.parameter_bytes, kernel.static_shared_bytes, kernel.local_bytes,
      kernel.registers,       kernel.max_threads[0],      kernel.required_threads[0],
      kernel.min_blocks,      kernel.required_cluster[0], static_cast<uint32_t>(kernel.parameters.size())};
  std::memcpy(out, values, sizeof values);
}
void engine_kernel_parameter(void *handle, size_t kernel, size_t index, uint32_t *out) {
  const sim::Parameter &one =
      sim::info(*static_cast<Compiled *>(handle)->result.module).kernels[kernel].parameters[index];
  out[0] = one.offset;
  out[1] = one.size;
  out[2] = one.alignment;
}
size_t engine_variable_count(void *handle) {
  return sim::info(*static_cast<Compiled *>(handle)->result.module).variables.size();
}
const char *engine_variable(void *handle, size_t index, uint64_t *out) {
  const sim::Variable &one = sim::info(*static_cast<Compiled *>(handle)->result.module).variables[index];
  out[0] = one.size;
  out[1] = one.alignment;
  out[2] = one.space == sim::Space::constant;
  out[3] = one.is_external;
  return one.name.c_str();
}

/*
 * engine_place sets the device address of a variable; engine_initialise writes the variable's initial bytes to `host`.
 */
void engine_place(void *handle, size_t index, uint64_t address) {
  static_cast<Compiled *>(handle)->instance.variable_addresses[index] = address;
}
void engine_initialise(void *handle, size_t index, char *host) {
  auto *compiled = static_cast<Compiled *>(handle);
  const sim::ModuleInfo &info = sim::info(*compiled->result.module);
  const sim::Variable &variable = info.variables[index];
  if (!variable.initial.empty())
    std::memcpy(host, variable.initial.data(), variable.initial.size());
  for (const sim::Variable::Relocation &one : variable.relocations) {
    uint64_t value = compiled->instance.function_address(one.symbol);
    for (size_t i = 0; i < info.variables.size(); ++i)
      if (info.variables[i].name == one.symbol)
        value = compiled->instance.variable_addresses[i];
    value += static_cast<uint64_t>(one.addend);
    std::memcpy(host + one.offset, &value, sizeof value);
  }
}

using Print = void (*)(const char *, size_t);

/* Each range in `ranges` has four numbers: begin, end, host address, writable. `shape` has grid, block and cluster. */
void engine_run(void *handle, size_t kernel, const uint32_t *shape, uint32_t shared, int32_t cooperative,
                const char *parameters, size_t parameter_bytes, const uint64_t *ranges, size_t range_count, Print print,
                uint64_t instruction_limit, FaultRecord *out) {
  auto *compiled = static_cast<Compiled *>(handle);
  sim::Launch launch;
  launch.instance = &compiled->instance;
  launch.kernel = kernel;
  for (size_t i = 0; i < 3; ++i) {
    launch.grid[i] = shape[i];
    launch.block[i] = shape[3 + i];
    launch.cluster[i] = shape[6 + i];
  }
  launch.dynamic_shared_bytes = shared;
  launch.cooperative = cooperative != 0;
  const auto *bytes = reinterpret_cast<const std::byte *>(parameters);
  launch.parameters.assign(bytes, bytes + parameter_bytes);
  auto memory = std::make_shared<sim::MemoryMap>();
  for (size_t i = 0; i < range_count; ++i, ranges += 4)
    memory->ranges.push_back({ranges[0], ranges[1], reinterpret_cast<std::byte *>(ranges[2]), ranges[3] != 0, i});
  launch.memory = memory;
  launch.instruction_limit = instruction_limit;
  launch.heap = compiled->heap;
  if (print)
    launch.print = [print](const std::string &text, bool) { print(text.data(), text.size()); };
  sim::Fault fault = sim::run(launch);
  std::memset(out, 0, sizeof *out);
  out->kind = static_cast<int32_t>(fault.kind);
  for (size_t i = 0; i < 3; ++i) {
    out->block[i] = fault.block[i];
    out->thread[i] = fault.thread[i];
  }
  out->ptx_line = fault.ptx_line;
  out->source_line = fault.source_line;
  out->address = fault.address;
  out->access_bytes = fault.access_bytes;
  out->is_write = fault.is_write;
  copy(out->kernel, fault.kernel);
  copy(out->source_file, fault.source_file);
  copy(out->space, fault.space);
  copy(out->detail, fault.detail);
}

} /* extern "C" */
#pragma GCC visibility pop
