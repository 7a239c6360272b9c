# SPDX-License-Identifier: Apache-2.0
"""Packing of values of registered types, the resolver, and the memory of the registry of types."""

from __future__ import annotations

import gc
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from packing import (
    ADDRESS,
    Address,
    Quantity,
    layout,
    one,
    quantity,
)

from cudacore_handles import _native


class Replaceable:
    """An object whose class can be replaced."""

    __slots__ = ("__weakref__",)


def returning(result: Any) -> Callable[[Any, int, int], Any]:
    return lambda value, size, kind: result


def test_converter_results() -> None:
    """The result of a converter would be packed without a check."""
    assert one(quantity(lambda value, size, kind: bytes([size]) * size, 0), 12) == bytes([12]) * 12
    assert one(quantity(lambda value, size, kind: -2, 0), 2) == struct.pack("=h", -2)
    for result, error, message in (
        (b"123", TypeError, "Quantity has 3 bytes, but the parameter has 4"),
        (1 << 32, OverflowError, "4294967296 does not fit"),
        (bytearray(4), TypeError, "the converter of .*Quantity must return bytes, a number, or a place in memory"),
        (None, TypeError, "must return bytes, a number, or a place in memory"),
        ([], TypeError, "cannot pass a 'list'"),
        ((1, 2), TypeError, "place"),
    ):
        with pytest.raises(error, match="argument 0: .*" + message):
            one(quantity(returning(result), 0), 4)


@pytest.mark.parametrize("error", [TypeError, ValueError, OverflowError])
def test_converter_errors_name_the_argument(error: type[Exception]) -> None:
    """An error of a conversion would not name the argument, or would hide where it was raised."""

    def converter(value: Any, size: int, kind: int) -> bytes:
        raise error("no good") from KeyError("cause")

    with pytest.raises(error, match=r"^argument 1: no good$") as caught:
        _native.pack(layout(8, 4), (0, quantity(converter, 0)))
    assert caught.traceback[-1].name == "converter"
    assert isinstance(caught.value.__cause__, KeyError)


def test_error_whose_message_fails() -> None:
    """An exception that cannot be printed would be replaced by its failure to print."""

    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError

    def converter(value: Any, size: int, kind: int) -> bytes:
        raise ValueError(Unprintable())

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it has no message
        one(quantity(converter, 0), 4)
    assert isinstance(caught.value.args[0], Unprintable)


def test_class_with_strange_names_can_be_reported() -> None:
    """A metaclass that returns a wrong class name would crash the error message."""

    class Meta(type):
        @property
        def __name__(cls) -> Any:  # type: ignore[override]
            return 42

        @property
        def __module__(cls) -> Any:  # type: ignore[override]
            return None

    class Strange(metaclass=Meta):
        pass

    with pytest.raises(TypeError, match="cannot pass a '42'"):
        one(Strange(), 8)


# ---- converters that run code with side effects


def test_values_that_live_only_in_the_tuple() -> None:
    """A value that only the tuple of arguments refers to would be freed while it is converted."""

    def converter(value: Any, size: int, kind: int) -> int:
        gc.collect()
        return value.value

    cls = type("Only", (Quantity,), {})
    _native.register(cls, converter)
    assert _native.pack(layout(8, 8), (cls(1), cls(2))) == struct.pack("=2Q", 1, 2)
    assert _native.pack(layout(8), (cls(3),)) == struct.pack("=Q", 3)


# ---- memory of the registry of types


def test_class_that_ends_while_arguments_are_packed() -> None:
    """A value of a new class at the address of a freed class would be packed by the converter of the freed class."""
    first, second = Replaceable(), Replaceable()

    def convert(value: object, size: int, kind: int) -> int:
        first.__class__ = Replaceable
        gc.collect()
        for _ in range(100):
            made.append(type("New", (Replaceable,), {"__slots__": ()}))
            if id(made[-1]) == freed:
                second.__class__ = made[-1]
        return 1

    made: list[type] = []
    first.__class__ = type("Passing", (Replaceable,), {"__slots__": ()})
    freed, gone = id(type(first)), weakref.ref(type(first))
    _native.register(type(first), convert)
    with pytest.raises(TypeError, match=r"^argument 1: cannot pass a '.*Replaceable' to a kernel"):
        _native.pack(layout(8, 8), (first, second))
    gc.collect()
    assert gone() is None


