/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ENGINE_H
#define CUDACORE_SIM_ENGINE_H

/*
 * The kernel engine: PTX in, running kernels out. It knows nothing of the driver API; the driver half of the
 * simulator gives it modules to compile, the memory that a launch may touch, and a launch.
 */

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sim {

using Dim3 = std::array<uint32_t, 3>;

struct Parameter {
  uint32_t offset; /* in the argument block, bytes */
  uint32_t size;
  uint32_t alignment;
};

/* What can be known of a kernel without running it. */
struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;  /* a thread's stack frame as far as PTX says */
  uint32_t registers = 0;    /* an estimate: what 32-bit registers hold all live .reg declarations, capped at 255 */
  Dim3 max_threads{0, 0, 0}; /* .maxntid; zeros: not given */
  Dim3 required_threads{0, 0, 0}; /* .reqntid; zeros: not given */
  uint32_t min_blocks = 0;        /* .minnctapersm */
  Dim3 required_cluster{0, 0, 0}; /* .reqnctapercluster; zeros: not given */
  bool explicit_cluster = false;  /* .explicitcluster */
};

enum class Space { global, constant };

/* A variable of a module, to be placed by the driver half before anything runs. */
struct Variable {
  std::string name;
  Space space;
  uint64_t size;
  uint64_t alignment;
  bool is_external;               /* .extern: must be found elsewhere */
  std::vector<std::byte> initial; /* `size` bytes */
  struct Relocation { /* the address of `symbol` + addend belongs at `offset`; functions have addresses too */
    uint64_t offset;
    std::string symbol;
    int64_t addend;
    bool generic;
  };
  std::vector<Relocation> relocations;
};

class Module; /* immutable once compiled; shared by launches */

struct ModuleInfo {
  std::string ptx_version; /* "9.0" */
  std::string target;      /* "sm_90a" */
  std::vector<KernelInfo> kernels;
  std::vector<Variable> variables;
};

struct CompileResult {
  std::shared_ptr<const Module> module; /* null on failure */
  std::string log;                      /* one line an error: "line 12: unknown instruction 'foo.bar'" */
  enum class Failure {
    none,
    syntax,
    unsupported_instruction,
    unsupported_version,
    unresolved, /* a name that nothing defines */
    conflict    /* texts that cannot be linked */
  } failure = Failure::none;
};

/* PTX to be linked with other PTX. */
struct PtxText {
  std::string name; /* for messages */
  std::string text;
};

/*
 * Parses and decodes PTX. `size` excludes a closing NUL. Any bytes at all: an error, never a crash. Thread-safe.
 * Several texts, at least one, become one module; lines of faults are then those of the texts one after the other.
 */
CompileResult compile(const char *text, size_t size);
CompileResult compile(const std::vector<PtxText> &texts);
const ModuleInfo &info(const Module &module);

/* A module with its variables placed: where each variable of info().variables lies (device addresses). */
struct Instance {
  std::shared_ptr<const Module> module;
  std::vector<uint64_t> variable_addresses;
  /* Address that a function has when its address is taken, for relocations; the engine recognises these. */
  uint64_t function_address(const std::string &name) const;
};

/*
 * Memory that kernels may touch. Device addresses of ordinary device memory are not host addresses: host code that
 * dereferences one must crash, as on a GPU. Sorted by begin, not overlapping. A launch holds one immutable snapshot.
 */
struct Range {
  uint64_t begin, end; /* device addresses */
  std::byte *host;     /* where `begin` really is */
  bool writable;
  uint64_t allocation;          /* the driver half's name for it, for reports */
  std::byte *written = nullptr; /* a byte for each: not 0 once it was written; null: that is not kept */
};
struct MemoryMap {
  std::vector<Range> ranges;
};

/* What malloc() in kernels gives. It outlives launches: a context has one. */
class Heap;
std::shared_ptr<Heap> make_heap();
size_t pieces_in(Heap &heap); /* that free() was not given */

/* What is looked for while a kernel runs, besides what stops it on a GPU. */
struct Checks {
  bool sync = false;  /* barriers and masks that leave undefined what happens */
  bool init = false;  /* reads of what was never written, or was freed */
  bool race = false;  /* accesses that nothing orders */
  bool order = false; /* of different units of work, likewise: the engine says what a kernel touched */
  bool any() const { return sync || init || race || order; }
};

/* Bytes that a kernel has read or written, all of them in one manner and by one instruction. */
struct Touch {
  uint64_t begin, end;
  bool write;
  bool plain, strong;                       /* in which manner; both: in the one and in the other */
  std::shared_ptr<const std::string> place; /* in words */
};

struct Fault;

struct Launch {
  const Instance *instance;
  size_t kernel; /* index in info().kernels */
  Dim3 grid, block, cluster{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters; /* the argument block, parameter_bytes long */
  std::shared_ptr<const MemoryMap> memory;
  uint32_t multiprocessors = 132; /* for %smid, %nsmid */
  uint64_t grid_id = 0;
  std::shared_ptr<Heap> heap;      /* null: malloc() has no memory */
  uint64_t heap_bytes = 8 << 20;   /* of a heap that nothing was taken from yet; others stay as they are */
  uint64_t printf_limit = 1 << 20; /* bytes of output kept before more is dropped */
  /* The output of printf and, `is_error`, of failed assertions, in the order of a valid schedule. */
  std::function<void(const std::string &text, bool is_error)> print;
  /* cudaGraphSetConditional: sets the value of a conditional handle. False: there is no such handle. Any thread. */
  std::function<bool(uint64_t handle, uint32_t value)> set_condition;
  Checks checks;
  std::function<void(const Fault &)> found;        /* called with what they find, which stops nothing. Any thread */
  std::function<void(std::vector<Touch>)> touched; /* called once, at the end */
  std::byte fill{0};                               /* what shared memory is full of when a block begins */
  const std::atomic<bool> *abandoned = nullptr;    /* once it is true, the launch ends soon, without a fault */
  uint64_t instruction_limit = 0;                  /* a thread's; 0: none. A guard against endless loops in tests */
};

enum class FaultKind {
  none,
  illegal_address,    /* out of bounds or freed: CUDA_ERROR_ILLEGAL_ADDRESS */
  misaligned_address, /* CUDA_ERROR_MISALIGNED_ADDRESS */
  invalid_address_space,
  illegal_instruction, /* CUDA_ERROR_ILLEGAL_INSTRUCTION, e.g. a call of a non-function */
  trap,                /* CUDA_ERROR_LAUNCH_FAILED */
  assertion,           /* CUDA_ERROR_ASSERT */
  hang,                /* a barrier that can never complete, or the instruction limit: CUDA_ERROR_LAUNCH_TIMEOUT */
  /* What checks find. */
  synchronization,
  unwritten, /* a read */
  freed,     /* memory that free() has taken back, or malloc() never gave */
  race
};

/* Why a kernel was stopped, with all that a report can say. */
struct Fault {
  FaultKind kind = FaultKind::none;
  std::string kernel;
  Dim3 block{}, thread{};
  uint32_t ptx_line = 0;
  std::string source_file; /* from .loc, empty without */
  uint32_t source_line = 0;
  uint64_t address = 0;
  uint32_t access_bytes = 0;
  bool is_write = false;
  std::string space; /* "global", "shared", ... */
  std::string detail;
};

/*
 * Runs a kernel to its end on the engine's worker threads (one a host core; blocks run in parallel) and the calling
 * thread. Thread-safe: several launches can run at once. Atomics and fences of device memory are those of the host.
 */
Fault run(const Launch &launch);

} // namespace sim

#endif
