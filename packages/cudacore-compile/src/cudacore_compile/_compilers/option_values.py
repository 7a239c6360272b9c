# SPDX-License-Identifier: Apache-2.0
"""Checks values of options, and converts them to the arguments of compiler flags.

``field`` is the name of the option in errors, such as ``"ProgramOptions.arch"``.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from cudacore_compile.typing import ObjectCodeFormatType
from cudacore_handles import CUDAError, Device
from cudacore_handles._sdk import Options, as_flag, as_integer

TRACE_SUFFIX = ".json"
_MAX_THREADS = 1024  # NVRTC starts as many threads as requested, and hangs with 100,000
_CUT_OFF = " \t\n\r\v\f"  # characters that NVRTC removes from the end of an option
_ARCHITECTURE = re.compile(r"(?:(sm|compute)_)?(\d{2,3}[af]?)", re.ASCII)


def encode(text: str) -> bytes:
    """Return text in the encoding of compilers: UTF-8; bytes of paths are not changed."""
    return text.encode("utf-8", "surrogateescape")


def architecture(field: str, arch: object, target: ObjectCodeFormatType | None = None) -> tuple[str, str]:
    """Split an architecture into its kind, ``sm`` or ``compute``, and its number with the variant's letter.

    For cubins, the target, a ``compute`` architecture is an error.
    """
    text = decimal(field, arch) if isinstance(arch, int) and not isinstance(arch, bool) else arch
    if not isinstance(text, str):
        wrong_type(field, "a str or int", arch)
    match = _ARCHITECTURE.fullmatch(text)
    if match is None:
        raise ValueError(f'{field}={arch!r} is not an architecture: write "sm_90", "compute_90", "sm_90a" or "90"')
    if match[1] == "compute" and target is ObjectCodeFormatType.CUBIN:
        raise ValueError(
            f'{field}={arch!r} is a virtual architecture, and cubins are for real ones: set arch="sm_{match[2]}"'
        )
    return match[1] or "sm", match[2]


def current_arch() -> str:
    """Return the architecture of the current device."""
    try:
        return Device().arch
    except CUDAError as error:
        error.hint = 'There is no device to compile for: name an architecture, as in ProgramOptions(arch="sm_90")'
        raise


Arguments = Callable[[str, Any], list[str]]


def flag_field(flag: str, arguments: Arguments, *spellings: str, since: str = "12.0") -> Any:
    """Return a field of a dataclass of options: None, or a value that is passed to the compiler.

    Parameters
    ----------
    flag : str
        The flag.
    arguments : callable
        One of the functions below, which checks the value and converts it.
    *spellings : str
        Other spellings of the flag.
    since : str, optional
        The version of CUDA that added the flag. Default ``"12.0"``.
    """
    about = {"flag": flag, "arguments": arguments, "spellings": spellings, "since": since}
    return dataclasses.field(default=None, metadata=about)


class FlagOptions(Options):
    """The base class of dataclasses with fields of :func:`flag_field`."""

    name: str | None
    arch: str | int | None

    def __post_init__(self) -> None:
        if self.name is None:
            self.name = type(self).name
        self._flags()

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={value!r}" for name, value in given if value is not None)
        return f"{type(self).__name__}({shown})"

    def _given(self) -> dict[str, Any]:
        """Return the options that are set, in the order of the fields."""
        cls: Any = type(self)
        fields = cls.__dataclass_fields__
        # An option that was not given is usually not stored. A subclass can have slots.
        values = vars(self) if cls.__base__ is FlagOptions else {name: getattr(self, name) for name in fields}
        given = {name: value for name, value in values.items() if value is not None}
        return {name: given[name] for name in fields if name in given} if len(given) > 1 else given

    def _flags(self) -> list[str]:
        """Return the flags that depend only on the values; raise an error for the first invalid value."""
        cls: Any = type(self)
        if self.name is not None:
            string(f"{cls.__name__}.name", self.name)
        if self.arch is not None:
            architecture(f"{cls.__name__}.arch", self.arch)
        return flags_of(self, flags_in(cls))


@functools.cache
def flags_in(cls: Any) -> dict[str, tuple[str, Arguments]]:
    """Return the flag, and the function for its arguments, of each field of :func:`flag_field` in a class."""
    metadata = {field.name: field.metadata for field in dataclasses.fields(cls)}
    return {name: (about["flag"], about["arguments"]) for name, about in metadata.items() if about}


def fields_by_flag(cls: Any) -> dict[str, str]:
    """Return the names of the fields of a class by all spellings of their flags."""
    return {
        flag.partition("=")[0]: field.name
        for field in dataclasses.fields(cls)
        if field.metadata.get("flag")  # a field that is only checked has an empty one
        for flag in (field.metadata["flag"], *field.metadata["spellings"])
    }


def flags_of(options: FlagOptions, table: Mapping[str, tuple[str, Arguments]]) -> list[str]:
    """Return the flags of the options that are set. The table has the flags and functions of the fields."""
    flags = []
    for field, value in options._given().items():
        if field in table:
            flag, arguments = table[field]
            flags += [flag + argument for argument in arguments(f"{type(options).__name__}.{field}", value)]
    return flags


# Functions that convert the value of an option to the arguments of its flag. The flag is given once for each argument.


def switch(field: str, value: object) -> list[str]:
    return [""] if flag(field, value) else []


def only_checked(field: str, value: object) -> list[str]:
    flag(field, value)
    return []


def true_or_false(field: str, value: object) -> list[str]:
    return [f"={str(flag(field, value)).lower()}"]


def one_or_zero(field: str, value: object) -> list[str]:
    return [f"={int(flag(field, value))}"]


def flag(field: str, value: object) -> bool:
    """Return a bool. The integers 0 and 1 and the bools of NumPy are accepted, too."""
    try:
        return as_flag(field, value)
    except TypeError:
        wrong_type(field, "a bool", value)


def time_file(field: str, value: object) -> list[str]:
    if isinstance(value, bool):  # True stands for the log
        return ["=-"] if value else []
    return path(field, value)


def seed(field: str, value: object) -> list[str]:
    return text(field, decimal(field, value) if isinstance(value, int) and not isinstance(value, bool) else value)


def thread_count(field: str, value: object) -> list[str]:
    if isinstance(value, bool):  # True stands for the number of processors
        return ["=0"] if value else []
    return [f"={integer(field, value, 0, _MAX_THREADS)}"]


def macros(field: str, value: object) -> list[str]:
    if isinstance(value, Mapping):
        value = list(value.items())
    pair = (
        isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and not isinstance(value[1], tuple)
    )
    # A tuple of two strings is a name and its value, as in cuda.core.
    return [f"={_macro(field, item)}" for item in ([value] if pair else items(value))]


def _macro(field: str, value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        name, definition = value
        if isinstance(definition, bool):
            definition = int(definition)
        if hasattr(definition, "__float__"):  # a number of Python or of another library
            definition = decimal(field, definition)
        text = string(field, name)
        if definition is not None:
            text += f"={string(field, definition, empty=True)}"
    else:
        text = string(field, value)
    if "\n" in text:
        raise ValueError(f"{field}: the macro {text!r} has a line break, where it would be cut off")
    return text


def items(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def string(field: str, value: object, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        wrong_type(field, "a str", value)
    if not value and not empty:
        raise ValueError(f"{field} must not be empty; use None to leave it out")
    if "\0" in value:
        raise ValueError(f"{field}={value!r} has a NUL character")
    try:
        encode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{field}={value!r} is not Unicode text") from None
    return value


def path_string(field: str, value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    text = string(field, value)
    if text[-1] in _CUT_OFF:
        raise ValueError(
            f"{field}={text!r} ends with white space, which NVRTC cuts off: rename it, or write a slash behind the "
            "name of a directory"
        )
    return text


def trace_stem(field: str, value: object) -> str:
    # NVRTC adds the suffix itself. If the name already has the suffix, some versions add it again, but only to the name
    # of one part of the profile.
    return path_string(field, value).removesuffix(TRACE_SUFFIX)


def integer(field: str, value: object, minimum: int, maximum: int) -> int:
    number = as_integer(value)
    if number is None:
        wrong_type(field, "an int", value)
    if not minimum <= number <= maximum:
        raise ValueError(f"{field}={decimal(field, number)} is out of range: from {minimum} to {maximum}")
    return number


def decimal(field: str, number: object) -> str:
    """Return the digits of a number; raise an error if it has more digits than Python converts."""
    try:
        return str(number)
    except ValueError:
        raise ValueError(f"{field} is a number of too many digits") from None


def wrong_type(field: str, expected: str, value: object) -> NoReturn:
    raise TypeError(f"{field} must be {expected}, not {type(value).__name__}")


def _one(convert: Callable[[str, object], object]) -> Arguments:
    return lambda field, value: [f"={convert(field, value)}"]


def _each(convert: Callable[[str, object], object]) -> Arguments:
    return lambda field, value: [f"={convert(field, item)}" for item in items(value)]


def _positive(field: str, value: object) -> int:
    return integer(field, value, 1, 2**31 - 1)


text, path, trace, register_count = map(_one, (string, path_string, trace_stem, _positive))
texts, paths, numbers = map(_each, (string, path_string, _positive))
