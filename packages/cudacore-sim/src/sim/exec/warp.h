/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_WARP_H
#define CUDACORE_SIM_EXEC_WARP_H

#include <cstring>
#include <memory>

#include "sim/isa/program.h"

namespace sim::exec {

struct Block;
struct Grid;
struct GroupWork;
class Undefined;

/* The exception that handlers throw to end the launch. */
struct DeviceFault {
  Fault fault;
};

/* Data that a cp.async has read, but not written yet. */
struct PendingCopy {
  const Instruction *place;
  uint32_t pc, lane;
  uint32_t group;    /* number of groups that the thread had committed before this copy */
  std::byte *target; /* destination in shared memory */
  uint32_t bytes;
  std::array<std::byte, 16> values;
};

struct CallRecord {
  uint32_t return_pc;
  uint32_t call_pc;
  uint32_t base;       /* the base of the caller's frame */
  uint32_t local_base; /* the base of the caller's local memory */
  uint32_t local_top;
  uint32_t function; /* the callee */
};

/*
 * A warp of 32 threads. Each lane has its own program counter and call stack. Lanes with the same program counter and
 * frame run together as a group. The group with the deepest call runs first and, of several such groups, the one with
 * the lowest program counter, so that lanes that took different branches meet again. A group that only waits for other
 * groups yields to them (independent thread scheduling).
 */
class Warp {
public:
  enum class Result : uint8_t { finished, blocked, yielded };

  /* Resets the warp, so that it runs a kernel from its start. */
  void start(Block &of, uint32_t warp_index, uint32_t lanes);
  bool finished() const { return alive == 0; }
  bool can_run() const { return (alive & ~blocked_) != 0; }
  /* Runs until all lanes have ended, no lane can run, or the turn is over. */
  Result run(int64_t turn);

  /* --- operands ---------------------------------------------------------------------------------------------- */
  const uint64_t *in(OperandIndex op) const {
    return op >= 0 ? frame + op : constants + static_cast<size_t>(~op) * warp_size;
  }
  uint64_t *out(OperandIndex op) { return frame + op; }
  /*
   * Returns the index of a register of the running group in the registers of the warp. It does not return a pointer,
   * because a call may move all registers.
   */
  size_t place_of(OperandIndex op) const {
    return static_cast<size_t>(frame - registers_.data()) + static_cast<size_t>(op);
  }
  uint32_t predicate(OperandIndex op) const {
    if (op < 0)
      return op == predicate_true ? all_lanes : 0;
    return reinterpret_cast<const uint32_t *>(frame)[op >> 1] ^ (0u - static_cast<uint32_t>(op & 1));
  }
  void set_predicate(OperandIndex op, uint32_t lanes, uint32_t value) {
    uint32_t &mask = reinterpret_cast<uint32_t *>(frame)[op >> 1];
    mask = (mask & ~lanes) | (value & lanes);
  }

  /* --- control flow, for handlers ------------------------------------------------------------------------------ */
  void branch(uint32_t lanes, uint32_t target);
  /* Makes each lane branch to its own target. */
  void scatter(uint32_t lanes, const std::array<uint32_t, warp_size> &targets);
  void exit(uint32_t lanes);
  void call(const Instruction &ins, uint32_t lanes, uint32_t function);
  void leave(uint32_t lanes);
  /* Counts a sign that the warp may be waiting for other threads: an atomic, a volatile load, a failed test. */
  void polled() { ++polls_; }
  /* Ends the turn after this instruction. */
  void yield();

