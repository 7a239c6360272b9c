# SPDX-License-Identifier: Apache-2.0
"""The messages of the command and its exit status."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from typing import TextIO

from cudacore_compile._command.errors import FAILURE, SUCCESS
from cudacore_compile._command.resources import Resources, parse_resources, sentence, table
from cudacore_compile._compilers.diagnostics import Diagnostic, parse_log, render, split_log


class Report:
    """Collects messages, and writes them at the end as text or as JSON.

    Parameters
    ----------
    arguments : argparse.Namespace
        The arguments.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._json = arguments.format == "json"
        self._strict = arguments.warnings_as_errors
        self._system = tuple(os.path.join(os.path.realpath(place), "") for place in arguments.system_include)
        self._stream: TextIO = sys.stderr
        wanted = self._stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._colour = {"auto": wanted, "always": True, "never": False}[arguments.color]
        self._found: dict[Diagnostic, None] = {}
        self._resources: dict[Resources, None] = {}
        self._lines: list[str] = []

    def add_log(self, log: str) -> None:
        """Add the log of a compiler."""
        found, lines = split_log(log)
        for one in found:
            self._add(one)
        # After an error, the remaining lines only count the errors, or name the compiler's phases.
        if any(one.severity == "error" for one in found):
            return
        resources, others = parse_resources(lines)
        self._resources.update(dict.fromkeys(resources))
        self._lines += others

    def add_error(self, message: str) -> None:
        """Add an error of the command itself."""
        self._add(Diagnostic("error", message))

    def add_warning(self, message: str) -> None:
        """Add a warning of the command itself. Unlike a compiler's warning, it is no error with ``-Werror``."""
        self._found[Diagnostic("warning", message)] = None

    def add_failure(self, failure: Exception, file: str) -> None:
        """Add the error of a failed compilation, with the compiler's messages if there are any."""
        known = parse_log(getattr(failure, "log", ""))
        for one in known:
            self._add(one)
        if not any(one.severity == "error" for one in known):
            self.add_error(f"{file}: {failure}")
            return
        hint = getattr(failure, "hint", "")
        if hint:
            self._add(Diagnostic("remark", hint))

    def _add(self, one: Diagnostic) -> None:
        if one.severity == "warning" and os.path.realpath(one.file).startswith(self._system):
            return
        if self._strict and one.severity == "warning":
            one = dataclasses.replace(one, severity="error", notes=(*one.notes, "warnings are errors (-Werror)"))
        self._found[one] = None

    @property
    def status(self) -> int:
        """int: The exit status so far."""
        return FAILURE if any(one.severity == "error" for one in self._found) else SUCCESS

    def finish(self) -> int:
        """Write all messages; return the exit status."""
        if self._json:
            items = [dataclasses.asdict(one) for one in self._found]
            items += [
                dataclasses.asdict(Diagnostic("remark", sentence(one))) | {"resources": dataclasses.asdict(one)}
                for one in self._resources
            ]
            items += [dataclasses.asdict(Diagnostic("remark", line)) for line in self._lines]
            print(json.dumps(items), file=self._stream)
            return self.status
        texts: dict[str, str | None] = {}
        for one in self._found:
            if one.file not in texts:
                texts[one.file] = _text_of(one.file)
            print(render(one, colour=self._colour, text=texts[one.file]), file=self._stream)
        if self._resources:
            print(table(list(self._resources)), file=self._stream)
        for line in self._lines:
            print(line, file=self._stream)
        return self.status


def say_error(message: str, usage: str, *, as_json: bool) -> None:
    """Write an error that ends the command; about the arguments, with the usage."""
    if as_json:
        sys.stderr.write(json.dumps([dataclasses.asdict(Diagnostic("error", message))]) + "\n")
    else:
        sys.stderr.write(f"{usage}cudacore-compile: error: {message}\n")


def _text_of(file: str) -> str | None:
    """Return the text of a file that a compiler names. Compilers write names in UTF-8, in every locale."""
    try:
        with open(file.encode("utf-8", "surrogateescape"), encoding="utf-8", errors="replace") as text:
            return text.read()
    except OSError:
        return None
