# SPDX-License-Identifier: Apache-2.0
"""Reads the parameters of kernels from their C++ names, which are mangled by the Itanium C++ ABI."""

from __future__ import annotations

import re
import struct
from typing import NoReturn

from cudacore_handles._code.param_kinds import Parameter, ParamKind


class _NotUnderstoodError(Exception):
    pass


class _Type:
    """A type in a name, with the `kind` and `size` of a parameter of this type."""

    __slots__ = ("element", "inner", "kind", "number", "size")

    def __init__(
        self,
        kind: ParamKind,
        size: int = 0,
        *,
        inner: _Type | None = None,
        number: int | None = None,
        element: str = "",
    ) -> None:
        self.kind = kind
        self.size = size
        self.element = element or _element(kind, size)  # the name of the type in NumPy or ml_dtypes
        self.inner = inner  # the type that this one is derived from, such as T of const T and of T *
        self.number = number  # the number of a template parameter


def _element(kind: ParamKind, size: int) -> str:
    """Return NumPy's name of a type; an empty string for characters, which stand for any bytes, and other types."""
    if kind is ParamKind.BOOL:
        return "bool"
    if kind is ParamKind.BFLOAT:
        return "bfloat16"
    if kind not in (ParamKind.INT, ParamKind.UINT, ParamKind.FLOAT) or (kind is ParamKind.UINT and size == 1):
        return ""
    return f"{kind}{8 * (size or struct.calcsize('l'))}"


class _Pack(_Type):
    """A template argument that stands for any number of arguments (a pack)."""

    __slots__ = ("types",)

    def __init__(self, types: list[_Type]) -> None:
        super().__init__(ParamKind.UNKNOWN)
        self.types = types


class _Expansion(_Type):
    """``T...`` as a parameter."""

    __slots__ = ()


_Arguments = list[_Type]

_VOID = _Type(ParamKind.UNKNOWN)
_BUILTINS = {
    "b": _Type(ParamKind.BOOL, 1),
    "c": _Type(ParamKind.BITS, 1),  # the sign is the compiler's choice, so numbers of either sign are accepted
    "a": _Type(ParamKind.INT, 1),
    "h": _Type(ParamKind.UINT, 1),
    "s": _Type(ParamKind.INT, 2),
    "t": _Type(ParamKind.UINT, 2),
    "i": _Type(ParamKind.INT, 4),
    "j": _Type(ParamKind.UINT, 4),
    "l": _Type(ParamKind.INT),  # long: the size is not stated, because it is 4 bytes on Windows
    "m": _Type(ParamKind.UINT),
    "x": _Type(ParamKind.INT, 8),
    "y": _Type(ParamKind.UINT, 8),
    "w": _Type(ParamKind.BITS),
    "f": _Type(ParamKind.FLOAT, 4),
    "d": _Type(ParamKind.FLOAT, 8),
    "v": _VOID,
    # 128-bit integers, long double and similar types: no kind describes them.
    **{letter: _Type(ParamKind.UNKNOWN) for letter in "noegz"},
}
_BUILTINS_D = {
    "h": _Type(ParamKind.FLOAT, 2),
    "u": _Type(ParamKind.UINT, 1),
    "s": _Type(ParamKind.UINT, 2),
    "i": _Type(ParamKind.UINT, 4),
    **{letter: _Type(ParamKind.UNKNOWN) for letter in "defacn"},
}
# Numeric types of CUDA's headers.
_CLASSES = {
    "__half": _Type(ParamKind.FLOAT, 2),
    "__nv_bfloat16": _Type(ParamKind.BFLOAT, 2),
    "__nv_fp8_e4m3": _Type(ParamKind.UNKNOWN, element="float8_e4m3fn"),
    "__nv_fp8_e5m2": _Type(ParamKind.UNKNOWN, element="float8_e5m2"),
    "__nv_fp8_e8m0": _Type(ParamKind.UNKNOWN, element="float8_e8m0fnu"),
}
_COMPLEX = {"float32": "complex64", "float64": "complex128"}  # by the argument of the template `complex`
_MAX_DEPTH = 100  # maximum depth of nested types

_LENGTH = re.compile(r"[1-9]\d{0,5}")
_SUBSTITUTION = re.compile(r"S(?:([0-9A-Z]*)_|[absiod])")
_LITERAL = re.compile(r"n?[0-9a-f]*E")
_EXTENT = re.compile(r"\d*_")
_TYPE_WITH_D = re.compile(r"D(?:F16(?P<float>[_b])|(?P<letter>[a-z]))")
_TEMPLATE_PARAMETER = re.compile(r"T(\d*)_")


def name_parameters(symbol: str) -> list[Parameter] | None:
    """Return the parameters that a mangled C++ name describes; None if it does not describe any."""
    if not symbol.startswith("_Z"):
        return None
    try:
        return _Name(symbol).function()
    except (_NotUnderstoodError, RecursionError):
        return None


def _element_of_template(name: str, arguments: _Arguments) -> str:
    """Return the type of ``std::complex<float>`` and similar classes of the CUDA libraries."""
    return _COMPLEX.get(arguments[0].element, "") if name == "complex" and len(arguments) == 1 else ""


