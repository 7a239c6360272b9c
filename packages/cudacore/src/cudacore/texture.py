# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, textures and surfaces; see ``cudacore_handles.texture``."""

from __future__ import annotations

from cudacore_handles import texture as _texture
from cudacore_handles.texture import *  # noqa: F403

__all__: list[str] = []
__all__ += _texture.__all__


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
