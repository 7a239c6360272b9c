# SPDX-License-Identifier: Apache-2.0
"""What kinds of parameters a kernel has, where its PTX or its C++ name says so.

PTX tells floating point, integers and raw bytes from each other, and in its newer versions pointers; a mangled name
(Itanium C++ ABI) tells pointers from integers, and signs. Neither tells all. What is said by none, and what is not
understood here, is unknown: a kind is certain or it is not given.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

__all__ = ["ParamKind", "kinds_of", "name_parameters", "ptx_signatures"]


class ParamKind(str, enum.Enum):
    """What a kernel takes for a parameter. Each member is the string that it stands for."""

    UNKNOWN = "unknown"
    """Nothing is known but its size."""
    INT = "int"
    """A signed integer."""
    UINT = "uint"
    """An unsigned integer."""
    BITS = "bits"
    """An integer; whether it has a sign is not known."""
    BOOL = "bool"
    """A C++ ``bool``."""
    FLOAT = "float"
    """A floating-point number."""
    BFLOAT = "bfloat"
    """An ``__nv_bfloat16``."""
    POINTER = "pointer"
    """A pointer."""
    ADDRESS = "address"
    """A pointer, or an integer of 8 bytes."""
    BYTES = "bytes"
    """A struct, union or array, by value."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]


class Parameter(NamedTuple):
    """What one source says of a parameter; a size of 0 is not known."""

    kind: ParamKind
    size: int


# A signature as it is kept, and pickled, with code: "f4 a8 b24".
_LETTERS = {
    "?": ParamKind.UNKNOWN,
    "f": ParamKind.FLOAT,
    "n": ParamKind.BITS,
    "p": ParamKind.POINTER,
    "a": ParamKind.ADDRESS,
    "b": ParamKind.BYTES,
}

# ---- merging


def kinds_of(symbol: str | None, signature: str | None, sizes: Sequence[int]) -> list[ParamKind]:
    """Put together what is known of a kernel's parameters.

    Parameters
    ----------
    symbol : str or None
        Its (mangled) name, where that is known.
    signature : str or None
        Its signature from :func:`ptx_signatures`.
    sizes : sequence of int
        The sizes of its parameters, as the driver has them. What does not agree with them is not believed.
    """
    by_name = name_parameters(symbol) if symbol is not None else None
    by_ptx = None if signature is None else [Parameter(_LETTERS[w[0]], int(w[1:])) for w in signature.split()]
    unknown = [Parameter(ParamKind.UNKNOWN, 0)] * len(sizes)
    sources = [s if s is not None and _agree(s, sizes) else unknown for s in (by_ptx, by_name)]
    return [_merge(ptx.kind, name.kind) for ptx, name in zip(*sources, strict=True)]


def _agree(parameters: Sequence[Parameter], sizes: Sequence[int]) -> bool:
    return len(parameters) == len(sizes) and all(p.size in (0, n) for p, n in zip(parameters, sizes, strict=True))


_INTEGERS = frozenset({ParamKind.INT, ParamKind.UINT, ParamKind.BOOL, ParamKind.BITS})

# What a name can add to what PTX says.
_NARROWER = {
    ParamKind.BITS: _INTEGERS,
    ParamKind.ADDRESS: _INTEGERS | {ParamKind.POINTER},
    ParamKind.BYTES: frozenset({ParamKind.FLOAT, ParamKind.BFLOAT}),  # __half, __nv_bfloat16
}


def _merge(ptx: ParamKind, name: ParamKind) -> ParamKind:
    if name is ParamKind.UNKNOWN or ptx is name:
        return ptx
    if ptx is ParamKind.UNKNOWN or name in _NARROWER.get(ptx, ()):
        return name
    return ParamKind.UNKNOWN  # they contradict each other


# ---- PTX

_PTX_SKIPPED = r"//[^\n]*|/\*.*?\*/"
_PTX_ENTRY = re.compile(r"\.entry\b")
_PTX_TOKEN = re.compile(rf"(?:\s+|{_PTX_SKIPPED})*(?P<token>\.?[\w$%@]+|\S)", re.DOTALL)
_PTX_NAME = re.compile(r"[\w$%]+")
_PTX_PARAMETER = re.compile(
    r"\.param (?:\.align \d+ )?\.(?P<type>[a-z]+)(?P<bits>8|16|32|64)"
    r"(?P<pointer> \.ptr(?: \.(?:global|const|shared|local))?)?(?: \.align \d+)?"
    r" [\w$%]+(?P<extents>(?: \[ \d+ \])*)"
)
_PTX_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def ptx_signatures(ptx: str) -> dict[str, str]:
    """Return the signatures of the kernels in PTX, by their names.

    Kernels whose parameters are not understood are left out.
    """
    signatures: dict[str, str] = {}
    contradicting = set()
    if "/*" in ptx:  # compilers write none, and texts of megabytes
        ptx = re.sub(_PTX_SKIPPED, " ", ptx, flags=re.DOTALL)
    for match in _PTX_ENTRY.finditer(ptx):
        if "//" in ptx[ptx.rfind("\n", 0, match.start()) + 1 : match.start()]:
            continue
        found = _ptx_entry(ptx, match.end())
        if found is not None:
            name, signature = found
            if signatures.setdefault(name, signature) != signature:
                contradicting.add(name)
    for name in contradicting:
        del signatures[name]
    return signatures


