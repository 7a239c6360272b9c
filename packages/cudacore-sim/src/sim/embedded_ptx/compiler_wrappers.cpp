/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps functions of NVRTC and nvJitLink, so that the cubins that they make contain the PTX they were made from. */
#include "sim/embedded_ptx/cubin_section.h"

#include <cudacore_sim.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace sim {

namespace {

using LookUp = void *(*)(void *library, const char *name);

std::mutex mutex; /* guards the members below; not held while a function of a compiler runs */

using Size = int (*)(void *program, size_t *size);
using Bytes = int (*)(void *program, char *bytes);

template <class F> F as_function(void *symbol) {
  F function = nullptr;
  static_assert(sizeof function == sizeof symbol);
  std::memcpy(&function, &symbol, sizeof function);
  return function;
}

template <class F> void *as_symbol(F function) {
  void *symbol = nullptr;
  static_assert(sizeof function == sizeof symbol);
  std::memcpy(&symbol, &function, sizeof symbol);
  return symbol;
}

/*
 * Returns an output of a compilation: `size_of` is the library's function for the size of the output, `bytes_of` that
 * for its bytes. Returns an empty string if there is no output, or if a function fails, which sets `result`.
 */
std::string output(void *program, Size size_of, Bytes bytes_of, int &result) {
  size_t size = 0;
  if (size_of == nullptr || bytes_of == nullptr || (result = size_of(program, &size)) != 0 || size == 0)
    return {};
  std::string bytes(size, '\0');
  result = bytes_of(program, bytes.data());
  return result == 0 ? bytes : std::string();
}

/* Returns the PTX without the NULs at its end. */
std::string text_of(std::string ptx) {
  ptx.resize(ptx.find_last_not_of('\0') + 1);
  return ptx;
}

/*
 * The maximum number of NVRTC libraries, and of nvJitLink libraries, in a process. Each of them needs replacement
 * functions of its own.
 */
constexpr size_t max_libraries = 8;

/* The functions that replace a library's functions for the size and the bytes of a cubin. */
template <class Library, size_t index> struct CubinFunctions {
  static int size(void *made, size_t *out) {
    std::vector<char> code;
    Library *self = Library::loaded[index];
    int result = out != nullptr ? self->get(made, code) : self->cubin_size(made, out);
    if (result == 0 && out != nullptr)
      *out = code.size();
    return result;
  }
  static int bytes(void *made, char *out) {
    std::vector<char> code;
    Library *self = Library::loaded[index];
    int result = out != nullptr ? self->get(made, code) : self->cubin(made, out);
    if (result == 0 && out != nullptr && !code.empty())
      std::memcpy(out, code.data(), code.size());
    return result;
  }
};

/* ---- NVRTC, which compiles to PTX before it makes a cubin */

struct Nvrtc {
  Size cubin_size, ptx_size;
  Bytes cubin, ptx;

  static constexpr const char *names[] = {"nvrtcGetCUBINSize", "nvrtcGetCUBIN"};

  static inline Nvrtc *loaded[max_libraries];

  Nvrtc(void *library, const std::string &, const std::string &, LookUp look_up)
      : cubin_size(as_function<Size>(look_up(library, "nvrtcGetCUBINSize"))),
        ptx_size(as_function<Size>(look_up(library, "nvrtcGetPTXSize"))),
        cubin(as_function<Bytes>(look_up(library, "nvrtcGetCUBIN"))),
        ptx(as_function<Bytes>(look_up(library, "nvrtcGetPTX"))) {}

  bool is_complete() const { return cubin_size && ptx_size && cubin && ptx; }

  int get(void *program, std::vector<char> &out) const {
    int result = 0, ignored = 0;
    std::string made = output(program, cubin_size, cubin, result);
    if (result != 0)
      return result;
    std::string from = text_of(output(program, ptx_size, ptx, ignored));
    if (made.empty() || from.empty())
      out.assign(made.begin(), made.end());
    else
      out = embed_ptx(made.data(), made.size(), {{"NVRTC's program", from}});
    return 0;
  }

