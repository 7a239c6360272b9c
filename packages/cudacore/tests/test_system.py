# SPDX-License-Identifier: Apache-2.0
"""``cudacore.system``: NVML, compared with ``cuda.core.system`` where that is installed."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import cudacore
from cudacore import system
from cudacore.system import __main__ as command
from cudacore.system import _clocks, _cooling, _device, _events, _links, _nvml, _values, exceptions, typing

MODULES = (_clocks, _cooling, _device, _events, _links, _values)
nvml: Any = pytest.importorskip("cuda.bindings.nvml", reason="this cuda.bindings has no NVML")
if not system.CUDA_BINDINGS_NVML_IS_COMPATIBLE:
    pytest.skip("cudacore.system needs newer cuda-bindings", allow_module_level=True)


@pytest.fixture
def device() -> system.Device:
    return system.Device(index=0)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give a function that replaces results of NVML, for features that simulated devices do not have."""

    def answer(**answers: Any) -> None:
        for function, result in answers.items():
            value = result if callable(result) else lambda *_, result=result: result
            monkeypatch.setattr(nvml, function, value)

    return answer


# ---- the names of cuda.core


def peer(name: str) -> Any:
    cuda_core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    is_ours = "_instead_of_cuda_core" in str(getattr(cuda_core, "__file__", ""))
    if is_ours or cuda_core.__version__ != cudacore.CUDA_CORE_VERSION:
        pytest.skip(f"names are compared with those of cuda.core {cudacore.CUDA_CORE_VERSION}")
    return importlib.import_module(f"cuda.core.{name}")