def _ptx_entry(ptx: str, at: int) -> tuple[str, str] | None:
    """Read a kernel's name and parameters, which begin behind ``.entry``."""
    tokens = (match["token"] for match in _PTX_TOKEN.finditer(ptx, at))
    name = next(tokens, "")
    if not _PTX_NAME.fullmatch(name):
        return None
    if next(tokens, "") != "(":
        return name, ""
    parameters: list[str] = []
    words: list[str] = []
    for token in tokens:
        if token not in (",", ")"):
            words.append(token)
            continue
        if words or token == "," or parameters:
            parameter = _ptx_parameter(words)
            if parameter is None:
                return None
            parameters.append(parameter)
        if token == ")":
            return name, " ".join(parameters)
        words = []
    return None


def _ptx_parameter(words: list[str]) -> str | None:
    """Read ``.param .align 8 .b8 name[24]`` and the like as a kind's letter and a size."""
    match = _PTX_PARAMETER.fullmatch(" ".join(words))
    if match is None:
        return None
    size = _PTX_SIZES[match["bits"]]
    if match["extents"]:
        for extent in re.findall(r"\d+", match["extents"]):
            size *= int(extent)
        return f"b{size}"
    kind = match["type"]
    if match["pointer"]:
        return f"p{size}" if size == 8 else f"?{size}"
    if kind == "f":
        return f"f{size}"
    if kind in ("u", "s"):
        return f"a{size}" if size == 8 else f"n{size}"
    return f"?{size}"  # .b32 and the like are untyped: some compilers declare numbers of every kind so


# ---- C++ names


class _NotUnderstoodError(Exception):
    pass


class _Type:
    """A type in a name. `kind` and `size` are those of a parameter of it."""

    __slots__ = ("inner", "kind", "number", "size")

    def __init__(
        self, kind: ParamKind, size: int = 0, *, inner: _Type | None = None, number: int | None = None
    ) -> None:
        self.kind = kind
        self.size = size
        self.inner = inner  # of a type that is made of another, and stands for it as a parameter
        self.number = number  # of a template parameter


class _Pack(_Type):
    """A template argument that stands for several."""

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
    "c": _Type(ParamKind.BITS, 1),  # the compiler's choice; numbers of either sign are taken
    "a": _Type(ParamKind.INT, 1),
    "h": _Type(ParamKind.UINT, 1),
    "s": _Type(ParamKind.INT, 2),
    "t": _Type(ParamKind.UINT, 2),
    "i": _Type(ParamKind.INT, 4),
    "j": _Type(ParamKind.UINT, 4),
    "l": _Type(ParamKind.INT),  # 4 bytes on Windows
    "m": _Type(ParamKind.UINT),
    "x": _Type(ParamKind.INT, 8),
    "y": _Type(ParamKind.UINT, 8),
    "w": _Type(ParamKind.BITS),
    "f": _Type(ParamKind.FLOAT, 4),
    "d": _Type(ParamKind.FLOAT, 8),
    "v": _VOID,
    # 128 bits, long double, ...: a parameter of them has no kind here.
    **{letter: _Type(ParamKind.UNKNOWN) for letter in "noegz"},
}
_BUILTINS_D = {
    "h": _Type(ParamKind.FLOAT, 2),
    "u": _Type(ParamKind.UINT, 1),
    "s": _Type(ParamKind.UINT, 2),
    "i": _Type(ParamKind.UINT, 4),
    **{letter: _Type(ParamKind.UNKNOWN) for letter in "defacn"},
}
# Types of CUDA's headers that are numbers.
_CLASSES = {"__half": _Type(ParamKind.FLOAT, 2), "__nv_bfloat16": _Type(ParamKind.BFLOAT, 2)}
_MOST_DEPTH = 100  # of types in types

_LENGTH = re.compile(r"[1-9]\d{0,5}")
_SUBSTITUTION = re.compile(r"S(?:([0-9A-Z]*)_|[absiod])")
_LITERAL = re.compile(r"n?[0-9a-f]*E")
_EXTENT = re.compile(r"\d*_")
_TYPE_WITH_D = re.compile(r"D(?:F16(?P<float>[_b])|(?P<letter>[a-z]))")
_TEMPLATE_PARAMETER = re.compile(r"T(\d*)_")


def name_parameters(symbol: str) -> list[Parameter] | None:
    """Return what a mangled C++ name says of a function's parameters; None when it says nothing."""
    if not symbol.startswith("_Z"):
        return None
    try:
        return _Name(symbol).function()
    except (_NotUnderstoodError, RecursionError):
        return None


