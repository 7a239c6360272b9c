# SPDX-License-Identifier: Apache-2.0
"""Linked code in program caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cache_programs import UsersCache, meanwhile

from cudacore_compile import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    Linker,
    LinkerOptions,
    NVJitLinkError,
    Program,
)
from cudacore_compile import _linker as linker_module
from cudacore_compile._cache import link as link_module
from cudacore_compile._compilers import nvjitlink
from cudacore_compile._compilers.choose_linker import Choice
from cudacore_compile.typing import CompilerBackendType
from cudacore_handles import ObjectCode

F = 'extern "C" __device__ float f(float x) { return x / 3; }\n'
KERNEL = """extern "C" __device__ float f(float x);
template <class T> __global__ void k(T *p) { p[0] = f(p[1]); }
"""


def build(source: str, target: str = "ltoir", names: tuple[str, ...] = (), **options: Any) -> ObjectCode:
    options = {"arch": "sm_90"} | options
    if target != "ltoir":
        options["relocatable_device_code"] = True
    return Program(source, "c++", options).compile(target, names)


@pytest.fixture(scope="module")
def parts() -> tuple[ObjectCode, ObjectCode]:
    return build(KERNEL, names=("k<float>",), name="kernel.cu"), build(F, name="f.cu")


@pytest.fixture(params=["memory", "files"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemoryProgramCache() if request.param == "memory" else FileStreamProgramCache(tmp_path / "cache")


def counts(cache: Any) -> tuple[int, int, int, int]:
    found = cache.statistics
    return found.hits, found.misses, found.stores, found.uncacheable


def test_found_again(cache: Any, parts: tuple[ObjectCode, ObjectCode], monkeypatch: pytest.MonkeyPatch) -> None:
    """Code would be linked each time, or be returned without its names, its signatures or its log."""
    options = LinkerOptions(arch="sm_90", name="all", verbose=True, no_cache=True)  # the driver's cache has no logs
    plain = Linker(*parts, options=options).link("cubin")
    first = Linker(*parts, options=options)
    linked = first.link("cubin", cache=cache)
    monkeypatch.setattr(nvjitlink.NVJitLink, "link", None)
    second = Linker(*parts, options=options)
    found = second.link("cubin", cache=cache)
    assert plain.code == linked.code == found.code
    assert counts(cache) == (1, 1, 1, 0)
    for code in (linked, found):
        assert (code.code_type, code.name) == ("cubin", "all")
        assert code.symbol_mapping == plain.symbol_mapping == {"k<float>": "_Z1kIfEvPT_"}
        assert code._signatures == plain._signatures
    assert (second.get_error_log(), second.get_info_log()) == (first.get_error_log(), first.get_info_log())
    assert "_Z1kIfEvPT_" in second.get_info_log()


OTHER_OPTIONS: list[dict[str, Any]] = [
    {"arch": "sm_90a"},
    {"max_register_count": 32},
    {"verbose": True},
    {"optimization_level": 0},
    {"debug": True},
    {"lineinfo": True},
    {"ftz": True},
    {"prec_div": False},
    {"prec_sqrt": False},
    {"fma": False},
    {"kernels_used": "_Z1kIfEvPT_"},
    {"variables_used": "v"},
    {"optimize_unused_variables": True},
    {"ptxas_options": ["-O1"]},
    {"split_compile": 2},
]


def test_whatever_decides_is_in_the_key(parts: tuple[ObjectCode, ObjectCode], monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache would return code that was linked from other code, with other options, or by another linker."""
    kernel, f = parts
    keys: dict[bytes, object] = {}
    real = link_module.link_key

    def note(facts: link_module.LinkFacts) -> bytes:
        key = real(facts)
        keys[key] = facts
        return key

    monkeypatch.setattr(link_module, "link_key", note)
    monkeypatch.setattr(nvjitlink.NVJitLink, "link", lambda *args: nvjitlink.Linked(b"code", "", ""))
    cache, links = InMemoryProgramCache(), 0

    def link(*codes: ObjectCode, target: str = "cubin", **options: Any) -> None:
        nonlocal links
        links += 1
        Linker(*codes, options=LinkerOptions(**({"arch": "sm_90"} | options))).link(target, cache=cache)
        assert len(keys) == links, (codes, options)

    link(kernel, f)
    link(f, kernel)
    link(kernel)
    link(kernel, f, f)
    link(kernel, f, target="ptx")
    link(kernel, build(F.replace("3", "4"), name="f.cu"))
    link(kernel, build(F, name="another.cu"))
    link(kernel, build(F, "ptx", name="f.cu"))
    link(kernel, build(F, "cubin", name="f.cu"))
    for options in OTHER_OPTIONS:
        link(kernel, f, **options)
    monkeypatch.setenv("NVVM_SOMETHING", "1")
    link(kernel, f)
    monkeypatch.setattr(link_module, "loaded_identity", lambda path: b"another build")
    link(kernel, f)
    assert counts(cache) == (0, links, links, 0)


