# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the compilers and linkers."""

from __future__ import annotations

import pytest
from compile_sources import FUNCTION, KERNEL, build_part

from cudacore_handles import ObjectCode


@pytest.fixture(scope="module")
def ltoir() -> tuple[ObjectCode, ObjectCode]:
    """Give a kernel and the function that it calls, as LTO-IR."""
    return build_part(KERNEL, "ltoir"), build_part(FUNCTION, "ltoir")


@pytest.fixture(scope="module")
def ptx() -> tuple[ObjectCode, ObjectCode]:
    """Give a kernel and the function that it calls, as PTX."""
    return build_part(KERNEL, "ptx", name="kernel"), build_part(FUNCTION, "ptx", name="function")