class _Name:
    """A parser of one mangled name (Itanium C++ ABI, 5.1: Mangling)."""

    def __init__(self, symbol: str) -> None:
        self._text = symbol
        self._at = 2  # after _Z
        self._known: list[_Type] = []  # the types that S_, S0_, ... refer to
        self._depth = 0

    def function(self) -> list[Parameter]:
        """Read the whole name."""
        arguments = self._function_name()
        if arguments is not None and self._type() is not _VOID:
            self._fail()  # template functions have their return type in the name, and kernels return nothing
        if self._rest() == "v":
            return []
        parameters: list[Parameter] = []
        while self._rest():
            parameters += self._parameters(self._type(), arguments or [])
        if not parameters:
            self._fail()
        return parameters

    # -- what a type means as a parameter

    def _parameters(self, type_: _Type, arguments: _Arguments) -> list[Parameter]:
        if type_ is _VOID:
            self._fail()
        if not isinstance(type_, _Expansion):
            return [self._parameter(type_, arguments)]
        assert type_.inner is not None
        packs = [pack for pack in self._packs(type_.inner, arguments) if pack is not None]
        if len(packs) != 1:
            self._fail()
        return [self._parameter(type_.inner, arguments, one) for one in packs[0].types]

    def _parameter(self, type_: _Type, arguments: _Arguments, one: _Type | None = None) -> Parameter:
        """Return a parameter of a type, with template parameters resolved; `one` is the current element of a pack."""
        found = self._resolve(type_, arguments, one)
        if found is None or found is _VOID or isinstance(found, (_Pack, _Expansion)):
            self._fail()
        pointee = None
        if found.kind is ParamKind.POINTER and found.inner is not None:
            pointee = self._resolve(found.inner, arguments, one)
        return Parameter(found.kind, found.size, "" if pointee is None else pointee.element)

    @staticmethod
    def _resolve(type_: _Type, arguments: _Arguments, one: _Type | None) -> _Type | None:
        """Return a type without qualifiers, with template parameters resolved; None if an argument is missing."""
        while True:
            if type_.number is not None:
                if type_.number >= len(arguments):
                    return None
                type_ = arguments[type_.number]
                if isinstance(type_, _Pack):
                    if one is None:
                        return None
                    type_ = one
            elif type_.inner is not None and type_.kind is ParamKind.UNKNOWN:
                type_ = type_.inner
            else:
                return type_

    def _packs(self, type_: _Type | None, arguments: _Arguments) -> list[_Pack]:
        """Return the packs that a type uses."""
        packs = []
        while type_ is not None:
            if type_.number is not None:
                if type_.number >= len(arguments):
                    self._fail()
                argument = arguments[type_.number]
                if isinstance(argument, _Pack):
                    packs.append(argument)
            type_ = type_.inner
        return packs

    # -- names

    def _function_name(self) -> _Arguments | None:
        """Read the function's own name; return its template arguments, or None if it is not a template."""
        if self._take("N"):
            return self._nested(of_function=True)[1]
        if self._take("Z"):
            self._fail()
        if self._take("St"):
            self._unqualified()
        elif self._peek() == "S":
            self._fail()
        else:
            self._unqualified()
        if self._peek() != "I":
            return None
        self._remember(_Type(ParamKind.UNKNOWN))
        return self._template_arguments()

    def _nested(self, *, of_function: bool) -> tuple[_Type, _Arguments | None]:
        """Read ``N...E`` after the N. Return the type, and the last template arguments if they are at its end."""
        while self._peek() in "rVKRO" and self._peek():
            self._at += 1  # skips a qualifier of a member function
        type_ = _Type(ParamKind.UNKNOWN)
        arguments: _Arguments | None = None
        count, name = 0, ""
        while not self._take("E"):
            known, element = False, ""
            if self._peek() == "I":
                if not count:
                    self._fail()
                arguments = self._template_arguments()
                element = _element_of_template(name, arguments)
            elif self._take("St"):
                if count:
                    self._fail()
                self._at_source_name()
                known, arguments = True, None  # "std" itself is not a substitution candidate
            elif self._peek() == "S":
                if count:
                    self._fail()
                type_, known, arguments = self._substitution(), True, None
            elif self._peek() == "T":
                self._fail()  # a dependent type is not supported
            else:
                self._take("L")  # the mark of internal linkage
                name = self._unqualified()
                arguments = None
            count += 1
            if not known:
                type_ = _Type(ParamKind.UNKNOWN, element=element)
                self._remember(type_)
        if not count:
            self._fail()
        if of_function and self._known:
            self._known.pop()  # the function itself is not a substitution candidate
        return type_, arguments

    def _at_source_name(self) -> None:
        if not self._peek().isdigit():
            self._fail()

    def _unqualified(self) -> str:
        """Read an unqualified name: ``4axpy`` or ``L4axpy``, with ABI tags, but neither operators nor unnamed types."""
        self._take("L")
        name = self._source_name()
        while self._take("B"):
            self._source_name()
        return name

    def _source_name(self) -> str:
        """Read a name that is preceded by its length."""
        length = int(self._match(_LENGTH)[0])
        name = self._text[self._at : self._at + length]
        if len(name) < length:
            self._fail()
        self._at += length
        return name

    def _substitution(self) -> _Type:
        """Read ``S_``, ``S0_``, ... or one of the abbreviations of std's names."""
        match = self._match(_SUBSTITUTION)
        if match[1] is None:
            return _Type(ParamKind.UNKNOWN)
        number = int(match[1], 36) + 1 if match[1] else 0
        if number >= len(self._known):
            self._fail()
        return self._known[number]

    def _template_arguments(self) -> _Arguments:
        """Read ``I...E``."""
        self._expect("I")
        arguments: _Arguments = []
        while not self._take("E"):
            arguments.append(self._template_argument())
        return arguments

    def _template_argument(self) -> _Type:
        if self._take("J"):
            pack = []
            while not self._take("E"):
                pack.append(self._template_argument())
            return _Pack(pack)
        # An expression. Only a template parameter is supported. It is not a substitution candidate.
        if self._take("X"):
            self._match(_TEMPLATE_PARAMETER)
            self._expect("E")
            return _VOID
        if self._take("L"):
            if self._peek() == "_":
                self._fail()  # the address of a function or a variable, which is not supported
            self._type()
            self._match(_LITERAL)
            return _VOID  # a value, not a type, so no parameter can have this type
        return self._type()

    # -- types

    def _type(self) -> _Type:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail()
        type_ = self._read_type()
        self._depth -= 1
        return type_

    def _read_type(self) -> _Type:
        letter = self._peek()
        if letter in _BUILTINS:
            self._at += 1
            return _BUILTINS[letter]
        if letter == "D":
            return self._type_with_d()
        if letter and letter in "rVK":
            while self._peek() and self._peek() in "rVK":
                self._at += 1
            inner = self._type()
            return self._remember(_Type(ParamKind.UNKNOWN, inner=inner))
        if letter and letter in "PRO":
            self._at += 1
            return self._remember(_Type(ParamKind.POINTER, 8, inner=self._type()))
        if self._take("F"):
            self._take("Y")
            while not self._take("E"):
                if self._peek() in ("R", "O") and self._text[self._at + 1 : self._at + 2] == "E":
                    self._at += 1  # skips a qualifier of a member function
                else:
                    self._type()
            return self._remember(_Type(ParamKind.UNKNOWN))
        if self._take("A"):
            self._match(_EXTENT)
            self._type()
            return self._remember(_Type(ParamKind.UNKNOWN))  # a template argument of this type is passed as a pointer
        if self._take("M"):
            self._type()
            self._type()
            return self._remember(_Type(ParamKind.UNKNOWN))
        if letter == "T":
            return self._template_parameter()
        if self._take("N"):
            return self._nested(of_function=False)[0]
        if letter == "S":
            return self._type_with_s()
        if letter.isdigit():
            name = self._unqualified()
            type_ = self._remember(_CLASSES.get(name) or _Type(ParamKind.UNKNOWN))
            return self._specialized(type_, name)
        self._fail()

    def _type_with_d(self) -> _Type:
        match = self._match(_TYPE_WITH_D)
        if match["float"]:
            return _Type(ParamKind.FLOAT if match["float"] == "_" else ParamKind.BFLOAT, 2)
        if match["letter"] == "p":
            return self._remember(_Expansion(ParamKind.UNKNOWN, inner=self._type()))
        if match["letter"] == "o" and self._peek() == "F":
            return self._type()  # a function type with noexcept
        return _BUILTINS_D.get(match["letter"]) or self._fail()

    def _type_with_s(self) -> _Type:
        if self._take("St"):
            name = self._unqualified()
            return self._specialized(self._remember(_Type(ParamKind.UNKNOWN)), name)
        return self._specialized(self._substitution())

    def _specialized(self, template: _Type, name: str = "") -> _Type:
        """Read the template arguments that can follow a template's name."""
        if self._peek() != "I":
            return template
        element = _element_of_template(name, self._template_arguments())
        return self._remember(_Type(ParamKind.UNKNOWN, element=element))

    def _template_parameter(self) -> _Type:
        match = self._match(_TEMPLATE_PARAMETER)
        number = int(match[1]) + 1 if match[1] else 0
        type_ = self._remember(_Type(ParamKind.UNKNOWN, number=number))
        if self._peek() != "I":
            return type_
        self._template_arguments()  # the parameters of a template template parameter
        return self._remember(_Type(ParamKind.UNKNOWN))

    # -- letters

    def _remember(self, type_: _Type) -> _Type:
        self._known.append(type_)
        return type_

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _rest(self) -> str:
        return self._text[self._at :]

    def _take(self, letters: str) -> bool:
        if not self._text.startswith(letters, self._at):
            return False
        self._at += len(letters)
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            self._fail()
        self._at = match.end()
        return match

    def _expect(self, letters: str) -> None:
        if not self._take(letters):
            self._fail()

    def _fail(self) -> NoReturn:
        raise _NotUnderstoodError
