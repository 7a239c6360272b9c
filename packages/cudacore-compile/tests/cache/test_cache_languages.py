# SPDX-License-Identifier: Apache-2.0
"""Program caches, for programs that are not C++."""

from __future__ import annotations

from typing import Any

import pytest
from cache_programs import meanwhile
from compile_sources import FUNCTION, FUNCTION_IR, KERNEL_IR, SINE_IR

from cudacore_compile import (
    InMemoryProgramCache,
    NVJitLinkError,
    Program,
    ProgramOptions,
    UncacheableError,
    make_program_cache_key,
)
from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers import nvvm as _nvvm


def key(code: Any, code_type: str, target: str, **options: Any) -> bytes:
    options.setdefault("arch", "sm_90")
    return make_program_cache_key(code=code, code_type=code_type, options=ProgramOptions(**options), target_type=target)


@pytest.mark.parametrize(("code_type", "target"), [("nvvm", "ptx"), ("nvvm", "ltoir"), ("ptx", "cubin")])
def test_hit(code_type: str, target: str) -> None:
    """A program would be compiled again, or the cache would return another program."""
    source = FUNCTION_IR if code_type == "nvvm" else Program(FUNCTION, "c++", {"arch": "sm_90"}).compile("ptx").code
    cache = InMemoryProgramCache()
    program = Program(source, code_type, ProgramOptions(arch="sm_90"))  # type: ignore[arg-type]
    first, again = (program.compile(target, cache=cache) for _ in range(2))
    assert (cache.statistics.hits, cache.statistics.misses) == (1, 1)
    assert (again.code, again.code_type, again.name) == (first.code, target, "default_program")
    assert again._signatures == first._signatures


def test_keys() -> None:
    """Different programs would have the same key, so that one gets the code of the other."""
    ptx = bytes(Program(FUNCTION, "c++", {"arch": "sm_90"}).compile("ptx").code)
    keys = [
        key(KERNEL_IR, "nvvm", "ptx"),
        key(KERNEL_IR, "nvvm", "ltoir"),
        key(KERNEL_IR, "nvvm", "ptx", arch="sm_80"),
        key(KERNEL_IR, "nvvm", "ptx", fma=False),
        key(KERNEL_IR, "nvvm", "ptx", use_libdevice=True),
        key(KERNEL_IR, "nvvm", "ptx", extra_sources=[("a", FUNCTION_IR)]),
        key(KERNEL_IR, "nvvm", "ptx", extra_sources=[("a", SINE_IR)]),
        key(KERNEL_IR, "nvvm", "ptx", extra_sources=[("b", SINE_IR)]),
        key(ptx, "ptx", "cubin"),
        key(ptx, "ptx", "cubin", ptxas_options="-O1"),
        key(ptx + b"\n", "ptx", "cubin"),
    ]
    assert len(set(keys)) == len(keys)
    assert key(KERNEL_IR.encode(), "nvvm", "ptx") == keys[0]
    assert key(b"BC\0", "nvvm", "ptx")  # bitcode has NULs


def test_libdevice_that_is_replaced_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code could be stored with a key that names another libdevice than the linked one."""
    cache = InMemoryProgramCache()
    program = Program(SINE_IR, "nvvm", ProgramOptions(arch="sm_90", use_libdevice=True))
    libdevice = _nvvm._libdevice
    with meanwhile(lambda: None, lambda: monkeypatch.setattr(_nvvm, "_libdevice", lambda path: b"another")):
        program.compile("ptx", cache=cache)
    monkeypatch.setattr(_nvvm, "_libdevice", libdevice)
    assert len(cache) == 0
    program.compile("ptx", cache=cache)
    assert len(cache) == 1


def test_no_nvjitlink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that one driver linked would be returned for another driver."""

    def fail() -> None:
        raise NVJitLinkError("load nvJitLink", -1, "NVJITLINK_NOT_FOUND", "not found")

    monkeypatch.setattr(_nvjitlink, "load", fail)
    with pytest.raises(UncacheableError, match="there is no nvJitLink"):
        key(b".version 8.0", "ptx", "cubin")


def test_nvjitlink_that_is_too_old() -> None:
    """Code that the driver linked, because nvJitLink is too old for it, would be returned under another driver."""
    assert key(b".version 8.0", "ptx", "cubin")
    with pytest.raises(UncacheableError, match=r"the driver would link it: nvJitLink .* takes PTX up to"):
        key(b".version 99.0", "ptx", "cubin")