class _Name:
    """A mangled name that is being read (Itanium C++ ABI, 5.1: Mangling)."""

    def __init__(self, symbol: str) -> None:
        self._text = symbol
        self._at = 2  # behind _Z
        self._known: list[_Type] = []  # what S_, S0_, ... refer to
        self._depth = 0

    def function(self) -> list[Parameter]:
        """Read all."""
        arguments = self._function_name()
        if arguments is not None and self._type() is not _VOID:
            self._fail()  # templates have their return type in their name, and kernels return nothing
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
        """Follow references to template arguments; `one` is what a pack stands for this time."""
        while True:
            if type_.number is not None:
                if type_.number >= len(arguments):
                    self._fail()
                type_ = arguments[type_.number]
                if isinstance(type_, _Pack):
                    if one is None:
                        self._fail()
                    type_ = one
            elif type_.inner is not None and type_.kind is ParamKind.UNKNOWN:
                type_ = type_.inner
            else:
                break
        if type_ is _VOID or isinstance(type_, (_Pack, _Expansion)):
            self._fail()
        return Parameter(type_.kind, type_.size)

    def _packs(self, type_: _Type | None, arguments: _Arguments) -> list[_Pack]:
        """Return the packs that a type is made of."""
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
        """Read the function's own name; return its template arguments, None when it is no template."""
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
        """Read ``N...E`` behind its N; return the type, and the last template arguments if they are at its end."""
        while self._peek() in "rVKRO" and self._peek():
            self._at += 1  # of a member function
        type_ = _Type(ParamKind.UNKNOWN)
        arguments: _Arguments | None = None
        count = 0
        while not self._take("E"):
            known = False
            if self._peek() == "I":
                if not count:
                    self._fail()
                arguments = self._template_arguments()
            elif self._take("St"):
                if count:
                    self._fail()
                self._at_source_name()
                known, arguments = True, None  # "std" itself is no candidate
            elif self._peek() == "S":
                if count:
                    self._fail()
                type_, known, arguments = self._substitution(), True, None
            elif self._peek() == "T":
                self._fail()  # a dependent type
            else:
                self._take("L")  # internal linkage
                self._unqualified()
                arguments = None
            count += 1
            if not known:
                type_ = _Type(ParamKind.UNKNOWN)
                self._remember(type_)
        if not count:
            self._fail()
        if of_function and self._known:
            self._known.pop()  # the function itself is no candidate
        return type_, arguments

    def _at_source_name(self) -> None:
        if not self._peek().isdigit():
            self._fail()

    def _unqualified(self) -> str:
        """Read an unqualified name: ``4axpy``, ``L4axpy``, with ABI tags; no operators, and no unnamed types."""
        self._take("L")
        name = self._source_name()
        while self._take("B"):
            self._source_name()
        return name

    def _source_name(self) -> str:
        """Read a name with its length before it."""
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
        if self._take("X"):  # an expression: only the value of a template parameter, which is no candidate
            self._match(_TEMPLATE_PARAMETER)
            self._expect("E")
            return _VOID
        if self._take("L"):
            if self._peek() == "_":
                self._fail()  # another function, or a variable
            self._type()
            self._match(_LITERAL)
            return _VOID  # no type, and never that of a parameter
        return self._type()

    # -- types

    def _type(self) -> _Type:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
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
                    self._at += 1  # of a member function
                else:
                    self._type()
            return self._remember(_Type(ParamKind.UNKNOWN))
        if self._take("A"):
            self._match(_EXTENT)
            self._type()
            return self._remember(_Type(ParamKind.UNKNOWN))  # as a template's argument it is passed as a pointer
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
            return self._specialized(type_)
        self._fail()

    def _type_with_d(self) -> _Type:
        match = self._match(_TYPE_WITH_D)
        if match["float"]:
            return _Type(ParamKind.FLOAT if match["float"] == "_" else ParamKind.BFLOAT, 2)
        if match["letter"] == "p":
            return self._remember(_Expansion(ParamKind.UNKNOWN, inner=self._type()))
        if match["letter"] == "o" and self._peek() == "F":
            return self._type()  # a function that throws nothing
        return _BUILTINS_D.get(match["letter"]) or self._fail()

    def _type_with_s(self) -> _Type:
        if self._take("St"):
            self._unqualified()
            return self._specialized(self._remember(_Type(ParamKind.UNKNOWN)))
        return self._specialized(self._substitution())

    def _specialized(self, template: _Type) -> _Type:
        """Read the template arguments that may follow a template's name."""
        if self._peek() != "I":
            return template
        self._template_arguments()
        return self._remember(_Type(ParamKind.UNKNOWN))

    def _template_parameter(self) -> _Type:
        match = self._match(_TEMPLATE_PARAMETER)
        number = int(match[1]) + 1 if match[1] else 0
        type_ = self._remember(_Type(ParamKind.UNKNOWN, number=number))
        if self._peek() != "I":
            return type_
        self._template_arguments()  # of a template that is a parameter
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
