# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces."""

from __future__ import annotations

from cudacore_handles._base.module_attributes import finish_module as _finish_module
from cudacore_handles._base.module_attributes import publish as _publish
from cudacore_handles._driver.device import connect as _connect
from cudacore_handles._texture.array import OpaqueArray, OpaqueArrayOptions
from cudacore_handles._texture.array import create_array as _create_array
from cudacore_handles._texture.mipmapped_array import MipmappedArray, MipmappedArrayOptions
from cudacore_handles._texture.mipmapped_array import create_mipmapped_array as _create_mipmapped_array
from cudacore_handles._texture.resource import ResourceDescriptor
from cudacore_handles._texture.texture import SurfaceObject, TextureObject, TextureObjectOptions
from cudacore_handles._texture.texture import create_surface as _create_surface
from cudacore_handles._texture.texture import create_texture as _create_texture

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


_connect(
    create_array=_create_array,
    create_mipmapped_array=_create_mipmapped_array,
    create_texture=_create_texture,
    create_surface=_create_surface,
)
