# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces; see ``cudacore_handles.texture``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_handles._sdk import later as _later
from cudacore_handles.texture import (
    MipmappedArray,
    MipmappedArrayOptions,
    OpaqueArray,
    OpaqueArrayOptions,
    ResourceDescriptor,
    SurfaceObject,
    TextureObject,
    TextureObjectOptions,
)

__all__ = [
    "MipmappedArray",
    "MipmappedArrayOptions",
    "OpaqueArray",
    "OpaqueArrayOptions",
    "ResourceDescriptor",
    "SurfaceObject",
    "TextureObject",
    "TextureObjectOptions",
]


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    __getattr__ = _later(__name__, {}, globals())


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
