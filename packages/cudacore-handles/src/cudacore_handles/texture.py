# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces."""

from __future__ import annotations

from typing import Any as _Any

from cudacore_handles import _native
from cudacore_handles._base.module_attributes import finish_module as _finish_module
from cudacore_handles._base.module_attributes import publish as _publish
from cudacore_handles._base.options import checked_once
from cudacore_handles._texture.array import OpaqueArray, OpaqueArrayOptions, read_array
from cudacore_handles._texture.mipmapped_array import MipmappedArray, MipmappedArrayOptions, read_mipmapped_array
from cudacore_handles._texture.resource import ResourceDescriptor, check_memory
from cudacore_handles._texture.texture import (
    SurfaceObject,
    TextureObject,
    TextureObjectOptions,
    read_texture,
    refuse_format,
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


_publish(__name__, __all__, globals())

_finish_module(globals())


_last_options: dict[int, tuple[_Any, ...]] = {}
_native.connect(
    "texture",
    array=OpaqueArray,
    mipmapped_array=MipmappedArray,
    texture=TextureObject,
    surface=SurfaceObject,
    resource=ResourceDescriptor,
    last_options=_last_options,
    check_array=checked_once(OpaqueArrayOptions, read_array, _last_options, 0),
    check_mipmapped_array=checked_once(MipmappedArrayOptions, read_mipmapped_array, _last_options, 1),
    check_texture=checked_once(TextureObjectOptions, read_texture, _last_options, 2),
    check_memory=check_memory,
    refuse_format=refuse_format,
)
