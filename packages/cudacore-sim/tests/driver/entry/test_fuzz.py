# SPDX-License-Identifier: Apache-2.0
"""Random sequences of calls, with good, stale and senseless arguments, end in error codes and never in a crash."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import graph_tools as tools
import kernels
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from peer import Handle

import cudacore_sim

# The sequences are the same in each run. With CUDACORE_SIM_FUZZ=1000, 1000 new sequences are tried instead.
OTHERS = os.environ.get("CUDACORE_SIM_FUZZ")
EXAMPLES = int(OTHERS or "40")
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
    "null": b"/dev/null",
}
NAMES = (b"store", b"empty", b"count", b"fail", b"counter", b"table", b"nope")
NUMBERS = (0, 1, 2, 3, 4, 7, 64, 1000, 1 << 16, 1 << 21, 1 << 22, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)

# The parameters of each function. A letter stands for a value: "n" a number, "i" a small integer, "h" host memory, "t"
# a name, "d" a device, "q" a location, "w" the size of an integer, "g" the address of an IPC handle, "v" an IPC handle
# by value. "o" stands for an output, and "o:stream" for an output that is a new stream. A word stands for a handle of
# this kind, or for a structure; "nodes" for an array of two nodes.
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
cuOccupancyMaxPotentialBlockSize o o function z n i|cuGetErrorName i o
cuStreamBeginCapture_v2 stream i|cuStreamEndCapture stream o:graph|cuStreamIsCapturing stream o
cuStreamBeginCaptureToGraph stream graph nodes z i i|cuStreamGetCaptureInfo_v3 stream o o o:graph o o o
cuStreamUpdateCaptureDependencies_v2 stream nodes z i i|cuEventRecordWithFlags event stream i
cuGraphCreate o:graph i|cuGraphDestroy graph|cuGraphClone o:graph graph|cuGraphDestroyNode node|cuGraphDestroyNode node
cuGraphAddEmptyNode o:node graph nodes i|cuGraphAddKernelNode_v2 o:node graph nodes i kernel
cuGraphAddMemsetNode o:node graph nodes i memset context|cuGraphAddMemcpyNode o:node graph nodes i memcpy context
cuGraphAddHostNode o:node graph nodes i host|cuGraphAddChildGraphNode o:node graph nodes i graph
cuGraphAddEventRecordNode o:node graph nodes i event|cuGraphAddEventWaitNode o:node graph nodes i event
cuGraphAddMemAllocNode o:node graph nodes i alloc|cuGraphAddMemFreeNode o:node graph nodes i memory
cuGraphAddNode_v2 o:node graph nodes z i params|cuGraphNodeSetParams node params|cuGraphNodeGetParams node h
cuGraphConditionalHandleCreate o:condition graph context i i|cuGraphMemAllocNodeGetParams node o
cuGraphKernelNodeGetParams_v2 node o|cuGraphKernelNodeSetParams_v2 node kernel|cuGraphMemcpyNodeSetParams node memcpy
cuGraphMemsetNodeSetParams node memset|cuGraphKernelNodeGetAttribute node i o|cuGraphKernelNodeSetAttribute node i o
cuGraphKernelNodeCopyAttributes node node|cuGraphNodeGetType node o
cuGraphGetNodes graph h count|cuGraphGetEdges_v2 graph h h z count
cuGraphGetRootNodes graph h count|cuGraphNodeGetDependencies_v2 node h z count
cuGraphNodeGetDependentNodes_v2 node h z count
cuGraphAddDependencies_v2 graph nodes nodes z i|cuGraphRemoveDependencies_v2 graph nodes nodes z i
cuGraphNodeFindInClone o:node node graph|cuGraphChildGraphNodeGetGraph node o:graph
cuGraphInstantiateWithFlags o:exec graph i|cuGraphExecDestroy exec|cuGraphLaunch exec stream|cuGraphLaunch exec stream
cuGraphUpload exec stream|cuGraphExecUpdate_v2 exec graph o|cuGraphExecNodeSetParams exec node params
cuGraphNodeSetEnabled exec node i|cuGraphNodeGetEnabled exec node o
cuGraphExecMemsetNodeSetParams exec node memset context
cuGraphExecChildGraphNodeSetParams exec node graph|cuGraphExecKernelNodeSetParams_v2 exec node kernel
cuUserObjectCreate o:object h f i i|cuUserObjectRetain object i|cuUserObjectRelease object i
cuGraphRetainUserObject graph object i i|cuGraphReleaseUserObject graph object i
cuDeviceGraphMemTrim d|cuDeviceGetGraphMemAttribute d i o|cuGraphDebugDotPrint graph null i
"""
STRUCTURES = ("kernel", "memset", "memcpy", "host", "alloc", "params")
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
                if kind and out[0]:  # outputs without a kind are not used again, as they may be host addresses
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
        if kind == "count":
            self.kept.append(ctypes.c_size_t(data.draw(st.integers(0, 4))))
            return ctypes.byref(self.kept[-1])
        if kind == "nodes":
            array = (ctypes.c_void_p * 2)(*(self.handle(data, "node") for _ in range(2)))
            self.kept.append(array)
            return array
        if kind in STRUCTURES:
            made_here = self.structure(data, kind)
            self.kept.append(made_here)
            return ctypes.byref(made_here)
        return ctypes.c_uint64(self.handle(data, kind))

    def handle(self, data: st.DataObject, kind: str) -> int:
        known = self.handles.get(kind, [])
        others = [handle for handles in self.handles.values() for handle in handles[-2:]]
        return int(data.draw(st.sampled_from([*known, *known, *others, 0, 1, 2, 0x1230, (1 << 64) - 16])))

    def structure(self, data: st.DataObject, kind: str) -> Any:
        def number() -> int:
            return data.draw(st.sampled_from((0, 1, 1, 2, 4, 16, 1 << 20)))

        if kind == "kernel":
            pointer, value = ctypes.c_uint64(self.handle(data, "memory")), ctypes.c_uint64(5)
            function = self.handle(data, "function")
            return tools.kernel_params(function, pointer, value, grid=(number(), 1, 1), kern=function)
        if kind == "memset":
            memory, context = self.handle(data, "memory"), self.handle(data, "context")
            return tools.memset_params(memory, 7, number(), size=number(), height=number(), pitch=number(), ctx=context)
        if kind == "memcpy":
            to, source = self.handle(data, "memory"), self.handle(data, "memory")
            return tools.copy_params(to, source, number(), Height=number())
        if kind == "host":
            return tools.host_params(lambda _: None)
        if kind == "alloc":
            return tools.alloc_params(number())
        params = tools.NodeParams(type=data.draw(st.sampled_from((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 13, 13, 12, 99))))
        if params.type == 0:
            params.of.kernel = self.structure(data, "kernel")
        elif params.type == 1:
            params.of.memcpy.copy = self.structure(data, "memcpy")
        elif params.type == 2:
            params.of.memset = self.structure(data, "memset")
        elif params.type == 3:
            params.of.host = self.structure(data, "host")
        elif params.type == 4:
            params.of.graph = tools.ChildNode(self.handle(data, "graph"), data.draw(st.sampled_from((0, 0, 1, 2))))
        elif params.type in (6, 7):
            params.of.event = tools.EventNode(self.handle(data, "event"))
        elif params.type == 10:
            params.of.alloc = self.structure(data, "alloc")
        elif params.type == 11:
            params.of.free = tools.FreeNode(self.handle(data, "memory"))
        elif params.type == 13:  # no loops, because some would never end
            values = self.handle(data, "condition"), data.draw(st.sampled_from((tools.IF, tools.SWITCH))), number() % 5
            params.of.conditional = tools.ConditionalNode(*values, None, self.handle(data, "context"))
        return params

    def teardown(self) -> None:
        cudacore_sim.reset_device()
        cudacore_sim.reset()


def test_sequences_of_calls() -> None:
    """Some sequence of calls would crash the process, or make it hang."""
    budget = settings(
        max_examples=EXAMPLES,
        stateful_step_count=60,
        deadline=None,
        derandomize=OTHERS is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Calls, settings=budget)  # type: ignore[no-untyped-call]
