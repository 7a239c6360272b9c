# SPDX-License-Identifier: Apache-2.0
"""Programs of CUDA-compute (cuda-cccl).

CUDA-compute's algorithms are compiled and linked here, but running them needs the CUDA runtime.
"""

from __future__ import annotations

from typing import Any

import cases
import cuda.compute as compute
import numpy as np
from cuda.core import Device

device = Device()
device.set_current()
stream = device.create_stream()
RUNTIME = "needs the CUDA runtime, which the simulated driver refuses"
COUNT = 1000


class Array:
    """An array in device memory."""

    def __init__(self, dtype: Any, count: int = COUNT) -> None:
        self.dtype, self.count = np.dtype(dtype), count
        self.buffer = device.memory_resource.allocate(self.dtype.itemsize * count, stream=stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (int(self.buffer.handle), False)
        return {"shape": (self.count,), "typestr": self.dtype.str, "data": data, "version": 3, "strides": None}


def larger(a: Any, b: Any) -> Any:
    return a if a > b else b


def squared(a: Any) -> Any:
    return a * a


def is_even(a: Any) -> Any:
    return a % 2 == 0


ints, more_ints, floats, one, flags = Array("i4"), Array("i4"), Array("f4"), Array("i4", 1), Array("i4", 4)
zero = np.zeros(1, np.int32)


def runs() -> None:
    compute.reduce_into(d_in=ints, d_out=one, op=compute.OpKind.PLUS, num_items=COUNT, h_init=zero, stream=stream)


def of_struct() -> None:
    pair = compute.gpu_struct({"a": np.int32, "b": np.int32})
    assert pair(1, 2).a == 1


CASES = {
    "reduce": lambda: compute.make_reduce_into(d_in=ints, d_out=one, op=compute.OpKind.PLUS, h_init=zero),
    "reduce by a function": lambda: compute.make_reduce_into(d_in=ints, d_out=one, op=larger, h_init=zero),
    "reduce an iterator": lambda: compute.make_reduce_into(
        d_in=compute.CountingIterator(np.int32(0)), d_out=one, op=compute.OpKind.PLUS, h_init=zero
    ),
    "inclusive scan": lambda: compute.make_inclusive_scan(
        d_in=ints, d_out=more_ints, op=compute.OpKind.PLUS, init_value=zero
    ),
    "exclusive scan": lambda: compute.make_exclusive_scan(
        d_in=ints, d_out=more_ints, op=compute.OpKind.PLUS, init_value=zero
    ),
    "unary transform": lambda: compute.make_unary_transform(d_in=ints, d_out=more_ints, op=squared),
    "binary transform": lambda: compute.make_binary_transform(
        d_in1=ints, d_in2=more_ints, d_out=more_ints, op=compute.OpKind.PLUS
    ),
    "radix sort": lambda: compute.make_radix_sort(
        d_in_keys=ints, d_out_keys=more_ints, d_in_values=None, d_out_values=None, order=compute.SortOrder.ASCENDING
    ),
    "merge sort": lambda: compute.make_merge_sort(
        d_in_keys=floats, d_in_values=None, d_out_keys=floats, d_out_values=None, op=compute.OpKind.LESS
    ),
    "select": lambda: compute.make_select(d_in=ints, d_out=more_ints, d_num_selected_out=one, cond=is_even),
    "a structure": of_struct,
    "run": runs,
}

cases.run(CASES, {"run": RUNTIME})
