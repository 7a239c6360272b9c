# SPDX-License-Identifier: Apache-2.0
"""Words that the operator ``##`` can form from the tokens of a program.

A program can paste ``__TIME__`` or ``__has_include`` from parts, and then a search for these words does not find them.
So a program is refused if the words can be formed from the tokens that reach the operator: tokens in definitions of
macros, in conditions, in pragmas, in strings (which can be pragmas), and in the arguments of macros.
"""

from __future__ import annotations

import re
from collections.abc import Set

from cudacore_compile._cache.lexer import lex
from cudacore_compile._cache.scan import DIRECTIVE, TIMES, WORDS, atoms_of


def pasted_word(atoms: Set[bytes], tested_atoms: Set[bytes]) -> bytes | None:
    """Return a word that ``##`` can form from tokens and that makes a program uncacheable; None if there is none."""
    for word in WORDS:
        parts = atoms if word in TIMES else tested_atoms
        reached = {0}
        for end in range(1, len(word) + 1):
            if any(word[start:end] in parts for start in reached):
                reached.add(end)
        if len(word) in reached:
            return word
    return None


_CONDITIONS = (b"if", b"ifdef", b"ifndef", b"elif", b"elifdef", b"elifndef", b"else", b"endif")
_PAREN = re.compile(rb"\x03|\)|(?:([A-Za-z_$][\w$]*)[ \t\n]*)?\(|\b[_A-Za-z]{1,18}\b")
_STRING = re.compile(rb"\x01(\d+)\x01")
_NAME = re.compile(rb"[A-Za-z_$][\w$]*")
# An opening parenthesis without a name before it may belong to a macro that is the result of another macro, or to a
# macro whose name is in another file or branch.
_AFTER_UNKNOWN = frozenset(b")\x03\x04")


def atoms_in_macros(data: bytes, macros: Set[bytes], unbalanced: Set[bytes]) -> Set[bytes]:
    """Return the tokens of a file that can be parts of the words and are where macros are expanded or defined.

    Parameters
    ----------
    data : bytes
        The file.
    macros : set
        The names of all macros that the program and its headers define.
    unbalanced : set
        The macros that have more opening parentheses than closing ones, or fewer.
    """
    lexed = lex(data)
    text = _STRING.sub(lambda match: b" %b " % b" ".join(atoms_of(lexed.contents[int(match[1])])), lexed.text)
    everything = atoms_of(text)
    found: set[bytes] = set()
    pieces = []
    at = 0
    for match in DIRECTIVE.finditer(text):
        pieces.append(text[at : match.start()])
        at = match.end()
        if match[1] in _CONDITIONS:
            pieces.append(b"\x03")
        elif match[1] in (b"include", b"include_next"):
            pieces.append(b"\x04")
        if match[1] in (b"define", b"if", b"elif", b"pragma"):
            found |= atoms_of(match[2])
    pieces.append(text[at:])
    body = b"".join(pieces)
    if unbalanced and not unbalanced.isdisjoint(_NAME.findall(body)):
        return everything
    stack: list[bool] = []
    for match in _PAREN.finditer(body):
        token = match[0]
        is_inside = bool(stack) and stack[-1]
        if token == b"\x03":
            if stack:  # each branch may close parentheses that are open before it
                return everything
        elif token == b")":
            if not stack:
                return everything
            stack.pop()
        elif token.endswith(b"("):
            name = match[1] or b""
            if is_inside:
                found |= atoms_of(name)
            stack.append(
                is_inside
                or name in macros
                or name.startswith(b"_")
                or name.isupper()
                or (not name and _is_after_unknown(body, match.start()))
            )
        elif is_inside:
            found |= atoms_of(token)
    return everything if stack else found


def _is_after_unknown(body: bytes, at: int) -> bool:
    """Return whether the text before a position can end with a macro that is defined elsewhere."""
    while at > 0 and body[at - 1] in b" \t\n":
        at -= 1
    return at == 0 or body[at - 1] in _AFTER_UNKNOWN
