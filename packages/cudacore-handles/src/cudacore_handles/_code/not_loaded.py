# SPDX-License-Identifier: Apache-2.0
"""The hints of errors about code that the driver does not load: what the code was built for, and what there is."""

from __future__ import annotations

import re
from collections.abc import Callable

from cudacore_handles._base import results
from cudacore_handles._base.driver_calls import driver_status, driver_version, version_text
from cudacore_handles._base.errors import CUDAError
from cudacore_handles._cffi import ffi
from cudacore_handles._code.cubin import is_elf, target_of, toolkit_of
from cudacore_handles._code.fat_binary import entries

_LOG_BYTES = 16 * 1024
_JIT_ERROR_LOG_BUFFER = 5  # CU_JIT_ERROR_LOG_BUFFER
_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6  # CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES


def explain(error: CUDAError, status: int, read: Callable[[], bytes]) -> None:
    """Set the hint, and for PTX the log, of the error for code that the driver did not load.

    Parameters
    ----------
    error : CUDAError
        The error.
    status : int
        The driver's result code.
    read : callable
        Returns the code. It is called for the result codes that are about the code.
    """
    if status in (results.NO_BINARY_FOR_GPU, results.INVALID_IMAGE):
        error.hint = _other_target(status, read())
    elif status == results.UNSUPPORTED_PTX_VERSION:
        error.hint = _newer_ptx(read())
    elif status == results.INVALID_PTX:
        image = read()
        error.log = "\n".join(filter(None, (_driver_log(image), error.log)))
        error.hint = _invalid_ptx(image, error.log)


def _other_target(status: int, image: bytes) -> str:
    """Return the hint for code that is not for this device, or not for this driver."""
    from cudacore_handles._driver.device import Device

    device, driver = f"sm_{Device().arch}", driver_version()
    contents = ", ".join(dict.fromkeys(_targets(image)))
    hint = f"The current device is {device}{contents and ', and '}{contents}"
    if is_elf(image) and toolkit_of(image) > driver // 1000:
        return (
            f"{hint} by a compiler of CUDA {toolkit_of(image)}, whose cubins the driver, for CUDA "
            f"{version_text(driver)}, cannot load: compile with CUDA {driver // 1000} (python -m pip install "
            f'"cudacore-compile[cu{driver // 1000}]"), or update the driver'
        )
    if status == results.INVALID_IMAGE:
        return f"{hint}; the driver is for CUDA {version_text(driver)}. The code may be damaged: compile it anew"
    return hint + ": compile for the device, or to PTX"


def _targets(image: bytes) -> list[str]:
    """Describe what code was compiled for; empty for PTX, and for a damaged fat binary."""
    if is_elf(image):
        return [f"the cubin was compiled for {target_of(image)}"]
    parts = [
        f"{'compute' if part.code_type == 'ptx' else 'sm'}_{part.arch}{part.variant} ({part.code_type})"
        for part in entries(image)
    ]
    return [f"the fat binary has code for {parts[0]}", *parts[1:]] if parts else []


def _newer_ptx(image: bytes) -> str:
    directive = image.partition(b".version")[2].split(None, 1)
    ptx = directive[0].decode("ascii", "replace") if directive else "?"
    driver = version_text(driver_version())
    return (
        f"The PTX is of version {ptx}, which is newer than the driver, for CUDA {driver}, can compile: "
        f'compile to "cubin" for the device instead, use the NVRTC of CUDA {driver} or older, or update the driver'
    )


def _invalid_ptx(image: bytes, log: str) -> str:
    """Return the hint for PTX that the driver does not compile: link the missing code, or compile for the device."""
    from cudacore_handles._driver.device import Device

    unresolved = dict.fromkeys(re.findall(r"[Uu]nresolved (?:extern )?function '([^']+)'", log))
    if unresolved:
        return (
            f"The PTX declares {', '.join(map(repr, unresolved))} and does not define it: link it with the code that "
            'does, Linker(code, other_code).link("cubin")'
        )
    target = re.search(rb"^\s*\.target\s+sm_(\d+)([af]?)", image, re.MULTILINE)
    arch = Device().arch
    if target is not None and (int(target[1]) > int(arch) or (target[2] == b"a" and target[1].decode() != arch)):
        needed = f"{target[1].decode()}{target[2].decode()}"
        return (
            f'The PTX is for sm_{needed}, and the device is sm_{arch}: compile for ProgramOptions(arch="sm_{arch}"), '
            f"or for an older architecture"
        )
    return ""


def _driver_log(ptx: bytes) -> str:
    """Compile PTX again for its log, which loading a library does not provide (cuModuleLoadDataEx)."""
    log = ffi.new("char[]", _LOG_BYTES)
    options = ffi.new("int[]", [_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BUFFER_SIZE_BYTES])
    values = ffi.new("void *[]", [log, ffi.cast("void *", _LOG_BYTES - 1)])
    module = ffi.new("void **")
    if driver_status("cuModuleLoadDataEx", module, ptx, len(options), options, values) == 0:
        driver_status("cuModuleUnload", module[0])
    text: str = ffi.string(log).decode("utf-8", "replace")
    return text.strip()
