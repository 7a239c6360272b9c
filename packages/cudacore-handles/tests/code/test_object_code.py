# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import pytest
from kernel_sources import CUDA, PTX

import cudacore_handles as ch

KINDS = ["cubin", "ptx", "ltoir", "fatbin", "object", "library"]
LOADABLE = ["cubin", "ptx", "fatbin"]
ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)


def make(kind: str, module: Any, **options: Any) -> ch.ObjectCode:
    return getattr(ch.ObjectCode, f"from_{kind}")(module, **options)


# ---- without a driver


@pytest.mark.parametrize("kind", KINDS)
def test_properties(kind: str, tmp_path: Path) -> None:
    """Code would be loaded as another kind of code, or be changed."""
    code = make(kind, b"code", name="n", symbol_mapping={"f<int>": "_Z1fIiEvv"})
    assert (code.code, code.code_type, code.name) == (b"code", kind, "n")
    assert code.symbol_mapping == {"f<int>": "_Z1fIiEvv"}
    assert repr(code) == f"<ObjectCode handle=0x0 code_type='{kind}' name='n' bytes=4>"
    bare = make(kind, b"code")
    assert (bare.name, bare.symbol_mapping) == ("", {})
    for path in (tmp_path / "k", str(tmp_path / "k")):
        assert make(kind, path).code == str(tmp_path / "k")
        shown = repr(make(kind, path))
        assert shown.startswith(f"<ObjectCode handle=0x0 code_type='{kind}' path='{str(tmp_path)[:40]}")


@pytest.mark.parametrize("module", [bytearray(b"code"), memoryview(b"code")])
def test_code_that_can_change_is_copied(module: Any) -> None:
    """A caller that changes its buffer would change the code of an ObjectCode."""
    code = make("cubin", module)
    assert code.code == b"code"
    if isinstance(module, bytearray):
        module[:] = b"else"
    assert code.code == b"code"


def test_the_symbol_mapping_is_a_copy() -> None:
    """A change to a caller's dictionary would change which kernels the code has."""
    mapping = {"a": "b"}
    code = make("cubin", b"", symbol_mapping=mapping)
    mapping["a"] = "c"
    code.symbol_mapping["a"] = "d"
    assert code.symbol_mapping == {"a": "b"}


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1,), {}, "module must be bytes or a path, not int"),
        ((None,), {}, "module must be bytes or a path, not NoneType"),
        (([b"code"],), {}, "module must be bytes or a path, not list"),
        ((b"",), {"name": b"n"}, "name must be a str, not bytes"),
        ((b"",), {"name": None}, "name must be a str, not NoneType"),
        ((b"",), {"symbol_mapping": [("a", "b")]}, "symbol_mapping must be a dict of str to str, not list"),
        ((b"",), {"symbol_mapping": {1: "b"}}, "a name in symbol_mapping must be a str or bytes, not int"),
        ((b"",), {"symbol_mapping": {"a": None}}, "a lowered name in symbol_mapping must be .* not NoneType"),
    ],
)
def test_bad_arguments(arguments: Any, options: Any, message: str) -> None:
    """Invalid code, names or mappings would fail only later, when a kernel is requested."""
    for kind in KINDS:
        with pytest.raises(TypeError, match=message):
            make(kind, *arguments, **options)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: make("ptx", "a\0b"), r"module is a path with a NUL character: 'a\\x00b'"),
        (lambda: make("ptx", PTX, symbol_mapping={"a\0b": "c"}), "a name in symbol_mapping has a NUL"),
        (lambda: make("ptx", PTX, symbol_mapping={"a": b"b\0"}), "a lowered name in symbol_mapping has a NUL"),
        (lambda: make("ptx", PTX, symbol_mapping={b"\xff": "b"}), "a name in symbol_mapping is not UTF-8"),
        (lambda: make("ptx", PTX).get_kernel("nothing\0x"), r"name has a NUL character, which would end it"),
        (lambda: make("ptx", PTX).get_kernel(b"nothing\0x"), r"name has a NUL character.*'nothing\\x00x'"),
        (lambda: make("ptx", PTX).get_kernel(b"\xff"), "name is not UTF-8"),
    ],
)
def test_bad_names(use: Any, message: str) -> None:
    """A name that contains a NUL, at which C would end it, or that is not UTF-8, would reach the driver."""
    with pytest.raises(ValueError, match=message):
        use()