def test_code_in_files(cache: Any, tmp_path: Path) -> None:
    """The linked code would not change with the contents of a file, or would be stored under the key of the old
    contents."""
    path = tmp_path / "f.ptx"
    kernel, options = build(KERNEL, "ptx", ("k<float>",)), LinkerOptions(arch="sm_90")
    expected = []
    for source in (F, F.replace("3", "5")):
        path.write_bytes(bytes(build(source, "ptx").code))
        expected.append(Linker(kernel, ObjectCode.from_ptx(path), options=options).link("cubin").code)
    assert expected[0] != expected[1]
    for source, code in ((F, expected[0]), (F.replace("3", "5"), expected[1]), (F, expected[0])):
        path.write_bytes(bytes(build(source, "ptx").code))
        assert Linker(kernel, ObjectCode.from_ptx(path), options=options).link("cubin", cache=cache).code == code
    assert counts(cache) == (1, 2, 2, 0)


def test_file_that_changes_meanwhile(parts: tuple[ObjectCode, ObjectCode], monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file changed during linking, the code would be stored under the key of the old contents."""
    reads = []
    real = ObjectCode._read
    monkeypatch.setattr(ObjectCode, "_read", lambda self: reads.append(self) or real(self))  # type: ignore[func-returns-value]
    cache = InMemoryProgramCache()
    for _ in range(2):
        reads.clear()
        Linker(*parts, options=LinkerOptions(arch="sm_90")).link("cubin", cache=cache)
        assert [sum(code is read for read in reads) for code in parts] == [1, 1]


@pytest.mark.parametrize(
    "options",
    [{"time": True}, {"ptxas_options": "--options-file=x"}, {"ptxas_options": ["-v", "/tmp/options"]}],
)
def test_what_is_not_cached(parts: tuple[ObjectCode, ObjectCode], options: dict[str, Any]) -> None:
    """The times of an earlier link would be reported, or code that depends on a file would be reused."""
    cache = InMemoryProgramCache()
    try:
        Linker(*parts, options=LinkerOptions(arch="sm_90", **options)).link("cubin", cache=cache)
    except NVJitLinkError:
        pass  # this file does not exist
    assert counts(cache) == (0, 0, 0, 1)


def test_variable_that_is_set_meanwhile(parts: tuple[ObjectCode, ObjectCode], monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that was linked with an environment variable of another thread would be stored as linked without it."""
    monkeypatch.delenv("NVVM_SOMETHING", raising=False)
    cache = InMemoryProgramCache()
    with meanwhile(lambda: monkeypatch.setenv("NVVM_SOMETHING", "1"), of=(nvjitlink.NVJitLink, "link")):
        Linker(*parts, options=LinkerOptions(arch="sm_90")).link("cubin", cache=cache)
    assert len(cache) == 0


def test_linker_that_others_can_change(parts: tuple[ObjectCode, ObjectCode]) -> None:
    """Code that was added through the linker's handle would be cached under a key that does not include it."""
    cache = InMemoryProgramCache()
    linker = Linker(*parts, options=LinkerOptions(arch="sm_90"))
    assert linker.handle
    linker.link("cubin", cache=cache)
    assert counts(cache) == (0, 0, 0, 0)
    linker.link("cubin", cache=cache)
    assert counts(cache) == (0, 1, 1, 0)


def test_driver_that_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that the driver linked would be cached, and be returned for another driver."""
    cache = InMemoryProgramCache()
    chosen = Choice(CompilerBackendType.DRIVER, "of the test")
    monkeypatch.setattr(Linker, "_choose", lambda *args: chosen)
    monkeypatch.setattr(linker_module, "_link_with_driver", lambda *args: nvjitlink.Linked(b"code", "", ""))
    code = Linker(build(F, "ptx"), options=LinkerOptions(arch="sm_90")).link("cubin", cache=cache).code
    assert (code, counts(cache)) == (b"code", (0, 0, 0, 1))


def test_caches_that_fail(parts: tuple[ObjectCode, ObjectCode]) -> None:
    """A failing cache would prevent linking, or its warning would name another line."""
    linker = Linker(*parts, options=LinkerOptions(arch="sm_90"))
    expected = linker.link("cubin").code

    class Full(dict[Any, Any]):
        def __getitem__(self, key: Any) -> Any:
            raise OSError("full")

        def __setitem__(self, key: Any, value: Any) -> None:
            raise OSError("full")

    cache = UsersCache()
    cache.data = Full()
    with pytest.warns(RuntimeWarning, match=r"could not be (read|written): OSError\('full'\)") as told:
        assert linker.link("cubin", cache=cache).code == expected
    assert [warning.filename for warning in told] == [__file__] * 2
    with pytest.raises(TypeError, match="cache must be a ProgramCacheResource"):
        linker.link("cubin", cache={})  # type: ignore[arg-type]