  enum class Wait : uint8_t { none, warp, barrier, cluster, sleep, group };
  /* Makes lanes stay at this instruction until they are released. */
  void wait(uint32_t lanes, Wait why);
  /* Releases waiting lanes. If `past`, they continue after their instruction; otherwise they execute it again. */
  void release(uint32_t lanes, bool past);
  uint32_t waiting(Wait why) const { return waiting_[static_cast<size_t>(why)]; }
  /*
   * Gathers the lanes in `members` at an instruction that they execute together. Returns the participating lanes, once
   * all of `members` that have not ended have reached the instruction. Returns 0 if `lanes` must wait. `anywhere`: the
   * members may be at different instructions of the same kind, and count as one group. `apart`: so they may, too, but
   * the members at each instruction execute it without the others, once all members wait.
   */
  enum class Meeting : uint8_t { here, anywhere, apart };
  uint32_t gather(uint32_t lanes, uint32_t members, Meeting meeting);
  /*
   * Writes the data that the asynchronous copies of lanes have read. The copies in a lane's last `pending_groups`
   * groups stay pending. If `pending_groups` is negative, no copies stay pending.
   */
  void complete_copies(uint32_t lanes, int64_t pending_groups);
  /* Makes each lane wait for its number of nanoseconds, but at most for a millisecond, like nanosleep. */
  void sleep(uint32_t lanes, const uint64_t *durations);
  /*
   * Releases the sleeping lanes whose time is over. Returns the time at which the next lane has to be released, or
   * UINT64_MAX.
   */
  uint64_t wake(uint64_t now);

  /* Returns a Fault with the place of a lane in the kernel, for faults and findings. */
  Fault place(FaultKind kind, const Instruction &ins, uint32_t lane, std::string detail = {}) const;
  [[noreturn]] void fault(FaultKind kind, const Instruction &ins, uint32_t lane, std::string detail = {}) const;
  [[noreturn]] void access_fault(FaultKind kind, const Instruction &ins, uint32_t lane, uint64_t address,
                                 uint32_t bytes, bool write, const char *space, std::string detail = {}) const;

  const Instruction &instruction_of(uint32_t lane) const;
  uint32_t pc_of(uint32_t lane) const { return lane_pc_[lane]; }
  uint64_t *frame_of(uint32_t lane) { return registers_.data() + static_cast<size_t>(base_[lane]) * warp_size; }
  /*
   * Returns a flag for each byte of a lane's local memory, nonzero once the byte was written. Returns null if writes
   * are not recorded.
   */
  std::byte *local_written(uint32_t lane) {
    return local_written_.empty() ? nullptr : local_written_.data() + static_cast<size_t>(lane) * local_stride_;
  }
  std::byte *local(uint32_t lane) { return local_memory_.data() + static_cast<size_t>(lane) * local_stride_; }
  std::byte *frame_bytes(uint32_t lane, uint32_t offset) { return local(lane) + local_base[lane] + offset; }
  uint64_t read_value(const ValueLocation &place, uint32_t lane);
  void write_value(const ValueLocation &place, uint32_t lane, uint64_t value);

  /* --- state that handlers use ---------------------------------------------------------------------------------- */
  uint64_t *frame = nullptr; /* registers of the running group */
  const uint64_t *constants = nullptr;
  Block *block = nullptr;
  Grid *grid = nullptr;
  uint32_t index = 0;                   /* index in the block */
  uint32_t pc = 0;                      /* the program counter of the running group */
  uint32_t next = 0;                    /* the index of the instruction at which the running group continues */
  uint32_t active = 0;                  /* lanes of the running group */
  uint32_t alive = 0;                   /* lanes that have not ended */
  uint32_t carries = 0;                 /* the carry flag CC.CF, one bit for each lane */
  uint64_t stores = 0;                  /* number of instructions that store; a sign of progress */
  Range range{0, 0, nullptr, false, 0}; /* the range that was accessed last, which the next access is likely to be in */
  const Range *found = nullptr;         /* the range that was looked up last */
  std::array<std::array<uint32_t, warp_size>, 3> thread{}; /* %tid of each lane, by dimension */
  std::array<uint32_t, warp_size> local_base{}, local_top{};
  std::array<uint8_t, warp_size> barrier{}; /* the barrier that each lane waits for */
  /*
   * For the check of masks: the lanes that had only returns left to execute when they last parted from other lanes, and
   * those that ended although they had more.
   */
  uint32_t leaving = 0, strayed = 0;
  uint32_t cluster_arrived = 0; /* lanes that have arrived in this phase of the cluster barrier */
  /*
   * The number of wgmma products that the warp has reached, the number of products whose part it has computed, and
   * whether it is waiting to begin a product.
   */
  uint32_t group_begun = 0, group_made = 0;
  bool awaits_group = false;
  std::vector<PendingCopy> copies;                /* pending copies, in the order in which they began */
  std::array<uint32_t, warp_size> copy_groups{};  /* number of groups of copies that each lane has committed */
  std::array<uint32_t, warp_size> tensor_bytes{}; /* how many bytes the last tensor load of each lane has moved */
  /*
   * For the check of initialization: whether each byte that a copy is moving was written, and the index of the byte
   * that the next access of the copy begins with.
   */
  std::array<std::byte, 16> moving{};
  uint32_t moving_at = 0;
  std::shared_ptr<Undefined> undefined;  /* for the check of initialization; null: no check */
  std::shared_ptr<GroupWork> group_work; /* the state of wgmma, for the checks; null: it is not recorded */

private:
  bool select();
  void part();
  /* Returns whether a lane has nothing left to do except to return and exit. */
  bool is_ending(uint32_t lane);
  void record_leaving(uint32_t lanes);
  template <bool IsWatched> void run_group();
  void store_group();
  void reserve_registers(size_t slots);
  void reserve_local(size_t bytes);
  void set_written(const std::vector<ValueLocation> &places, uint32_t frame_local, uint32_t lane);
  void copy_arguments(const std::vector<ValueLocation> &from, uint64_t *from_frame, uint32_t from_local,
                      const std::vector<ValueLocation> &to, uint64_t *to_frame, uint32_t to_local, uint32_t lane);
  void call_builtin(const Instruction &ins, uint32_t lanes, const Function &callee);