@pytest.mark.parametrize("given", [{"a": "nothing"}, {"a": b"nothing"}, {b"a": b"nothing"}, {b"a": "nothing"}])
def test_symbol_mapping_in_bytes(device: ch.Device, given: Any) -> None:
    """Mangled names as bytes, which programs for cuda.core use, would not be accepted."""
    code = make("ptx", PTX, symbol_mapping=given)
    assert code.symbol_mapping == {"a": "nothing"}
    assert code.get_kernel("a") == code.get_kernel(b"a") == code.get_kernel("nothing")


def test_short_repr() -> None:
    """The repr of code that has a long name or path would fill a screen."""
    for code in (make("cubin", bytes(5000), name="n" * 500), make("cubin", "/" + "p" * 500)):
        assert len(repr(code)) < 160
        assert "..." in repr(code)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("module", [b"code", "/nowhere/k"])
def test_pickle(kind: str, module: Any) -> None:
    """Code could not be sent to a worker process, or would lose its name or its lowered names."""
    code = make(kind, module, name="n", symbol_mapping={"a": "b"})
    for twin in (pickle.loads(pickle.dumps(code)), copy.copy(code), copy.deepcopy(code)):
        assert (twin.code, twin.code_type, twin.name) == (module, kind, "n")
        assert twin.symbol_mapping == {"a": "b"}
        assert twin != code  # once loaded, the two are different libraries


def test_identity() -> None:
    """Loading would change the hash of an ObjectCode that is a dictionary's key, or different code would be equal."""
    code, other = make("ptx", PTX), make("ptx", PTX)
    same = code
    assert code == same
    assert code != other
    assert code != PTX
    assert len({code, other, code}) == 2


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(LOADABLE)))
def test_code_that_must_be_linked(kind: str) -> None:
    """Code that must be linked first would be passed to the driver, which cannot load it."""
    code = make(kind, b"code")
    for use in (lambda: code.get_kernel("k"), lambda: code.handle):
        with pytest.raises(ch.UnsupportedCodeError, match=f'Unsupported code type "{kind}": it cannot be loaded; link'):
            use()


# ---- loading


@pytest.mark.parametrize("source", ["bytes", "path", "str", "bytes with a NUL"])
def test_load(device: ch.Device, stream: ch.Stream, tmp_path: Path, source: str) -> None:
    """Code could not be loaded from memory or from a file."""
    path = tmp_path / "kernels.ptx"
    path.write_bytes(PTX)
    module = {"bytes": PTX, "path": path, "str": str(path), "bytes with a NUL": PTX + b"\0"}[source]
    code = make("ptx", module)
    ch.launch(stream, ONE_BLOCK, code.get_kernel("nothing"))
    stream.sync()
    path.unlink()
    code.get_kernel(b"add")  # it is loaded, so the file is no longer needed


