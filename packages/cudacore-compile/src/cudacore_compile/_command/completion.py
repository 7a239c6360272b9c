# SPDX-License-Identifier: Apache-2.0
"""Shell completion, by the package shtab."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cudacore_compile._command.errors import UsageError

_SHELLS = ("bash", "zsh", "tcsh")


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add ``--print-completion``, which writes a script for a shell."""
    parser.add_argument(
        "--print-completion",
        action=_Print,
        choices=_SHELLS,
        help="print a completion script for a shell, which sources it; needs the package shtab",
    )


class _Print(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, _: argparse.Namespace, shell: Any, __: str | None = None
    ) -> None:
        try:
            import shtab
        except ImportError:
            raise UsageError(
                '--print-completion needs the package shtab: python -m pip install "cudacore-compile[completion]"'
            ) from None
        for action in parser._actions:
            if action.metavar in ("FILE", "DIR"):
                action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, shell) + "\n")
        parser.exit(0)
