# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes.util
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]
SIM = {"CUDACORE_DRIVER": "sim"}


def test_import_is_light(run_checked: Run) -> None:
    """Importing the package would load the driver, or modules that only a program with a GPU needs."""
    run_checked("""
        import sys
        before = set(sys.modules)
        import cudacore_handles

        heavy = {"numpy", "cuda", "ctypes", "multiprocessing", "asyncio", "typing_extensions"}
        loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
        assert not loaded & heavy, loaded & heavy
        assert "libcuda" not in open("/proc/self/maps").read().replace("libcudacore", "")
        """)


def test_what_needs_no_driver(run_checked: Run) -> None:
    """Without a GPU, options, configurations and code could not be created and pickled."""
    run_checked(
        """
        import pickle
        import cudacore_handles as ch

        code = ch.ObjectCode.from_cubin(b"code", name="n", symbol_mapping={"a": "b"})
        config = ch.LaunchConfig(grid=2, block=3)
        for thing in (config, ch.StreamOptions(), ch.EventOptions(), ch.DeviceMemoryResourceOptions()):
            assert pickle.loads(pickle.dumps(thing)) == thing
        assert pickle.loads(pickle.dumps(code)).code == b"code"
        assert set(ch.live_counts().values()) == {0}
        assert ch.default_stream() is ch.LEGACY_DEFAULT_STREAM
        assert ch.LEGACY_DEFAULT_STREAM != ch.PER_THREAD_DEFAULT_STREAM
        repr(ch.LEGACY_DEFAULT_STREAM), repr(code), repr(config)
        ch.LegacyPinnedMemoryResource()
        """,
        CUDACORE_DRIVER="/nowhere/libcuda.so.1",
    )


USES = """
import cudacore_handles as ch

uses = {
    "Device": ch.Device,
    "Device(0)": lambda: ch.Device(0),
    "get_all_devices": ch.Device.get_all_devices,
    "get_kernel": lambda: ch.ObjectCode.from_ptx(b".version 7.0").get_kernel("k"),
    "get_kernel of a cubin": lambda: ch.ObjectCode.from_cubin(b"").get_kernel("k"),
    "DeviceMemoryResource": lambda: ch.DeviceMemoryResource(0),
    "pinned": lambda: ch.LegacyPinnedMemoryResource().allocate(1),
    "from_handle": lambda: ch.Stream.from_handle(4096),
    "buffer": lambda: ch.Buffer.from_handle(4096, 1),
    "sync": ch.LEGACY_DEFAULT_STREAM.sync,
    "record": ch.LEGACY_DEFAULT_STREAM.record,
    "context": lambda: ch.LEGACY_DEFAULT_STREAM.context,
}
for name, use in uses.items():
    for _ in "ab":  # a failure is not remembered
        try:
            use()
        except ch.CUDAError as error:
            assert error.code_name == "CCH_ENODRIVER", (name, error)
            assert "needs the NVIDIA driver (libcuda.so.1) on this machine" in error.hint, (name, error)
            message = str(error)
        else:
            raise AssertionError(name)
    assert set(ch.live_counts().values()) == {0}, name
print(message)
"""


def test_no_driver_at_all(run_python: Callable[..., subprocess.CompletedProcess[str]], run_checked: Run) -> None:
    """On a machine without a driver, the error would not say what is missing."""
    if run_python("import ctypes; ctypes.CDLL('libcuda.so.1')").returncode == 0:
        pytest.skip("this machine has a driver")
    message = run_checked(USES)
    assert message.startswith("dlopen: CCH_ENODRIVER (-3): libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("what", "meaning"),
    [
        ("missing", "cannot open shared object file"),
        ("text", "file too short|invalid ELF header"),
        ("folder", "cannot read file data|Is a directory"),
        ("another library", "is not a CUDA driver of version 12.0 or newer"),
    ],
)
def test_a_driver_that_is_none(run_checked: Run, tmp_path: Path, what: str, meaning: str) -> None:
    """A wrong CUDACORE_DRIVER would not be named in the error."""
    path = tmp_path / "libcuda.so.1"
    if what == "text":
        path.write_text("not a library\n" * 100)
    elif what == "folder":
        path.mkdir()
    elif what == "another library":
        name = ctypes.util.find_library("m")
        assert name
        path = Path(name)
    message = run_checked(USES, CUDACORE_DRIVER=str(path))
    assert str(path) in message
    assert any(part in message for part in meaning.split("|")), message


