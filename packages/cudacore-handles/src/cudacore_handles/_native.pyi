# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

from cudacore_handles._kernel import Kernel
from cudacore_handles._launch_config import LaunchConfig
from cudacore_handles._stream import IsStreamType, Stream

_Code = int | Callable[[Any, int], bytes | int] | tuple[tuple[str, ...], tuple[str, ...] | None] | object

SIGNED: int
UNSIGNED: int
FLOAT: int
COMPLEX: int
BOOL: int
POINTER: int
ARRAY: int
HAS_VALUE: int

class PreparedLaunch:
    def __new__(
        cls, stream: Stream, config: LaunchConfig, kernel: Kernel, kernel_args: tuple[Any, ...]
    ) -> PreparedLaunch: ...
    def __call__(self, *kernel_args: Any) -> None: ...
    def __setitem__(self, index: int, value: Any) -> None: ...
    def __len__(self) -> int: ...
    @property
    def block(self) -> memoryview: ...

def launch(stream: Stream | IsStreamType, config: LaunchConfig, kernel: Kernel, /, *kernel_args: Any) -> None: ...
def pack(layout: bytes, args: tuple[Any, ...], device: int = -1, /) -> bytes: ...
def register(cls: type, code: _Code, /) -> None: ...
def registered(cls: type, /) -> _Code | None: ...
def is_exchange_api(object: object, /) -> bool: ...
def set_array_functions(
    read_array: Callable[[Any, int], bytes | tuple[int, int, object]],
    check_device: Callable[[Any, int, int], None],
    /,
) -> None: ...
def set_faces(
    stream: type,
    config: type,
    kernel: type,
    launch_checked: Callable[[Any, Any, Any, tuple[Any, ...]], None],
    explain: Callable[[int, Any, Any], None],
    /,
) -> None: ...
def set_resolver(resolver: Callable[[type, Any], bool] | None, /) -> None: ...
def make_capsule(
    box: int,
    ptr: int,
    size: int,
    device_type: int,
    device_id: int,
    versioned: bool,
    read_only: bool = False,
    copied: bool = False,
) -> object: ...
def read_capsule(capsule: object, /) -> tuple[int, int, int]: ...
