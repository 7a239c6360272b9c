# SPDX-License-Identifier: Apache-2.0
"""The choice of a linker, which depends only on versions and inputs."""

from __future__ import annotations

from typing import Any

import pytest

from cudacore_compile._compilers.choose_linker import Version, choose_linker, ptx_of


@pytest.mark.parametrize(
    ("cuda", "ptx"),
    [((12, 0), (8, 0)), ((12, 5), (8, 5)), ((12, 6), (8, 5)), ((12, 8), (8, 7)), ((12, 9), (8, 8)), ((13, 5), (9, 5))],
)
def test_ptx_of(cuda: Version, ptx: Version) -> None:
    """PTX would be passed to a linker that is too old for it, or refused although a linker supports it."""
    assert ptx_of(cuda) == ptx


@pytest.mark.parametrize(
    ("nvjitlink", "driver", "what", "backend", "reason"),
    [
        ((13, 5), None, {}, "nvJitLink", "nvJitLink can link it"),
        ((12, 0), (13, 0), {}, "nvJitLink", ""),
        ((13, 0), None, {"inputs": ["ltoir"], "target": "ptx", "options": ["ftz"]}, "nvJitLink", ""),
        (None, (13, 0), {}, "driver", "there is no nvJitLink; the driver's linker can link it"),
        (None, (13, 0), {"inputs": ["ptx", "cubin", "object"], "ptx": (9, 0)}, "driver", ""),
        (None, None, {}, None, "there is no nvJitLink; there is no driver to link it"),
        (None, (13, 0), {"inputs": ["ptx", "ltoir"]}, None, "the driver's linker takes no LTO-IR"),
        (None, (13, 0), {"target": "ptx"}, None, "the driver's linker makes cubins, and no ptx"),
        (None, (13, 0), {"options": ["ftz", "ptx"]}, None, "does not have LinkerOptions.ftz, LinkerOptions.ptx"),
        (None, (12, 4), {"ptx": (8, 5)}, None, "the driver, for CUDA 12.4, takes PTX up to 8.4"),
        ((12, 4), (12, 9), {"ptx": (8, 5)}, "driver", "nvJitLink 12.4 takes PTX up to 8.4, and this is of 8.5"),
        ((12, 6), None, {"ptx": (8, 5)}, "nvJitLink", ""),
        ((12, 4), (12, 9), {"ptx": (8, 5), "inputs": ["ltoir", "ptx"]}, None, "8.4, and this is of 8.5; the driver's"),
        ((13, 1), (13, 1), {"target": "ltoir", "inputs": ["ltoir"]}, None, "nvJitLink 13.1 does not link to LTO-IR"),
        ((13, 2), None, {"target": "ltoir", "inputs": ["ltoir"]}, "nvJitLink", ""),
    ],
)
def test_choice(
    nvjitlink: Version | None, driver: Version | None, what: dict[str, Any], backend: str | None, reason: str
) -> None:
    """A linker that cannot link the code would be chosen, or the error would not give the reason."""
    choice = choose_linker(nvjitlink, lambda: driver, **what)
    assert choice.backend == backend
    assert reason in choice.reason