@pytest.mark.parametrize("name", ["", "gpu", "GPU"])
def test_the_driver_of_gpus_by_name(run_checked: Run, name: str) -> None:
    """An empty CUDACORE_DRIVER, or the value of pytest's ``--cuda-driver=gpu``, would be used as a path."""
    run_checked(
        """
        import cudacore_handles as ch

        try:
            ch.Device()
        except ch.CUDAError as error:
            assert error.meaning.startswith("libcuda.so.1"), error
        """,
        CUDACORE_DRIVER=name,
    )


def test_no_device(run_checked: Run) -> None:
    """On a machine with a driver but no GPU, the error would not say so, or the next call would not try again."""
    run_checked(
        """
        import pytest
        import cudacore_sim as sim
        import cudacore_handles as ch

        sim.load()
        sim.fail("cuInit", 1, 100)
        with pytest.raises(ch.CUDAError, match="^cuInit: .*[(]100[)].*[.] No GPU is visible: look at nvidia-smi"):
            ch.Device()
        assert ch.Device().device_id == 0
        """,
        **SIM,
    )


@pytest.mark.parametrize(
    ("hidden", "use", "works"),
    [
        ("cuMemAllocFromPoolAsync", "device.allocate(8, stream=stream)", "ch.LegacyPinnedMemoryResource().allocate(8)"),
        ("cuStreamGetPriority", "stream.priority", "stream.is_nonblocking"),
        ("cuLibraryLoadData", "ch.ObjectCode.from_ptx(PTX).get_kernel('add')", "stream.sync()"),
        ("cuEventElapsedTime", "event - event", "event.sync()"),
    ],
)
def test_a_driver_that_is_too_old(run_checked: Run, hidden: str, use: str, works: str) -> None:
    """A function that the driver lacks would disable other functions, or crash when it is called."""
    code = "None" if hidden == "cuLibraryLoadData" else "ch.ObjectCode.from_ptx(PTX)"
    run_checked(
        f"""
        import cudacore_sim as sim
        import cudacore_handles as ch
        from kernel_sources import PTX

        sim.load()
        sim.hide("{hidden}")
        device = ch.Device(0)
        device.set_current()
        stream, code = device.create_stream(), {code}
        event = stream.record(options=ch.EventOptions(timing_enabled=True))
        for _ in "ab":
            try:
                {use}
            except ch.CUDAError as error:
                assert (error.operation, error.code_name) == ("{hidden}", "CCH_ENOSYMBOL"), error
                assert "needs a driver for CUDA" in error.meaning, error
                assert "the loaded driver is for CUDA 12.0" in error.meaning, error
            else:
                raise AssertionError
        {works}
        """,
        **SIM,
        CUDACORE_SIM_DRIVER_VERSION="12.0",
    )


@pytest.mark.parametrize("name", ["sim", "SIM", "Sim"])
def test_the_simulated_driver_by_name(run_checked: Run, name: str) -> None:
    """``CUDACORE_DRIVER=sim`` would not find the installed simulator, or cuda.bindings would use another driver."""
    out = run_checked(
        """
        import cudacore_handles as ch
        from cuda.bindings import driver

        device = ch.Device(0)
        device.set_current()
        stream = device.create_stream()
        assert int(driver.cuStreamQuery(stream.handle)[0]) == 0
        import cudacore_sim
        print(cudacore_sim.is_loaded(), cudacore_sim.live()["stream"])
        """,
        CUDACORE_DRIVER=name,
    )
    assert out == "True 1\n"