  template <size_t index> struct Functions : CubinFunctions<Nvrtc, index> {
    using CubinFunctions<Nvrtc, index>::size, CubinFunctions<Nvrtc, index>::bytes;
    static void *named(const std::string &name) { return name == "nvrtcGetCUBIN" ? as_symbol(bytes) : as_symbol(size); }
  };
};

/* ---- nvJitLink, whose inputs are recorded */

enum InputType { input_cubin = 1, input_ptx = 2, input_ltoir = 3, input_fatbin = 4, input_any = 10 };

/* Returns the real type of an input that is passed as NVJITLINK_INPUT_ANY, or 0 for a type that contains no PTX. */
int type_of(int type, const std::string &code) {
  auto begins = [&](const char *with, size_t size) { return code.compare(0, size, with, size) == 0; };
  if (type != input_any)
    return type;
  if (begins("\177ELF", 4)) /* in ELF files, e_machine is 190 (CUDA) for cubins; object files have the host's number */
    return code.size() > 19 && static_cast<unsigned char>(code[18]) == 190 && code[19] == 0 ? input_cubin : 0;
  if (begins("\xED\x43\x4E\x7F", 4))
    return input_ltoir;
  if (begins("\x50\xED\x55\xBA", 4))
    return input_fatbin;
  return begins("!<arch>", 7) ? 0 : input_ptx;
}

struct Input {
  int type;
  std::string name, code;
};

struct Linking {
  std::vector<std::string> options;
  std::vector<Input> inputs;
  std::vector<char> cubin; /* the result; empty if no cubin was requested */
};

std::map<void *, std::shared_ptr<Linking>> linkings;

std::shared_ptr<Linking> linking_of(void *handle) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = linkings.find(handle);
  return found != linkings.end() ? found->second : nullptr;
}

struct NvJitLink {
  using Create = int (*)(void **handle, uint32_t count, const char **options);
  using Destroy = int (*)(void **handle);
  using AddData = int (*)(void *handle, int type, const void *data, size_t size, const char *name);
  using AddFile = int (*)(void *handle, int type, const char *path);
  using Complete = int (*)(void *handle);

  static constexpr const char *names[] = {"nvJitLinkCreate",
                                          "nvJitLinkDestroy",
                                          "nvJitLinkAddData",
                                          "nvJitLinkAddFile",
                                          "nvJitLinkGetLinkedCubinSize",
                                          "nvJitLinkGetLinkedCubin"};

  Create create;
  Destroy destroy;
  AddData add_data;
  AddFile add_file;
  Complete complete;
  Size cubin_size, ptx_size;
  Bytes cubin, ptx;

  static inline NvJitLink *loaded[max_libraries];

  NvJitLink(void *library, const std::string &prefix, const std::string &suffix, LookUp look_up) {
    auto find = [&](auto &function, const char *name) {
      function =
          as_function<std::remove_reference_t<decltype(function)>>(look_up(library, (prefix + name + suffix).c_str()));
    };
    find(create, "nvJitLinkCreate");
    find(destroy, "nvJitLinkDestroy");
    find(add_data, "nvJitLinkAddData");
    find(add_file, "nvJitLinkAddFile");
    find(complete, "nvJitLinkComplete");
    find(cubin_size, "nvJitLinkGetLinkedCubinSize");
    find(ptx_size, "nvJitLinkGetLinkedPtxSize");
    find(cubin, "nvJitLinkGetLinkedCubin");
    find(ptx, "nvJitLinkGetLinkedPtx");
  }

  bool is_complete() const {
    return create && destroy && add_data && add_file && complete && cubin_size && ptx_size && cubin && ptx;
  }

