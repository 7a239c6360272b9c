# SPDX-License-Identifier: Apache-2.0
"""Options of tensor maps, loaded when they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cudacore_handles._base.module_attributes import public
from cudacore_handles._views.tensor_map import CHOICES, as_ints, check_choice, check_data_type
from cudacore_handles.typing import TensorMapInterleave, TensorMapL2Promotion, TensorMapOOBFill, TensorMapSwizzle


@public
@dataclass
class TensorMapDescriptorOptions:
    """Options of :meth:`StridedMemoryView.as_tensor_map`.

    Attributes
    ----------
    box_dim : tuple of int
        The extents of the box that a copy moves, in elements, in the order of the view's shape: 1 to 256 each.
    element_strides : tuple of int, optional
        The step of a copy along each axis: 1 to 8 each. Default: 1.
    data_type : numpy.dtype or TensorMapDataType, optional
        The type of the elements, of the view's item size. Default: the type for the view's dtype.
    interleave : TensorMapInterleave, optional
        How the channels are arranged in memory. Default: together.
    swizzle : TensorMapSwizzle, optional
        How a box is permuted in shared memory. Default: it is not permuted.
    l2_promotion : TensorMapL2Promotion, optional
        How much is fetched into the L2 cache at a time. Default: only the data that is needed.
    oob_fill : TensorMapOOBFill, optional
        The value of elements outside of the tensor. Default: zero.
    """

    box_dim: tuple[int, ...]
    element_strides: tuple[int, ...] | None = None
    data_type: Any = None
    interleave: TensorMapInterleave = TensorMapInterleave.NONE
    swizzle: TensorMapSwizzle = TensorMapSwizzle.NONE
    l2_promotion: TensorMapL2Promotion = TensorMapL2Promotion.NONE
    oob_fill: TensorMapOOBFill = TensorMapOOBFill.NONE

    def __post_init__(self) -> None:
        self.box_dim = as_ints("box_dim", self.box_dim)
        if self.element_strides is not None:
            self.element_strides = as_ints("element_strides", self.element_strides)
        if self.data_type is not None:
            check_data_type(self.data_type)
        for name, value in vars(self).items():
            if name in CHOICES:
                check_choice(name, CHOICES[name], value)