def test_load_after_a_change_of_the_directory(
    device: ch.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path would be searched for in the directory that is current when the first kernel is needed."""
    (tmp_path / "k.ptx").write_bytes(PTX)
    monkeypatch.chdir(tmp_path)
    code = make("ptx", "k.ptx")
    monkeypatch.chdir("/")
    pickle.loads(pickle.dumps(code)).get_kernel("add")
    code.get_kernel("add")


def test_loading_is_put_off(device: ch.Device) -> None:
    """Creating an ObjectCode would need a driver, or each kernel would load the code again."""
    before = ch.live_counts()["library"]
    code = make("ptx", PTX)
    assert ch.live_counts()["library"] == before
    kernels = [code.get_kernel("add"), code.get_kernel("nothing"), code.get_kernel("add")]
    assert ch.live_counts()["library"] == before + 1
    assert kernels[0] == kernels[2] != kernels[1]


@pytest.mark.cuda_gpu  # the simulated driver cannot run cubins
def test_load_a_cubin(device: ch.Device, stream: ch.Stream, compile_cuda: Any, tmp_path: Path) -> None:
    """Code for this device could not be loaded, from memory or from a file."""
    cubin = compile_cuda(CUDA, f"sm_{device.arch}", "cubin")
    (tmp_path / "k.cubin").write_bytes(cubin)
    for module in (cubin, tmp_path / "k.cubin"):
        ch.launch(stream, ONE_BLOCK, make("cubin", module).get_kernel("nothing"))
    stream.sync()


def test_lowered_names(device: ch.Device, code: ch.ObjectCode) -> None:
    """A kernel of a template could not be found by the expression that instantiated it."""
    lowered = "_Z9templatedIfEvPT_S0_"
    named = ch.ObjectCode._init(code.code, code.code_type, symbol_mapping={"templated<float>": lowered})
    assert named.get_kernel("templated<float>") == named.get_kernel(lowered)
    assert named.get_kernel("templated<float>").num_arguments == 2


def test_handle_and_module(device: ch.Device) -> None:
    """cuda.bindings would not accept the handle of a library."""
    from cuda.bindings import driver

    code = make("ptx", PTX)
    assert isinstance(code.handle, driver.CUlibrary)
    status, _ = driver.cuLibraryGetKernel(code.handle, b"add")
    assert int(status) == 0
    assert int(driver.cuLibraryUnload(code.handle)[0]) == 0


def test_a_library_that_its_receiver_unloads(device: ch.Device) -> None:
    """We would unload a library that numba-cuda has already unloaded: a crash, or the loss of another library."""
    from cuda.bindings import driver

    code = make("ptx", PTX)
    kernel = code.get_kernel("add")
    handle = code.handle
    assert int(driver.cuLibraryUnload(handle)[0]) == 0
    others = [make("ptx", PTX) for _ in range(3)]
    # For these kernels and their libraries, the driver may reuse the handles that are now free.
    kernels = [other.get_kernel("add") for other in others]
    del code, kernel
    gc.collect()
    for other, own in zip(others, kernels, strict=True):
        assert int(driver.cuLibraryGetKernel(driver.CUlibrary(other._raw()), b"add")[0]) == 0
        assert own.attributes.num_regs >= 0


def test_a_library_that_nobody_unloads(device: ch.Device) -> None:
    """Code would be unloaded while other code still uses its handle."""
    from cuda.bindings import driver

    code = make("ptx", PTX)
    handle = code.handle
    del code
    gc.collect()
    assert int(driver.cuLibraryGetKernel(handle, b"add")[0]) == 0
    assert int(driver.cuLibraryUnload(handle)[0]) == 0


def test_a_module_outlives_its_code(device: ch.Device) -> None:
    """Code would be unloaded while another library uses its module: a CUmodule cannot keep the code loaded."""
    from cuda.bindings import driver

    code = make("ptx", PTX)
    module, library = code.get_module(), driver.CUlibrary(code._raw())
    del code
    gc.collect()
    assert int(driver.cuModuleGetFunction(module, b"add")[0]) == 0
    assert int(driver.cuLibraryUnload(library)[0]) == 0


def test_a_missing_file(device: ch.Device, tmp_path: Path) -> None:
    """The path of a missing file would cause an error of the driver, or would still fail once the file exists."""
    code = make("ptx", tmp_path / "k.ptx")
    with pytest.raises(FileNotFoundError, match=r"k\.ptx"):
        code.get_kernel("add")
    (tmp_path / "k.ptx").write_bytes(PTX)
    code.get_kernel("add")


# ---- missing kernels and variables


@pytest.mark.parametrize("name", ["minus", "", "nothing ", "Add", "kërnel"])
def test_a_missing_kernel(device: ch.Device, name: str) -> None:
    """For a kernel that does not exist, the error would not list the existing kernels."""
    code = make("ptx", PTX, symbol_mapping={"plus": "add"})
    with pytest.raises(ch.CUDAError, match="cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND") as caught:
        code.get_kernel(name)
    meant = {"Add": "did you mean 'plus'? It", "nothing ": "did you mean 'nothing'? It"}.get(name, "it")
    assert caught.value.hint == f"The code has no kernel {name!r}; {meant} has: nothing, plus"
    assert code.get_kernel("plus").num_arguments == 2


def test_a_missing_kernel_among_mangled_ones(device: ch.Device, code: ch.ObjectCode) -> None:
    """If a kernel is not found because extern "C" is missing in its source, the error would not mention extern "C"."""
    with pytest.raises(ch.CUDAError, match='C\\+\\+ names are mangled: declare the kernel extern "C"') as caught:
        code.get_kernel("templated")
    assert "and " in caught.value.hint
    assert "more" in caught.value.hint


@pytest.mark.parametrize("name", [None, 1, ["add"]])
def test_a_name_that_is_none(device: ch.Device, name: Any) -> None:
    """An object that is not a name would reach the driver as the name of a kernel."""
    with pytest.raises(TypeError, match="name must be a str or bytes, not"):
        make("ptx", PTX).get_kernel(name)


def test_an_old_driver_cannot_list_kernels(run_on_sim: Any) -> None:
    """With a driver before 12.4, the error about a missing kernel would be about the driver instead."""
    run_on_sim("""
        import cudacore_handles as ch
        import pytest
        from kernel_sources import PTX

        sim.hide("cuLibraryGetKernelCount")
        sim.hide("cuLibraryEnumerateKernels")
        ch.Device(0).set_current()
        with pytest.raises(ch.CUDAError, match="CUDA_ERROR_NOT_FOUND.*[.] The code has no kernel 'missing'$"):
            ch.ObjectCode.from_fatbin(PTX).get_kernel("missing")  # the code does not tell either
    """)