  /*
   * Links the LTO-IR inputs again, with the same options, but to PTX. `keeps_all`: inputs that are not LTO-IR may call
   * any function, so an option makes NVVM keep all functions.
   */
  std::string link_ltoir(const Linking &linking, bool keeps_all) const {
    std::vector<const char *> options{"-lto", "-ptx"};
    if (keeps_all)
      options.push_back("-Xnvvm=--device-c");
    for (const std::string &option : linking.options)
      if (option != "-lto" && option != "-dlto")
        options.push_back(option.c_str());
    void *handle = nullptr;
    std::string made;
    int result = create(&handle, static_cast<uint32_t>(options.size()), options.data());
    for (const Input &input : linking.inputs)
      if (result == 0 && input.type == input_ltoir)
        result = add_data(handle, input.type, input.code.data(), input.code.size(), input.name.c_str());
    if (result == 0 && complete(handle) == 0)
      made = text_of(output(handle, ptx_size, ptx, result));
    if (handle != nullptr)
      destroy(&handle);
    return made;
  }

  std::vector<EmbeddedPtx> parts_of(const Linking &linking) const {
    std::vector<EmbeddedPtx> parts;
    bool has_ltoir = false, has_other = false;
    for (const Input &input : linking.inputs) {
      std::vector<EmbeddedPtx> embedded;
      if (input.type == input_cubin)
        embedded = embedded_ptx(input.code.data(), input.code.size());
      (input.type == input_ltoir ? has_ltoir : has_other) = true;
      if (input.type == input_ltoir)
        continue;
      if (!embedded.empty())
        parts.insert(parts.end(), embedded.begin(), embedded.end());
      else if (input.type == input_ptx)
        parts.push_back({input.name, text_of(input.code)});
      else
        parts.push_back({input.name, input.type == input_fatbin ? input.code : std::string()});
    }
    if (has_ltoir) {
      std::string made = has_other ? link_ltoir(linking, true) : std::string();
      parts.push_back({"LTO-IR", made.empty() ? link_ltoir(linking, false) : made});
    }
    return parts;
  }

  int get(void *handle, std::vector<char> &out) const {
    int result = 0;
    std::shared_ptr<Linking> linking = linking_of(handle);
    if (linking != nullptr) {
      std::lock_guard<std::mutex> lock(mutex);
      out = linking->cubin;
    }
    if (!out.empty())
      return 0;
    std::string made = output(handle, cubin_size, cubin, result);
    if (result != 0)
      return result;
    out.assign(made.begin(), made.end());
    if (linking == nullptr || made.empty())
      return 0;
    out = embed_ptx(made.data(), made.size(), parts_of(*linking));
    std::lock_guard<std::mutex> lock(mutex);
    linking->cubin = out;
    return 0;
  }

  static void note(void *handle, int type, const char *name, std::string code) {
    if (std::shared_ptr<Linking> linking = linking_of(handle))
      linking->inputs.push_back(
          {type_of(type, code), name != nullptr ? name : "a part without a name", std::move(code)});
  }

  template <size_t index> struct Functions : CubinFunctions<NvJitLink, index> {
    using CubinFunctions<NvJitLink, index>::size, CubinFunctions<NvJitLink, index>::bytes;
    static NvJitLink *self() { return loaded[index]; }
    static int create(void **handle, uint32_t count, const char **options) {
      int result = self()->create(handle, count, options);
      if (result != 0 || handle == nullptr)
        return result;
      auto linking = std::make_shared<Linking>();
      for (uint32_t i = 0; i < count; i++)
        linking->options.emplace_back(options[i]);
      std::lock_guard<std::mutex> lock(mutex);
      linkings[*handle] = std::move(linking);
      return result;
    }
    static int destroy(void **handle) {
      if (handle != nullptr) {
        std::lock_guard<std::mutex> lock(mutex);
        linkings.erase(*handle);
      }
      return self()->destroy(handle);
    }
    static int add_data(void *handle, int type, const void *data, size_t size, const char *name) {
      int result = self()->add_data(handle, type, data, size, name);
      if (result == 0)
        note(handle, type, name, std::string(static_cast<const char *>(data), size));
      return result;
    }
    static int add_file(void *handle, int type, const char *path) {
      int result = self()->add_file(handle, type, path);
      std::vector<char> code;
      if (result == 0 && read_file(path, code))
        note(handle, type, path, std::string(code.data(), code.size()));
      return result;
    }
    static void *named(const std::string &name) {
      void *functions[] = {as_symbol(create),   as_symbol(destroy), as_symbol(add_data),
                           as_symbol(add_file), as_symbol(size),    as_symbol(bytes)};
      for (size_t i = 0; i < std::size(names); i++)
        if (name == names[i])
          return functions[i];
      return nullptr;
    }
  };
};

