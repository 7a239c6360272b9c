/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns addresses in a context to the variables of code, and fills the variables. */
#include "sim/driver/code/code.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

/* The address of a variable of the same code, or of a function, by its name. */
uint64_t address_of(const Instance &instance, const Image &image, const std::string &name) {
  const std::vector<Variable> &variables = image.variables();
  for (size_t i = 0; i < variables.size(); i++)
    if (variables[i].name == name)
      return instance.variable_addresses[i];
  return instance.module != nullptr ? instance.function_address(name) : 0;
}

void fill_in(const Placement &placement, const Image &image) {
  for (size_t i = 0; i < image.variables().size(); i++) {
    const Variable &variable = image.variables()[i];
    const AllocationPtr &allocation = placement.variables[i];
    if (allocation == nullptr)
      continue;
    std::memset(allocation->host, 0, allocation->size);
    std::memcpy(allocation->host, variable.initial.data(), std::min<uint64_t>(variable.initial.size(), variable.size));
    for (const Variable::Relocation &relocation : variable.relocations) {
      uint64_t address =
          address_of(placement.instance, image, relocation.symbol) + static_cast<uint64_t>(relocation.addend);
      if (relocation.offset <= variable.size && variable.size - relocation.offset >= sizeof address)
        std::memcpy(allocation->host + relocation.offset, &address, sizeof address);
    }
  }
}

} // namespace

CUresult prepare(const std::shared_ptr<Image> &image) {
  Call::current().lock.unlock();
  CUresult result = image->prepare();
  Call::current().lock.lock();
  if (result != CUDA_SUCCESS && !call_has_reported())
    explain("code that cannot be loaded: " + image->log());
  return result;
}

CUresult place(const ContextPtr &context, const std::shared_ptr<Image> &image, std::shared_ptr<Placement> &out) {
  std::shared_ptr<Placement> &placed = context->placements[image.get()];
  if (placed == nullptr) {
    auto placement = std::make_shared<Placement>();
    placement->instance.module = image->module();
    for (const Variable &variable : image->variables()) {
      AllocationPtr allocation;
      if (variable.size != 0) {
        CUresult result = new_device_memory(context, variable.size, allocation);
        if (result != CUDA_SUCCESS) {
          for (const AllocationPtr &made : placement->variables)
            if (made != nullptr)
              release_memory(made, "a load that failed");
          context->placements.erase(image.get());
          return result;
        }
        allocation->internal = true;
      }
      placement->variables.push_back(allocation);
      placement->instance.variable_addresses.push_back(allocation != nullptr ? allocation->base : 0);
    }
    fill_in(*placement, *image);
    placed = placement;
    show_printed(*context); /* as the driver does when it loads code, which can be at a kernel's first launch */
  }
  out = placed;
  return CUDA_SUCCESS;
}

void unplace(Context &context, const Image *image) {
  auto found = context.placements.find(image);
  if (found == context.placements.end())
    return;
  for (const AllocationPtr &allocation : found->second->variables)
    if (allocation != nullptr)
      release_memory(allocation, "the unloading of its module");
  context.placements.erase(found);
}

CUresult find_variable(const ContextPtr &context, const std::shared_ptr<Image> &image, const char *name,
                       CUdeviceptr *address, size_t *bytes) {
  std::shared_ptr<Placement> placement;
  for (size_t i = 0; i < image->variables().size(); i++) {
    const Variable &variable = image->variables()[i];
    if (variable.name != name)
      continue;
    SIM_RETURN_FAILURE(place(context, image, placement));
    store_optional(address, placement->instance.variable_addresses[i]);
    store_optional(bytes, variable.size);
    return CUDA_SUCCESS;
  }
  size_t index = 0;
  return find_kernel(*image, name, index) == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

CUresult find_kernel(const Image &image, const char *name, size_t &out) {
  for (size_t i = 0; i < image.kernels().size(); i++)
    if (image.kernels()[i].name == name) {
      out = i;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult find_callable(CUfunction handle, ContextPtr context, Callable &out) {
  State &s = state();
  uint64_t value = value_of(handle);
  if (s.kernels.bears(value)) {
    std::shared_ptr<Kernel> kernel;
    SIM_RETURN_FAILURE(find_object(s.kernels, Kind::kernel, handle, kernel));
    if (context == nullptr)
      SIM_RETURN_FAILURE(need_context(context));
    out = {kernel->image, kernel->index, context, nullptr, nullptr};
    if (std::shared_ptr<Function> function = kernel->function_in(*context)) {
      out.settings = &function->settings;
      out.owner = function;
    } else {
      std::shared_ptr<KernelSettings> settings = kernel->settings_on(*context->device);
      out.settings = settings.get();
      out.owner = settings;
    }
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Function> function;
  SIM_RETURN_FAILURE(find_object(s.functions, Kind::function, handle, function));
  out = {function->image, function->index, function->context.lock(), &function->settings, function};
  return usable(out.context);
}

CUresult find_function(CUfunction handle, Callable &out) {
  return state().kernels.bears(value_of(handle)) ? CUDA_ERROR_INVALID_HANDLE : find_callable(handle, nullptr, out);
}

} // namespace sim
