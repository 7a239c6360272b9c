# SPDX-License-Identifier: Apache-2.0
"""Folders for the precompiled headers that NVRTC makes automatically."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence

_FLAG = b"--pch-dir="
_folders: dict[tuple[int, bytes], bytes] = {}  # by process and given folder


def with_private_folder(flags: Sequence[bytes]) -> list[bytes]:
    """Replace the folder of automatic precompiled headers (``--pch``) by one in it that only this process uses.

    NVRTC does not use the headers of another process, but it deletes them while that process reads them. Without a
    given folder, NVRTC would use the current directory; the folder is then one for temporary files.
    """
    if b"--pch" not in flags:
        return list(flags)
    given = next((flag[len(_FLAG) :] for flag in flags if flag.startswith(_FLAG)), b"")
    try:
        folder = _private(given)
    except OSError:  # NVRTC reports what is wrong with the given folder
        return list(flags)
    return [*(flag for flag in flags if not flag.startswith(_FLAG)), _FLAG + folder]


def _private(given: bytes) -> bytes:
    key = os.getpid(), os.path.abspath(given) if given else b""
    folder = _folders.get(key)
    if folder is None or not os.path.isdir(folder):
        parent = key[1] or os.fsencode(tempfile.gettempdir())
        folder = _folders[key] = tempfile.mkdtemp(prefix=b"cudacore-pch-", dir=parent)
        atexit.register(_remove, os.getpid(), folder)
    return folder


def _remove(process: int, folder: bytes) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
