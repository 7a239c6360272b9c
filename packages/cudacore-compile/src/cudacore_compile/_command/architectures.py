# SPDX-License-Identifier: Apache-2.0
"""The target architectures."""

from __future__ import annotations

from collections.abc import Sequence

from cudacore_compile._command.errors import UsageError
from cudacore_compile._compilers import nvrtc
from cudacore_compile._compilers.option_values import current_arch
from cudacore_handles import CUDAError, Device


def resolve(given: Sequence[str], *, combines: bool, needed: bool) -> list[str | None]:
    """Return the architectures for the arguments.

    Parameters
    ----------
    given : sequence of str
        Comma-separated lists.
    combines : bool
        Whether the output is a fat binary. If all architectures are requested, the fat binary also gets PTX for later
        devices.
    needed : bool
        Whether something is compiled, which requires at least one architecture.

    Returns
    -------
    list of str or None
        The architectures; None means no particular one.
    """
    words = [word for word in ",".join(given).split(",") if word]
    if given and not words:
        raise UsageError("--arch names no architecture")
    found: list[str | None] = []
    for word in words:
        found += _GROUPS[word](combines) if word in _GROUPS else [f"sm_{word}" if word[:1].isdigit() else word]
    if len(set(found)) != len(found):
        raise UsageError("--arch has an architecture twice")
    if found or not needed:
        return found or [None]
    try:
        return [f"sm_{current_arch()}"]
    except CUDAError as error:
        hint = "There is no device to compile for: name an architecture, such as --arch sm_90 or --arch all-major"
        raise CUDAError(error.operation, error.code, error.code_name, error.meaning, hint=hint) from None


def _all(combines: bool) -> list[str]:
    numbers = sorted(nvrtc.load().architectures())
    return [f"sm_{number}" for number in numbers] + ([f"compute_{numbers[-1]}"] if combines else [])


def _all_major(combines: bool) -> list[str]:
    """Return the first architecture of each major version, with PTX for the newest."""
    numbers = sorted(nvrtc.load().architectures())
    first = {number // 10: number for number in reversed(numbers)}
    chosen = sorted(first.values())
    return [f"sm_{number}" for number in chosen] + ([f"compute_{chosen[-1]}"] if combines else [])


def _native(_: bool) -> list[str]:
    try:
        devices = Device.get_all_devices()
    except CUDAError as error:
        raise UsageError(f"--arch native: there is no device here: {error}") from None
    return list(dict.fromkeys(f"sm_{device.arch}" for device in devices))


_GROUPS = {"all": _all, "all-major": _all_major, "native": _native}