def test_registry_does_not_keep_types_alive() -> None:
    """Classes created at run time would never be freed, or the entry of a freed class would be used for a new class."""
    for i in range(300):
        cls = type("Passing", (), {"__slots__": ()})
        with pytest.raises(TypeError, match=r"cannot pass a '.*Passing'"):
            one(cls(), 8)
        _native.register(cls, _native.SIGNED if i % 2 else lambda value, size, kind: 0)
        gone = weakref.ref(cls)
        del cls
        gc.collect(0)
        if gone() is not None:
            gc.collect()
        assert gone() is None


class Number:
    """A number that can be packed as an int or as a float."""

    __slots__ = ("__weakref__",)

    def __index__(self) -> int:
        return 5

    def __float__(self) -> float:
        return 5.0


AS_INT, AS_FLOAT = struct.pack("=q", 5), struct.pack("=d", 5.0)


def test_codes_of_many_types() -> None:
    """Values would be packed by the code of another type, or by a code that was replaced."""
    types = [type("Kind", (Number,), {"__slots__": ()}) for _ in range(400)]
    codes = {_native.SIGNED: AS_INT, _native.FLOAT: AS_FLOAT, _native.SIGNED | 8 << 8: AS_INT}
    for code in (*codes, *codes):
        for i, cls in enumerate(types):
            _native.register(cls, code if i % 2 else _native.FLOAT)
        for _ in range(2):
            assert [one(cls(), 8) for cls in types] == [AS_FLOAT, codes[code]] * 200


def test_code_of_a_freed_type() -> None:
    """A value would be packed by the code of a freed class whose address its own class got."""
    addresses: set[int] = set()
    for _ in range(100):
        cls = type("Passing", (Number,), {"__slots__": ()})
        if id(cls) in addresses:
            assert one(cls(), 8) == AS_INT  # as all types with __index__ that were not registered
        addresses.add(id(cls))
        _native.register(cls, _native.FLOAT)
        assert one(cls(), 8) == AS_FLOAT
        del cls
        gc.collect()
    assert len(addresses) < 100  # some addresses came back


def test_no_references_leak() -> None:
    """Each launch would leak a reference to its arguments, or drop one reference too many."""
    floats = 1.25
    number = 1 << 40
    address = Address(ADDRESS + 1)
    scalar = np.float32(1)
    raising = quantity(lambda value, size, kind: 1 / 0, 0)
    converted = quantity(lambda value, size, kind: number, 0)
    indexed = quantity(_native.SIGNED, number)
    twofold = 1.5 + 2.5j
    where = layout(8, 8, 8, 4, 8, 8, 8)
    watched = [floats, number, address, address.ptr, scalar, raising, converted, indexed, twofold, where]
    watched += [Address, type(scalar), type(indexed)]

    def work() -> None:
        args = (number, floats, address, scalar, converted, indexed, twofold)
        for _ in range(100):
            _native.pack(where, args)
            bad: Any
            for bad in ([], 1 << 64, raising, b"", 1e300j, None, np.int64(1)):
                with pytest.raises((TypeError, OverflowError, ZeroDivisionError, ValueError)):
                    _native.pack(where, (number, floats, address, bad, converted, indexed, twofold))
            with pytest.raises(TypeError):
                _native.pack(where, ())

    def measure() -> tuple[list[int], int]:
        work()
        gc.collect()
        return [sys.getrefcount(item) for item in watched], sys.getallocatedblocks()

    measure()
    refs, blocks = measure()
    growth = []
    for _ in range(3):  # unrelated caches grow in some rounds; a leak would grow in every round
        again, blocks_again = measure()
        assert again == refs
        growth.append(abs(blocks_again - blocks))
        blocks = blocks_again
    assert min(growth) < 90  # a leak would add at least 100 blocks in each round


def test_exit_with_registered_types() -> None:
    """The interpreter would crash, or print something, at exit."""
    code = """if True:
        import struct
        from cudacore_handles import _native
        from cudacore_handles._launch import argtypes
        class Late:
            def __init__(self): self.pack, self.where = _native.pack, struct.pack("=3I", 0, 8, 0)
            def __index__(self): return 1
            def __del__(self): self.pack(self.where, (self,))
        late = Late()
        late.cycle = late
        Late.keep = late
        _native.pack(late.where, (late,))
        _native.register(type("Other", (), {}), lambda value, size, kind: late)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
