# SPDX-License-Identifier: Apache-2.0
"""The states of files, which caches of compiled code compare."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from cudacore_handles._sdk.compile import file_states, library_loads


def states_of(groups: bytes) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("6q", file_states(groups)))


def test_states(tmp_path: Path) -> None:
    """A cache would compare the state of another file, or return code of a file that has changed."""
    (tmp_path / "a").write_text("text")
    (tmp_path / "loop").symlink_to("loop")
    folder = os.fsencode(tmp_path)
    found = states_of(folder + b"\0a\0none\0loop\0.\0\0" + folder + b"/none\0a\0\0" + folder + b"/a\0b\0\0")
    status = os.stat(tmp_path / "a")
    expected = (status.st_dev, status.st_ino, status.st_mode, 4, status.st_mtime_ns, status.st_ctime_ns)
    assert found[0] == expected
    assert found[1] == found[4] == found[5] == (0,) * 6
    assert found[2][2] < 0  # an error, which is no state of a file
    assert found[3][1] == os.stat(tmp_path).st_ino


def test_odd_groups() -> None:
    """Bytes that no cache has written, such as a damaged file, would be read beyond their end."""
    assert file_states(b"") == b""
    for groups in (b"/", b"/\0", b"/\0\0", b"\0", b"\0\0\0", b"/\0tmp", b"/\0tmp\0", b"/\0a\0\0/\0b"):
        assert len(file_states(groups)) == 48 * sum(part in groups for part in (b"tmp", b"a", b"b"))


def test_library_loads() -> None:
    """A library that is loaded after the first lookup would not be noticed."""
    import ctypes

    assert library_loads() == library_loads() > 0
    before = library_loads()
    name = next(Path(os.__file__).parent.glob("lib-dynload/_*test*.so"), None)
    if name is not None:
        ctypes.CDLL(str(name), os.RTLD_LAZY)
        assert library_loads() > before
