# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces; see ``cudacore_handles.texture``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cudacore_handles.texture as _texture
from cudacore_handles._sdk import later as _later
from cudacore_handles.texture import *  # noqa: F403

__all__ = [*_texture.__all__]


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    __getattr__ = _later(__name__, {}, globals())
