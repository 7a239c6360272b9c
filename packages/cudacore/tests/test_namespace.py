# SPDX-License-Identifier: Apache-2.0
"""The umbrella's namespace: its names, and the cost of importing it."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
import textwrap
import types

import pytest

import cudacore
import cudacore.graph
import cudacore.texture
import cudacore.typing
import cudacore.utils

HEAVY = {
    "cudacore_compile", "cudacore_graph", "cuda.bindings", "cuda.pathfinder", "numpy", "ctypes", "asyncio",
    "multiprocessing", "importlib.metadata", "dataclasses",
}  # fmt: skip


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def public_names(module: types.ModuleType) -> set[str]:
    """Return the public names of a module, without imported modules."""
    package = module.__name__.partition(".")[0]
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in {"annotations", "TYPE_CHECKING"}
        and not (isinstance(value, types.ModuleType) and not value.__name__.startswith(package + "."))
    }


NAMESPACES = """
    cudacore cudacore.checkpoint cudacore.graph cudacore.system cudacore.system.exceptions cudacore.system.typing
    cudacore.typing cudacore.utils cudacore_sim cudacore_handles cudacore_handles.checkpoint cudacore_handles.typing
    cudacore_compile cudacore_compile.typing cudacore_graph cudacore_graph.typing
"""


@pytest.mark.parametrize("name", NAMESPACES.split())
def test_dir(name: str) -> None:
    """Completion at a prompt would show names that are only for internal use, or hide public names."""
    module = importlib.import_module(name)
    shown = {name for name in dir(module) if not name.startswith("__")}
    assert shown == set(module.__all__)
    assert "__doc__" in dir(module)


COPY = """
import os
os.environ["CUDACORE_DRIVER"] = "sim"
import cudacore
device = cudacore.Device()
device.set_current()
stream = device.create_stream()
one, two = (device.allocate(64, stream=stream).view("int32") for _ in range(2))
one.copy_from(two, stream=stream)
"""


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import cudacore", HEAVY),
        ("import cudacore_handles", {"dataclasses"}),
        ("import cudacore_compile", {"dataclasses"}),
        ("import cudacore.interop", {"cupy", "torch", "numba", "rmm", "numpy", "ctypes"}),
        (COPY, {"dataclasses"}),  # with options, which this copy does not have
    ],
)
def test_what_is_not_loaded(code: str, heavy: set[str]) -> None:
    """Programs would start later; or importing cudacore would load libcuda, and fail, or initialise an unused GPU.

    The module dataclasses imports inspect, which takes as long as one of our packages.
    """
    facts = f"import sys; print({heavy!r} & sys.modules.keys(), 'libcuda.so' in open('/proc/self/maps').read())"
    result = run_python(f"{code}\n{facts}")
    assert (result.stdout, result.stderr) == (f"set() {code == COPY}\n", "")


@pytest.mark.parametrize(
    "module", [cudacore, cudacore.graph, cudacore.typing, cudacore.utils], ids=lambda module: module.__name__
)
def test_all_is_what_is_there(module: types.ModuleType) -> None:
    """``__all__`` would contain a name that does not exist, or lack a public name."""
    assert all(
        hasattr(module, name) for name in module.__all__
    )  # this also imports the names that are imported at first use
    assert set(module.__all__) == public_names(module)
    assert sorted(set(module.__all__)) == sorted(module.__all__)


def test_names_are_the_siblings_own() -> None:
    """A class of the umbrella would differ from the class of the package, so that isinstance checks fail."""
    import cudacore_compile
    import cudacore_graph
    import cudacore_handles

    assert cudacore.graph.GraphBuilder is cudacore_graph.GraphBuilder
    assert cudacore.Device is cudacore_handles.Device
    assert cudacore.Program is cudacore_compile.Program
    assert issubclass(cudacore.NVRTCError, cudacore.CUDAError)


def test_errors_of_the_siblings() -> None:
    """An error class of another cudacore package would be missing in cudacore."""
    import cudacore_compile
    import cudacore_graph
    import cudacore_handles

    siblings = {*cudacore_handles.__all__, *cudacore_compile.__all__, *cudacore_graph.__all__}
    assert {name for name in siblings if name.endswith("Error")} <= set(cudacore.__all__)


def test_name_that_never_was() -> None:
    """An import of a misspelt name would announce it for a later release, or not be an ordinary ImportError."""
    with pytest.raises(ImportError, match="cannot import name 'Devise'"):
        exec("from cudacore import Devise", {})
    with pytest.raises(ModuleNotFoundError):
        exec("import cudacore.grahp", {})


def test_device_pointer_type() -> None:
    """Annotations and isinstance checks of programs would fail, or the types would import cuda.bindings."""
    result = run_python(
        """
        import sys
        import cudacore.typing
        assert "cuda.bindings" not in sys.modules
        from cudacore.typing import DevicePointerType
        from cuda.bindings.driver import CUdeviceptr
        for pointer in (CUdeviceptr(16), 16, None):
            assert isinstance(pointer, DevicePointerType)
        assert not isinstance("16", DevicePointerType)
        assert cudacore.typing.DevicePointerType is DevicePointerType
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("package", ["cudacore", "cudacore_compile", "cudacore_graph"])
def test_sibling_of_another_minor_version(package: str) -> None:
    """Packages of different minor versions would be imported together, and fail later in an obscure way."""
    result = run_python(
        f"""
        import cudacore_handles
        cudacore_handles.__version__ = "9.1.0"
        import {package}
        """
    )
    assert result.returncode == 1
    name = package.replace("_", "-")
    version = importlib.metadata.version(name)
    series = ".".join(version.split(".")[:2])
    assert result.stderr.splitlines()[-1] == (
        f"ImportError: {name} {version} needs cudacore-handles {series}.*, but 9.1.0 is installed; "
        f'run: python -m pip install "{name}=={series}.*" "cudacore-handles=={series}.*"'
    )


