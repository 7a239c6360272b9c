# SPDX-License-Identifier: Apache-2.0
"""HTML tables of attributes, which notebooks show for objects such as device properties."""

from __future__ import annotations

import html
import re
from typing import Any

from cudacore_handles._base.attribute import Attribute
from cudacore_handles._base.errors import CUDAError

_UNITS = ("KiB", "MiB", "GiB", "TiB")
_NO_LIMIT = 2**64 - 1
_MARKUP = re.compile(r"(?::\w+:)?`+([^`]+)`+")


def attributes_table(title: str, instance: Any) -> str:
    """Return an HTML table of the :class:`Attribute` properties of an object, in their order."""
    found = (value for value in vars(type(instance)).values() if isinstance(value, Attribute))
    rows = "".join(_row(attribute, instance) for attribute in found)
    # On a narrow screen, the table scrolls.
    return (
        f'<div style="overflow-x: auto"><table><caption style="text-align: left">{html.escape(title)}</caption>'
        f"<thead><tr><th>attribute</th><th>value</th><th>meaning</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(attribute: Attribute[Any], instance: Any) -> str:
    kind, _, meaning = str(attribute.__doc__).partition(": ")
    try:
        value = getattr(instance, attribute.name)
    except CUDAError as error:  # one attribute failed, for example because the driver is too old for it
        shown = html.escape(error.code_name)
    else:
        shown = str(value) if kind == "bool" else f"{value:,}"
        if "in bytes" in meaning:
            shown += _in_larger_units(value)
    text = _MARKUP.sub(r"<code>\1</code>", html.escape(meaning))
    align = 'style="text-align: left"'
    return f"<tr><td {align}><code>{attribute.name}</code></td><td>{shown}</td><td {align}>{text}</td></tr>"


def _in_larger_units(nbytes: int) -> str:
    """Return a size in the largest unit that fits, in parentheses; an empty string if that unit is bytes."""
    if nbytes == _NO_LIMIT:
        return " (no limit)"
    power = min((nbytes.bit_length() - 1) // 10, len(_UNITS)) if nbytes > 0 else 0
    return f" ({nbytes / 1024**power:.4g} {_UNITS[power - 1]})" if power else ""
