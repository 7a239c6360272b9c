# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from cudacore_handles import Device, DeviceMemoryResourceOptions, EventOptions, LaunchConfig, StreamOptions
from cudacore_handles._base.options import as_options

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