def members(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_members_of_classes() -> None:
    """An attribute or a method of a class of cuda.core would be missing."""
    ours: dict[str, Any] = {}
    for module in MODULES:
        ours |= vars(module)
    for module in (peer("system._device"), peer("system._system_events")):
        for name, cls in vars(module).items():
            if isinstance(cls, type) and cls.__module__ == module.__name__ and not name.startswith("_"):
                kept = {"reserved"} if name == "BAR1MemoryInfo" else set()  # BAR1 memory has no reserved part
                assert members(cls) - kept <= members(ours[name]), name


def test_functions_of_properties() -> None:
    """A property would call a function that the bindings do not have."""
    texts = [inspect.getsource(module) for module in MODULES]
    found = {name for text in texts for name in re.findall(r'\bcall\(\s*"(\w+)"', text)}
    assert len(found) >= 25
    assert not [name for name in found if not hasattr(nvml, name)]


def test_members_of_enumerations() -> None:
    """An enumeration would lack a name, or a name would have a wrong value."""
    theirs = peer("system.typing")
    for name in typing.__all__:
        mine, other = getattr(typing, name), getattr(theirs, name)
        assert mine.__members__.keys() == other.__members__.keys()
        for key, value in mine.__members__.items():
            assert value == other.__members__[key]


def test_numbers() -> None:
    """A member would have no number in NVML, so it would be refused, or never be returned."""
    tables = [value for module in MODULES for value in vars(module).values() if isinstance(value, _nvml.Numbers)]
    assert len(tables) >= 14
    missing = {str(member) for table in tables for member in table._cls if member not in table}
    assert missing <= {"board_limit", "reliability"}  # older bindings lack some reasons
    assert [_clocks.CLOCK_TYPES[typing.ClockType.MEMORY], _cooling._TARGETS[typing.ThermalTarget.BOARD]] == [2, 8]
    assert _device._P2P_STATUS[typing.GpuP2PStatus.NOT_SUPPORTED] == 5
    assert _clocks.EVENT_REASONS[typing.ClocksEventReasons.HW_SLOWDOWN] == 8


def test_codes_of_errors() -> None:
    """A code would raise the exception class of another code."""
    codes = {int(code): name for name, code in nvml.Return.__members__.items()}
    for name in exceptions.__all__:
        cls = getattr(exceptions, name)
        assert issubclass(cls, system.NvmlError)
        assert issubclass(cls, cudacore.CUDAError)
        assert cls.__module__ == "cudacore.system"
        if name != "NvmlError":
            error = _nvml._make("f", cls.status, "meaning")
            assert type(error) is cls
            assert error.code_name == f"NVML_{codes[cls.status]}"


def test_class_keywords_of_errors() -> None:
    """An error class could not be combined with a base class that takes keywords of its own."""

    class Labelled:
        label = ""

        def __init_subclass__(cls, label: str, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            cls.label = label

    class LabelledError(system.NvmlError, Labelled, status=7, label="seven"):
        pass

    assert (LabelledError.status, LabelledError.label) == (7, "seven")
    assert system.NvmlError.status == 999


# ---- devices


def test_lookup(device: system.Device) -> None:
    """A device could not be found by its own properties, or another device would be found."""
    assert system.Device.get_device_count() == system.get_num_devices() == len([*system.Device.get_all_devices()])
    assert device in set(system.Device.get_all_devices())
    for found in (
        system.Device(uuid=device.uuid),
        system.Device(uuid=device.uuid.encode()),
        system.Device(pci_bus_id=device.pci_bus_id),
        system.Device(pci_bus_id=device.pci_bus_id.encode()),
        pickle.loads(pickle.dumps(device)),
    ):
        assert (found, hash(found), found.index) == (device, hash(device), 0)
    assert device != system.get_num_devices()
    assert repr(device) == f"<system.Device {device.uuid} ({device.name})>"


def test_the_same_device_of_cuda(device: system.Device) -> None:
    """A program would query one device through NVML and compute on another one."""
    for mine in cudacore.Device.get_all_devices():
        seen = mine.to_system_device()
        assert seen.to_cuda_device() is mine
        assert (seen.name, seen.uuid_without_prefix) == (mine.name, mine.uuid)
        assert seen.cuda_compute_capability == mine.compute_capability
        assert seen.pci_bus_id.lower().endswith(mine.pci_bus_id.lower())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "exactly one of index, uuid and pci_bus_id"),
        ({"index": 0, "uuid": "GPU-"}, ValueError, "exactly one"),
        ({"index": -1}, ValueError, "index must be at least 0, not -1"),
        ({"index": "0"}, TypeError, "index must be an int, not str"),
        ({"uuid": 3}, TypeError, "uuid must be a str or bytes, not int"),
        ({"index": 999}, system.InvalidArgumentError, r"device_get_handle_by_index_v2: NVML_ERROR_INVALID_ARGUMENT"),
        ({"uuid": "GPU-nobody"}, system.NvmlError, "device_get_handle_by_uuid: NVML_ERROR_"),
        ({"pci_bus_id": "ff:1f.7"}, system.NvmlError, "device_get_handle_by_pci_bus_id_v2: NVML_ERROR_"),
    ],
)
def test_no_such_device(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """An invalid argument would be accepted, or its error would not give a reason."""
    with pytest.raises(error, match=message):
        system.Device(**arguments)


def test_hidden_device(answer: Callable[..., None]) -> None:
    """For a device that CUDA cannot use, to_cuda_device() would return another device."""
    answer(device_get_uuid="GPU-00000000-0000-0000-0000-000000000000")
    device = system.Device(index=0)
    with pytest.raises(RuntimeError, match=r"CUDA has no device GPU-0000.*CUDA_VISIBLE_DEVICES"):
        device.to_cuda_device()


def test_memory(device: system.Device) -> None:
    """Free, used, reserved and total memory would be mixed up."""
    memory = device.memory_info
    assert 0 <= memory.used <= memory.total
    assert memory.free <= memory.total
    assert memory == device.memory_info or memory.total == device.memory_info.total


@pytest.mark.cuda_sim
def test_memory_in_use(device: system.Device) -> None:
    """Memory that the program allocates would not be reported."""
    cudacore.Device(0).set_current()
    pool = cudacore.DeviceMemoryResource(cudacore.Device(0), cudacore.DeviceMemoryResourceOptions())
    part = pool.allocate(64 << 20, stream=cudacore.Device(0).default_stream)
    used = device.memory_info.used
    assert used >= 64 << 20
    (process,) = device.compute_running_processes
    assert process.pid == os.getpid()
    assert process.used_gpu_memory == used
    with pytest.raises(system.NotSupportedError, match="does not run on a MIG device"):
        process.gpu_instance_id  # noqa: B018
    part.close()
    cudacore.Device(0).sync()
    pool.close()
    assert device.memory_info.used <= used - (64 << 20)


def test_machine() -> None:
    """A version would be a str instead of numbers, or the version of another component."""
    assert system.get_user_mode_driver_version() >= (12, 0)
    driver = system.get_kernel_mode_driver_version()
    assert driver >= (525,)
    assert system.get_nvml_version()[1:] == driver
    assert re.fullmatch(r"r\d+_\d+", system.get_driver_branch())  # the branch can differ from the driver's version
    assert "python" in system.get_process_name(os.getpid())
    with pytest.raises(system.NotFoundError):
        system.get_process_name(2**22 + 1)


def test_pci(device: system.Device) -> None:
    """The PCI ids of vendor and product would be exchanged, or would have another format."""
    pci = device.pci_info
    assert pci.vendor_id == 0x10DE
    assert re.fullmatch(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]", pci.bus_id)
    assert int(pci.bus_id.split(":")[1], 16) == pci.bus
    assert pci.base_class == 3


def test_mig(device: system.Device) -> None:
    """A device that is not partitioned would have parts."""
    if not device.mig.mode:
        assert not device.mig.is_mig_device
        assert [*device.mig.get_all_devices()] == []


@pytest.mark.cuda_sim
def test_not_supported(device: system.Device) -> None:
    """A missing feature would be reported as a number, or by an error that does not say what to do."""
    with pytest.raises(
        system.NotSupportedError, match=r"nvml\.device_get_temperature_v: NVML_ERROR_NOT_SUPPORTED \(3\)"
    ):
        device.temperature.get_sensor()
    with pytest.raises(cudacore.CUDAError, match="many values exist on some products only"):
        device.utilization  # noqa: B018


# ---- features that simulated devices do not have: the conversion of NVML's results

REASONS, THRESHOLD = "device_get_current_clocks_event_reasons", "device_get_temperature_threshold"
COOLER, PSTATE = SimpleNamespace(signal_type=2, target=6), "device_get_performance_state"


def clock(_: int, kind: int, which: int) -> int:
    return 10 * kind + which


# The function of NVML, its result or what is called instead, what reads the value, and the value.
VALUES: list[tuple[str, Any, Callable[[Any], Any], Any]] = [
    ("device_get_utilization_rates", SimpleNamespace(gpu=7, memory=3), lambda d: d.utilization.memory, 3),
    ("device_get_temperature_v", 41, lambda d: d.temperature.get_sensor(), 41),
    (THRESHOLD, lambda _, number: 90 + number, lambda d: d.temperature.get_threshold("slowdown"), 91),
    ("device_get_clock", clock, lambda d: d.get_clock("sm").get_current_mhz(), 10),
    ("device_get_clock", clock, lambda d: d.get_clock("memory").get_current_mhz("customer_boost_max"), 23),
    (
        "device_get_min_max_clock_of_p_state",
        lambda _, kind, pstate: (kind, pstate),
        lambda d: d.get_clock("video").get_min_max_clock_of_pstate_mhz(8),
        (3, 8),
    ),
    (PSTATE, 0, lambda d: d.performance_state, 0),
    (PSTATE, 32, lambda d: d.performance_state, None),
    ("device_get_supported_performance_states", [0, 8, 32], lambda d: d.supported_pstates, [0, 8]),
    (REASONS, 0, lambda d: d.current_clock_event_reasons, []),
    (REASONS, 5, lambda d: d.current_clock_event_reasons, ["gpu_idle", "sw_power_cap"]),
    ("device_get_cooler_info", COOLER, lambda d: d.cooler.signal_type, "variable"),
    ("device_get_cooler_info", COOLER, lambda d: d.cooler.target, ["gpu", "memory"]),
    ("device_get_fan_speed_v2", lambda _, fan: 30 + fan, lambda d: d.get_fan(1).speed, 31),
    ("device_get_cpu_affinity_within_scope", [5, 1], lambda d: d.get_cpu_affinity(), [0, 2, 64]),
    ("device_get_brand", 5, lambda d: d.brand, "GeForce"),
    ("device_get_brand", 99, lambda d: d.brand, "Unknown"),
    ("device_get_nvlink_version", 6, lambda d: system.NvlinkInfo(d, 0).version, (4, 0)),
    ("device_get_addressing_mode", SimpleNamespace(value=2), lambda d: d.addressing_mode, "ats"),
    ("device_get_addressing_mode", SimpleNamespace(value=0), lambda d: d.addressing_mode, None),
    ("device_get_topology_common_ancestor", 30, lambda d: system.get_topology_common_ancestor(d, d), "hostbridge"),
    ("device_get_p2p_status", 5, lambda d: system.get_p2p_status(d, d, "read"), "not supported"),
    (
        "device_get_supported_event_types",
        0x18,
        lambda d: d.get_supported_event_types(),
        ["xid_critical_error", "clock"],
    ),
]


def test_pairs_of_devices(device: system.Device) -> None:
    """A device of the driver instead of one of NVML would raise an AttributeError for a private attribute, or an error
    that names only one class."""
    other: Any = cudacore.Device(0)
    with pytest.raises(TypeError, match=r"device2 must be a cudacore\.system.*\.Device, not cudacore_handles\.Device"):
        system.get_topology_common_ancestor(device, other)
    with pytest.raises(TypeError, match="device1 must be a cudacore"):
        system.get_p2p_status(other, device, "read")


@pytest.mark.parametrize(("function", "result", "ask", "expected"), VALUES)
def test_values(
    device: system.Device,
    answer: Callable[..., None],
    function: str,
    result: Any,
    ask: Callable[[Any], Any],
    expected: Any,
) -> None:
    """A value would come from the wrong field, or have another format."""
    answer(device_get_num_fans=2, **{function: result})
    assert ask(device) == expected


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda d: d.get_clock("smx"), "clock_type must be one of graphics, sm, memory, video, not 'smx'"),
        (lambda d: d.get_clock(3), "clock_type must be one of"),
        (lambda d: d.get_clock("sm").get_offsets(16), "pstate must be from 0 .* to 15, not 16"),
        (lambda d: d.register_events(["pstate", "xid"]), "an event must be one of .*, not 'xid'"),
        (lambda d: d.get_topology_nearest_gpus("near"), "level must be one of"),
    ],
)
def test_wrong_names(device: system.Device, ask: Callable[[Any], Any], message: str) -> None:
    """A misspelt name would reach NVML as some number."""
    with pytest.raises(ValueError, match=message):
        ask(device)


