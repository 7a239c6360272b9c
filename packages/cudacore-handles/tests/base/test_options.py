# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from cudacore_handles import Device, DeviceMemoryResourceOptions, EventOptions, LaunchConfig, StreamOptions
from cudacore_handles._base.options import _classes, as_options

FLAGS: list[tuple[Any, str]] = [
    (StreamOptions, "nonblocking"),
    *((EventOptions, name) for name in ("timing_enabled", "blocking_sync", "ipc_enabled")),
    (DeviceMemoryResourceOptions, "ipc_enabled"),
    *(
        (partial(LaunchConfig, grid=1, block=1), name)
        for name in ("is_cooperative", "programmatic_stream_serialization")
    ),
]


@pytest.mark.parametrize(
    "given",
    [StreamOptions(nonblocking=False, priority=-1), {"nonblocking": False, "priority": -1}],
)
def test_objects_and_mappings(given: Any) -> None:
    """Options in a dict would not be accepted, or would lose a field."""
    assert as_options(StreamOptions, given) == StreamOptions(nonblocking=False, priority=-1)
    if isinstance(given, dict):
        assert as_options(StreamOptions, MappingProxyType(given)) == as_options(StreamOptions, given)
    else:
        assert as_options(StreamOptions, given) is given


@pytest.mark.parametrize("given", [None, {}])
def test_defaults(given: Any) -> None:
    """Omitted options would differ from the defaults."""
    assert as_options(StreamOptions, given) == StreamOptions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "^The Stream choice must be provided as an object of type StreamOptions or as a dict .* not as a int$"),
        (EventOptions(), "of type StreamOptions or as a dict of its fields, not as a EventOptions"),
        ({"nope": 1}, "^StreamOptions got an unexpected keyword argument 'nope' in choice; it has nonblocking, prior"),
        ({1: 1}, "StreamOptions got an unexpected keyword argument 1 in choice"),
    ],
)
def test_bad_options(given: Any, message: str) -> None:
    """Misspelt options, and options of other functions, would be ignored silently."""
    with pytest.raises(TypeError, match=message):
        as_options(StreamOptions, given, "choice")


@dataclass
class MoreOptions(StreamOptions):
    """A program's own options, with a check of its own."""

    color: str = "blue"
    checked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checked.append(self.color)


def test_constructors() -> None:
    """An option that is given by position, or to a subclass, would be lost, or not checked."""
    assert (
        StreamOptions(False, -1) == StreamOptions(False, priority=-1) == StreamOptions(priority=-1, nonblocking=False)
    )
    with pytest.raises(TypeError, match="multiple values"):
        StreamOptions(False, nonblocking=True)  # type: ignore[misc]
    more = MoreOptions(priority=-1, color="red")
    assert (more.nonblocking, more.priority, more.color, more.checked) == (True, -1, "red", ["red"])


# Methods that take options: of which class they are, and a call.
METHODS: dict[str, tuple[str, Callable[[Device, Any], Any]]] = {
    "Device.create_stream": ("Stream", lambda device, options: device.create_stream(options=options)),
    "Context.create_stream": ("Stream", lambda device, options: device.context.create_stream(options)),
    "Device.create_event": ("Event", lambda device, options: device.create_event(options)),
    "Context.create_event": ("Event", lambda device, options: device.context.create_event(options)),
    "Stream.record": ("Event", lambda device, options: device.create_stream().record(None, options)),
}


@pytest.mark.parametrize(("kind", "make"), METHODS.values(), ids=METHODS)
def test_options_of_methods(device: Device, kind: str, make: Callable[[Device, Any], Any]) -> None:
    """A method would ignore a dict of options, or accept options of another class."""
    if kind == "Stream":
        made = make(device, {"nonblocking": False, "priority": -1})
        assert (made.is_nonblocking, made.priority) == (False, -1)
    else:
        made = make(device, {"timing_enabled": True, "blocking_sync": True})
        assert (made.is_timing_enabled, made.is_blocking_sync) == (True, True)
    for bad in ({"nope": True}, EventOptions() if kind == "Stream" else StreamOptions(), True, 3):
        with pytest.raises(TypeError, match=f"The {kind} options must be|{kind}Options got an unexpected"):
            make(device, bad)


@pytest.mark.parametrize("timing", [True, False, None, 1, np.True_, np.False_])
@pytest.mark.parametrize("blocking", [True, False, None, 0])
def test_flags_of_events(device: Device, timing: Any, blocking: Any) -> None:
    """An event would be created with other flags than those of its options."""
    options = EventOptions(timing_enabled=timing, blocking_sync=blocking)
    event = device.create_stream().record(options=options)
    assert (event.is_timing_enabled, event.is_blocking_sync) == (bool(timing), bool(blocking))
    assert not event.is_ipc_enabled


