# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces; see ``cudacore_handles.texture``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cudacore_handles.texture as _texture
from cudacore_handles._sdk import make_getattr as _make_getattr
from cudacore_handles._sdk import public_names as _public_names
from cudacore_handles.texture import *  # noqa: F403

__all__ = [*_texture.__all__]


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name
    __getattr__ = _make_getattr(__name__, {}, globals())

    def __dir__() -> list[str]:
        return _public_names(globals())
