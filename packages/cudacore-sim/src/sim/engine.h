/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ENGINE_H
#define CUDACORE_SIM_ENGINE_H

/*
 * The interface of the engine, which compiles and runs PTX. The engine does not depend on the driver API: the driver
 * gives it modules, launches, and a table of the memory that a launch may access.
 */

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace sim {

using Dim3 = std::array<uint32_t, 3>;

struct Parameter {
  uint32_t offset; /* offset of the parameter in the argument block, in bytes */
  uint32_t size;
  uint32_t alignment;
};

/*
 * A .pragma of PTX that limits the registers of those kernels whose own directives do not limit them: these words and
 * the number.
 */
inline constexpr std::string_view register_pragma = "cudacore_sim.maxnreg ";

/* A kernel, with the properties that the driver needs. */
struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;       /* bytes of local memory that PTX declares for the stack frame of a thread */
  uint32_t registers = 0;         /* an estimate: the registers of PTX that are live at once, at most 255 */
  Dim3 max_threads{0, 0, 0};      /* .maxntid; zeros if not given */
  Dim3 required_threads{0, 0, 0}; /* .reqntid; zeros if not given */
  uint32_t min_blocks = 0;        /* .minnctapersm */
  Dim3 required_cluster{0, 0, 0}; /* .reqnctapercluster; zeros if not given */
  bool explicit_cluster = false;  /* .explicitcluster */

  /* Compilers raise a limit to 24. */
  void limit_registers(uint64_t limit) {
    registers = static_cast<uint32_t>(std::min<uint64_t>(registers, std::max<uint64_t>(limit, 24)));
  }
};

enum class Space { global, constant };

/* A variable of a module. The driver gives the variable an address before any kernel of the module runs. */
struct Variable {
  std::string name;
  Space space;
  uint64_t size;
  uint64_t alignment;
  bool is_external;               /* .extern: the variable is defined outside of the module */
  std::vector<std::byte> initial; /* `size` bytes; empty: external, or large and zero */
  struct Relocation { /* stores the address of `symbol` (variable or function) plus the addend at `offset` */
    uint64_t offset;
    std::string symbol;
    int64_t addend;
    bool generic;
  };
  std::vector<Relocation> relocations;
};

class Module; /* immutable after compilation; shared by launches */

struct ModuleInfo {
  std::string ptx_version; /* "9.0" */
  std::string target;      /* "sm_90a" */
  std::vector<KernelInfo> kernels;
  std::vector<Variable> variables;
};

struct CompileResult {
  std::shared_ptr<const Module> module; /* null if compilation has failed */
  std::string log;                      /* one line for each error: "line 12: unknown instruction 'foo.bar'" */
  enum class Failure {
    none,
    syntax,
    unsupported_instruction,
    unsupported_version,
    unresolved, /* no text defines a name that is used */
    conflict    /* the texts contradict each other, for example by two definitions */
  } failure = Failure::none;
};

/* A text of PTX that is compiled and linked with others. */
struct PtxText {
  std::string name; /* the name of the text in messages */
  std::string text;
};

/*
 * Compiles PTX. `size` does not count a terminating NUL. Input that is not valid PTX, whatever its bytes, leads to an
 * error, never to a crash. If there are several texts, they are linked to one module, and line numbers in faults are
 * counted through all texts. There must be at least one text. Thread-safe.
 */
CompileResult compile(const char *text, size_t size);
CompileResult compile(const std::vector<PtxText> &texts);
const ModuleInfo &info(const Module &module);

/* A module with the addresses of its variables, in the order of info().variables. */
struct Instance {
  std::shared_ptr<const Module> module;
  std::vector<uint64_t> variable_addresses;
  /* Returns the address of a function, for the relocations that refer to it. The engine recognises such addresses. */
  uint64_t function_address(const std::string &name) const;
};

/*
 * A range of memory that kernels may access. Device addresses are not host addresses: host code that dereferences a
 * device address must crash, as on a GPU. The ranges are sorted by their begin, and do not overlap. A launch holds one
 * immutable snapshot of them.
 */
struct Range {
  uint64_t begin, end; /* device addresses */
  std::byte *host;     /* the host address of the byte at `begin` */
  bool writable;
  uint64_t allocation;          /* a number that identifies the allocation in reports */
  std::byte *written = nullptr; /* a flag for each byte, nonzero once it was written; null: writes are not recorded */
};
struct MemoryMap {
  std::vector<Range> ranges;
};

/*
 * The texels of an array, or of device memory that a texture uses like an array. They are stored in rows, one mipmap
 * level after the other.
 */
struct Texels {
  enum class Shape : uint8_t {
    line,
    plane,
    volume,
    cube,
    linear
  }; /* linear: CUDA's linear texture memory, a single row of any length */
  enum class Type : uint8_t { unsigned_integer, signed_integer, real };
  struct Level {
    uint64_t address;
    uint32_t width, height, depth; /* at least 1 each; the extents of one layer or face */
    uint64_t pitch, slice;         /* bytes from one row to the next, and from one plane, layer or face to the next */
  };
  Shape shape = Shape::line;
  bool layered = false;
  uint32_t layers = 1; /* each layer of a cube has six faces */
  Type type = Type::real;
  uint8_t channels = 1, channel_bytes = 4;
  std::vector<Level> levels;
  uint32_t texel_bytes() const { return uint32_t{channels} * channel_bytes; }
};

