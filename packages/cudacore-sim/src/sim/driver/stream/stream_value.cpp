/* SPDX-License-Identifier: Apache-2.0 */
/* Values in memory that streams write and wait for. */
#include "sim/control/report.h"
#include "sim/driver/graph/capture.h"

#include <algorithm>

namespace sim {
namespace {

constexpr unsigned max_operations = 256;

struct Operation {
  enum class Kind { wait, write, reduce, barrier } kind;
  CUdeviceptr address = 0;
  uint64_t value = 0;
  unsigned bytes = 4;
  unsigned how = 0; /* CUstreamWaitValue_flags of a wait, or CUstreamAtomicReductionOpType of a reduction */
};

/* Checks that CUDA manages the memory of an operation, that it is not managed memory, and that it may be accessed. */
CUresult check_memory(const Context &context, const Operation &operation, Memory::Check when) {
  const Memory &memory = state().memory;
  AllocationPtr allocation = memory.find(operation.address);
  bool is_managed = allocation != nullptr && (allocation->kind == Allocation::Kind::managed ||
                                              (allocation->pool != nullptr && allocation->pool->is_managed()));
  bool writes = operation.kind != Operation::Kind::wait;
  if (allocation == nullptr || is_managed || operation.address % operation.bytes != 0 ||
      !memory.accessible(context, operation.address, operation.bytes, writes, when))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/* Finds the memory of an operation that runs now. Null: the memory can no longer be used, and the context fails. */
std::byte *find_memory(Context &context, const Operation &operation) {
  if (check_memory(context, operation, Memory::Check::copy_at_run) == CUDA_SUCCESS) {
    AllocationPtr allocation = state().memory.find(operation.address);
    return allocation->host + (operation.address - allocation->base);
  }
  report("a stream's operation on a value is at " + hex(operation.address) + ", " +
         state().memory.explain(operation.address));
  context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  return nullptr;
}

template <class Word, class Signed> bool holds(Word *where, Word value, unsigned how) {
  Word now = __atomic_load_n(where, __ATOMIC_ACQUIRE);
  switch (how) {
  case CU_STREAM_WAIT_VALUE_EQ:
    return now == value;
  case CU_STREAM_WAIT_VALUE_AND:
    return (now & value) != 0;
  case CU_STREAM_WAIT_VALUE_NOR:
    return static_cast<Word>(~(now | value)) != 0;
  default:
    return static_cast<Signed>(now - value) >= 0;
  }
}

template <class Word> void apply(Word *where, const Operation &operation) {
  Word value = static_cast<Word>(operation.value);
  if (operation.kind == Operation::Kind::write)
    __atomic_store_n(where, value, __ATOMIC_RELEASE);
  else if (operation.how == CU_STREAM_ATOMIC_REDUCTION_OP_OR)
    __atomic_fetch_or(where, value, __ATOMIC_ACQ_REL);
  else if (operation.how == CU_STREAM_ATOMIC_REDUCTION_OP_AND)
    __atomic_fetch_and(where, value, __ATOMIC_ACQ_REL);
  else
    __atomic_fetch_add(where, value, __ATOMIC_ACQ_REL);
}

bool is_satisfied(Context &context, const Operation &operation) {
  std::byte *memory = find_memory(context, operation);
  if (memory == nullptr)
    return true;
  if (operation.bytes == 8)
    return holds<uint64_t, int64_t>(reinterpret_cast<uint64_t *>(memory), operation.value, operation.how);
  return holds<uint32_t, int32_t>(reinterpret_cast<uint32_t *>(memory), static_cast<uint32_t>(operation.value),
                                  operation.how);
}

void change_memory(Context &context, const Operation &operation) {
  std::lock_guard<std::mutex> guard(state().mutex);
  std::byte *memory = find_memory(context, operation);
  if (memory == nullptr)
    return;
  if (const OrderedPtr &unit = Executor::running()->ordered) {
    record_atomic_write(unit, operation.address, operation.bytes);
    unit->visible_to_host = true; /* the host may read the value */
  }
  if (std::byte *marks = state().arena.written(memory))
    std::fill_n(marks, operation.bytes, std::byte{1});
  if (operation.bytes == 8)
    apply(reinterpret_cast<uint64_t *>(memory), operation);
  else
    apply(reinterpret_cast<uint32_t *>(memory), operation);
}

/* Submits the operation of a graph node. */
void submit_operation(const ContextPtr &context, const Operation &operation, const std::vector<UnitPtr> &before,
                      UnitPtr &out) {
  Executor &executor = state().executor;
  out = new_unit("value", context);
  if (operation.kind == Operation::Kind::wait) {
    UnitPtr satisfied = new_unit("value", context);
    executor.submit(new_unit("wait for a value", context, nullptr,
                             [satisfied, context, operation] {
                               state().executor.complete_when(satisfied,
                                                              [=] { return is_satisfied(*context, operation); });
                             }),
                    before);
    executor.submit(out, {satisfied});
    return;
  }
  if (operation.kind != Operation::Kind::barrier)
    out->work = [=] { change_memory(*context, operation); };
  executor.submit(out, before);
}

void capture_operations(const StreamPtr &stream, const std::vector<Operation> &operations) {
  ContextPtr context = stream->context.lock();
  auto submit = [context, operations](std::vector<UnitPtr> before, UnitPtr &out) {
    out = nullptr;
    for (const Operation &operation : operations) {
      submit_operation(context, operation, before, out);
      before = {out};
    }
    if (out == nullptr) {
      out = new_unit("values", context);
      state().executor.submit(out, before);
    }
  };
  capture_node(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, make_batch_mem_op(std::move(submit)));
}

void enqueue_operation(const StreamPtr &stream, const Operation &operation) {
  ContextPtr context = stream->context.lock();
  switch (operation.kind) {
  case Operation::Kind::barrier: /* nothing to do, because work of a stream is ordered anyway */
    return;
  case Operation::Kind::wait: {
    /* The value is read only after the stream has reached the operation. */
    UnitPtr satisfied = new_unit("value", context);
    enqueue(stream, new_unit("wait for a value", context, nullptr, [satisfied, context, operation] {
              state().executor.complete_when(satisfied, [=] { return is_satisfied(*context, operation); });
            }));
    enqueue(stream, new_unit("value is there", context), {satisfied});
    return;
  }
  case Operation::Kind::write:
  case Operation::Kind::reduce:
    enqueue(stream, new_unit("write of a value", context, [=] { change_memory(*context, operation); }));
  }
}

CUresult check_wait(const Context &context, const Operation &operation) {
  if ((operation.how & CU_STREAM_WAIT_VALUE_FLUSH) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return operation.how > CU_STREAM_WAIT_VALUE_NOR ? CUDA_ERROR_INVALID_VALUE
                                                  : check_memory(context, operation, Memory::Check::copy);
}

CUresult check_write(const Context &context, const Operation &operation, unsigned flags) {
  return flags != CU_STREAM_WRITE_VALUE_DEFAULT ? CUDA_ERROR_INVALID_VALUE
                                                : check_memory(context, operation, Memory::Check::copy);
}

CUresult give(const StreamPtr &stream, const std::vector<Operation> &operations) {
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (is_captured)
    capture_operations(stream, operations);
  else
    for (const Operation &operation : operations)
      enqueue_operation(stream, operation);
  return CUDA_SUCCESS;
}

CUresult wait(CUstream handle, const Operation &operation) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  SIM_RETURN_FAILURE(check_wait(*stream->context.lock(), operation));
  return give(stream, {operation});
}

CUresult write(CUstream handle, const Operation &operation, unsigned flags) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  SIM_RETURN_FAILURE(check_write(*stream->context.lock(), operation, flags));
  return give(stream, {operation});
}

CUresult check_reduction(const Context &context, const CUstreamBatchMemOpParams &from, Operation &out) {
  const auto &reduction = from.atomicReduction;
  bool is_wide = reduction.dataType == CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64;
  bool is_known = reduction.reductionOp == CU_STREAM_ATOMIC_REDUCTION_OP_OR ||
                  reduction.reductionOp == CU_STREAM_ATOMIC_REDUCTION_OP_AND ||
                  reduction.reductionOp == CU_STREAM_ATOMIC_REDUCTION_OP_ADD;
  if (reduction.flags != 0 || !is_known || (!is_wide && reduction.dataType != CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32))
    return CUDA_ERROR_INVALID_VALUE;
  out = {Operation::Kind::reduce, reduction.address, reduction.value, is_wide ? 8U : 4U,
         static_cast<unsigned>(reduction.reductionOp)};
  return check_memory(context, out, Memory::Check::copy);
}

CUresult check_operation(const Context &context, const CUstreamBatchMemOpParams &from, Operation &out) {
  switch (static_cast<int>(from.operation)) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    out = {Operation::Kind::wait, from.waitValue.address, from.waitValue.value, 4, from.waitValue.flags};
    return check_wait(context, out);
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    out = {Operation::Kind::wait, from.waitValue.address, from.waitValue.value64, 8, from.waitValue.flags};
    return check_wait(context, out);
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    out = {Operation::Kind::write, from.writeValue.address, from.writeValue.value, 4, 0};
    return check_write(context, out, from.writeValue.flags);
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    out = {Operation::Kind::write, from.writeValue.address, from.writeValue.value64, 8, 0};
    return check_write(context, out, from.writeValue.flags);
  case CU_STREAM_MEM_OP_BARRIER:
    out = {Operation::Kind::barrier};
    return from.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
    return check_reduction(context, from, out);
  case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: /* CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0 */
    return CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace

namespace api {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return wait(stream, {Operation::Kind::wait, addr, value, 4, flags});
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return wait(stream, {Operation::Kind::wait, addr, value, 8, flags});
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return write(stream, {Operation::Kind::write, addr, value, 4, 0}, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return write(stream, {Operation::Kind::write, addr, value, 8, 0}, flags);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                               unsigned int flags) {
  StreamPtr found;
  SIM_RETURN_FAILURE(find_stream(stream, found));
  if (flags != 0 || count > max_operations || (paramArray == nullptr && count != 0))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<Operation> operations(count);
  for (unsigned i = 0; i < count; i++)
    SIM_RETURN_FAILURE(check_operation(*found->context.lock(), paramArray[i], operations[i]));
  return give(found, operations);
}

} // namespace api
} // namespace sim