def test_the_handle_is_an_int(device: system.Device) -> None:
    """Programs could not give the handle of a device to functions of the bindings."""
    assert nvml.device_get_uuid(device._handle) == device.uuid
    assert device._handle == system.Device(uuid=device.uuid)._handle == nvml.device_get_handle_by_uuid(device.uuid)


def test_fields(device: system.Device, answer: Callable[..., None]) -> None:
    """A field that cannot be read would be zero or hide other fields, or values of different links be mixed up."""

    def fill(_: int, fields: Any) -> None:
        assert [int(fields[i].scope_id) for i in range(len(fields))] == [0, 4]
        fields[0].value_type, fields[0].nvml_return = int(nvml.ValueType.UNSIGNED_INT), 0
        fields[0].value.ui_val[0] = 7
        fields[1].nvml_return = 3

    answer(device_get_field_values=fill)
    number = int(typing.FieldId.DEV_ECC_CURRENT)
    assert len(device.get_field_values([])) == 0, "as in cuda.core; NVML refuses an empty list"
    device.clear_field_values([])
    values = device.get_field_values([number, (number, 4)])
    assert len(values) == 2
    assert (values[0].field_id, values[0].value) == (number, 7)
    with pytest.raises(system.NotSupportedError, match="device_get_field_values: NVML_ERROR_NOT_SUPPORTED"):
        values[1].value  # noqa: B018
    with pytest.raises(system.NotSupportedError):
        values.validate()


