# SPDX-License-Identifier: Apache-2.0
"""Calls NVML through ``cuda.bindings.nvml``: loading, initialization, errors and enumerations."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from cudacore.system import exceptions
from cudacore.system.exceptions import LibraryNotFoundError, NvmlError, UninitializedError, UnknownError
from cudacore_handles._sdk import WITHOUT_GPU, selected_driver

#: For each CUDA version, the oldest version of cuda-bindings that has all NVML functions that this package needs.
OLDEST = {12: (12, 9, 6), 13: (13, 1, 2)}
_INSTALL = (
    "cudacore.system needs cuda.bindings.nvml, of cuda-bindings 13.1.2 or later (CUDA 12: 12.9.6 or later): "
    "pip install 'cudacore[system]'"
)
_HINTS = {
    1: "This process has been forked, or another library has shut NVML down: the next call initializes it again",
    3: "This device, or its driver, does not have it; many values exist on some products only",
    4: "Run as root, or ask the administrator of the machine",
    9: "Load the NVIDIA kernel module; in a container, start it with access to the GPUs (docker run --gpus all)",
    12: (
        "NVML (libnvidia-ml.so.1) is part of the NVIDIA driver: install the driver. In a container, start it with "
        f"NVIDIA_DRIVER_CAPABILITIES=utility or all. {WITHOUT_GPU}"
    ),
    13: "Its driver is too old for this function: install a newer one",
    15: "Look at the kernel's log (dmesg) for Xid errors; the machine must usually be restarted",
    18: "The driver has been updated and its old kernel module is still loaded: restart the machine",
    25: "Its driver is too old, or too new, for the installed cuda-bindings: update the older one",
    999: "Look at the kernel's log (dmesg)",
}

_lock = threading.Lock()
_initialized_in = -1  # the id of the process that initialized NVML; a forked child must initialize NVML again
_initializations = 0
_Named = TypeVar("_Named", bound=str)


@functools.cache
def bindings() -> Any:
    """Return the module ``cuda.bindings.nvml``.

    Raises
    ------
    ImportError
        If ``cuda.bindings.nvml`` is not installed, or too old.
    """
    try:
        import cuda.bindings
        from cuda.bindings import nvml
    except ImportError as error:
        raise ImportError(_INSTALL, name="cuda.bindings.nvml") from error
    version = cast(str, cuda.bindings.__version__)  # type: ignore[attr-defined,unused-ignore]
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < OLDEST.get(numbers[0], ()):
        raise ImportError(f"{_INSTALL}; installed is {version}", name="cuda.bindings.nvml")
    return nvml


def is_compatible() -> bool:
    """Return whether the installed ``cuda.bindings`` is new enough."""
    try:
        bindings()
    except ImportError:
        return False
    return True


def initialize() -> Any:
    """Initialize NVML in this process, unless that has been done, and return the bindings.

    Raises
    ------
    ImportError
        If ``cuda.bindings.nvml`` is not installed, or too old.
    LibraryNotFoundError
        If there is no NVML.
    """
    global _initialized_in, _initializations
    nvml = bindings()
    if _initialized_in == os.getpid():
        return nvml
    with _lock:
        if _initialized_in != os.getpid():
            _load_beside_driver()
            _invoke(nvml, "init_v2", ())
            _initializations += 1
            _initialized_in = os.getpid()
    return nvml


def _load_beside_driver() -> None:
    """Load the NVML in the folder of the driver that ``$CUDACORE_DRIVER`` names, so that the bindings find it."""
    driver = selected_driver()
    library = Path(driver).with_name("libnvidia-ml.so.1") if os.sep in driver else None
    if library is None or not library.is_file():
        return
    try:
        ctypes.CDLL(str(library))
    except OSError as error:  # this NVML belongs to another driver than the one that the process has loaded
        raise _make("init_v2", LibraryNotFoundError.status, str(error)) from None


def call(function: str, *arguments: Any) -> Any:
    """Call a function of NVML by its name in ``cuda.bindings.nvml``. Raise an error if it fails.

    Parameters
    ----------
    function : str
        The function's name in the bindings, such as ``"device_get_name"``.
    *arguments
        The arguments of the function in the bindings. A :class:`Handle` is replaced by NVML's handle.

    Returns
    -------
    object
        The result of the bindings.

    Raises
    ------
    NvmlError
        If the function fails. The class depends on the code.
    """
    nvml = initialize()
    return _invoke(nvml, function, [one.value() if isinstance(one, Handle) else one for one in arguments])


class Handle(int):
    """The handle of a device. After NVML was shut down, the handle is invalid, and is looked up again by the UUID.

    As an int, it is the handle that NVML gave first, because the bindings take ints only.

    Parameters
    ----------
    value : int
        The handle from NVML.
    """

    _found: tuple[int, int]
    uuid: str

    def __new__(cls, value: int) -> Handle:
        self = super().__new__(cls, value)
        self._found = _initializations, value
        self.uuid = str(call("device_get_uuid", value))
        return self

    def value(self) -> int:
        """Return NVML's handle, valid for the present initialization."""
        found_in, value = self._found
        if found_in != _initializations:
            value = int(call("device_get_handle_by_uuid", self.uuid))
            self._found = _initializations, value
        return value

    def __eq__(self, other: object) -> bool:
        return self.uuid == other.uuid if isinstance(other, Handle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.uuid)


