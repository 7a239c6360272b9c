# SPDX-License-Identifier: Apache-2.0
"""Invalid arguments of the methods that add nodes: an error that names the argument, and no node."""

from __future__ import annotations

import ctypes
import enum
from typing import Any

import numpy as np
import pytest
from graph_tools import ONE

import cudacore_graph as cg
import cudacore_handles as ch


class Given(enum.Enum):
    """Arguments that exist only while a test runs."""

    KERNEL = enum.auto()
    CLOSED_BUFFER = enum.auto()
    CLOSED_EVENT = enum.auto()


KERNEL = Given.KERNEL
BEYOND = 2**64 + 4
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def row(method: str, error: type[Exception], match: str, *arguments: Any, **options: Any) -> Any:
    return pytest.param(method, arguments, options, error, match, id=f"{method}: {match}")


@pytest.mark.parametrize(
    ("method", "arguments", "options", "error", "match"),
    [
        row("launch", TypeError, "config must be a LaunchConfig", None, KERNEL),
        row("launch", TypeError, "kernel must be a Kernel", ONE, None),
        row("launch", TypeError, "takes a config, a kernel and its arguments, but 1 was given", ONE),
        row("launch", TypeError, r"the kernel takes 2 arguments .* but 0 were given", ONE, KERNEL),
        row("launch", TypeError, "but 3 were given", ONE, KERNEL, 1, 2, 3),
        row("launch", TypeError, "argument 1: 2.5 is not an integer", ONE, KERNEL, 1, 2.5),
        row("launch", OverflowError, "argument 1: 1099511627776", ONE, KERNEL, 1, 2**40),
        row("launch", TypeError, "argument 0: cannot pass a .str. to a kernel", ONE, KERNEL, "x", 2),
        row("launch", ch.ClosedError, "argument 0: Buffer has been closed", ONE, KERNEL, Given.CLOSED_BUFFER, 1),
        row("allocate", ValueError, "size is 0; it must be at least 1", 0),
        row("allocate", ValueError, "size is -1", -1),
        row("allocate", TypeError, "size must be an int, not 'bool'", True),
        row("allocate", TypeError, "size must be an int, not 'str'", "x"),
        row("allocate", ValueError, "memory_type is 'tape'; it must be one of", 1, memory_type="tape"),
        row("allocate", ValueError, "device_id", 1, device=77),
        row("allocate", TypeError, "peer_access must be a list", 1, peer_access="x"),
        row("deallocate", ValueError, "dptr is NULL", 0),
        row("deallocate", TypeError, "dptr must be", "x"),
        row("deallocate", TypeError, "dptr is an array in host memory; it must be the address from an", np.zeros(3)),
        row("deallocate", ValueError, "dptr cannot be freed by a node of this graph", 4096),
        row("memset", ValueError, "dst is NULL", 0, 0, 4),
        row("memset", TypeError, "dst must be a Buffer, a device array or an int, not NoneType", None, 0, 4),
        row("memset", TypeError, "dst is an array in the host's memory", np.zeros(3), 0, 4),
        row("memset", ValueError, "dst is -1, which is not an address", -1, 0, 4),
        row("memset", ValueError, "a device array or an int; -1 is not an address", np.int64(-1), 0, 4),
        row("memset", OverflowError, "value is 256", 4096, 256, 4),
        row("memset", OverflowError, "value is -1", 4096, -1, 4),
        row("memset", ValueError, "value must be 1, 2, or 4 bytes", 4096, b"abc", 4),
        row("memset", ValueError, "value must be 1, 2, or 4 bytes, got 8$", 4096, b"12345678", 8),
        row("memset", OverflowError, r"give np\.uint32\(4294967295\)", 4096, 2**32 - 1, 8),
        row("memset", OverflowError, "no NumPy integer of up to 4 bytes", 4096, 2**32, 8),
        row("memset", TypeError, "value must be an int", 4096, 1.5, 4),
        row("memset", ValueError, "dst is 18446744073709551616, which is not an address", 2**64, 0, 4),
        row("memset", ValueError, "width is 0; it must be at least 1", 4096, 0, 0),
        row("memset", ValueError, "width is -1; it must be at least 1", 4096, 0, -1),
        row("memset", ValueError, "width is 9223372036854775808; it must be at least 1, and less", 4096, 0, 2**63),
        row("memset", ValueError, "width is 18446744073709551620; it must be at least 1", 4096, 0, BEYOND),
        row("memset", ValueError, r"width is np.int8\(-1\)|width is -1", 4096, 0, np.int8(-1)),
        row("memset", TypeError, "width must be an int, not 'bool'", 4096, 0, True),
        row("memset", TypeError, "width must be an int, not 'float'", 4096, 0, 4.0),
        row("memset", ValueError, "height is 0; it must be at least 1", 4096, 0, 4, 0),
        row("memset", ValueError, "pitch is 3 bytes from row to row, less than the row's 4", 4096, 0, 4, 2, 3),
        row("memset", ValueError, "must be multiples of the value's 2 bytes", 4097, b"ab", 4),
        row("memcpy", ValueError, "dst is NULL", 0, 4096, 4),
        row("memcpy", ValueError, "src is NULL", 4096, 0, 4),
        row("memcpy", ValueError, "size is -1", 4096, 4096, -1),
        row("memcpy", ValueError, "size is 0", 4096, 4096, 0),
        row("memcpy", ValueError, "the source at 0x1003 and the destination at 0x1000 overlap", 4096, 4099, 4),
        row("memcpy", ValueError, "overlap", 4096, 4098, 4, height=2, dst_pitch=8, src_pitch=8),
        row("memcpy", ValueError, "height is 0", 4096, 4096, 4, height=0),
        row("memcpy", ValueError, "src_pitch is 3 bytes from row to row, less than", 4096, 4096, 4, src_pitch=3),
        row("memcpy", ValueError, "dst_height is 1 rows", 4096, 4096, 4, height=2, dst_height=1),
        row("memcpy", TypeError, r"memcpy\(\) has no argument 'pitch'", 4096, 4096, 4, pitch=3),
        row("memcpy", TypeError, r"memcpy\(\) needs size", 4096, 4096),
        row("memcpy", TypeError, r"memcpy\(\) takes at most 3 positional arguments", 4096, 4096, 4, 4),
        row("callback", TypeError, "fn must be a callable or a function of ctypes, not int", 3),
        row("callback", ValueError, "user_data is only supported with functions", print, user_data=1),
        row("callback", TypeError, r"this one has \(\): set fn.argtypes", ctypes.CFUNCTYPE(None)(print)),
        row("callback", TypeError, "this one returns c_int", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(print)),
        row("callback", TypeError, r"this one has \(.c_int.,\)", ctypes.CFUNCTYPE(None, ctypes.c_int)(print)),
        row("callback", TypeError, "this one returns", ctypes.CDLL(None).abort),
        row("callback", TypeError, "needs the GIL", ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(print)),
        row("callback", ValueError, "fn is a NULL pointer", FUNCTION()),
        row("callback", TypeError, "user_data must be an int or", FUNCTION(print), user_data=1.5),
        row("callback", TypeError, "bytes-like, not bool", FUNCTION(print), user_data=True),
        row("callback", TypeError, "bytes-like, not list", FUNCTION(print), user_data=[1, 2]),
        row("callback", TypeError, "bytes-like, not str", FUNCTION(print), user_data="x"),
        row("callback", ValueError, "-1 is not an address", FUNCTION(print), user_data=-1),
        row("embed", TypeError, "child must be a GraphDefinition, not 'int'", 3),
        row("record", TypeError, "event must be an Event, not 'int'", 3),
        row("record", ch.ClosedError, "Event has been closed", Given.CLOSED_EVENT),
        row("wait", TypeError, "event must be an Event, not 'int'", 3),
        row("wait", ch.ClosedError, "Event has been closed", Given.CLOSED_EVENT),
        row("if_then", TypeError, "condition must be a GraphCondition, not 'int'", 1),
        row("join", TypeError, "nodes must be a GraphNode, not 'str'", "x"),
        row("create_condition", ValueError, "default_value is -1", -1),
        row("create_condition", TypeError, "default_value must be an int or None, not float", 1.5),
    ],
)
def test_bad_input(
    definition: cg.GraphDefinition, device: ch.Device, add: ch.Kernel, method: str, arguments: tuple[Any, ...],
    options: dict[str, Any], error: type[Exception], match: str,
) -> None:  # fmt: skip
    """An invalid argument would reach the driver, or the error would not name it."""
    closed: list[Any] = [device.create_event(), ch.LegacyPinnedMemoryResource().allocate(4)]
    for thing in closed:
        thing.close()
    made = {KERNEL: add, Given.CLOSED_EVENT: closed[0], Given.CLOSED_BUFFER: closed[1]}
    given = [made[one] if isinstance(one, Given) else one for one in arguments]
    with pytest.raises(error, match=match):
        getattr(definition, method)(*given, **options)
    assert not definition.nodes()