/* ---- the replacements of functions of NVRTC and nvJitLink */

template <class Library> struct Loaded {
  static inline std::string keys[max_libraries]; /* the library's file and the names of its functions; empty: unused */

  template <size_t... index> static void *function(size_t at, const std::string &name, std::index_sequence<index...>) {
    void *found = nullptr;
    (void)((index == at && ((found = Library::template Functions<index>::named(name)), true)) || ...);
    return found;
  }

  /* Finds the replacement of a function. The function's name consists of `prefix`, `name` and `suffix`. */
  static void *find(void *real, const char *path, const std::string &prefix, const std::string &name,
                    const std::string &suffix, LookUp look_up) {
    std::lock_guard<std::mutex> lock(mutex);
    std::string key = std::string(path) + '\n' + prefix + suffix;
    for (size_t i = 0; i < max_libraries; i++) {
      if (keys[i].empty()) {
        void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD); /* never closed: its functions are called later */
        if (handle == nullptr)
          return real;
        auto library = std::make_unique<Library>(handle, prefix, suffix, look_up);
        if (!library->is_complete())
          return real;
        Library::loaded[i] = library.release();
        keys[i] = key;
      }
      if (keys[i] == key)
        return function(i, name, std::make_index_sequence<max_libraries>());
    }
    return real;
  }
};

template <class Library> bool wrap(void *&function, const char *path, const std::string &name, LookUp look_up) {
  for (std::string known : Library::names) {
    size_t at = name.find(known);
    std::string suffix = at != name.npos ? name.substr(at + known.size()) : "";
    /* The name can be plain, or have a prefix and a version, as in __nvJitLinkCreate_12_0. */
    bool is_plain = at == 0 && suffix.empty(), is_versioned = at == 2 && suffix.compare(0, 1, "_") == 0;
    if (at == name.npos || (!is_plain && !is_versioned))
      continue;
    function = Loaded<Library>::find(function, path, name.substr(0, at), known, suffix, look_up);
    return true;
  }
  return false;
}

} // namespace
} // namespace sim

void *cudasim_symbol(void *library, const char *name, void *(*look_up)(void *library, const char *name)) {
  if (look_up == nullptr)
    look_up = dlsym;
  void *function = look_up(library, name);
  Dl_info where{};
  if (function == nullptr || dladdr(function, &where) == 0 || where.dli_fname == nullptr)
    return function;
  const char *slash = std::strrchr(where.dli_fname, '/'), *file = slash != nullptr ? slash + 1 : where.dli_fname;
  if (std::strstr(file, "nvrtc") == nullptr && std::strstr(file, "nvJitLink") == nullptr)
    return function; /* `function` is already a replacement */
  if (!sim::wrap<sim::Nvrtc>(function, where.dli_fname, name, look_up))
    sim::wrap<sim::NvJitLink>(function, where.dli_fname, name, look_up);
  return function;
}

namespace {

/* What cudacore looks for in a driver, whichever driver it is: docs/simulator/extending.rst describes it. */
struct DriverHooks {
  size_t size;
  size_t (*explain)(char *out, size_t size);
  void *(*symbol)(void *library, const char *name, void *(*look_up)(void *library, const char *name));
};

} // namespace

extern "C" CUDASIM_EXPORT const DriverHooks *cudacoreDriverHooks(void) {
  static constexpr DriverHooks hooks{sizeof(DriverHooks), cudasim_why, cudasim_symbol};
  return &hooks;
}
