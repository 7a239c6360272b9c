/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_CHECKER_H
#define CUDACORE_SIM_EXEC_CHECKER_H

#include <set>

#include "sim/exec/grid.h"

namespace sim::exec {

class Races;
class Touches;

/*
 * The name in Spot::space for shared memory. Its address is compared, so all source files must share a single object.
 */
inline constexpr char shared_space[] = "shared";

/* The memory that an access refers to. */
struct Spot {
  const char *space;
  uint64_t address;
  const std::byte *host;
  std::byte *written; /* a flag for each byte, nonzero once it was written; null: writes are not recorded */
};

/*
 * The checks of a grid. The interpreter calls these functions before each access and at each barrier. A finding is
 * reported once for each place in the code, and does not stop the kernel.
 */
class Checker {
public:
  explicit Checker(Grid &grid);
  ~Checker();

  /* Returns a new record for the accesses of a thread of the host; null: they are not recorded. */
  Touches *new_touches();
  /* Whether global memory is checked. If not, accesses need not be reported. */
  bool watches_memory() const { return checks_.init || checks_.race || checks_.order; }

  void begins(Block &block);
  void ended(Unit &unit); /* called when all threads of the unit have ended */
  void finish();          /* called when the grid has ended */

  /*
   * names: lanes reach an instruction that all lanes in `members` execute together. gathers: the lanes in `present` now
   * execute this instruction.
   */
  void names(Warp &w, uint32_t lanes, uint32_t members);
  void gathers(Warp &w, uint32_t members, uint32_t present, bool orders);
  /* The lanes in `present` execute an instruction that all lanes of the warp have to execute. */
  void aligned(Warp &w, const Instruction &ins, uint32_t present);
  /* wgmma. */
  void group_orders(Warp &w, const Instruction &ins);
  void group_multiplies(Warp &w, const Instruction &ins, const GroupProduct &product);
  void group_has_multiplied(Warp &w);
  /* Called when lanes continue after wgmma.wait_group. */
  void group_passes(Warp &w, uint32_t lanes);
  void uses_accumulators(Warp &w, const Instruction &ins, const AccumulatorUse &use);
  /*
   * comes: lanes reach a barrier instruction. arrives: lanes arrive at the barrier `number`. completes: the barrier
   * completes.
   */
  void comes(Warp &w, uint32_t lanes, uint32_t number, uint32_t expected);
  void arrives(Warp &w, uint32_t lanes, uint32_t number);
  void completes(Block &block, uint32_t number, const Barrier &done);
  void arrives_at_cluster(Warp &w, uint32_t lanes);
  void passes_cluster(Warp &w, uint32_t lanes);
  void fences(Warp &w, const Instruction &ins, uint32_t lanes);

  void global(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  void misses(Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes,
              bool write); /* an access to memory that does not exist */
  void heap(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  void local(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  /* An access to a variable at a fixed offset in the frame. */
  void frame(Warp &w, const Instruction &ins, uint32_t lanes, uint32_t bytes, bool write);
  void shared(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, uint32_t offset, uint32_t bytes,
              bool write);
  /* An access to the reserved part of shared memory, which cooperative groups of several warps use as a barrier. */
  void scratch(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const std::byte *host);
  void allocates(uint64_t address, uint64_t bytes); /* called for malloc() */
  /*
   * A read of memory that nobody wrote. `use`: the instruction for which the value matters; null: the reading
   * instruction itself.
   */
  void reads_unwritten(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes,
                       const Instruction *use);
  /* Sets the data that an asynchronous copy is about to write; null after the copy. */
  void copies(const std::byte *what);
  void bulk_group(Warp &w, const Instruction &ins, uint32_t lanes); /* groups of bulk copies: commit or wait */
  /* copy_begins: a cp.async has read its source. copy_ends: the cp.async is about to write its destination. */
  void copy_begins(Warp &w, const PendingCopy &copy);
  void copy_ends(Warp &w, const PendingCopy &copy);

  /*
   * Reports a finding. `other` identifies the other party to it, such as the earlier access. A pair of an instruction
   * and `other` is reported only once.
   */
  void find(Fault what, const Instruction &ins, uint64_t other = 0);
  /* Returns the shared variable at a place, such as "'tile' + 4", or an empty string if there is none. */
  std::string variable_at(const Spot &spot) const;

private:
  void groups_ended(Block &block);
  void initialised(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write,
                   std::byte unwritten = std::byte{0});

  Grid &grid_;
  const Checks checks_;
  std::unique_ptr<Races> races_;
  std::mutex lock_;
  std::vector<std::unique_ptr<Touches>> touches_; /* by thread of the host */
  std::set<std::pair<const Instruction *, uint64_t>> found_;
};

/* Returns the lines of an instruction in the format of reports: " [file.cu:3] [PTX line 7]". */
std::string lines_of(const Program &program, const Instruction &ins);
std::string text_of(const Dim3 &at);

} // namespace sim::exec

#endif