class EventSet:
    """A set of events that are being recorded. It becomes invalid when NVML is shut down.

    Parameters
    ----------
    kind : str
        The prefix of the set's functions: ``"event_set"`` or ``"system_event_set"``.
    """

    __slots__ = ("__weakref__", "_kind", "_made_in", "_value")
    _kind: str
    _made_in: int
    _value: int

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._value = int(call(f"{kind}_create"))
        self._made_in = _initializations
        weakref.finalize(self, _free_event_set, kind, self._value, self._made_in).atexit = False

    def register(self, function: str, *arguments: object) -> None:
        """Call a function that takes the set as its last argument."""
        call(function, *arguments, self._value)

    def wait(self, function: str, *arguments: object) -> Any:
        """Call a function that takes the set as its first argument.

        Raises
        ------
        UninitializedError
            If NVML has been shut down since the set was created.
        """
        initialize()
        if self._made_in != _initializations:
            raise _make(function, UninitializedError.status, "its events were lost", "Register for them again")
        return call(function, self._value, *arguments)


def _free_event_set(kind: str, value: int, made_in: int) -> None:
    """Free a set of events. Failures are ignored."""
    if made_in == _initializations:
        with contextlib.suppress(NvmlError, ImportError):
            call(f"{kind}_free", value)


def _invoke(nvml: Any, function: str, arguments: Sequence[Any]) -> Any:
    try:
        return getattr(nvml, function)(*arguments)
    except nvml.NvmlError as error:
        failures = [_translate(function, error)]
    except AttributeError:
        if hasattr(nvml, function):
            raise
        failures = [_make(function, 13, "the installed cuda-bindings do not have it", "Install newer cuda-bindings")]
    except RuntimeError as error:  # cuda.pathfinder found no library
        if "nvml" not in str(error).lower():
            raise
        failures = [_make(function, LibraryNotFoundError.status, "NVML (libnvidia-ml.so.1) is not found")]
    _forget_if(failures[0])
    raise failures.pop()  # no variable may hold the exception, because its traceback refers to this frame


def _forget_if(failure: NvmlError) -> None:
    """Make the next call initialize NVML again if the failure shows that other code has shut NVML down."""
    global _initialized_in
    if failure.code == UninitializedError.status:
        _initialized_in = -1


@functools.cache
def _classes() -> dict[str, type[NvmlError]]:
    """Return the classes of errors by their names in the bindings."""
    classes = {name: cast("type[NvmlError]", getattr(exceptions, name)) for name in exceptions.__all__}
    del classes["NvmlError"]
    return classes | {"NvmlMemoryError": classes["MemoryError"], "NvmlTimeoutError": classes["TimeoutError"]}


def _translate(function: str, error: Exception) -> NvmlError:
    cls = _classes().get(type(error).__name__, UnknownError)
    return _make(function, cls.status, str(error))


def error_of(function: str, code: int) -> NvmlError:
    """Return the error for a code that NVML stored in a result instead of returning it."""
    return _make(function, code, call("error_string", code))


def _make(function: str, code: int, meaning: str, hint: str = "") -> NvmlError:
    known = {cls.status: cls for cls in _classes().values()}
    cls = known.get(code, UnknownError)
    words = "".join("_" + c if c.isupper() else c for c in cls.__name__.removesuffix("Error"))
    name = f"NVML_ERROR{words.upper()}"
    return cls(f"cuda.bindings.nvml.{function}", code, name, meaning, hint=hint or _HINTS.get(code, ""))


def pair_of_int(pair: Any) -> tuple[int, int]:
    """Return two results as numbers."""
    first, second = pair
    return int(first), int(second)


class Numbers(Mapping[_Named, int]):
    """NVML's numbers of the members of an enumeration, from the enumeration of the same name in the bindings.

    Some versions of the bindings begin all names with a prefix. Members that the bindings lack have no number.

    Parameters
    ----------
    cls : type
        The enumeration.
    **renamed : str
        The bindings' names of members that have other names there.
    """

    def __init__(self, cls: Any, **renamed: str) -> None:
        self._cls = cls
        self._renamed = renamed

    @functools.cached_property
    def _numbers(self) -> dict[_Named, int]:
        theirs = getattr(bindings(), self._cls.__name__).__members__
        found = {}
        for member in self._cls:
            name = self._renamed.get(member.name, member.name)
            keys = [key for key in theirs if f"_{key}".endswith(f"_{name}")]
            if keys:
                found[member] = int(theirs[min(keys, key=len)])
        return found

    def __getitem__(self, name: _Named) -> int:
        return self._numbers[name]

    def __iter__(self) -> Iterator[_Named]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def as_number(name: object, numbers: Mapping[_Named, int], what: str) -> int:
    """Return NVML's number for a member of an enumeration, or for its string.

    Raises
    ------
    ValueError
        If there is no such member.
    """
    try:
        return numbers[cast(Any, name)]  # a member is equal to its string
    except (KeyError, TypeError):
        raise ValueError(f"{what} must be one of {', '.join(map(str, numbers))}, not {name!r}") from None


def as_name(number: int, numbers: Mapping[_Named, int], otherwise: _Named) -> _Named:
    """Return the member of an enumeration for NVML's number, or `otherwise` if there is none."""
    return next((name for name, value in numbers.items() if value == number), otherwise)


def as_mask(names: Iterable[_Named | str] | _Named | str, numbers: Mapping[_Named, int], what: str) -> int:
    """Return the bit mask of one or several members."""
    mask = 0
    for name in (names,) if isinstance(names, str) else names:
        mask |= as_number(name, numbers, what)
    return mask


def as_names(mask: int, numbers: Mapping[_Named, int]) -> list[_Named]:
    """Return the members whose bits are set in a mask."""
    return [name for name, value in numbers.items() if value & mask]


def set_bits(words: Iterable[int], width: int) -> list[int]:
    """Return the numbers of the bits that are set in an array of words."""
    return [number * width + bit for number, word in enumerate(words) for bit in range(width) if int(word) >> bit & 1]
