# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from cudacore_compile import typing


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (typing.SourceCodeType.CXX, "c++"),
        (typing.ObjectCodeFormatType.LTOIR, "ltoir"),
        (typing.CompilerBackendType.NVJITLINK, "nvJitLink"),
        (typing.PCHStatusType.NOT_ATTEMPTED, "not_attempted"),
    ],
)
def test_members_are_their_strings(member: str, value: str) -> None:
    """On some versions of Python, a member would not print, compare or hash like its string."""
    assert member == value
    assert str(member) == f"{member}" == value
    assert f"{member:>14}" == f"{value:>14}"
    assert {value: 1}[member] == 1
    assert isinstance(member, str)
