/* SPDX-License-Identifier: Apache-2.0 */
/* The linker of the driver. It creates a cubin without machine code, which carries the PTX. */
#include "sim/driver/code/code.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>

namespace sim {

/* A buffer for messages of the linker. The application gives the buffer and its size in the options. */
struct JitLog {
  char *text = nullptr;
  size_t capacity = 0;
  void **length = nullptr; /* points into the options of the application, which must live as long as the linker */
  std::string messages;

  JitLog(unsigned count, const CUjit_option *options, void **values, CUjit_option buffer, CUjit_option size) {
    for (unsigned i = 0; i < count; i++) {
      if (options[i] == buffer)
        text = static_cast<char *>(values[i]);
      if (options[i] == size)
        length = &values[i];
    }
    capacity = length != nullptr ? static_cast<unsigned>(value_of(*length)) : 0;
  }

  void write() const {
    size_t written = text != nullptr && capacity != 0 ? std::min(messages.size(), capacity - 1) : 0;
    if (text != nullptr && capacity != 0) {
      std::memcpy(text, messages.data(), written);
      text[written] = '\0';
    }
    if (length != nullptr)
      *length = handle_of<void *>(written);
  }
};

/* A linker (CUlinkState). The kernels and variables of its output are known after cuLinkComplete. */
struct Link {
  Link(unsigned count, const CUjit_option *options, void **values)
      : errors(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES),
        info(count, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES),
        max_registers(register_limit(count, options, values)) {}

