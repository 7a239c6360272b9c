# SPDX-License-Identifier: Apache-2.0
"""Random sequences of calls, with good, stale and senseless arguments, end in error codes and never in a crash."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import kernels
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from peer import Handle

import cudacore_sim

EXAMPLES = int(os.environ.get("CUDACORE_SIM_FUZZ", "40"))
PTX = ctypes.create_string_buffer(kernels.PTX)
NO_PTX = ctypes.create_string_buffer(b".version 8.0 .target sm_90 .entry {")
HOST = ctypes.create_string_buffer(1 << 16)
PROPERTIES = (ctypes.c_int * 32)(1, 0, 1, 0)
ACCESS = (ctypes.c_int * 3)(1, 0, 3)
LOCATION = (ctypes.c_int * 2)(1, 0)
SINGLE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda *_: None)
SHARED = Handle()
FIXED: dict[str, Any] = {
    "f": SINGLE,
    "c": STREAM_CALLBACK,
    "z": None,
    "p": PROPERTIES,
    "a": ACCESS,
    "h": HOST,
    "q": LOCATION,
    "w": ctypes.c_size_t(4),
    "g": ctypes.byref(SHARED),
    "v": SHARED,
}
NAMES = (b"store", b"empty", b"count", b"fail", b"counter", b"table", b"nope")
NUMBERS = (0, 1, 2, 3, 4, 7, 64, 1000, 1 << 16, 1 << 21, 1 << 22, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)

# Parameters by letter: a word that is a kind of handle; "o" out, or "o" + a kind that it makes; "n" a number, "i" a
# small integer, "h" host memory, "t" a name, "d" a device, "q" a location, "w" the size of an integer; "g" a handle of
# IPC by its address, "v" itself.
CALLS = """
cuIpcGetMemHandle g memory|cuIpcOpenMemHandle_v2 o:memory v i|cuIpcCloseMemHandle memory
cuIpcGetEventHandle g event|cuIpcOpenEventHandle o:event v|cuMemPoolExportPointer g memory
cuMemPoolImportPointer o:memory pool g|cuMemPoolExportToShareableHandle o pool i n
cuMemPoolImportFromShareableHandle o:pool n i n
cuMemExportToShareableHandle o physical i n|cuMemImportFromShareableHandle o:physical n i
cuMemRetainAllocationHandle o:physical memory|cuMemAdvise memory n i d|cuMemPrefetchAsync memory n d stream
cuMemRangeGetAttribute o w i memory n
cuStreamWriteValue32_v2 stream memory n i|cuStreamWriteValue64_v2 stream memory n i
cuCtxRecordEvent context event|cuCtxWaitEvent context event|cuMemGetDefaultMemPool o:pool q i
cuCtxGetCurrent o|cuCtxSetCurrent context|cuCtxPushCurrent_v2 context|cuCtxPopCurrent_v2 o|cuCtxSynchronize
cuCtxCreate_v2 o:context i d|cuCtxDestroy_v2 context|cuCtxGetLimit o i|cuCtxSetLimit i n|cuCtxGetFlags o
cuDevicePrimaryCtxRetain o:context d|cuDevicePrimaryCtxRelease_v2 d|cuDevicePrimaryCtxReset_v2 d
cuCtxEnablePeerAccess context i|cuCtxDisablePeerAccess context|cuDeviceGetAttribute o i d
cuStreamCreate o:stream i|cuStreamCreateWithPriority o:stream i i|cuStreamDestroy_v2 stream|cuStreamQuery stream
cuStreamSynchronize stream|cuStreamWaitEvent stream event i|cuStreamGetCtx stream o|cuStreamGetId stream o
cuLaunchHostFunc stream f h|cuStreamAddCallback stream c h i
cuEventCreate o:event i|cuEventDestroy_v2 event|cuEventRecord event stream|cuEventQuery event
cuEventSynchronize event|cuEventElapsedTime_v2 o event event
cuMemAlloc_v2 o:memory n|cuMemFree_v2 memory|cuMemAllocManaged o:memory n i|cuMemGetAddressRange_v2 o o memory
cuMemHostAlloc o:memory n i|cuMemFreeHost memory|cuMemHostRegister_v2 h n i|cuMemHostUnregister h
cuMemAllocAsync o:memory n stream|cuMemFreeAsync memory stream|cuMemAllocFromPoolAsync o:memory n pool stream
cuMemcpy memory memory n|cuMemcpyAsync memory memory n stream|cuMemcpyHtoD_v2 memory h i|cuMemcpyDtoH_v2 h memory i
cuMemcpyDtoDAsync_v2 memory memory n stream|cuMemsetD8Async memory i n stream|cuMemsetD32_v2 memory i n
cuMemsetD2D16_v2 memory n i n n|cuPointerGetAttribute o i memory|cuMemGetInfo_v2 o o
cuMemPoolCreate o:pool p|cuMemPoolDestroy pool|cuMemPoolTrimTo pool n|cuMemPoolGetAttribute pool i o
cuDeviceGetDefaultMemPool o:pool d|cuDeviceSetMemPool d pool|cuMemPoolSetAttribute pool i o
cuMemCreate o:physical n p i|cuMemRelease physical|cuMemAddressReserve o:memory n n i i|cuMemAddressFree memory n
cuMemMap memory n n physical i|cuMemUnmap memory n|cuMemSetAccess memory n a i
cuLibraryLoadData o:library x z z i z z i|cuLibraryUnload library|cuLibraryGetKernel o:function library t
cuLibraryGetGlobal o:memory o library t|cuLibraryGetModule o:module library|cuKernelGetFunction o:function function
cuModuleLoadData o:module x|cuModuleUnload module|cuModuleGetFunction o:function module t
cuModuleGetGlobal_v2 o:memory o module t|cuFuncGetAttribute o i function|cuFuncSetAttribute function i i
cuFuncGetParamInfo function n o o|cuKernelGetParamInfo function n o o|cuFuncGetName o function
cuLaunchKernel function i i i i i i i stream k z|cuOccupancyMaxActiveBlocksPerMultiprocessor o function i n
cuOccupancyMaxPotentialBlockSize o o function z n i|cuGetErrorName i o|cuStreamBeginCapture_v2 stream i
"""
TABLE = [line.split() for line in CALLS.replace("|", "\n").split("\n") if line.strip()]


class Calls(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.library: Any = cudacore_sim.load()
        self.handles: dict[str, list[int]] = {}
        self.kept: list[Any] = []

    @initialize()
    def start(self) -> None:
        self.library.cuInit(0)
        context = ctypes.c_void_p()
        self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.library.cuCtxSetCurrent(context)

    @rule(data=st.data(), call=st.sampled_from(TABLE))
    def call(self, data: st.DataObject, call: list[str]) -> None:
        name, *parameters = call
        made: list[tuple[str, Any]] = []
        arguments = [self.argument(data, parameter, made) for parameter in parameters]
        code = getattr(self.library, name)(*arguments)
        assert 0 <= code <= 999
        if not code:
            for kind, out in made:
                if kind and out[0]:  # what else comes back may be addresses of the host
                    self.handles.setdefault(kind, []).append(out[0])

    def argument(self, data: st.DataObject, letter: str, made: list[tuple[str, Any]]) -> Any:
        kind, _, makes = letter.partition(":")
        if kind in FIXED:
            return FIXED[kind]
        if kind == "o":
            if data.draw(st.integers(0, 20)) == 0:
                return None
            out = (ctypes.c_uint64 * 16)()
            made.append((makes, out))
            return out
        if kind == "n":
            return ctypes.c_uint64(data.draw(st.sampled_from(NUMBERS)))
        if kind in "id":
            return data.draw(st.integers(-1, 2) if kind == "d" else st.sampled_from((0, 1, 1, 2, 3, 8, 32, -1, 5000)))
        if kind == "t":
            return data.draw(st.sampled_from((*NAMES, None)))
        if kind == "x":
            return data.draw(st.sampled_from((PTX, NO_PTX, None)))
        if kind == "k":
            pointer = ctypes.c_uint64(data.draw(st.sampled_from(self.handles.get("memory", [0]))))
            value = ctypes.c_uint64(5)
            array = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(value))
            self.kept += [pointer, value, array]
            return data.draw(st.sampled_from((array, array, array, None)))
        known = self.handles.get(kind, [])
        others = [handle for handles in self.handles.values() for handle in handles[-2:]]
        return ctypes.c_uint64(data.draw(st.sampled_from([*known, *known, *others, 0, 1, 2, 0x1230, (1 << 64) - 16])))

    def teardown(self) -> None:
        cudacore_sim.reset_device()
        cudacore_sim.reset()


def test_sequences_of_calls() -> None:
    """Some sequence of calls would crash the process, or hang it."""
    budget = settings(
        max_examples=EXAMPLES,
        stateful_step_count=60,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Calls, settings=budget)  # type: ignore[no-untyped-call]
