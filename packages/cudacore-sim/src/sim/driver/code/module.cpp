/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: code that is loaded into the current context at once. */
#include "sim/driver/code/code.h"

#include <algorithm>
#include <cstring>

namespace sim {

namespace {

CUresult find_module(CUmodule handle, std::shared_ptr<LoadedModule> &out) {
  return find_object(state().modules, Kind::module, handle, out);
}

CUresult load(CUmodule *out, const std::shared_ptr<Image> &image, const ContextPtr &context) {
  std::shared_ptr<Placement> placement;
  if (image == nullptr)
    return CUDA_ERROR_INVALID_IMAGE;
  SIM_RETURN_FAILURE(prepare(image));
  SIM_RETURN_FAILURE(usable(context));
  SIM_RETURN_FAILURE(place(context, image, placement));
  auto module = std::make_shared<LoadedModule>();
  module->image = image;
  module->context = context;
  module->handle = state().modules.add(module);
  *out = handle_of<CUmodule>(module->handle);
  return CUDA_SUCCESS;
}

CUresult function_at(const std::shared_ptr<LoadedModule> &module, size_t index, CUfunction *out) {
  State &s = state();
  if (module->of_library)
    for (const auto &kernel : s.kernels.all())
      if (kernel->image == module->image && kernel->index == index)
        return function_of(kernel, module->context.lock(), out);
  uint64_t &handle = module->functions[index];
  if (handle == 0) {
    auto function = std::make_shared<Function>();
    function->context = module->context;
    function->module = module;
    function->image = module->image;
    function->index = index;
    handle = function->handle = s.functions.add(function);
  }
  *out = handle_of<CUfunction>(handle);
  return CUDA_SUCCESS;
}

} // namespace

void write_log(const std::string &log, unsigned count, const CUjit_option *options, void **values) {
  char *buffer = nullptr;
  void **size = nullptr;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      size = &values[i];
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
      values[i] = nullptr;
  }
  size_t room = size != nullptr ? static_cast<unsigned>(value_of(*size)) : 0, length = 0;
  if (buffer != nullptr && room != 0) {
    length = std::min(log.size(), room - 1);
    std::memcpy(buffer, log.data(), length);
    buffer[length] = '\0';
  }
  if (size != nullptr)
    *size = handle_of<void *>(length);
}

unsigned register_limit(unsigned count, const CUjit_option *options, void **values) {
  unsigned limit = 0;
  for (unsigned i = 0; i < count; i++)
    if (options[i] == CU_JIT_MAX_REGISTERS)
      limit = static_cast<unsigned>(value_of(values[i]));
  return limit;
}

bool are_options(unsigned count, const CUjit_option *options, void **values) {
  for (unsigned i = 0; i < count; i++)
    if (options == nullptr || values == nullptr || options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
      return false;
  return true;
}

namespace api {

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                            void **optionValues) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (module == nullptr || image == nullptr || !are_options(numOptions, options, optionValues))
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Image> code = Image::copy(image);
  if (code != nullptr)
    code->limit_registers(register_limit(numOptions, options, optionValues));
  CUresult result = load(module, code, context);
  write_log(code != nullptr ? code->log() : "", numOptions, options, optionValues);
  return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return api::cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
  return api::cuModuleLoadDataEx(module, fatCubin, 0, nullptr, nullptr);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
  ContextPtr context;
  std::vector<char> bytes;
  SIM_RETURN_FAILURE(need_context(context));
  if (module == nullptr || fname == nullptr || *fname == '\0')
    return CUDA_ERROR_INVALID_VALUE;
  if (!read_file(fname, bytes))
    return CUDA_ERROR_FILE_NOT_FOUND;
  return load(module, Image::take(std::move(bytes)), context);
}

CUresult cuModuleUnload(CUmodule hmod) {
  State &s = state();
  std::shared_ptr<LoadedModule> module;
  SIM_RETURN_FAILURE(find_module(hmod, module));
  if (module->of_library)
    return CUDA_ERROR_NOT_PERMITTED; /* the module of a library is unloaded with the library */
  ContextPtr context = module->context.lock();
  CUresult failed = synchronize(context);
  if (s.modules.find(module->handle) != module)
    return CUDA_ERROR_INVALID_HANDLE;
  unplace(*context, module->image.get());
  for (const auto &entry : module->functions)
    s.functions.remove(entry.second);
  s.modules.remove(module->handle);
  return failed;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  SIM_REQUIRE(mode != nullptr);
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
  std::shared_ptr<LoadedModule> module;
  size_t index = 0;
  SIM_RETURN_FAILURE(find_module(hmod, module));
  if (hfunc == nullptr || name == nullptr || *name == '\0')
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(usable(module->context.lock()));
  SIM_RETURN_FAILURE(find_kernel(*module->image, name, index));
  return function_at(module, index, hfunc);
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod) {
  std::shared_ptr<LoadedModule> module;
  return store(find_module(mod, module), count, [&] { return static_cast<unsigned>(module->image->kernels().size()); });
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod) {
  std::shared_ptr<LoadedModule> module;
  SIM_RETURN_FAILURE(find_module(mod, module));
  SIM_REQUIRE(functions != nullptr);
  for (size_t i = 0; i < module->image->kernels().size() && i < numFunctions; i++)
    SIM_RETURN_FAILURE(function_at(module, i, &functions[i]));
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
  std::shared_ptr<LoadedModule> module;
  SIM_RETURN_FAILURE(find_module(hmod, module));
  if (name == nullptr || *name == '\0' || (dptr == nullptr && bytes == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  return find_variable(module->context.lock(), module->image, name, dptr, bytes);
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
  std::shared_ptr<Function> function;
  SIM_REQUIRE(hmod != nullptr && hfunc != nullptr);
  SIM_RETURN_FAILURE(find_object(state().functions, Kind::function, hfunc, function));
  if (std::shared_ptr<LoadedModule> module = function->module.lock()) {
    *hmod = handle_of<CUmodule>(module->handle);
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Kernel> kernel = function->kernel.lock();
  return kernel != nullptr ? api::cuLibraryGetModule(hmod, handle_of<CUlibrary>(kernel->library.lock()->handle))
                           : CUDA_ERROR_INVALID_HANDLE;
}

} // namespace api
} // namespace sim
