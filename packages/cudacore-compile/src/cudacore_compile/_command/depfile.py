# SPDX-License-Identifier: Apache-2.0
"""Rules for Make and Ninja, which list the files that an output depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# This file does not exist and has no rule, so Make and Ninja rebuild its dependents each time.
_ALWAYS = "cudacore-compile-always"


def make_rule(targets: Sequence[str], dependencies: Iterable[str], *, phony: bool, is_complete: bool) -> str:
    """Return a rule that states the files on which the targets depend.

    Parameters
    ----------
    targets : sequence of str
        The targets, already quoted if necessary.
    dependencies : iterable of str
        The files; the first one is the source.
    phony : bool
        Whether each header gets an empty rule, so that Make does not fail when a header was removed.
    is_complete : bool
        Whether the list of files is complete. Otherwise the rule makes the targets each time.
    """
    names = [quote(name) for name in dict.fromkeys(dependencies)]
    extra = [] if is_complete else [_ALWAYS]
    text = " \\\n ".join([f"{' '.join(targets)}:", *names, *extra]) + "\n"
    for name in [*(names[1:] if phony else ()), *extra]:
        text += f"\n{name}:\n"
    return text


def quote(name: str) -> str:
    """Quote the name of a file for Make: spaces, ``#`` and ``$`` as gcc does."""
    quoted: list[str] = []
    for letter in name:
        if letter in " \t":  # backslashes before a space are doubled
            count = 0
            while count < len(quoted) and quoted[-1 - count] == "\\":
                count += 1
            quoted += "\\" * (count + 1)
        elif letter == "#":
            quoted.append("\\")
        elif letter == "$":
            quoted.append("$")
        quoted.append(letter)
    return "".join(quoted)
