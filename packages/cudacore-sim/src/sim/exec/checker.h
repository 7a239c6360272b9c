/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_CHECKER_H
#define CUDACORE_SIM_EXEC_CHECKER_H

#include <set>

#include "sim/exec/grid.h"

namespace sim::exec {

class Races;
class Touches;

constexpr const char *shared_space = "shared";

/* What an access touches. */
struct Spot {
  const char *space;
  uint64_t address;
  const std::byte *host;
  std::byte *written; /* a byte for each, not 0 once it was written; null: that is not kept */
};

/*
 * What checks see of a grid. It has one only where something is checked; else nothing of this is called. Accesses and
 * barriers tell it before they happen. What it finds is said once for each place of the code, and stops nothing.
 */
class Checker {
public:
  explicit Checker(Grid &grid);
  ~Checker();

  void begins(Block &block);
  void ended(Unit &unit); /* all its threads have */
  void finish();          /* the grid has ended */

  /* Lanes come to an instruction for all of `members`; of those, `present` execute it now, or `lanes` wait (0). */
  void names(Warp &w, uint32_t lanes, uint32_t members);
  void gathers(Warp &w, uint32_t lanes, uint32_t members, uint32_t present, bool orders);
  /* `present` execute what all of a warp have to. */
  void aligned(Warp &w, const Instruction &ins, uint32_t present);
  void ends(Warp &w, uint32_t lanes);
  /* wgmma. */
  void group_orders(Warp &w, const Instruction &ins);
  void group_multiplies(Warp &w, const Instruction &ins, const GroupProduct &product);
  void group_has_multiplied(Warp &w);
  /* Lanes go on behind wgmma.wait_group. */
  void group_passes(Warp &w, uint32_t lanes);
  void uses_accumulators(Warp &w, const Instruction &ins, const AccumulatorUse &use);
  /* Lanes come to a barrier of the block, arrive at it, and it completes. */
  void comes(Warp &w, uint32_t lanes, uint32_t number, uint32_t expected);
  void arrives(Warp &w, uint32_t lanes, uint32_t number);
  void completes(Block &block, uint32_t number, const Barrier &done);
  void arrives_at_cluster(Warp &w, uint32_t lanes);
  void passes_cluster(Warp &w, uint32_t lanes);
  void fences(Warp &w, const Instruction &ins, uint32_t lanes);

  void global(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  void misses(Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes, bool write); /* all memory */
  void heap(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  void local(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  /* Variables of the frame, by their fixed place. */
  void frame(Warp &w, const Instruction &ins, uint32_t lanes, uint32_t bytes, bool write);
  void shared(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, uint32_t offset, uint32_t bytes,
              bool write);
  /* The system's part of shared memory, where groups of warps meet. */
  void scratch(Warp &w, const Instruction &ins, uint32_t lane, const std::byte *host);
  void allocates(uint64_t address, uint64_t bytes); /* by malloc() */
  /* What an asynchronous copy is about to write, where it writes next. */
  void copies(const std::byte *what);

  /* `other`: what the finding is about besides the instruction; the two together are reported once. */
  void find(Fault what, const Instruction &ins, uint64_t other = 0);
  /* The shared variable that is there: "'tile' + 4"; empty: none is. */
  std::string variable_at(const Spot &spot) const;

private:
  void groups_ended(Block &block);
  void initialised(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write,
                   std::byte unwritten = std::byte{0});

  Grid &grid_;
  const Checks checks_;
  std::unique_ptr<Races> races_;
  std::unique_ptr<Touches> touches_;
  std::mutex lock_;
  std::set<std::pair<const Instruction *, uint64_t>> found_;
};

/* The lines of an instruction as reports have them: " [file.cu:3] [PTX line 7]". */
std::string lines_of(const Program &program, const Instruction &ins);
std::string text_of(const Dim3 &at);

} // namespace sim::exec

#endif
