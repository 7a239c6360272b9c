/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_STATE_H
#define CUDACORE_SIM_DRIVER_BASE_STATE_H

#include "sim/control/config.h"
#include "sim/driver/base/call.h"
#include "sim/driver/base/executor.h"
#include "sim/driver/base/handles.h"
#include "sim/driver/base/memory.h"

#include <array>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace sim {

class Image;
struct Array;
struct Capture;
struct Condition;
struct DeviceShare;
struct EventCapture;
struct Graph;
struct GraphExec;
struct GraphNode;
struct GraphicsBuffer;
struct GraphicsResource;
struct Link;
struct MipmappedArray;
struct Placement;
struct SharedEvent;
struct StreamCapture;
struct TextureObject;
struct UserObject;

struct Stream {
  uint64_t handle = 0; /* 0: the legacy default stream, or a per-thread default stream */
  std::weak_ptr<Context> context;
  std::weak_ptr<Context> green; /* the green context of the stream, whose primary context is `context` */
  unsigned flags = 0;           /* CU_STREAM_NON_BLOCKING */
  int priority = 0;
  uint64_t id = 0;
  CUstreamAttrValue synchronization_policy{}, access_policy{}, memory_domain{}, memory_domain_map{};
  UnitPtr tail;           /* the unit that was submitted last */
  uint64_t submitted = 0; /* the number of units so far, for the check of order */
  bool legacy = false;
  std::shared_ptr<StreamCapture> capture; /* null: the stream is not captured */
  /* The arrays that cuStreamGetCaptureInfo returns. The application may read them, even after the capture. */
  std::vector<CUgraphNode> info_nodes;
  std::vector<CUgraphEdgeData> info_edge_data;
  Stream() { std::memset(&synchronization_policy, 0xFF, sizeof(int)); } /* the value until the application sets one */
  bool blocking() const { return !legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  unsigned flags = 0;
  UnitPtr recorded;                       /* the unit of the last record; null: never recorded */
  std::shared_ptr<EventCapture> captured; /* set if the event was recorded in a capture, where it represents nodes */
  std::shared_ptr<SharedEvent> shared;    /* set in events with CU_EVENT_INTERPROCESS */
};

struct Pool {
  uint64_t handle = 0;
  Device *device = nullptr; /* null: a pool of the host */
  bool is_managed() const;
  bool is_shared_with_host() const; /* pinned or managed: one address on host and device */
  CUmemPoolProps properties{};
  bool is_default = false, destroyed = false;
  std::unique_ptr<Arena> file;          /* the file with the memory, if the pool can be exported */
  std::shared_ptr<SharedFile> imported; /* the file of another process, if the pool was imported */
  uint64_t imported_name = 0;
  unsigned references = 1; /* how often the application must destroy the pool: once, or once for each import */
  std::array<int, 3> reuse{1, 1, 1};
  uint64_t threshold = 0;
  uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  uint64_t being_freed = 0;    /* bytes that streams have yet to free: only this pool can reuse them */
  std::map<int, bool> access;  /* whether each device may write; the pool's own device always may */
  bool reserve(uint64_t more); /* reserves memory for the used bytes and `more` */
  bool take(uint64_t size, uint64_t &base, std::byte *&host); /* allocates `size` bytes */
  void give_back(const Allocation &allocation);
  void trim(uint64_t keep);
};

/* The default pool and the current pool of a location. */
struct LocationPools {
  std::shared_ptr<Pool> initial, current;
  void open(Device *device, const CUmemPoolProps &properties);
};

struct Limits {
  size_t stack = 1024, printf_fifo = 8650752, malloc_heap = 8388608, sync_depth = 2, pending_launches = 2048,
         l2_fetch = 64, persisting_l2 = 11796480;
};

struct Context : std::enable_shared_from_this<Context> {
  uint64_t handle = 0;
  Device *device = nullptr;
  bool primary = false;
  bool ending = false; /* no more work is accepted: the context is destroyed when all work is done */
  bool destroyed = false;
  unsigned flags = 0;
  uint64_t id = 0;
  Limits limits;
  std::shared_ptr<Heap> heap = make_heap();
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  CUresult error = CUDA_SUCCESS;            /* a sticky error: all later calls return it */
  std::shared_ptr<Context> home;            /* for a green context: its primary context */
  std::shared_ptr<const DeviceShare> share; /* for a green context: its part of the device */
  uint64_t green_handle = 0;
  std::set<std::shared_ptr<Context>> greens; /* the green contexts of this primary context */
  StreamPtr legacy;
  std::unordered_map<uint64_t, StreamPtr> per_thread; /* default streams of threads */
  std::set<StreamPtr> streams;                        /* streams that were created */
  UnitPtr gate;                                       /* all work that is submitted later waits for this unit */
  std::vector<UnitPtr> orphans, blocking_orphans;     /* unfinished last units of destroyed streams */
  /* For the check of order: units that come after all work of destroyed streams. */
  UnitPtr after_destroyed_streams, after_destroyed_blocking_streams;
  unsigned attached = 0;                                          /* references by cuCtxAttach */
  std::set<uint64_t> peers;                                       /* the contexts whose memory this context may use */
  std::map<const Image *, std::shared_ptr<Placement>> placements; /* code that is in use in this context */
  std::string printed;                  /* the output of printf that no call has shown yet; a green context has none */
  std::shared_ptr<const MemoryMap> map; /* the map of memory when `map_version` was current */
  uint64_t map_version = 0;
  void fail(CUresult code);
};

using ContextPtr = std::shared_ptr<Context>;

/* The memory of a device that graphs use, for cuDeviceGetGraphMemAttribute. */
struct GraphMemoryUse {
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};

struct Device {
  int ordinal = 0;
  int number = 0; /* the device's number among all devices, including hidden ones (CUDA_VISIBLE_DEVICES) */
  uint64_t memory = 0, used = 0;
  ContextPtr primary;          /* set while the context is retained */
  uint64_t primary_handle = 0; /* the handle of all primary contexts of the device; 0: none was created yet */
  bool primary_ending = false; /* a new primary context can be created only after the old one has ended */
  unsigned primary_references = 0, primary_flags = 0;
  LocationPools pools;
  GraphMemoryUse graph_memory;
  CUresult error = CUDA_SUCCESS; /* the error of a kernel that failed; it also applies to new contexts */
  /*
   * Counts memory as used; false if there is too little. If necessary, pools other than `asking` give up their unused
   * memory.
   */
  bool charge(uint64_t bytes, const Pool *asking = nullptr);
  void discharge(uint64_t bytes) { used -= bytes; }
};

struct Library {
  uint64_t handle = 0;
  std::shared_ptr<Image> image;
  std::vector<uint64_t> kernels; /* handles of all kernels, in the order of the module; filled at the first request */
};

struct LoadedModule {
  uint64_t handle = 0;
  std::shared_ptr<Image> image;
  std::weak_ptr<Context> context;
  bool of_library = false;              /* whether cuLibraryGetModule returned the module */
  std::map<size_t, uint64_t> functions; /* handles that were returned so far, by the index of the kernel in the image */
};

/* The variables of some code in one context, where they have addresses. */
struct Placement {
  Instance instance;
  std::vector<AllocationPtr> variables; /* null: the variable is external, or has no size */
};

/* The values of cuFuncSetBlockShape and similar functions for the next launch of a function. */
struct OldLaunch {
  Dim3 block{0, 0, 0};
  uint32_t dynamic_shared = 0;
  std::vector<std::byte> arguments;
};

/* The attributes set by cuKernelSetAttribute for a kernel on a device, or by cuFuncSetAttribute for a function. */
struct KernelSettings {
  std::shared_ptr<OldLaunch> old_launch;
  std::map<int, int> values;                       /* values by CUfunction_attribute */
  std::shared_ptr<const KernelSettings> of_kernel; /* for a function: the settings of its kernel */
  int get(CUfunction_attribute attribute, int otherwise) const;
};

struct Function;

struct Kernel {
  uint64_t handle = 0;
  std::weak_ptr<Library> library;
  std::shared_ptr<Image> image;
  size_t index = 0; /* the index of the kernel in the image */
  std::shared_ptr<KernelSettings> settings_on(const Device &device);
  std::shared_ptr<Function> function_in(const Context &context) const; /* null: the function was not created yet */
  std::map<int, std::shared_ptr<KernelSettings>> settings;             /* settings by device */
  std::map<uint64_t, std::weak_ptr<Function>> functions; /* functions, by the identifier of their context */
};

struct Function {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  std::weak_ptr<LoadedModule> module; /* set by cuModuleGetFunction */
  std::weak_ptr<Kernel> kernel;       /* set by cuKernelGetFunction; either module or kernel is set */
  std::shared_ptr<Image> image;
  size_t index = 0;
  KernelSettings settings;
};

struct LaunchRecord {
  uint64_t number = 0; /* 0: nothing was launched yet */
  std::string kernel;
  uint64_t stream = 0, context = 0;
  Dim3 grid{}, block{}, cluster{}; /* cluster: zeros if the launch has none */
  uint32_t shared_bytes = 0;
  bool cooperative = false, programmatic = false;
  std::vector<std::byte> arguments;
};

/* A range of cuMemAddressReserve: its size, and the bytes that the arena uses for it. */
struct Reservation {
  uint64_t size, taken;
  uint64_t number = number_object();
};

struct State {
  std::mutex mutex; /* guards everything below, and all objects */
  bool initialised = false;
  Arena arena;
  Memory memory;
  Executor executor;
  std::vector<std::unique_ptr<Device>> devices;
  Handles<Context> contexts{Kind::context};
  std::condition_variable primary_ended;
  std::unordered_map<uint64_t, ContextPtr>
      ended_contexts; /* destroyed contexts; they can be made current, but then calls fail */
  /*
   * Handles of executable graphs that were destroyed with a primary context. These graphs keep the objects that they
   * retain.
   */
  std::unordered_map<uint64_t, std::shared_ptr<GraphExec>> lost;
  Handles<Stream> streams{Kind::stream};
  Handles<Event> events{Kind::event};
  Handles<Pool> pools{Kind::pool};
  Handles<Library> libraries{Kind::library};
  Handles<Kernel> kernels{Kind::kernel};
  Handles<LoadedModule> modules{Kind::module};
  Handles<Function> functions{Kind::function};
  Handles<Physical> physicals{Kind::physical};
  Handles<Graph> graphs{Kind::graph};
  Handles<GraphNode> graph_nodes{Kind::graph_node};
  Handles<GraphExec> graph_execs{Kind::graph_exec};
  Handles<std::weak_ptr<Condition>> conditions{Kind::condition};
  Handles<UserObject> user_objects{Kind::user_object};
  Handles<Link> links{Kind::link};
  Handles<GraphicsResource> graphics{Kind::graphics};
  std::map<unsigned, std::shared_ptr<GraphicsBuffer>> gl_buffers; /* buffers of cudasim_gl_buffer */
  unsigned last_gl_buffer = 0;
  Handles<Array> arrays{Kind::array};
  Handles<MipmappedArray> mipmapped_arrays{Kind::mipmapped_array};
  Handles<TextureObject> textures{Kind::texture}, surfaces{Kind::surface};
  std::shared_ptr<const SamplerMap> samplers;           /* textures and surfaces; null if the map must be built again */
  Handles<Context> green_contexts{Kind::green_context}; /* objects of `contexts`, by their handle as a green context */
  /* Pools by type of memory, type of location, number of location. A device has the pools of its own memory. */
  std::map<std::array<int, 3>, LocationPools> location_pools;
  std::map<uint64_t, std::map<int, bool>> imported_access; /* of pools that were imported, by their names */
  std::map<uint64_t, Reservation> reservations;            /* reserved addresses, by their base */
  uint64_t next_context_id = 1, next_stream_id = 21, next_grid_id = 1;
  unsigned next_graph_id = 1;
  std::vector<std::shared_ptr<Capture>> captures; /* captures that have not ended */
  uint64_t next_capture_id = 1;
  LaunchRecord last_launch;
};

State &state();

/* ---- the thread's contexts */

ContextPtr current_context();                  /* null: no context is current */
std::vector<ContextPtr> &context_stack();      /* the stack of this thread; the last context is current */
ContextPtr home_of(const ContextPtr &context); /* the primary context of a green context; otherwise `context` */
CUresult need_current(ContextPtr &out);        /* the current context if it is usable; otherwise the code to return */
CUresult need_context(ContextPtr &out);        /* home_of() the current context */
CUresult usable(const ContextPtr &context);
CUresult find_exact_context(CUcontext handle, ContextPtr &out);
CUresult find_any_context(CUcontext handle, ContextPtr &out); /* also finds contexts that have ended */
CUresult find_context(CUcontext handle, ContextPtr &out);     /* home_of() the context with this handle */
bool are_context_flags(unsigned flags);                       /* checks flags of cuCtxCreate */
CUresult retain_primary(Device &device);
void release_primary(Device &device); /* the device must be retained */
CUresult find_device(CUdevice ordinal, Device *&out);
int device_attribute(CUdevice_attribute attribute, const Device &device);
/* Return properties of a device. `number`: among all devices. The driver does not have to be initialised. */
unsigned pci_bus(int number);
std::string uuid_text(int number); /* in the format of nvidia-smi */
ContextPtr new_context(Device &device, unsigned flags, bool primary);
void destroy_context(const ContextPtr &context, std::unique_lock<std::mutex> &lock);
void lose_graph_execs(const ContextPtr &context); /* marks executable graphs of a primary context that is destroyed */

/* ---- work */

constexpr int least_priority = 0, greatest_priority = -5; /* priorities of streams and launches */

CUresult find_stream(CUstream handle, StreamPtr &out);
ContextPtr owner_of(const Stream &stream); /* the green context of a stream; if there is none, its context */
CUresult new_stream(CUstream *out, const ContextPtr &context, unsigned flags, int priority);
uint64_t this_thread(); /* a number that identifies the calling thread */
void enqueue(const StreamPtr &stream, const UnitPtr &unit, std::vector<UnitPtr> extra = {});
std::vector<UnitPtr> outstanding(const StreamPtr &stream); /* the units that a synchronisation waits for */
CUresult synchronize(const StreamPtr &stream); /* waits for the stream, and returns the error of its context */
CUresult synchronize(const ContextPtr &context);

/*
 * Writes the output of kernels of a context to the standard output, as the driver does at the end of waits, and when
 * memory is freed or code is loaded or unloaded, but not at queries, later launches and the end of the process.
 */
void show_printed(Context &context);
void end_wait(Context &context); /* ends a wait of the host, which also returns unused memory of pools */
std::vector<UnitPtr> outstanding(Context &context);      /* the unfinished units of the context */
void wait_in_context(Context &context, Event &event);    /* all later work waits for the event */
UnitPtr latest_record(Event &event);                     /* null: no record, or the last record is done */
UnitPtr awaited_record(Event &event);                    /* the unit that a wait for the event waits for; may be done */
UnitPtr record(Event &event, const ContextPtr &context); /* a new unit that records the event; not yet submitted */
UnitPtr new_unit(const char *name, const ContextPtr &context, std::function<void()> work = nullptr,
                 std::function<void()> finish = nullptr);

bool set_condition(uint64_t handle, uint32_t value); /* takes the lock; false: no such condition */

/* ---- memory */

CUresult new_device_memory(const ContextPtr &context, uint64_t size, AllocationPtr &out);
/* Fills new memory with the value of CUDACORE_SIM_FILL, so that reads of uninitialised memory become visible. */
void fill_new_memory(std::byte *host, uint64_t size);
std::byte *map_host_memory(uint64_t size); /* null: no memory is left */
void hide_from_host(Allocation &mapping);  /* undoes a mapping for host code at a device address */
void unmap_host_memory(std::byte *memory, uint64_t size);
void release_memory(const AllocationPtr &allocation, const char *by);
CUresult find_pool(CUmemoryPool handle, std::shared_ptr<Pool> &out);
CUresult check_pool_location(const CUmemLocation &location, CUmemAllocationType type, Device *&device);
/* Marks memory of a graph as freed: when a graph that frees it is launched, or when the application frees it. */
void mark_freed(Allocation &memory);
/* Frees memory of a graph, in the order of work. Also frees the address if no remaining graph allocates it. */
void free_graph_memory(const AllocationPtr &memory, const char *by);
/* Where `pool` is the current pool, makes the default pool current. Null: does so at every location. */
void forget_current_pool(const std::shared_ptr<Pool> &pool);
void shrink_pools(const Device &device); /* trims pools to their release thresholds, at a synchronisation */

/* All textures and surfaces, for kernels that begin now. */
std::shared_ptr<const SamplerMap> samplers();
/* Removes the arrays, textures and surfaces of a context that is destroyed. */
void forget_arrays(const ContextPtr &context);

/* ---- tables */

CUresult report_stale(Kind kind, uint64_t handle); /* returns the code for the caller to return */

inline uint64_t value_of(const void *handle) { return reinterpret_cast<uint64_t>(handle); }
template <class H> H handle_of(uint64_t value) { return reinterpret_cast<H>(value); }

template <class T> CUresult find_object(Handles<T> &handles, Kind kind, const void *handle, std::shared_ptr<T> &out) {
  out = handles.find(value_of(handle));
  if (out != nullptr)
    return CUDA_SUCCESS;
  return handles.was_destroyed(value_of(handle)) ? report_stale(kind, value_of(handle)) : CUDA_ERROR_INVALID_HANDLE;
}

} // namespace sim

#endif
