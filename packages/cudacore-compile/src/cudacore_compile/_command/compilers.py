# SPDX-License-Identifier: Apache-2.0
"""``cudacore-compile compilers``: the compilers of this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cudacore_compile._command.arguments import Parser
from cudacore_compile._command.errors import SUCCESS
from cudacore_compile._command.files import say
from cudacore_compile._compilers.versions import versions
from cudacore_compile.typing import CompilerBackendType

_TITLES = {
    CompilerBackendType.NVRTC: ("NVRTC", "CUDA C++"),
    CompilerBackendType.NVVM: ("libNVVM", "NVVM IR"),
    CompilerBackendType.NVJITLINK: ("nvJitLink", "linking, PTX"),
    CompilerBackendType.DRIVER: ("driver", "linking, PTX"),
}


def run_compilers(words: Sequence[str]) -> int:
    """Run the sub-command; return the exit status."""
    parser = Parser(
        "cudacore-compile compilers",
        description="List the compilers and linkers that are found, with their versions and architectures.",
        allow_abbrev=False,
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how they are written")
    arguments = parser.parse_args(words)
    found = {CompilerBackendType(backend): one for backend, one in versions().items()}
    if arguments.format == "json":
        listing = {str(backend): None if (one := found.get(backend)) is None else one._asdict() for backend in _TITLES}
        say(json.dumps(listing, indent=2) + "\n")
        return SUCCESS
    for backend, (title, purpose) in _TITLES.items():
        one = found.get(backend)
        where = "not found" if one is None else f"{one.version}  {one.path}".rstrip()
        say(f"{title:10} {purpose:13} {where}\n")
        if one is not None and one.architectures:
            say(f"{'':24} architectures {', '.join(map(str, one.architectures))}\n")
    return SUCCESS