  uint64_t handle = 0;
  JitLog errors, info;
  unsigned max_registers; /* of inputs that have no limit of their own; 0: there is none */
  std::vector<PtxText> texts;
  std::vector<char> cubin;
  CUresult broken = CUDA_SUCCESS; /* an error about names; all later calls return it */
  bool is_complete = false;       /* completion was attempted; further inputs are refused */
};

namespace {

CUresult find_link(CUlinkState handle, std::shared_ptr<Link> &out) {
  return find_object(state().links, Kind::link, handle, out);
}

CUresult failed(Link &link, CUresult result, std::string log) {
  while (!log.empty() && log.back() == '\n')
    log.pop_back();
  link.errors.messages += "error   : " + log + "\n";
  link.errors.write();
  return refuse(result, "code that cannot be linked: " + log);
}

/* Reads the PTX of an input. */
CUresult read_input(CUjitInputType type, const std::string &name, std::vector<char> bytes, std::vector<PtxText> &out,
                    std::string &reason) {
  switch (static_cast<int>(type)) {
  case CU_JIT_INPUT_PTX:
    if (!starts_as_ptx({bytes.data(), bytes.size()})) {
      reason = "'" + name + "' does not begin as PTX does";
      return CUDA_ERROR_INVALID_IMAGE;
    }
    out.push_back({name, std::string(bytes.data(), strnlen(bytes.data(), bytes.size()))});
    return CUDA_SUCCESS;
  case CU_JIT_INPUT_CUBIN:
    if (starts_as_ptx({bytes.data(), bytes.size()})) {
      reason = "'" + name + "' is PTX and no cubin";
      return CUDA_ERROR_INVALID_IMAGE;
    }
    [[fallthrough]];
  case CU_JIT_INPUT_FATBINARY: {
    std::string lacking;
    find_ptx(name, std::move(bytes), out, lacking);
    if (lacking.empty())
      return CUDA_SUCCESS;
    reason = "'" + name + "' cannot be linked, since there is no PTX of " + lacking +
             ": compile it in a program that python -m cudacore_sim runs, or to PTX";
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  case CU_JIT_INPUT_LIBRARY:
    if (is_device_runtime(name)) {
      out.push_back(device_runtime());
      return CUDA_SUCCESS;
    }
    [[fallthrough]];
  case CU_JIT_INPUT_OBJECT:
  case CU_JIT_INPUT_NVVM:
    reason = "'" + name + "' cannot be linked: the simulator links PTX, cubins that carry it and fat binaries with PTX";
    return CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult add(CUlinkState handle, CUjitInputType type, std::vector<char> bytes, const std::string &name,
             unsigned max_registers) {
  std::shared_ptr<Link> link;
  SIM_RETURN_FAILURE(find_link(handle, link));
  if (link->is_complete)
    return CUDA_ERROR_INVALID_VALUE;
  if (link->broken != CUDA_SUCCESS)
    return link->broken;
  std::vector<PtxText> texts;
  std::string reason;
  if (CUresult result = read_input(type, name, std::move(bytes), texts, reason))
    return reason.empty() ? result : failed(*link, result, reason);
  for (PtxText &one : texts) {
    if (type != CU_JIT_INPUT_CUBIN) /* machine code keeps its registers */
      limit_registers(one.text, max_registers != 0 ? max_registers : link->max_registers);
    CompileResult alone = compile({one});
    if (alone.module == nullptr && alone.failure != CompileResult::Failure::unresolved)
      return failed(*link,
                    alone.failure == CompileResult::Failure::unsupported_version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                                                 : CUDA_ERROR_INVALID_PTX,
                    "in '" + one.name + "', " + alone.log);
    std::vector<PtxText> all = link->texts;
    all.push_back(one);
    CompileResult together = compile(all);
    if (together.failure == CompileResult::Failure::conflict) {
      link->broken = CUDA_ERROR_INVALID_SOURCE;
      return failed(*link, link->broken, together.log);
    }
    link->texts = std::move(all);
  }
  return CUDA_SUCCESS;
}

} // namespace

namespace api {

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (stateOut == nullptr || !are_options(numOptions, options, optionValues))
    return CUDA_ERROR_INVALID_VALUE;
  auto link = std::make_shared<Link>(numOptions, options, optionValues);
  link->errors.write();
  link->info.write();
  link->handle = state().links.add(link);
  *stateOut = handle_of<CUlinkState>(link->handle);
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned int numOptions, CUjit_option *options, void **optionValues) {
  if (data == nullptr || size == 0 || !are_options(numOptions, options, optionValues))
    return CUDA_ERROR_INVALID_VALUE;
  const char *bytes = static_cast<const char *>(data);
  return add(handle, type, std::vector<char>(bytes, bytes + size), name != nullptr ? name : "<input>",
             register_limit(numOptions, options, optionValues));
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char *path, unsigned int numOptions,
                          CUjit_option *options, void **optionValues) {
  std::vector<char> bytes;
  if (path == nullptr || !are_options(numOptions, options, optionValues))
    return CUDA_ERROR_INVALID_VALUE;
  if (!read_file(path, bytes))
    return CUDA_ERROR_FILE_NOT_FOUND;
  return add(handle, type, std::move(bytes), path, register_limit(numOptions, options, optionValues));
}

CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut) {
  return api::cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData(CUlinkState handle, CUjitInputType type, void *data, size_t size, const char *name,
                       unsigned int numOptions, CUjit_option *options, void **optionValues) {
  return api::cuLinkAddData_v2(handle, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile(CUlinkState handle, CUjitInputType type, const char *path, unsigned int numOptions,
                       CUjit_option *options, void **optionValues) {
  return api::cuLinkAddFile_v2(handle, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState handle, void **cubinOut, size_t *sizeOut) {
  std::shared_ptr<Link> link;
  SIM_RETURN_FAILURE(find_link(handle, link));
  SIM_REQUIRE(cubinOut != nullptr);
  link->is_complete = true;
  if (link->broken != CUDA_SUCCESS)
    return link->broken;
  if (link->cubin.empty()) {
    CompileResult compilation;
    if (!link->texts.empty())
      compilation = compile(link->texts);
    std::string log = compilation.log;
    if (compilation.module != nullptr)
      for (const Variable &variable : info(*compilation.module).variables)
        if (variable.is_external)
          log += "unresolved variable '" + variable.name + "'\n";
    if (!log.empty()) {
      link->broken = CUDA_ERROR_INVALID_SOURCE;
      return failed(*link, link->broken, log);
    }
    std::vector<EmbeddedPtx> parts;
    for (const PtxText &one : link->texts)
      parts.push_back({one.name, one.text});
    std::vector<char> empty = empty_cubin(config().compute_major * 10 + config().compute_minor);
    link->cubin = embed_ptx(empty.data(), empty.size(), parts);
  }
  *cubinOut = link->cubin.data();
  if (sizeOut != nullptr)
    *sizeOut = link->cubin.size();
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState handle) {
  std::shared_ptr<Link> link;
  SIM_RETURN_FAILURE(find_link(handle, link));
  state().links.remove(link->handle);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
