# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces; see ``cudacore_handles.texture``."""

from __future__ import annotations

import cudacore_handles.texture as _texture
from cudacore_handles._sdk import finish_module as _finish_module
from cudacore_handles.texture import *  # noqa: F403

__all__ = [*_texture.__all__]

_finish_module(globals())
