# SPDX-License-Identifier: Apache-2.0
"""A second process that runs code of a test on the simulator, and helper functions for sharing between processes."""

from __future__ import annotations

import ctypes
import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cudacore_sim

# The second process runs this file without conftest.py, which would add this folder.
sys.path.append(str(Path(__file__).with_name("sequences")))
from structs import Access, AllocationProperties, Location, PoolProperties

Size, U64, Pointer = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p
POSIX = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
DEVICE, HOST, HOST_NUMA = 1, 2, 3  # CU_MEM_LOCATION_TYPE_*
PINNED, MANAGED = 1, 2  # CU_MEM_ALLOCATION_TYPE_*
CHUNK = 2 << 20


class Handle(ctypes.Structure):
    """The 64 bytes of a CUipcMemHandle, a CUipcEventHandle or a CUmemPoolPtrExportData."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def start() -> Any:
    """Load and initialise the driver, make the primary context of device 0 current, and return the entry points."""
    library = cudacore_sim.load()
    library.cuInit(0)
    context = Pointer()
    library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    library.cuCtxSetCurrent(context)
    return library


def handle_of(cu: Any, name: str, thing: Any) -> tuple[int, bytes]:
    """Call cuIpcGet*Handle or cuMemPoolExportPointer; return the result code and the handle's bytes."""
    handle = Handle()
    return int(getattr(cu, name)(ctypes.byref(handle), thing)), bytes(handle)


def open_memory(cu: Any, data: bytes, flags: int = 1) -> tuple[int, Any]:
    pointer = U64()
    return int(cu.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), Handle.from_buffer_copy(data), flags)), pointer


def open_event(cu: Any, data: bytes) -> tuple[int, Any]:
    event = Pointer()
    return int(cu.cuIpcOpenEventHandle(ctypes.byref(event), Handle.from_buffer_copy(data))), event


def new_pool(cu: Any, handles: int = POSIX, location: int = DEVICE, kind: int = PINNED) -> tuple[int, Any]:
    pool = Pointer()
    properties = PoolProperties(kind, handles, Location(location, 0))
    return int(cu.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(properties))), pool


def export_pool(cu: Any, pool: Any) -> tuple[int, int]:
    descriptor = ctypes.c_int(-1)
    return int(cu.cuMemPoolExportToShareableHandle(ctypes.byref(descriptor), pool, POSIX, U64(0))), descriptor.value


def import_pool(cu: Any, descriptor: int, kind: int = POSIX) -> tuple[int, Any]:
    pool = Pointer()
    return int(
        cu.cuMemPoolImportFromShareableHandle(ctypes.byref(pool), Pointer(descriptor & (2**64 - 1)), kind, U64(0))
    ), pool


def import_pointer(cu: Any, pool: Any, data: bytes) -> tuple[int, Any]:
    pointer = U64()
    shared = Handle.from_buffer_copy(data)
    return int(cu.cuMemPoolImportPointer(ctypes.byref(pointer), pool, ctypes.byref(shared))), pointer


def new_physical(cu: Any, handles: int = POSIX, location: int = DEVICE) -> tuple[int, Any]:
    handle = U64()
    properties = AllocationProperties(PINNED, handles, Location(location, 0))
    return int(cu.cuMemCreate(ctypes.byref(handle), Size(CHUNK), ctypes.byref(properties), U64(0))), handle


def export_physical(cu: Any, handle: Any) -> tuple[int, int]:
    descriptor = ctypes.c_int(-1)
    return int(cu.cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, POSIX, U64(0))), descriptor.value


def import_physical(cu: Any, descriptor: int) -> tuple[int, Any]:
    handle = U64()
    return int(
        cu.cuMemImportFromShareableHandle(ctypes.byref(handle), Pointer(descriptor & (2**64 - 1)), POSIX)
    ), handle


def map_physical(cu: Any, handle: Any, *locations: int) -> Any:
    """Map physical memory at an address that the driver chooses, with access for the given types of locations."""
    address = U64()
    codes = [
        cu.cuMemAddressReserve(ctypes.byref(address), Size(CHUNK), Size(0), U64(0), U64(0)),
        cu.cuMemMap(address, Size(CHUNK), Size(0), handle, U64(0)),
    ]
    for location in locations:
        access = Access(Location(location, 0), 3)
        codes.append(cu.cuMemSetAccess(address, Size(CHUNK), ctypes.byref(access), Size(1)))
    assert not any(codes), codes
    return address


def write(cu: Any, pointer: Any, data: bytes) -> int:
    return int(cu.cuMemcpyHtoD_v2(pointer, data, Size(len(data))))


def read(cu: Any, pointer: Any, size: int) -> bytes:
    data = ctypes.create_string_buffer(size)
    code = cu.cuMemcpyDtoH_v2(data, pointer, Size(size))
    assert code == 0, code
    return data.raw


def launch_store(cu: Any, ptx: bytes, pointer: Any, value: int, threads: int = 4) -> int:
    """Launch the kernel ``store`` of the tests, and wait for it."""
    module, function = Pointer(), Pointer()
    cu.cuModuleLoadData(ctypes.byref(module), ptx)
    cu.cuModuleGetFunction(ctypes.byref(function), module, b"store")
    number = ctypes.c_uint(value)
    arguments = (Pointer * 2)(ctypes.addressof(pointer), ctypes.addressof(number))
    code = cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, None, arguments, None)
    return int(code or cu.cuCtxSynchronize())


def send(channel: socket.socket, value: object, descriptors: Sequence[int] = ()) -> None:
    data = pickle.dumps(value)
    socket.send_fds(channel, [struct.pack("I", len(data))], list(descriptors))
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    head, descriptors, _, _ = socket.recv_fds(channel, 4, 8)
    if len(head) < 4:
        raise EOFError
    (length,) = struct.unpack("I", head)
    data = b""
    while len(data) < length:
        data += channel.recv(length - len(data))
    return pickle.loads(data), descriptors


class Peer:
    """
    A separate process that uses the simulator. Calling the object runs a statement in the process, or returns the value
    of an expression. In the code, `cu` has the entry points, `fds` has the file descriptors that were sent, and each
    keyword argument is a variable. `settings` configure the simulator of the process.
    """

    def __init__(self, **settings: object) -> None:
        ours, theirs = socket.socketpair()
        environment = os.environ | {"CUDACORE_SIM_LIBRARY": cudacore_sim.get_library(), "CUDACORE_SIM_REPORTS": "0"}
        environment |= {f"CUDACORE_SIM_{name}": str(value) for name, value in settings.items()}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
        )
        theirs.close()
        self.channel = ours

    def __call__(self, code: str, fds: Sequence[int] = (), **variables: object) -> Any:
        send(self.channel, (code, variables), fds)
        (good, value), _ = receive(self.channel)
        assert good, value
        return value

    def end(self) -> None:
        self.channel.close()
        self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.end()


def serve(channel: socket.socket) -> None:
    scope = dict(globals(), cu=start())
    while True:
        try:
            (code, variables), descriptors = receive(channel)
        except EOFError:
            return
        scope.update(variables, fds=descriptors)
        value = None
        try:
            try:
                compiled = compile(code, "<peer>", "eval")
            except SyntaxError:
                exec(code, scope)
            else:
                value = eval(compiled, scope)
            send(channel, (True, value))
        except Exception as error:
            send(channel, (False, f"{code}: {error!r}"))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