  uint32_t group_ = 0; /* the lanes of the running group when it was chosen */
  uint32_t blocked_ = 0;
  std::array<uint32_t, 6> waiting_{};
  std::array<uint64_t, warp_size> wake_at_{}; /* the time at which each sleeping lane continues */
  std::array<uint32_t, warp_size> members_{}; /* the members for which each lane waits */
  uint32_t apart_ = 0;                        /* lanes that wait with Meeting::apart */
  uint32_t parted_ = 0;                       /* lanes that part() has let go on */
  uint32_t limit_ = 0;                        /* the program counter from which on another group may be chosen */
  uint32_t polls_ = 0;
  int64_t budget_ = 0;       /* instructions left until the turn is over */
  int64_t group_budget_ = 0; /* instructions left until another group can run */
  int64_t group_start_ = 0;
  bool yielded_ = false;
  bool rotate_ = false;
  uint64_t clock_ = 0; /* number of times a group was chosen, to find the lane that has waited longest */
  std::array<uint32_t, warp_size> lane_pc_{};
  std::array<uint32_t, warp_size> base_{}; /* the base of each lane's frame, in slots */
  std::array<uint64_t, warp_size> last_run_{};
  std::array<uint64_t, warp_size> executed_{};
  std::array<std::vector<CallRecord>, warp_size> stack_;
  std::vector<uint64_t> registers_;
  std::vector<std::byte> local_memory_;
  std::vector<std::byte> local_written_; /* see local_written(); empty: not recorded */
  size_t local_stride_ = 0;
};

/* Returns the nanoseconds of a monotonic clock. */
uint64_t monotonic_time();

/* Calls f(lane) for each lane of a mask. A plain loop handles the full mask, which is by far the most frequent. */
template <class F> inline void for_lanes(uint32_t lanes, F &&f) {
  if (lanes == all_lanes) {
    for (uint32_t lane = 0; lane < warp_size; ++lane)
      f(lane);
  } else {
    for (; lanes; lanes &= lanes - 1)
      f(static_cast<uint32_t>(__builtin_ctz(lanes)));
  }
}

/* get() and put() read and write a lane's register as a T, which is in the register's low bytes. */
template <class T> inline T get(const uint64_t *lanes, uint32_t lane) {
  T value;
  std::memcpy(&value, lanes + lane, sizeof value);
  return value;
}
template <class T> inline void put(uint64_t *lanes, uint32_t lane, T value) {
  std::memcpy(lanes + lane, &value, sizeof value);
}

} // namespace sim::exec

#endif