def test_sibling_of_the_same_minor_version() -> None:
    """After a patch release of one package, the other packages would refuse to work with it."""
    result = run_python(
        """
        import cudacore_handles
        cudacore_handles.__version__ = ".".join([*cudacore_handles.__version__.split(".")[:2], "7rc1"])
        import cudacore, cudacore.graph, cudacore.utils
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_version() -> None:
    """The packages of one release would carry different versions."""
    names = ("cudacore", "cudacore-compile", "cudacore-graph", "cudacore-handles", "cudacore-sim")
    versions = {importlib.metadata.version(name) for name in names}
    versions |= {importlib.import_module(name.replace("-", "_")).__version__ for name in names}
    assert versions == {cudacore.__version__}


OPTIONS = [
    getattr(module, name)
    for module in (cudacore, cudacore.graph, cudacore.texture, cudacore.utils)
    for name in module.__all__
    if name.endswith(("Options", "LaunchConfig"))
]


@pytest.mark.parametrize("cls", OPTIONS, ids=lambda cls: cls.__name__)
def test_misspelt_options(cls: type) -> None:
    """A misspelt option that a program assigns would be stored and ignored."""
    options = cls.__new__(cls)
    with pytest.raises(AttributeError, match="nonsense"):
        options.nonsense = 1  # type: ignore[attr-defined]
    assert not hasattr(options, "nonsense")


def test_with_for_all_that_can_be_closed() -> None:
    """Objects that have ``close()`` could not be used in a ``with`` block."""
    modules = (cudacore, cudacore.graph, cudacore.texture, cudacore.utils)
    classes = {c for module in modules for c in map(module.__getattribute__, dir(module)) if isinstance(c, type)}
    closable = {c for c in classes if hasattr(c, "close") and not issubclass(c, cudacore.graph.GraphNode)}
    assert {c.__name__ for c in closable} >= {"Stream", "Event", "Program", "Linker", "DeviceMemoryResource", "Graph"}
    assert [c.__name__ for c in closable if not hasattr(c, "__exit__")] == []


def test_with(device: cudacore.Device) -> None:
    """A ``with`` block would not close its object."""
    with device.create_stream() as stream, device.create_event() as event, cudacore.Program("", "c++") as program:
        with stream.device.allocate(16, stream=stream) as buffer, cudacore.DeviceMemoryResource(device) as pool:
            stream.record(event)
        assert buffer.is_closed
        assert pool.is_closed
    assert stream.is_closed
    assert event.is_closed
    with pytest.raises(cudacore.ClosedError):
        program.compile("ptx")