def test_events(device: system.Device, answer: Callable[..., None]) -> None:
    """A set of events would be used after it is freed, or never be freed; or a wait without a timeout would end."""
    freed: list[int] = []
    waited: list[int] = []

    def wait(events: int, timeout: int) -> Any:
        waited.append(timeout)
        return SimpleNamespace(device_=device._handle, event_type=8, event_data=79, gpu_instance_id=1)

    answer(
        event_set_create=1234,
        device_register_events=lambda handle, mask, events: freed.append(-mask),
        event_set_free=freed.append,
        event_set_wait_v2=wait,
    )
    events = device.register_events(["pstate", "xid_critical_error"])
    event = events.wait()
    assert (event.device, event.event_type, event.event_data, event.gpu_instance_id) == (
        device,
        "xid_critical_error",
        79,
        1,
    )
    events.wait(5)
    assert waited == [0xFFFFFFFF, 5]
    assert freed == [-12]
    del events
    assert freed == [-12, 1234]


def test_it_is_initialized_again(device: system.Device) -> None:
    """After another library has shut NVML down, neither this package nor existing devices could be used any more."""
    other = system.Device(index=0)
    while True:
        try:
            nvml.shutdown()
        except nvml.UninitializedError:
            break
    with pytest.raises(system.UninitializedError, match="the next call initializes it again"):
        device.index  # noqa: B018
    assert (device.index, device.memory_info.total, other.index) == (0, other.memory_info.total, 0)
    assert device == other == system.Device(index=0)


