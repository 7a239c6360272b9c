# SPDX-License-Identifier: Apache-2.0
"""Messages in the compiler's log: as data, and formatted for users."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(
    r"(?:(?P<file>[^\n]+?)\((?P<line>\d+)\)|(?P<tool>nvrtc|[\w .-]+?)): "
    r"(?P<severity>catastrophic error|internal error|error|warning|remark|info)"
    r"(?: #(?P<number>[\w-]+))?: (?P<message>.*)"
)
# For example "ptxas warning : ...", and for PTX "ptxas application ptx input, line 7; error   : ...". Lines with
# "ptxas info" are not messages.
_PTXAS = re.compile(r"ptxas (?:.*?, line (?P<line>\d+); )?(?P<severity>fatal|error|warning)\s*: (?P<message>.*)")
_CARET = re.compile(r"  ([ \t]*)\^\s*")
_CONTEXT = 2  # lines shown before the line of the message
_COLOURS = {"error": "31;1", "warning": "35;1", "remark": "36;1", "place": "1", "caret": "32;1"}


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler.

    Parameters
    ----------
    severity : str
        ``"error"``, ``"warning"`` or ``"remark"``.
    message : str
        The text.
    file : str
        The file, as the compiler names it; empty if there is none.
    line, column : int
        The position, starting at 1; 0 if not given.
    number : str
        The diagnostic's number, such as ``"177-D"``; empty if it has none.
    source : str
        The line of source.
    notes : tuple of str
        Notes, such as where a template was instantiated.
    """

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    number: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()


def parse_log(log: str) -> list[Diagnostic]:
    """Return the messages in a compiler's log. Duplicates, and lines that are not messages, are left out."""
    return split_log(log)[0]


def split_log(log: str) -> tuple[list[Diagnostic], list[str]]:
    """Return the messages in a compiler's log without duplicates, and the lines that are not messages."""
    found: dict[Diagnostic, None] = {}
    others: list[str] = []
    lines = log.splitlines()
    at = 0
    while at < len(lines):
        head = _HEAD.fullmatch(lines[at])
        at += 1
        if head is None:
            if ptxas := _PTXAS.fullmatch(lines[at - 1].rstrip()):
                found[_of_assembler(ptxas)] = None
            else:
                others.append(lines[at - 1])
            continue
        rest = []
        while at < len(lines) and lines[at].startswith(" ") and not lines[at].startswith(" and "):
            rest.append(lines[at])
            at += 1
        found[_diagnostic(head, rest)] = None
    return list(found), others


def _of_assembler(match: re.Match[str]) -> Diagnostic:
    place = f"line {match['line']} of the PTX: " if match["line"] else ""
    severity = {"fatal": "error"}.get(match["severity"], match["severity"])
    return Diagnostic(severity, f"ptxas: {place}{match['message']}")


def _diagnostic(head: re.Match[str], rest: list[str]) -> Diagnostic:
    source, column, notes = "", 0, rest
    if len(rest) > 1 and (caret := _CARET.fullmatch(rest[1])):
        source, column, notes = rest[0][2:], len(caret[1]) + 1, rest[2:]
    severity = head["severity"].rpartition(" ")[2]  # "catastrophic error" counts as an error
    return Diagnostic(
        {"info": "remark"}.get(severity, severity),
        head["message"],
        head["file"] or "",
        int(head["line"] or 0),
        column,
        head["number"] or "",
        source,
        tuple(" ".join(note.split()) for note in notes if note.strip()),
    )


def render(diagnostic: Diagnostic, *, colour: bool, text: str | None = None) -> str:
    """Format a message with the lines of source that it is about.

    Parameters
    ----------
    diagnostic : Diagnostic
        The message.
    colour : bool
        Whether to use terminal colours.
    text : str, optional
        The whole file, for the preceding lines. Default: only the line that the compiler shows.
    """

    def paint(what: str, words: str) -> str:
        return f"\x1b[{_COLOURS[what]}m{words}\x1b[0m" if colour else words

    place = ":".join(str(part) for part in (diagnostic.file, diagnostic.line, diagnostic.column) if part)
    number = f" [#{diagnostic.number}]" if diagnostic.number else ""
    head = f"{paint('place', place or 'cudacore-compile')}: {paint(diagnostic.severity, diagnostic.severity + ':')} "
    lines = [f"{head}{diagnostic.message}{number}"]
    for number_of_line, content in _excerpt(diagnostic, text):
        lines.append(f"{number_of_line:5} | {content}")
    if diagnostic.column:
        before = diagnostic.source[: diagnostic.column - 1]
        indent = "".join(letter if letter == "\t" else " " for letter in before)
        lines.append(f"      | {indent}{paint('caret', '^')}")
    lines += [f"      = {note}" for note in diagnostic.notes]
    return "\n".join(lines)


def _excerpt(diagnostic: Diagnostic, text: str | None) -> list[tuple[int, str]]:
    if not diagnostic.line or not diagnostic.source:
        return []
    lines = [] if text is None else text.splitlines()
    at = diagnostic.line - 1
    if at < len(lines) and lines[at].expandtabs().rstrip() == diagnostic.source.expandtabs().rstrip():
        first = max(0, at - _CONTEXT)
        return [(i + 1, lines[i]) for i in range(first, at + 1)]
    return [(diagnostic.line, diagnostic.source)]  # the file was changed or removed meanwhile
