# SPDX-License-Identifier: Apache-2.0
"""The target architectures."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from cudacore_compile._command.errors import UsageError
from cudacore_compile._compilers import nvrtc
from cudacore_compile._compilers.option_values import current_arch
from cudacore_handles import CUDAError, Device


def resolve(
    arguments: argparse.Namespace, target: str | None, *, combines: bool, needed: bool
) -> dict[str | None, str | None]:
    """Return the architectures for the arguments.

    Parameters
    ----------
    arguments : argparse.Namespace
        The arguments.
    target : str or None
        The format of the output.
    combines : bool
        Whether the output is a fat binary of compiled code. If all architectures are requested, it also gets PTX for
        later devices.
    needed : bool
        Whether something is compiled, which requires at least one architecture.

    Returns
    -------
    dict
        For each architecture that code is made for, the number of the one that sources are compiled for. An
        architecture that is None means no particular one.
    """
    found: dict[str | None, str | None] = {}
    for word in _words(arguments.arch):
        for code in _group(word, combines) or [word]:
            if code in found:
                raise UsageError("--arch has an architecture twice")
            found[code] = _number(code)
    for code, number in _of_nvcc(arguments, target, combines):
        if found.setdefault(code, number) != number:
            raise UsageError(f"-gencode has code={code} for two architectures of sources, {found[code]} and {number}")
    if found or not needed:
        return found or {None: None}
    try:
        current = current_arch()
    except CUDAError as error:
        error.hint = "There is no device to compile for: name an architecture, such as --arch sm_90 or --arch all-major"
        raise
    return {f"sm_{current}": current}


def _words(given: Sequence[str]) -> list[str]:
    words = [word for word in ",".join(given).split(",") if word]
    if given and not words:
        raise UsageError("--arch names no architecture")
    return [f"sm_{word}" if word[:1].isdigit() else word for word in words]


def _number(arch: str) -> str:
    return arch.rpartition("_")[2]


def _of_nvcc(arguments: argparse.Namespace, target: str | None, combines: bool) -> list[tuple[str, str]]:
    """Return what nvcc makes for ``-arch``, ``-code`` and ``-gencode``: code, and the number that sources are for."""
    words = [] if arguments.gpu_architecture is None else _words([arguments.gpu_architecture])
    given: list[tuple[str, str]] = []
    if arguments.gpu_code:
        if len(words) != 1 or not words[0].startswith("compute_"):
            raise UsageError("-code needs -arch with the virtual architecture that sources are compiled for")
        given += [(code, _number(words[0])) for code in arguments.gpu_code]
    for word in words if not arguments.gpu_code else ():
        group = _group(word, combines)
        given += [(code, _number(code)) for code in group or [word]]
        if group is None and word.startswith("sm_"):  # also PTX, for later devices
            number = _number(word)
            later = [number, number.rstrip("af")] if combines else [number]
            given += [(f"compute_{one}", one) for one in dict.fromkeys(later)]
    for spec in arguments.generate_code:
        match = re.fullmatch(r"arch=compute_(\w+),code=(?:\[([\w,]+)\]|([\w,]+))", re.sub(r'["\\ ]', "", spec))
        if match is None:
            raise UsageError(f"-gencode {spec}: write arch=compute_90,code=sm_90")
        given += [(code, match[1]) for code in (match[2] or match[3]).split(",")]
    if combines:
        return given
    if target in ("ptx", "ltoir", "optixir"):  # once for each architecture that sources are compiled for
        first = {number: code for code, number in reversed(given)}
        return [one for one in dict.fromkeys(given) if first[one[1]] == one[0]]
    return [one for one in given if one[0].startswith("sm_")] or given


_STEPS = {"all": 1, "all-major": 10}  # of the numbers of architectures


def _group(word: str, combines: bool) -> list[str] | None:
    """Return the architectures that a word stands for; None if it is one itself.

    Of all architectures, these are the first of each step, with PTX for the newest in a fat binary.
    """
    if word in _STEPS:
        first = {number // _STEPS[word]: number for number in sorted(nvrtc.load().architectures(), reverse=True)}
        chosen = sorted(first.values())
        return [f"sm_{number}" for number in chosen] + ([f"compute_{chosen[-1]}"] if combines else [])
    if word != "native":
        return None
    try:
        devices = Device.get_all_devices()
    except CUDAError as error:
        raise UsageError(f"--arch native: there is no device here: {error}") from None
    return list(dict.fromkeys(f"sm_{device.arch}" for device in devices))