def test_a_driver_of_another_package(run_checked: Run, tmp_path: Path) -> None:
    """CUDACORE_DRIVER could name no driver but the simulated one, or NVML beside the driver would not be found."""
    (tmp_path / "cudacore_mine.py").write_text(
        "import cudacore_sim\ndef get_library():\n    print('asked')\n    return cudacore_sim.get_library()\n"
    )
    out = run_checked(
        """
        import os
        import cudacore_handles as ch
        from cudacore_handles._sdk import selected_driver

        ch.Device(0).set_current()
        import cudacore_sim
        print(cudacore_sim.is_loaded(), selected_driver() == os.environ["CUDACORE_MINE_LIBRARY"])
        """,
        CUDACORE_DRIVER="Mine",
    )
    assert out == "asked\nTrue True\n"


def test_the_simulated_driver_after_the_import(run_checked: Run) -> None:
    """In a notebook, CUDACORE_DRIVER=sim would have no effect, or none after a call that found no driver."""
    out = run_checked(
        """
        import os, threading
        import cudacore_handles as ch

        os.environ["CUDACORE_DRIVER"] = "simulator"
        try:
            ch.Device()
        except ch.CUDAError as error:
            print(error)
        os.environ["CUDACORE_DRIVER"] = "sim"
        threads = [threading.Thread(target=ch.LegacyPinnedMemoryResource().allocate, args=(8,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ch.Device().set_current()
        print(ch.Device())
        """,
        CUDACORE_DRIVER="/nowhere/libcuda.so.1",
        CUDACORE_SIM_LIBRARY="",
    )
    assert "CUDACORE_DRIVER is simulator, and there is no driver of this name: install cudacore-simulator" in out
    assert "CUDACORE_DRIVER can also be gpu, or the path of a driver" in out
    assert "<Device 0 (" in out


def test_another_driver_after_the_first(run_checked: Run) -> None:
    """CUDACORE_DRIVER would be ignored in silence once a driver is loaded."""
    run_checked(
        """
        import os, warnings
        import cudacore_sim as sim
        import cudacore_handles as ch

        warnings.simplefilter("error")
        device = ch.Device()
        device.set_current()
        ptx = b".version 8.0 .target sm_80 .address_size 64 .entry k() { ret; }"
        for same in (sim.get_library(), "sim", "SIM", "libcuda.so.1", "gpu", ""):  # all of them the loaded library
            os.environ["CUDACORE_DRIVER"] = same
            ch.ObjectCode.from_ptx(ptx).get_kernel("k")
        for other in ("/nowhere/libcuda.so.1", "libm.so.6"):
            os.environ["CUDACORE_DRIVER"] = other
            try:
                ch.ObjectCode.from_ptx(ptx).get_kernel("k")
            except RuntimeWarning as warning:
                assert f"CUDACORE_DRIVER is {other!r}, and this process has loaded another driver" in str(warning)
            else:
                raise AssertionError(other)
        """,
        **SIM,
    )


def test_the_simulated_driver_where_there_is_none(run_checked: Run) -> None:
    """The error for ``CUDACORE_DRIVER=sim`` without the simulator would not name the package."""
    out = run_checked(
        """
        import importlib.util
        importlib.util.find_spec = lambda name: None
        import cudacore_handles as ch

        try:
            ch.Device()
        except ch.CUDAError as error:
            print(error)
        """,
        **SIM,
        CUDACORE_SIM_LIBRARY="",
    )
    assert out.startswith("dlopen: CCH_ENODRIVER (-3): CUDACORE_DRIVER is sim, and there is no driver of this name")
    assert "install cudacore-sim, or have CUDACORE_SIM_LIBRARY name its library" in out
