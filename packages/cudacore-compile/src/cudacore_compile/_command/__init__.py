# SPDX-License-Identifier: Apache-2.0
"""The command ``cudacore-compile``.

``arguments`` reads the command line, and ``nvcc`` translates nvcc's options for it. ``inputs`` recognises the files,
``plan`` determines what is compiled, linked and written, ``embed`` makes code a part of a program of the host,
``report`` shows the compilers' messages, ``resources`` shows the assembler's information about kernels,
``listing`` shows the contents of compiled code, and ``depfile`` writes rules for build systems. ``subcommands`` and
``explain`` have the sub-commands.
"""

from __future__ import annotations

from cudacore_compile._command.entry import main

__all__ = ["main"]
