/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries and their kernels. Libraries need no context, and are compiled when a kernel is first used. */
#include "sim/driver/code/code.h"

namespace sim {
namespace {

CUresult find_library(CUlibrary handle, std::shared_ptr<Library> &out) {
  return find_object(state().libraries, Kind::library, handle, out);
}

/* Assigns a handle to every kernel. */
CUresult ready(const std::shared_ptr<Library> &library) {
  SIM_RETURN_FAILURE(prepare(library->image));
  /* Another thread may have unloaded the library in the meantime. */
  if (state().libraries.find(library->handle) != library)
    return CUDA_ERROR_INVALID_HANDLE;
  while (library->kernels.size() < library->image->kernels().size()) {
    auto kernel = std::make_shared<Kernel>();
    kernel->library = library;
    kernel->image = library->image;
    kernel->index = library->kernels.size();
    kernel->handle = state().kernels.add(kernel);
    library->kernels.push_back(kernel->handle);
  }
  return CUDA_SUCCESS;
}

CUresult add(CUlibrary *out, std::shared_ptr<Image> image) {
  if (image == nullptr)
    return CUDA_ERROR_INVALID_IMAGE;
  auto library = std::make_shared<Library>();
  library->image = std::move(image);
  library->handle = state().libraries.add(library);
  *out = handle_of<CUlibrary>(library->handle);
  return CUDA_SUCCESS;
}

bool are_options(unsigned count, const CUlibraryOption *options, void **values) {
  for (unsigned i = 0; i < count; i++)
    if (options == nullptr || values == nullptr || options[i] >= CU_LIBRARY_NUM_OPTIONS)
      return false;
  return true;
}

} // namespace

int KernelSettings::get(CUfunction_attribute attribute, int otherwise) const {
  auto found = values.find(attribute);
  if (found != values.end())
    return found->second;
  return of_kernel != nullptr ? of_kernel->get(attribute, otherwise) : otherwise;
}

std::shared_ptr<KernelSettings> Kernel::settings_on(const Device &device) {
  std::shared_ptr<KernelSettings> &found = settings[device.ordinal];
  if (found == nullptr)
    found = std::make_shared<KernelSettings>();
  return found;
}

std::shared_ptr<Function> Kernel::function_in(const Context &context) const {
  auto found = functions.find(context.id);
  return found != functions.end() ? found->second.lock() : nullptr;
}

CUresult function_of(const std::shared_ptr<Kernel> &kernel, const ContextPtr &context, CUfunction *out) {
  if (std::shared_ptr<Function> function = kernel->function_in(*context)) {
    *out = handle_of<CUfunction>(function->handle);
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Placement> placement;
  SIM_RETURN_FAILURE(place(context, kernel->image, placement));
  auto function = std::make_shared<Function>();
  function->context = context;
  function->kernel = kernel;
  function->image = kernel->image;
  function->index = kernel->index;
  function->settings.of_kernel = kernel->settings_on(*context->device);
  function->handle = state().functions.add(function);
  kernel->functions[context->id] = function;
  *out = handle_of<CUfunction>(function->handle);
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions) {
  if (library == nullptr || code == nullptr || !are_options(numJitOptions, jitOptions, jitOptionsValues) ||
      !are_options(numLibraryOptions, libraryOptions, libraryOptionValues))
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Image> image = Image::copy(code);
  if (image != nullptr)
    image->limit_registers(register_limit(numJitOptions, jitOptions, jitOptionsValues));
  if (image != nullptr && !image->is_code()) {
    image->prepare(); /* only writes the log: an error is returned when the code is used */
    write_log(image->log(), numJitOptions, jitOptions, jitOptionsValues);
  }
  return add(library, std::move(image));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                               void **libraryOptionValues, unsigned int numLibraryOptions) {
  std::vector<char> bytes;
  if (library == nullptr || fileName == nullptr || !are_options(numJitOptions, jitOptions, jitOptionsValues) ||
      !are_options(numLibraryOptions, libraryOptions, libraryOptionValues))
    return CUDA_ERROR_INVALID_VALUE;
  if (!read_file(fileName, bytes))
    return CUDA_ERROR_FILE_NOT_FOUND;
  std::shared_ptr<Image> image = Image::take(std::move(bytes));
  image->limit_registers(register_limit(numJitOptions, jitOptions, jitOptionsValues));
  return add(library, std::move(image));
}

CUresult cuLibraryUnload(CUlibrary library) {
  State &s = state();
  std::shared_ptr<Library> found;
  SIM_RETURN_FAILURE(find_library(library, found));
  for (const ContextPtr &context : s.contexts.all())
    if (context->placements.count(found->image.get()) != 0)
      for (const UnitPtr &unit : outstanding(*context))
        s.executor.wait(Call::current().lock, unit);
  for (const ContextPtr &context : s.contexts.all())
    if (context->placements.count(found->image.get()) != 0)
      show_printed(*context);
  if (s.libraries.find(found->handle) != found)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const ContextPtr &context : s.contexts.all())
    unplace(*context, found->image.get());
  for (const auto &function : s.functions.all())
    if (function->image == found->image)
      s.functions.remove(function->handle);
  for (const auto &module : s.modules.all())
    if (module->image == found->image)
      s.modules.remove(module->handle);
  for (uint64_t kernel : found->kernels)
    s.kernels.remove(kernel);
  s.libraries.remove(found->handle);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
  std::shared_ptr<Library> found;
  size_t index = 0;
  SIM_RETURN_FAILURE(find_library(library, found));
  SIM_REQUIRE(pKernel != nullptr && name != nullptr);
  SIM_RETURN_FAILURE(ready(found));
  SIM_RETURN_FAILURE(find_kernel(*found->image, name, index));
  *pKernel = handle_of<CUkernel>(found->kernels[index]);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  std::shared_ptr<Library> found;
  SIM_RETURN_FAILURE(find_library(lib, found));
  SIM_REQUIRE(count != nullptr);
  SIM_RETURN_FAILURE(ready(found));
  *count = static_cast<unsigned>(found->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib) {
  std::shared_ptr<Library> found;
  SIM_RETURN_FAILURE(find_library(lib, found));
  SIM_REQUIRE(kernels != nullptr);
  SIM_RETURN_FAILURE(ready(found));
  for (size_t i = 0; i < found->kernels.size() && i < numKernels; i++)
    kernels[i] = handle_of<CUkernel>(found->kernels[i]);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
  std::shared_ptr<Library> found;
  ContextPtr context;
  SIM_RETURN_FAILURE(find_library(library, found));
  if (name == nullptr || (dptr == nullptr && bytes == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_RETURN_FAILURE(ready(found));
  return find_variable(context, found->image, name, dptr, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
  std::shared_ptr<Library> found;
  SIM_RETURN_FAILURE(find_library(library, found));
  if (name == nullptr || (dptr == nullptr && bytes == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = ready(found);
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_FOUND; /* managed variables are not simulated */
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
  State &s = state();
  std::shared_ptr<Library> found;
  ContextPtr context;
  SIM_RETURN_FAILURE(find_library(library, found));
  SIM_REQUIRE(pMod != nullptr);
  SIM_RETURN_FAILURE(need_context(context));
  SIM_RETURN_FAILURE(ready(found));
  for (const auto &module : s.modules.all())
    if (module->image == found->image && module->context.lock() == context) {
      *pMod = handle_of<CUmodule>(module->handle);
      return CUDA_SUCCESS;
    }
  auto module = std::make_shared<LoadedModule>();
  module->image = found->image;
  module->context = context;
  module->of_library = true;
  module->handle = s.modules.add(module);
  *pMod = handle_of<CUmodule>(module->handle);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
  std::shared_ptr<Kernel> found;
  return store(find_object(state().kernels, Kind::kernel, kernel, found), pLib,
               [&] { return handle_of<CUlibrary>(found->library.lock()->handle); });
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
  std::shared_ptr<Kernel> found;
  ContextPtr context;
  SIM_RETURN_FAILURE(find_object(state().kernels, Kind::kernel, kernel, found));
  SIM_REQUIRE(pFunc != nullptr);
  SIM_RETURN_FAILURE(need_context(context));
  return function_of(found, context, pFunc);
}

} // namespace api
} // namespace sim