def test_events_of_an_earlier_initialization(answer: Callable[..., None]) -> None:
    """After a shutdown, a set of events that NVML has already freed would be used or freed again."""
    freed: list[int] = []
    answer(system_event_set_create=1234, system_register_events=None, system_event_set_free=freed.append)
    lost, kept = system.register_events("bind"), None
    nvml.shutdown()
    with pytest.raises(system.UninitializedError):
        system.get_process_name(os.getpid())
    system.Device(index=0)
    kept = system.register_events("bind")
    with pytest.raises(system.UninitializedError, match=r"its events were lost\. Register for them again"):
        lost.wait(1)
    del lost
    assert freed == []
    del kept
    assert freed == [1234]


# ---- without NVML


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={k: v for k, v in os.environ.items() if k not in ("CUDACORE_DRIVER", "LD_LIBRARY_PATH")} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.cuda_sim
def test_without_nvml() -> None:
    """A machine without NVML, or bindings without NVML, would fail at the import, or not name the package."""
    result = run(
        """
        import cudacore, sys
        assert "cudacore.system" not in sys.modules
        from cudacore import system
        try:
            system.get_num_devices()
        except system.LibraryNotFoundError as error:
            print(error)
        import cuda.bindings
        sys.modules["cuda.bindings.nvml"] = None
        del cuda.bindings.nvml
        system._nvml.bindings.cache_clear()
        assert not system.CUDA_BINDINGS_NVML_IS_COMPATIBLE
        try:
            system.Device(index=0)
        except ImportError as error:
            print(error)
        """
    )
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert "NVML (libnvidia-ml.so.1) is part of the NVIDIA driver" in first
    assert "pip install 'cudacore[system]'" in second


def test_number_of_devices_without_the_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that only count devices would fail with bindings that are too old."""
    monkeypatch.setattr("cudacore.system._machine.is_compatible", lambda: False)
    assert system.get_num_devices() == len(cudacore.Device.get_all_devices())


# ---- the command


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The command would not list the devices, or its JSON not be readable."""
    assert command.main([]) == 0
    text = capsys.readouterr().out
    assert system.Device(index=0).name in text
    assert command.main(["--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [found["uuid"] for found in facts["devices"]] == [each.uuid for each in system.Device.get_all_devices()]
    assert facts["devices"][0]["memory_total_bytes"] == system.Device(index=0).memory_info.total


def test_table_of_what_is_known(capsys: pytest.CaptureFixture[str], answer: Callable[..., None]) -> None:
    """A column would show another value than its heading."""
    answer(
        device_get_utilization_rates=SimpleNamespace(gpu=97, memory=31),
        device_get_clock=lambda _, kind, which: 1980 if kind == 1 else 3201,
        device_get_temperature_v=64,
        device_get_compute_running_processes_v3=[
            SimpleNamespace(pid=os.getpid(), used_gpu_memory=512 << 20, gpu_instance_id=0, compute_instance_id=0),
            SimpleNamespace(pid=2**22 + 1, used_gpu_memory=2**64 - 1, gpu_instance_id=0, compute_instance_id=0),
        ],
    )
    assert command.main([]) == 0
    text = capsys.readouterr().out
    assert re.search(r"busy +SM clock +memory clock +temp\.\n.*97 % +1980 MHz +3201 MHz +64 C\n", text)
    assert re.search(rf"0 +{os.getpid()} +\S*python\S* +512 MiB\n", text)
    assert re.search(rf"0 +{2**22 + 1} +- +-\n", text)


@pytest.mark.cuda_sim
def test_command_without_a_gpu() -> None:
    """A program that uses NVML first would not find the simulated devices."""
    words = [sys.executable, "-m", "cudacore_sim", sys.executable, "-m", "cudacore.system", "--json"]
    environment = os.environ | {"CUDACORE_SIM_DEVICES": "2"}
    result = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(json.loads(result.stdout)["devices"]) == 2
