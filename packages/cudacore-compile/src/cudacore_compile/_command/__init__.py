# SPDX-License-Identifier: Apache-2.0
"""The command ``cudacore-compile``.

``arguments`` reads the command line, ``inputs`` recognises the files, ``plan`` says what is compiled, linked and
written, ``report`` shows what the compilers say, ``resources`` what the assembler says about kernels, ``listing`` what
is in compiled code, and ``depfile`` writes rules for build systems. ``cache`` and ``compilers`` are sub-commands.
"""

from __future__ import annotations

from cudacore_compile._command.entry import main

__all__ = ["main"]
