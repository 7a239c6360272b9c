/* SPDX-License-Identifier: Apache-2.0 */
/* The functions cuMemcpy*: lines, two- and three-dimensional boxes, batches. */
#include "sim/driver/base/capture_rules.h"
#include "sim/driver/memory/array.h"
#include "sim/driver/stream/copy_work.h"

#include "sim/control/report.h"

#include <algorithm>

namespace sim {
namespace {

CUresult line(CUstream handle, const Side &to, const Side &from, size_t bytes, Return when) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  return copy(stream, to, from, {bytes}, when);
}

Side device(CUdeviceptr address, ContextPtr context = nullptr) {
  return {MemoryKind::device, address, 0, 0, std::move(context)};
}
Side host(const void *address) { return {MemoryKind::host, value_of(address)}; }
Side either(CUdeviceptr address) { return {MemoryKind::either, address}; }

/* Copies a box that the structure of a 2D or 3D function describes. */
template <class Parameters> CUresult box(CUstream handle, const Parameters *p, Return when) {
  StreamPtr stream;
  Side to{}, from{};
  Shape shape{};
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  SIM_REQUIRE(p != nullptr);
  SIM_RETURN_FAILURE(read_copy(*p, to, from, shape));
  return copy(stream, to, from, shape, when);
}

/* Makes a side of a copy: bytes of the first row of an array. Functions such as cuMemcpyAtoH copy only this row. */
CUresult texels(CUarray handle, size_t offset, size_t bytes, Side &out) {
  std::shared_ptr<Array> array;
  SIM_REQUIRE(handle != nullptr);
  SIM_RETURN_FAILURE(find_array(handle, array));
  if (offset > array->pitch() || bytes > array->pitch() - offset)
    return CUDA_ERROR_INVALID_VALUE;
  out = {MemoryKind::device, array->address + offset, array->pitch(), 0, nullptr, handle, {offset, 0, 0}};
  return CUDA_SUCCESS;
}

CUresult to_texels(CUstream stream, CUarray array, size_t offset, const Side &from, size_t bytes, Return when) {
  Side to{};
  CUresult result = texels(array, offset, bytes, to);
  return result != CUDA_SUCCESS ? result : line(stream, to, from, bytes, when);
}

CUresult from_texels(CUstream stream, const Side &to, CUarray array, size_t offset, size_t bytes, Return when) {
  Side from{};
  CUresult result = texels(array, offset, bytes, from);
  return result != CUDA_SUCCESS ? result : line(stream, to, from, bytes, when);
}

CUresult find_peers(CUcontext to, CUcontext from, ContextPtr &to_found, ContextPtr &from_found) {
  SIM_RETURN_FAILURE(find_context(to, to_found));
  return find_context(from, from_found);
}

/*
 * Copies between contexts. Each side needs only the access rights of its own context, so that memory of a pool can be
 * copied even if the other context has no access to the pool.
 */
CUresult box_peer(CUstream handle, const CUDA_MEMCPY3D_PEER *p, Return when) {
  StreamPtr stream;
  Side to{}, from{};
  Shape shape{};
  ContextPtr to_context, from_context;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  SIM_REQUIRE(p != nullptr);
  SIM_RETURN_FAILURE(read_copy(*p, to, from, shape));
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  if (p->dstContext != nullptr && find_context(p->dstContext, to_context) == CUDA_SUCCESS)
    to.context = to_context;
  if (p->srcContext != nullptr && find_context(p->srcContext, from_context) == CUDA_SUCCESS)
    from.context = from_context;
  AllocationPtr target = to.context != nullptr ? state().memory.find(to.address) : nullptr;
  if (target != nullptr && target->on_host) {
    report("a copy between contexts writes to " + hex(to.address) +
           ", virtual memory of the host: the driver of a GPU ends the process");
    return CUDA_ERROR_INVALID_VALUE;
  }
  return copy(stream, to, from, shape, when);
}

bool is_order(CUmemcpySrcAccessOrder order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

Read read_of(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? Read::during_call : Read::in_order;
}

/* Finds the stream of a batch of copies, which must not be the legacy stream. */
CUresult find_batch_stream(CUstream handle, StreamPtr &out) {
  SIM_RETURN_FAILURE(find_stream(handle, out));
  if (out->legacy)
    return CUDA_ERROR_INVALID_VALUE;
  if (!out->green.expired()) {
    report("copies in a batch are on a stream of a green context: the driver of a GPU ends the process");
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/* Makes the copies of a batch, one after the other, and returns the index of the first that fails. */
template <class Copy> CUresult batch(size_t count, size_t *failed, Copy &&copy_one) {
  for (size_t i = 0; i < count; i++)
    if (CUresult result = copy_one(i)) {
      if (failed != nullptr)
        *failed = i;
      return result;
    }
  return CUDA_SUCCESS;
}

/* Returns the bytes of an element of a copy in a batch: those of the texels of its arrays, or 1 without arrays. */
CUresult element_bytes(const CUDA_MEMCPY3D_BATCH_OP &op, size_t &out) {
  out = 0;
  for (const CUmemcpy3DOperand *one : {&op.src, &op.dst}) {
    std::shared_ptr<Array> array;
    if (one->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
      continue;
    if (one->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
      return CUDA_ERROR_INVALID_VALUE;
    SIM_RETURN_FAILURE(find_array(one->op.array.array, array));
    if (out != 0 && out != array->texel_bytes())
      return CUDA_ERROR_INVALID_VALUE;
    out = array->texel_bytes();
  }
  out = std::max<size_t>(out, 1);
  return CUDA_SUCCESS;
}

/* The fields of one side of a CUDA_MEMCPY3D. */
struct BoxSide {
  CUmemorytype &kind;
  CUdeviceptr &address;
  CUarray &array;
  size_t &x, &y, &z, &pitch, &height;
};

CUresult read_operand(const CUmemcpy3DOperand &from, const CUextent3D &extent, size_t bytes, BoxSide out) {
  if (from.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const auto &[array, offset] = from.op.array;
    out.kind = CU_MEMORYTYPE_ARRAY, out.array = array;
    out.x = offset.x * bytes, out.y = offset.y, out.z = offset.z;
    return CUDA_SUCCESS;
  }
  size_t row = from.op.ptr.rowLength, layer = from.op.ptr.layerHeight;
  if ((row != 0 && row < extent.width) || (layer != 0 && layer < extent.height))
    return CUDA_ERROR_INVALID_VALUE;
  out.kind = CU_MEMORYTYPE_UNIFIED, out.address = from.op.ptr.ptr;
  out.pitch = (row != 0 ? row : extent.width) * bytes, out.height = layer != 0 ? layer : extent.height;
  return CUDA_SUCCESS;
}

CUresult copy_box(const StreamPtr &stream, const CUDA_MEMCPY3D_BATCH_OP &op) {
  size_t bytes = 0;
  SIM_RETURN_FAILURE(element_bytes(op, bytes));
  const CUextent3D &extent = op.extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0 || !is_order(op.srcAccessOrder))
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D box{};
  box.WidthInBytes = extent.width * bytes, box.Height = extent.height, box.Depth = extent.depth;
  SIM_RETURN_FAILURE(read_operand(op.src, extent, bytes,
                                  {box.srcMemoryType, box.srcDevice, box.srcArray, box.srcXInBytes, box.srcY, box.srcZ,
                                   box.srcPitch, box.srcHeight}));
  SIM_RETURN_FAILURE(read_operand(op.dst, extent, bytes,
                                  {box.dstMemoryType, box.dstDevice, box.dstArray, box.dstXInBytes, box.dstY, box.dstZ,
                                   box.dstPitch, box.dstHeight}));
  Side to{}, from{};
  Shape shape{};
  SIM_RETURN_FAILURE(read_copy(box, to, from, shape));
  return copy(stream, to, from, shape, Return::at_once, read_of(op.srcAccessOrder));
}

} // namespace

namespace api {

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return line(nullptr, either(dst), either(src), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return line(hStream, either(dst), either(src), ByteCount, Return::at_once);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
  return line(nullptr, device(dstDevice), host(srcHost), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return line(nullptr, host(dstHost), device(srcDevice), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return line(nullptr, device(dstDevice), device(srcDevice), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
  return line(hStream, device(dstDevice), host(srcHost), ByteCount, Return::at_once);
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return line(hStream, host(dstHost), device(srcDevice), ByteCount, Return::at_once);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return line(hStream, device(dstDevice), device(srcDevice), ByteCount, Return::at_once);
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount) {
  return to_texels(nullptr, dstArray, dstOffset, host(srcHost), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount,
                              CUstream hStream) {
  return to_texels(hStream, dstArray, dstOffset, host(srcHost), ByteCount, Return::at_once);
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
  return to_texels(nullptr, dstArray, dstOffset, device(srcDevice), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return from_texels(nullptr, host(dstHost), srcArray, srcOffset, ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream) {
  return from_texels(hStream, host(dstHost), srcArray, srcOffset, ByteCount, Return::at_once);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return from_texels(nullptr, device(dstDevice), srcArray, srcOffset, ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  Side from{};
  CUresult result = texels(srcArray, srcOffset, ByteCount, from);
  return result != CUDA_SUCCESS ? result
                                : to_texels(nullptr, dstArray, dstOffset, from, ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                      size_t ByteCount) {
  ContextPtr to, from;
  SIM_RETURN_FAILURE(find_peers(dstContext, srcContext, to, from));
  return line(nullptr, device(dstDevice, to), device(srcDevice, from), ByteCount, Return::when_synchronous);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream) {
  StreamPtr stream;
  ContextPtr to, from;
  SIM_RETURN_FAILURE(find_peers(dstContext, srcContext, to, from));
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  return line(hStream, device(dstDevice, to), device(srcDevice, from), ByteCount, Return::at_once);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) { return box(nullptr, pCopy, Return::when_synchronous); }

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) { return box(nullptr, pCopy, Return::when_synchronous); }

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
  return box(hStream, pCopy, Return::at_once);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) { return box(nullptr, pCopy, Return::when_synchronous); }

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
  return box(hStream, pCopy, Return::at_once);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) { return box_peer(nullptr, pCopy, Return::when_synchronous); }

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) {
  return box_peer(hStream, pCopy, Return::at_once);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
                            CUstream hStream) {
  if (attrs == nullptr || attrsIdxs == nullptr || numAttrs == 0 || numAttrs > count || attrsIdxs[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < numAttrs; i++) {
    bool in_order = attrsIdxs[i] < count && (i == 0 || attrsIdxs[i] > attrsIdxs[i - 1]);
    if (!in_order || !is_order(attrs[i].srcAccessOrder))
      return CUDA_ERROR_INVALID_VALUE;
  }
  StreamPtr stream;
  if (failIdx != nullptr)
    *failIdx = SIZE_MAX;
  SIM_RETURN_FAILURE(find_batch_stream(hStream, stream));
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr ||
      std::find(sizes, sizes + count, size_t{0}) != sizes + count)
    return CUDA_ERROR_INVALID_VALUE;
  return batch(count, failIdx, [&](size_t i) {
    size_t which = static_cast<size_t>(std::upper_bound(attrsIdxs, attrsIdxs + numAttrs, i) - attrsIdxs) - 1;
    return copy(stream, either(dsts[i]), either(srcs[i]), {sizes[i]}, Return::at_once,
                read_of(attrs[which].srcAccessOrder));
  });
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream) {
  return api::cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr, hStream);
}

CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
                              CUstream hStream) {
  StreamPtr stream;
  if (failIdx != nullptr)
    *failIdx = SIZE_MAX;
  SIM_RETURN_FAILURE(find_batch_stream(hStream, stream));
  if (opList == nullptr || numOps == 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return batch(numOps, failIdx, [&](size_t i) { return copy_box(stream, opList[i]); });
}

CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
                                 CUstream hStream) {
  return api::cuMemcpy3DBatchAsync(numOps, opList, nullptr, flags, hStream);
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr,
                                     CUstream hStream) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  if (attr == nullptr || !is_order(attr->srcAccessOrder))
    return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, either(dst), either(src), {size}, Return::at_once, read_of(attr->srcAccessOrder));
}

} // namespace api
} // namespace sim