@pytest.mark.parametrize("nonblocking", [True, False, None, 0, np.True_])
@pytest.mark.parametrize("priority", [None, 0, -1, np.int32(-1)])
def test_flags_of_streams(device: Device, nonblocking: Any, priority: Any) -> None:
    """A stream would be created with another flag or priority than that of its options."""
    stream = device.create_stream(options=StreamOptions(nonblocking=nonblocking, priority=priority))
    assert (stream.is_nonblocking, stream.priority) == (bool(nonblocking), priority or 0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nonblocking", "yes", "nonblocking must be True or False, not 'yes'"),
        ("priority", False, "priority must be an int, not bool"),
        ("priority", 0.0, "priority must be an int, not float"),
        ("priority", 10**6, r"priority=1000000 is out of range \[-\d+, 0\]"),
    ],
)
def test_assigned_options_are_checked(device: Device, name: str, value: Any, message: str) -> None:
    """An option that was assigned would be ignored, or reach the driver, without a check."""
    options = StreamOptions()
    setattr(options, name, value)
    with pytest.raises((TypeError, ValueError), match=message):
        device.create_stream(options=options)


@pytest.mark.parametrize("cls", _classes, ids=lambda cls: cls.__name__)
def test_named_options(cls: Any) -> None:
    """Options of named values would differ from those of positional ones, or not show their signature."""
    fields = dataclasses.fields(cls)
    defaults = [field.default for field in fields]
    assert cls() == cls(*defaults) == cls(**dict(zip(cls.__dataclass_fields__, defaults, strict=True)))
    assert repr(cls()) == repr(cls(*defaults))
    assert pickle.loads(pickle.dumps(cls())) == copy.deepcopy(cls()) == cls()
    assert list(inspect.signature(cls).parameters) == [field.name for field in fields]
    again = cls(**{fields[0].name: "1" if defaults[0] is None else type(defaults[0])(not defaults[0])})
    again.__init__()  # type: ignore[misc]
    assert again == cls()  # an earlier value is gone
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'nope'"):
        cls(nope=1)
    with pytest.raises(TypeError, match="positional arguments"):
        cls(*defaults, 1)


def test_options_of_subclasses(device: Device) -> None:
    """The constructor of a subclass would not be called, or its checks be left out."""

    class Timed(EventOptions):
        def __init__(self) -> None:
            super().__init__(timing_enabled=True)

    class Checked(EventOptions):
        def __post_init__(self) -> None:
            super().__post_init__()
            raise NotImplementedError

    class Same(EventOptions):
        pass

    assert Timed().timing_enabled is True
    assert device.create_event(Timed()).is_timing_enabled
    assert device.create_event(Same(timing_enabled=True)).is_timing_enabled
    with pytest.raises(NotImplementedError):
        Checked()
    for cls in (Checked, Same):
        with pytest.raises(TypeError, match="timing_enabled must be True or False"):
            cls(timing_enabled="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(("cls", "name"), FLAGS)
@pytest.mark.parametrize("value", ["x", "", "False", 2, -1, 1.0, [], np.int32(1), np.ones(2)])
def test_bad_flags(cls: Any, name: str, value: Any) -> None:
    """A value that is not a bool, even ``"False"``, would turn an option on."""
    with pytest.raises(TypeError, match=rf"Options\.{name}|LaunchConfig\.{name}") as raised:
        cls(**{name: value})
    assert str(raised.value).endswith(f".{name} must be True or False, not {value!r}, of type {type(value).__name__}")


@pytest.mark.parametrize(("cls", "name"), FLAGS)
def test_flags(cls: Any, name: str) -> None:
    """A bool of NumPy, or a 0 or 1 from a file of options, would be refused."""
    for on in (True, 1, np.True_):
        assert bool(getattr(cls(**{name: on}), name)) is True
    for off in (False, 0, np.False_, None):
        assert bool(getattr(cls(**{name: off}), name)) is False


def test_flags_that_were_assigned() -> None:
    """An option that a program assigns after creating the object would not be checked."""
    options = EventOptions()
    options.timing_enabled = "no"  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"EventOptions\.timing_enabled must be True or False, not 'no', of type str"):
        as_options(EventOptions, options)


def test_misspelt_options_that_were_assigned() -> None:
    """A misspelt option would be stored and ignored, or the error would not name the right option."""
    options = EventOptions()
    with pytest.raises(AttributeError, match=r"^EventOptions has no option 'timing_enable'; did you mean 'timing_ena"):
        options.timing_enable = True  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^StreamOptions has no option 'x'; it has nonblocking, priority$"):
        StreamOptions().x = 1  # type: ignore[attr-defined]
    options.timing_enabled = True
    assert options == EventOptions(timing_enabled=True)
