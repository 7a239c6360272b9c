# SPDX-License-Identifier: Apache-2.0
"""Caches and batches of programs that are not C++."""

from __future__ import annotations

from typing import Any

import pytest
from compile_sources import FUNCTION_IR, HEAD, SINE_IR, VERSION

from cudacore_compile import (
    InMemoryProgramCache,
    Linker,
    Program,
    ProgramOptions,
    _cache_digest,
    compile_many,
    make_program_cache_key,
)
from cudacore_compile.typing import CompilerBackendType

PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %p; ld.param.u64 %p, [p]; st.global.u32 [%p], 7; ret; }
"""
PROGRAMS = [(FUNCTION_IR, "nvvm", "ptx"), (FUNCTION_IR, "nvvm", "ltoir"), (PTX, "ptx", "cubin")]


def key(code: Any = FUNCTION_IR, code_type: str = "nvvm", target: str = "ptx", **options: Any) -> bytes:
    options.setdefault("arch", "sm_90")
    return make_program_cache_key(code=code, code_type=code_type, options=ProgramOptions(**options), target_type=target)


@pytest.mark.parametrize(("code", "code_type", "target"), PROGRAMS)
def test_hits(code: str, code_type: str, target: str) -> None:
    """A program that is not C++ would be compiled each time, or come back as something else."""
    cache = InMemoryProgramCache()
    program = Program(code, code_type, {"arch": "sm_90"})
    cold, warm = (program.compile(target, cache=cache) for _ in range(2))
    assert (cache.statistics.hits, cache.statistics.misses) == (1, 1)
    for attribute in ("code", "code_type", "name", "symbol_mapping", "_signatures"):
        assert getattr(warm, attribute) == getattr(cold, attribute)
    again, same = compile_many([(code, {"arch": "sm_90"}, target, (), code_type)] * 2, cache=cache)
    assert again is same
    assert again.code == cold.code
    assert cache.statistics.hits == 2


def test_what_counts_for_nvvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module, libdevice, an option or the compiler's build would be missing from the key."""
    module = f"{HEAD}\ndefine void @g() {{\n  ret void\n}}\n{VERSION}"
    keys = [
        key(),
        key(FUNCTION_IR + "\n"),
        key(target="ltoir"),
        key(arch="sm_80"),
        key(name="another"),
        key(ftz=True),
        key(extra_sources=[("g", module)]),
        key(extra_sources=[("h", module)]),
        key(extra_sources=[("g", module + "\n")]),
        key(SINE_IR),
        key(SINE_IR, use_libdevice=True),
    ]
    monkeypatch.setattr(_cache_digest, "_libdevice_digest", lambda: b"another libdevice")
    keys.append(key(SINE_IR, use_libdevice=True))
    monkeypatch.setattr(_cache_digest, "library_identity", lambda *_: b"another build")
    keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key(FUNCTION_IR.encode()) == key()


def test_what_counts_for_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another linker, or another build of it, would be taken for the one that made the code."""
    keys = [
        key(PTX, "ptx", "cubin"),
        key(PTX + "\n", "ptx", "cubin"),
        key(PTX, "ptx", "cubin", arch="sm_80"),
        key(PTX, "ptx", "cubin", debug=True),
        key(PTX, "ptx", "cubin", max_register_count=32),
    ]
    monkeypatch.setattr(_cache_digest, "library_identity", lambda *_: b"another build")
    keys.append(key(PTX, "ptx", "cubin"))
    monkeypatch.setattr(Linker, "_choose_for", lambda *_: CompilerBackendType.DRIVER)
    for version in ((13, 0), (13, 1)):
        monkeypatch.setattr(_cache_digest, "driver_cuda_version", lambda version=version: version)
        keys.append(key(PTX, "ptx", "cubin"))
    assert len(set(keys)) == len(keys)