/* A texture object or a surface object. For a surface, only the texels matter. */
struct Sampler {
  enum class Address : uint8_t { wrap, clamp, mirror, border };
  Texels texels;
  bool is_surface = false;
  std::array<Address, 3> modes{Address::clamp, Address::clamp, Address::clamp};
  bool linear = false, linear_levels = false; /* whether to filter linearly between texels, and between levels */
  bool normalized = false;                    /* whether coordinates are between 0 and 1, rather than counting texels */
  bool as_integer = false, srgb = false, seamless = false;
  uint32_t anisotropy = 0;
  float bias = 0, min_level = 0, max_level = 0;
  std::array<float, 4> border{};
};
using SamplerMap = std::unordered_map<uint64_t, std::shared_ptr<const Sampler>>; /* samplers by handle */

/* The heap of malloc() in kernels. Each context has one, which outlives launches. */
class Heap;
std::shared_ptr<Heap> make_heap();
size_t pieces_in(Heap &heap); /* returns the number of allocations that were not freed */

/* The optional checks of a running kernel, which find defects that a GPU does not report. */
struct Checks {
  bool sync = false;  /* finds barriers and masks whose effect is undefined */
  bool init = false;  /* finds reads of memory that was never written, or was freed */
  bool race = false;  /* finds accesses of a kernel that race with each other */
  bool order = false; /* finds races between different work; the engine only reports the bytes that a kernel accesses */
  bool any() const { return sync || init || race || order; }
};

/* A range of bytes that a kernel has read or written, with the same kind of access to all of them. */
struct Touch {
  uint64_t begin, end;
  bool write;
  bool plain, strong; /* both are set if some accesses were plain and others strong */
  bool is_like(const Touch &other) const {
    return write == other.write && plain == other.plain && strong == other.strong;
  }
};
struct Touched {
  std::vector<Touch> ranges;
  /* Describes the place in the code of the instruction that accessed a byte; empty if there was no such access. */
  std::function<std::string(uint64_t address, bool write)> place;
};
using TouchedPtr = std::shared_ptr<const Touched>;

struct Fault;

struct Launch {
  const Instance *instance;
  size_t kernel; /* index in info().kernels */
  Dim3 grid, block, cluster{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  /*
   * The first bytes of shared memory, which belong to the system, and the unit in which it is allocated: 1024 and 128
   * from compute capability 8.0 on, 0 and 256 before.
   */
  uint32_t shared_reserved = 1024, shared_unit = 128;
  bool cooperative = false;
  std::vector<std::byte> parameters; /* the argument block, parameter_bytes long */
  std::shared_ptr<const MemoryMap> memory;
  std::shared_ptr<const SamplerMap> samplers; /* null: no textures or surfaces */
  uint32_t multiprocessors = 132;             /* the values of %smid and %nsmid depend on this number */
  uint64_t grid_id = 0;
  std::shared_ptr<Heap> heap;      /* null: malloc() has no memory */
  uint64_t heap_bytes = 8 << 20;   /* the heap's size until the first allocation; afterwards, the size is fixed */
  uint64_t printf_limit = 1 << 20; /* maximum bytes of output; the rest is dropped */
  /*
   * Called with the output of printf and, with `is_error` set, with the messages of failed assertions. The order of the
   * calls is one that is possible on a GPU.
   */
  std::function<void(const std::string &text, bool is_error)> print;
  /*
   * Called for cudaGraphSetConditional: sets the value of a conditional handle. Returns false if there is no such
   * handle. Thread-safe.
   */
  std::function<bool(uint64_t handle, uint32_t value)> set_condition;
  Checks checks;
  std::function<void(const Fault &)> found;        /* called with each finding, which does not stop the kernel */
  std::function<void(const TouchedPtr &)> touched; /* called once, at the end of the launch */
  std::byte fill{0};                               /* the initial value of each byte of shared memory */
  const std::atomic<bool> *abandoned = nullptr;    /* once this is true, the launch ends soon and without a fault */
  uint64_t instruction_limit = 0; /* maximum for each thread, which stops endless loops in tests; 0: no limit */
};

enum class FaultKind {
  none,
  illegal_address,    /* memory out of bounds or freed: CUDA_ERROR_ILLEGAL_ADDRESS */
  misaligned_address, /* CUDA_ERROR_MISALIGNED_ADDRESS */
  invalid_address_space,
  illegal_instruction, /* CUDA_ERROR_ILLEGAL_INSTRUCTION, e.g. a call of an address without a function */
  trap,                /* CUDA_ERROR_LAUNCH_FAILED */
  assertion,           /* CUDA_ERROR_ASSERT */
  hang,                /* a barrier that can never complete, or the instruction limit: CUDA_ERROR_LAUNCH_TIMEOUT */
  tensor_memory_leak,  /* a block ended with tensor memory: CUDA_ERROR_TENSOR_MEMORY_LEAK */
  /* The kinds from here on are findings of checks. */
  synchronization,
  unwritten, /* a read of memory that nobody wrote */
  freed,     /* an access to heap memory that was freed or not allocated */
  race
};

/* The reason why a kernel was stopped, or a finding of a check, with all information for the report. */
struct Fault {
  FaultKind kind = FaultKind::none;
  std::string kernel;
  Dim3 block{}, thread{};
  uint32_t ptx_line = 0;
  std::string source_file; /* the source file that .loc names; empty if unknown */
  uint32_t source_line = 0;
  uint64_t address = 0;
  uint32_t access_bytes = 0;
  bool is_write = false;
  std::string space; /* "global", "shared", ... */
  std::string detail;
};

/*
 * Runs a kernel to its end, on the calling thread and on worker threads. There is one worker thread for each core of
 * the host, and blocks run in parallel. Thread-safe: several launches can run at the same time. Atomics and fences for
 * device memory are executed as atomics and fences of the host.
 */
Fault run(const Launch &launch);

} // namespace sim

#endif
