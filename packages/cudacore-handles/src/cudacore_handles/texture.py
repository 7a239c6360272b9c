# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces."""

from __future__ import annotations

from cudacore_handles._texture.array import OpaqueArray, OpaqueArrayOptions
from cudacore_handles._texture.mipmapped_array import MipmappedArray, MipmappedArrayOptions
from cudacore_handles._texture.resource import ResourceDescriptor
from cudacore_handles._texture.surface import SurfaceObject
from cudacore_handles._texture.texture import TextureObject, TextureObjectOptions

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


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
