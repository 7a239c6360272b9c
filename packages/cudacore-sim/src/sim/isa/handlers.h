/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_HANDLERS_H
#define CUDACORE_SIM_ISA_HANDLERS_H

#include "sim/isa/instruction.h"
#include "sim/isa/types.h"

/*
 * The handlers that the decoder chooses from, by operation and variant. A null pointer means that there is no such
 * instruction. An instruction's operands are first the destination, then the sources, unless a comment says otherwise.
 * The comments also describe the use of Instruction::mode, flag, immediate and target.
 */
namespace sim::exec {

using ptx::StateSpace;
using ptx::Type;

enum class Rounding : uint8_t { nearest, zero, down, up, nearest_away, none };

/* --- integers -------------------------------------------------------------------------------------------------- */
enum class IntegerOp : uint8_t {
  add,
  sub,
  add_sat,
  sub_sat,
  mul_lo,
  mul_hi,
  mul_wide,
  mul24_lo,
  mul24_hi,
  mad_lo,
  mad_hi,
  mad_hi_sat,
  mad_wide,
  mad24_lo,
  mad24_hi,
  mad24_hi_sat,
  sad,
  div,
  rem,
  abs,
  neg,
  min,
  max,
  min_relu,
  max_relu,
  add_cc,
  addc,
  addc_cc,
  sub_cc,
  subc,
  subc_cc,
  mad_lo_cc,
  mad_hi_cc,
  madc_lo,
  madc_lo_cc,
  madc_hi,
  madc_hi_cc,
  count /* the number of operations */
};
Handler integer_handler(IntegerOp op, Type type);

enum class BitOp : uint8_t {
  and_,
  or_,
  xor_,
  not_,
  cnot,
  shl,
  shr,
  lop3,
  shf_l_wrap,
  shf_l_clamp,
  shf_r_wrap,
  shf_r_clamp,
  popc,
  clz,
  bfind,
  bfind_shift,
  fns,
  brev,
  bfe,
  bfi,
  bmsk_clamp,
  bmsk_wrap,
  szext_clamp,
  szext_wrap,
  prmt,
  prmt_f4e,
  prmt_b4e,
  prmt_rc8,
  prmt_ecl,
  prmt_ecr,
  prmt_rc16,
  and_pred,
  or_pred,
  xor_pred,
  not_pred,
  mov_pred,
  count /* the number of operations */
};
Handler bit_handler(BitOp op, Type type); /* lop3: the immediate is the truth table */

enum class DotOp : uint8_t { dp4a, dp2a_lo, dp2a_hi };
Handler dot_handler(DotOp op, Type a, Type b);

/* The scalar video instructions. Operands: d, a, b, and c (which can be absent). The immediate is a VideoMode. */
enum class VideoOp : uint8_t { add, sub, absdiff, min, max, shl, shr, mad, set };
enum class VideoPart : uint8_t { word, b0, b1, b2, b3, h0, h1 }; /* the part of a register that an operand uses */
enum class VideoSecond : uint8_t { none, add, min, max };        /* how the result is combined with c */
struct VideoMode {
  VideoPart d = VideoPart::word, a = VideoPart::word, b = VideoPart::word;
  bool d_signed = false, a_signed = false, b_signed = false;
  bool saturate = false;
  VideoSecond second = VideoSecond::none;
  bool merge = false;                          /* the result replaces a part of c: the part that d names */
  bool wrap = false;                           /* for shifts: amounts wrap around, rather than being limited to 32 */
  bool minus_product = false, minus_c = false; /* mad */
  bool plus_one = false;                       /* mad */
  uint8_t shift = 0;                           /* for mad: 0, 7 or 15 */
  uint8_t comparison = 0;                      /* for set: a Comparison */
};
Handler video_handler(VideoOp op);
int64_t video_mode(const VideoMode &mode);

/* --- floating point -------------------------------------------------------------------------------------------- */
enum class FloatOp : uint8_t {
  add,
  sub,
  mul,
  fma,
  div,
  div_approx,
  div_full,
  rcp,
  rcp_approx,
  sqrt,
  sqrt_approx,
  rsqrt_approx,
  sin,
  cos,
  lg2,
  ex2,
  tanh,
  abs,
  neg,
  min,
  max,
  min_nan,
  max_nan,
  copysign,
  count /* the number of operations */
};
struct FloatMode {
  Rounding rounding = Rounding::nearest;
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool xorsign = false;    /* min and max: compare the magnitudes, and give the result the sign of the product */
  bool of_three = false;   /* min and max of three operands, */
  bool magnitudes = false; /* or of their magnitudes */
};
Handler float_handler(FloatOp op, Type type, FloatMode mode);
Handler half_handler(FloatOp op, Type type, FloatMode mode);

enum class FloatTest : uint8_t { finite, infinite, number, notanumber, normal, subnormal };
Handler testp_handler(FloatTest test, Type type); /* destination: a predicate */

/* --- comparison and selection ---------------------------------------------------------------------------------- */
enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class BooleanOp : uint8_t { none, and_, or_, xor_ };
/*
 * Operands: p, q, a, b, c. p and q may be absent. If c is present, the mode is the BooleanOp by which it is combined
 * with the result.
 */
Handler setp_handler(Comparison comparison, Type type, bool ftz);
/* For f16x2 and bf16x2: p is the result for the low halves, q the result for the high halves. */
Handler setp_pair_handler(Comparison comparison, Type type);
/* Operands: d, a, b, none, c. The immediate holds the bits of the result for true. */
Handler set_handler(Comparison comparison, Type type, bool ftz);
Handler selp_handler(Type type);
Handler slct_handler(Type type, Type selector, bool ftz);

/* --- moves and conversions ------------------------------------------------------------------------------------- */
Handler move_handler(Type type);
Handler pack_handler(Type element);   /* op[0] = {op[1], ...}; count: the number of elements */
Handler unpack_handler(Type element); /* {op[0], ...} = op[count]; count: the number of elements */
enum class SpecialRegister : uint8_t;
Handler special_handler(SpecialRegister special); /* mode: the component, such as x */
Handler global_address_handler();                 /* target: a variable; immediate: an offset to add */
Handler shared_address_handler();                 /* target: a variable; immediate: an offset to add */
Handler local_address_handler();                  /* immediate: the offset in the frame */
Handler function_address_handler();               /* target: a function */

struct Conversion {
  Type to = Type::none, from = Type::none;
  Rounding rounding = Rounding::none;
  bool integral = false; /* .rni, .rzi, .rmi or .rpi */
  bool ftz = false, sat = false, relu = false, satfinite = false;
};
Handler convert_handler(const Conversion &conversion);
/* d = {a: high, b: low}, or one pair from another. Stores the types in `out`. */
Handler convert_pair_handler(const Conversion &conversion, Instruction &out);
int64_t convert_mode(const Conversion &conversion); /* the immediate of the instructions for both handlers */
Handler convert_pack_handler(); /* d, a, b, c (can be absent); mode: number of bits of an element; flag: signed */

/* Operands: d, a; of isspacep: p, a. cvta adds or subtracts the start of the space's window. */
Handler to_generic_handler(StateSpace space);
Handler from_generic_handler(StateSpace space);
Handler space_test_handler(StateSpace space);
Handler mapa_handler(bool wide); /* `wide`: addresses have 64 bits and are generic */
Handler getctarank_handler();

/* --- memory ------------------------------------------------------------------------------------------------------ */
/*
 * Operands of loads and stores: the values, then the base of the address. If `frame` is set, there is no base, and the
 * immediate is an offset in the frame.
 */
struct AccessMode {
  StateSpace space = StateSpace::generic;
  Type type = Type::none;
  bool frame = false;
  bool parameter = false; /* the memory is a parameter of the kernel */
  bool ordered = false;   /* the access is volatile, relaxed, acquire or release */
};
Handler load_handler(const AccessMode &mode);
Handler store_handler(const AccessMode &mode);

enum class AtomicOp : uint8_t { add, exch, cas, inc, dec, min, max, and_, or_, xor_ };
/* Operands: d (can be absent), address, b, c. */
Handler atomic_handler(AtomicOp op, Type type, StateSpace space);
Handler fence_handler(); /* mode: whether the instruction is also a fence.proxy.async */
Handler nop_handler();
/*
 * cp.async. Operands: shared address, global address, size, and a predicate that makes the copy ignore the source. Size
 * and predicate can be absent. count: number of bytes. immediate and target: offsets that are added to the shared
 * address and to the global address.
 */
Handler copy_async_handler();
Handler copy_commit_handler(); /* cp.async.commit_group */
/*
 * cp.async.wait_group, wait_all and mbarrier.arrive. immediate: number of the most recent groups that may remain
 * incomplete; -1: all copies have to be complete.
 */
Handler copy_wait_handler();
/*
 * cp.async.bulk. Operands: destination, source, and number of bytes. The bits of the mode say which addresses are
 * shared addresses of 32 bits: bit 0 the destination, bit 1 the source. An instruction of its own makes the mbarrier
 * count the bytes.
 */
Handler copy_bulk_handler();
/* st.bulk: fills memory with zeros. Operands: address, number of bytes. flag: a shared address. */
Handler fill_bulk_handler();
/* cp.async.bulk.commit_group and wait_group, for the checks. immediate: the number of groups that may be incomplete. */
enum class BulkGroup : uint8_t { commit, wait, wait_read };
Handler bulk_group_handler(); /* mode: a BulkGroup */
/*
 * A tensor copy, and the signal after a load, which makes the mbarriers count its bytes. target: index in
 * Program::tensor_copies.
 */
Handler tensor_copy_handler();
Handler tensor_signal_handler();
/*
 * tensormap.replace. Operands: the address of the map, and the value. target: a TensorField; immediate: the dimension;
 * flag: the address is a shared address.
 */
Handler tensor_replace_handler();
/*
 * tensormap.cp_fenceproxy. Operands: the destination in global memory, and the source in shared memory. The lanes of a
 * warp copy the map together, only once.
 */
Handler tensor_publish_handler();
/*
 * cp.reduce.async.bulk. Operands: destination (in `space`), source (shared), number of bytes. Null: PTX has no such
 * reduction.
 */
Handler reduce_bulk_handler(AtomicOp op, Type type, StateSpace space);

enum class MbarrierOp : uint8_t {
  init,
  inval,
  arrive,
  arrive_drop,
  expect_tx,
  complete_tx,
  arrive_expect_tx,
  wait_state,
  wait_parity
};
/*
 * Operands: d, address, b. d is a state, or the predicate that a wait returns. b is a count, a state or a parity. d and
 * b can be absent.
 */
Handler mbarrier_handler(MbarrierOp op, StateSpace space);
Handler mbarrier_pending_handler(); /* d, state */

/* --- warps, blocks, clusters -------------------------------------------------------------------------------------- */
enum class ShuffleOp : uint8_t { up, down, butterfly, index };
Handler shuffle_handler(ShuffleOp op); /* d, p, a, b, c, members */
enum class VoteOp : uint8_t { all, any, uniform, ballot };
Handler vote_handler(VoteOp op);            /* d, a, members */
Handler match_handler(bool all, Type type); /* d, p, a, members */
enum class ReduceOp : uint8_t { add, min, max, and_, or_, xor_ };
/* d, a, members. For f32, the mode has the bits reduce_magnitudes and reduce_keeps_nan. */
Handler reduce_handler(ReduceOp op, Type type);
constexpr uint8_t reduce_magnitudes = 1, reduce_keeps_nan = 2;
Handler elect_handler(); /* d, p, members */
Handler active_mask_handler();
Handler warp_barrier_handler(); /* members */
/*
 * Operands: d (can be absent), barrier, number of threads (can be absent), predicate (can be absent). mode: the result
 * in d (0: a count, 1: all, 2: any); flag: the lanes wait for the barrier.
 */
Handler barrier_handler();
Handler cluster_arrive_handler();
Handler cluster_wait_handler();

/*
 * clusterlaunchcontrol. try_cancel: the address of the response, and a register for the mask of the blocks that get it.
 * mode: it is a shared address; flag: all blocks of the cluster. query_cancel: d, response. mode: a dimension, or
 * cancel_succeeded.
 */
Handler try_cancel_handler();
Handler query_cancel_handler();
constexpr uint8_t cancel_succeeded = 3;
constexpr uint32_t cancel_bytes = 16; /* number of bytes of the response */

/* --- matrices: all lanes of a warp execute them together --------------------------------------------------------- */
Handler matrix_product_handler(); /* target: index in Program::products */
Handler group_product_handler();  /* target: index in Program::group_products */
/*
 * wgmma.fence, wgmma.commit_group and wgmma.wait_group. mode: a GroupOrder; immediate: the number of groups that may
 * still be incomplete after the wait.
 */
enum class GroupOrder : uint8_t { fence, commit, wait };
Handler group_order_handler();
Handler accumulator_use_handler(); /* called for an instruction in Program::accumulator_uses */
/* Operands: the parts of `count` matrices, then the addresses of the rows. mode: the matrices are transposed. */
Handler load_rows_handler(StateSpace space);
Handler store_rows_handler(StateSpace space);
Handler transpose_handler(); /* d, a */
/* Operands: the address, and the distance between lines as a number of elements. target: index in
 * Program::matrix_accesses. */
Handler load_fragment_handler(StateSpace space);
Handler store_fragment_handler(StateSpace space);

/* --- textures and surfaces ------------------------------------------------------------------------------------- */
struct TextureAccess;
Handler texture_handler(const TextureAccess &access); /* target: index in Program::texture_accesses */

/* --- control flow ------------------------------------------------------------------------------------------------- */
Handler branch_handler();         /* target: an instruction */
Handler branch_indexed_handler(); /* a: an index; target: a branch table */
Handler call_handler();           /* target: a call site; immediate: the function */
Handler call_indirect_handler();  /* target: a call site; op[0]: the function's address */
Handler return_handler();
Handler exit_handler();
Handler trap_handler();
Handler sleep_handler(); /* a */

/* The special registers: name, and number of components (0: the register has none). */
#define SIM_SPECIAL_REGISTERS(X)                                                                                       \
  X(tid, 3)                                                                                                            \
  X(ntid, 3)                                                                                                           \
  X(ctaid, 3)                                                                                                          \
  X(nctaid, 3)                                                                                                         \
  X(clusterid, 3)                                                                                                      \
  X(nclusterid, 3)                                                                                                     \
  X(cluster_ctaid, 3)                                                                                                  \
  X(cluster_nctaid, 3)                                                                                                 \
  X(laneid, 0)                                                                                                         \
  X(warpid, 0)                                                                                                         \
  X(nwarpid, 0)                                                                                                        \
  X(smid, 0)                                                                                                           \
  X(nsmid, 0)                                                                                                          \
  X(gridid, 0)                                                                                                         \
  X(cluster_ctarank, 0)                                                                                                \
  X(cluster_nctarank, 0)                                                                                               \
  X(is_explicit_cluster, 0)                                                                                            \
  X(lanemask_eq, 0)                                                                                                    \
  X(lanemask_lt, 0)                                                                                                    \
  X(lanemask_le, 0)                                                                                                    \
  X(lanemask_gt, 0)                                                                                                    \
  X(lanemask_ge, 0)                                                                                                    \
  X(clock, 0)                                                                                                          \
  X(clock_hi, 0)                                                                                                       \
  X(clock64, 0)                                                                                                        \
  X(globaltimer, 0)                                                                                                    \
  X(globaltimer_lo, 0)                                                                                                 \
  X(globaltimer_hi, 0)                                                                                                 \
  X(dynamic_smem_size, 0)                                                                                              \
  X(total_smem_size, 0)                                                                                                \
  X(aggr_smem_size, 0)                                                                                                 \
  X(envreg, 0)                                                                                                         \
  X(reserved_smem_offset_begin, 0)                                                                                     \
  X(reserved_smem_offset_end, 0)                                                                                       \
  X(reserved_smem_offset_cap, 0)                                                                                       \
  X(reserved_smem_offset_0, 0)                                                                                         \
  X(reserved_smem_offset_1, 0)                                                                                         \
  X(pm, 0)                                                                                                             \
  X(current_graph_exec, 0)
enum class SpecialRegister : uint8_t {
#define SIM_SPECIAL(name, components) name,
  SIM_SPECIAL_REGISTERS(SIM_SPECIAL)
#undef SIM_SPECIAL
};

} // namespace sim::exec

#endif
