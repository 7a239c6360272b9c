/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest target of each form of an instruction. */
#include "sim/ptx/targets.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <unordered_map>

namespace sim::ptx {

namespace {

/*
 * Instructions that need a target. An instruction can match several rows, and then needs the highest of their targets.
 *
 * opcodes:   separated by |. Empty: any opcode.
 * modifiers: words, all of which have to match. a|b: one of these modifiers is present. !a: this one is absent.
 * families:  the target needs a suffix, such as the a of sm_90a or the f of sm_100f, and belongs to one of these
 *            families, separated by |: 100 has sm_100a, sm_100f, sm_103a, ... `every`: any family; 100a: this target.
 *            Empty: no suffix is needed.
 * operands:  the instruction has at least as many operands.
 */
struct Row {
  std::string_view opcodes, modifiers;
  uint32_t target;
  std::string_view families = {};
  size_t operands = 0;
};
constexpr std::string_view every = "every";

constexpr Row rows[] = {
    /* modifiers of any instruction */
    {"", "relaxed|acquire|release|acq_rel|weak|mmio", 70},
    {"", "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate", 70},
    {"", "L2::64B|L2::128B", 75},
    {"", "L2::256B|L2::cache_hint", 80},
    {"", "bf16|bf16x2|tf32|relu|NaN", 80},
    {"", "xorsign", 86},
    {"", "cluster|shared::cluster", 90},
    /* arithmetic, logic and conversion */
    {"add|sub|mul|fma|abs|neg|min|max|set|setp|ex2|tanh", "f16|f16x2", 53},
    {"dp4a|dp2a", "", 61},
    {"mov|ld|st", "b128", 70},
    {"lop3", "and|or", 70},
    {"bmsk|szext", "", 70},
    {"tanh", "", 75},
    {"ex2", "f16|f16x2", 75},
    {"min|max", "f16|f16x2", 80},
    {"min|max", "relu", 90},
    {"add|min|max", "u16x2|s16x2", 90},
    {"add|sub|mul|ex2|tanh|set|setp", "bf16|bf16x2", 90},
    {"add|sub|mul|fma", "f32x2", 100},
    {"min|max", "f32", 100, {}, 4}, /* three sources */
    {"cvt", "satfinite", 70},
    {"cvt", "pack", 72},
    {"cvt", "pack u2|s2|u4|s4", 75},
    {"cvt", "f16x2 f32", 80},
    {"cvt", "e4m3x2|e5m2x2", 89},
    {"cvt", "bf16|bf16x2 !f32", 90},
    {"cvt", "tf32 rn|rz", 90},
    {"cvt", "tf32 rn|rz satfinite", 100},
    {"cvt", "e2m1x2|e2m3x2|e3m2x2|ue8m0x2", 100, every},
    {"cvt", "bf16x2 e4m3x2|e5m2x2", 100, every},
    {"cvta|isspacep", "param", 70},
    {"mapa|getctarank", "", 90},
    /* memory */
    {"ld|st", "v8", 100},
    {"ld|st", "v4 b64|u64|s64|f64", 100},
    {"atom|red", "cta|gpu|sys", 60},
    {"atom|red", "f64|f16x2", 60},
    {"atom|red", "f16|b16", 70},
    {"atom|red", "bf16|bf16x2|b128|v2|v4|v8", 90},
    {"st|red", "async", 90},
    {"st", "bulk", 100},
    {"fence", "", 70},
    {"fence", "acquire|release", 90},
    {"fence", "async|async.global|async::generic|tensormap::generic|mbarrier_init", 90},
    {"prefetch", "L2::evict_last|L2::evict_normal", 80},
    {"prefetch", "tensormap", 90},
    {"applypriority|discard|createpolicy", "", 80},
    {"cp", "", 80},
    {"cp", "bulk", 90},
    {"cp", "cp_mask", 100},
    {"cp", "cta_group::1", 100, "100|110"},
    {"tensormap", "", 90},
    {"tensormap", "replace", 90, every},
    {"mbarrier", "", 80},
    {"mbarrier", "expect_tx|complete_tx|try_wait", 90},
    {"mbarrier", "arrive|arrive_drop !noComplete", 90, {}, 3}, /* with a count */
    /* several threads */
    {"match|nanosleep", "", 70},
    {"redux", "", 80},
    {"elect|griddepcontrol", "", 90},
    {"setmaxnreg", "", 90, every},
    {"redux", "f32", 100, "100"},
    {"clusterlaunchcontrol", "", 100},
    {"clusterlaunchcontrol", "multicast::cluster::all", 100, every},
    /* matrices */
    {"mma", "", 70},
    {"mma", "m16n8k8|m8n8k16|m8n8k32|m8n8k128", 75},
    {"mma", "m16n8k4|m16n8k16|m16n8k32|m16n8k64|m16n8k128|m16n8k256|f64", 80},
    {"mma", "sp|sp::ordered_metadata", 80},
    {"mma", "e4m3|e5m2", 89},
    {"mma", "m16n8k4|m16n8k8|m16n8k16 f64", 90},
    {"mma", "kind::f8f6f4", 100, every},
    {"mma", "e2m3|e3m2|e2m1|block_scale", 120, "120"},
    {"tcgen05", "", 100, "100|110"},
    {"tcgen05", "kind::i8", 100, "100a|110a"},
    {"tcgen05", "scale_vec::1X|scale_vec::2X|scale_vec::4X", 100, "100a|103a|110a"},
    {"wmma", "", 70},
    {"wmma", "s8|u8|s32", 72},
    {"wmma", "m8n8k32|m8n8k128", 75},
    {"wmma", "m16n16k8|f64", 80},
    {"mma|wmma", "b1 and", 80},
    {"ldmatrix|movmatrix", "", 75},
    {"stmatrix", "", 90},
    {"wgmma", "", 90, "90"},
    /* special registers and directives */
    {"%reserved_smem_offset_begin|%reserved_smem_offset_end|%reserved_smem_offset_cap", "", 80},
    {"%reserved_smem_offset_0|%reserved_smem_offset_1", "", 80},
    {"%clusterid|%nclusterid|%cluster_ctaid|%cluster_nctaid|%cluster_ctarank|%cluster_nctarank", "", 90},
    {"%is_explicit_cluster|%aggr_smem_size", "", 90},
    {".reqnctapercluster|.explicitcluster|.maxclusterrank", "", 90}};

/* Calls a function with each part of a text, until the function returns true. Returns whether it did. */
template <class Function> bool any_part(std::string_view text, char separator, Function &&function) {
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    if (function(text.substr(0, end)))
      return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

/* The rows of each opcode. Those of any opcode are in the row of "". */
using Table = std::unordered_map<std::string_view, std::vector<const Row *>>;
const Table &table() {
  static const Table &entries = *[] {
    auto *all = new Table;
    for (const Row &row : rows) {
      if (row.opcodes.empty())
        (*all)[""].push_back(&row);
      any_part(row.opcodes, '|', [&](std::string_view opcode) {
        (*all)[opcode].push_back(&row);
        return false;
      });
    }
    return all;
  }();
  return entries;
}

bool fits(const Row &row, Target target) {
  if (target.number < row.target || row.families.empty())
    return target.number >= row.target;
  std::string family = std::to_string(target.number / 10 * 10), name = std::to_string(target.number) + target.suffix;
  return target.suffix && any_part(row.families, '|',
                                   [&](std::string_view one) { return one == every || one == family || one == name; });
}

/* Returns whether an instruction has the modifiers of a row. Appends them to `name`, with dots. */
bool matches(const Row &row, const std::vector<std::string_view> &modifiers, std::string &name) {
  return !any_part(row.modifiers, ' ', [&](std::string_view word) {
    bool absent = word[0] == '!';
    bool found = any_part(word.substr(absent ? 1 : 0), '|', [&](std::string_view one) {
      bool present = std::find(modifiers.begin(), modifiers.end(), one) != modifiers.end();
      if (present && !absent)
        (name += '.') += one;
      return present;
    });
    return found == absent;
  });
}

} // namespace

Target target_named(std::string_view name) {
  Target target;
  if (name.substr(0, 3) != "sm_")
    return target;
  std::string digits(name.substr(3));
  char *end = nullptr;
  target.number = static_cast<uint32_t>(std::strtoul(digits.c_str(), &end, 10));
  target.suffix = *end;
  return target;
}

std::string refusal(Target target, std::string_view opcode, const std::vector<std::string_view> &modifiers,
                    size_t operands) {
  const Row *needed = nullptr;
  std::string feature;
  for (std::string_view key : {opcode, std::string_view()}) {
    auto found = table().find(key);
    if (found == table().end())
      continue;
    for (const Row *row : found->second) {
      std::string name(key);
      if (!fits(*row, target) && operands >= row->operands && (!needed || row->target > needed->target) &&
          matches(*row, modifiers, name)) {
        needed = row;
        feature = name;
      }
    }
  }
  if (!needed)
    return {};
  if (!needed->families.empty()) {
    uint32_t wanted = needed->families == every ? std::max(needed->target, target.number) : needed->target;
    return "Instruction '" + feature + "' not supported on .target 'sm_" + std::to_string(target.number) +
           "': compile for compute_" + std::to_string(wanted) + "a";
  }
  return "Feature '" + feature + "' requires .target sm_" + std::to_string(needed->target) + " or higher";
}

} // namespace sim::ptx
