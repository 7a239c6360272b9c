# SPDX-License-Identifier: Apache-2.0
"""Compiled code, and the kernels in it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.driver_calls import call_driver, driver_status, driver_version, query_driver_size
from cudacore_handles._base.drivers import warn_other_driver
from cudacore_handles._base.errors import CUDAError, UnsupportedCodeError, bindings, check, last_error
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.made import Made
from cudacore_handles._base.names import shorten, symbol_name
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._code.kernel import Kernel

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._code.info import CodeContents, GlobalInfo, KernelInfo
    from cudacore_handles._code.param_kinds import ParamInfo
    from cudacore_handles._memory.buffer import Buffer

_LOADABLE = ("cubin", "ptx", "fatbin")
_CXX_NAME = re.compile(r"[<:&(]")
_MAX_NAMES = 20  # symbols listed in an error message

SymbolMapping = Mapping[str, str | bytes] | Mapping[bytes, str | bytes]

# If two threads load the same code, the second thread unloads its copy. The lock is never held during a CUDA call. It
# is an RLock, because a garbage collection while it is held can load code.
_load_lock = threading.RLock()


class ObjectCode(Made):
    """Compiled code: a cubin, PTX, LTO-IR, a fat binary, an object or a library.

    Compilers return it (``Program.compile``), and the ``from_*`` methods make it from code or from the path of a file.
    The code is loaded into the driver when its first kernel is requested, so that an ObjectCode can be made and pickled
    on a machine without a GPU.

    Examples
    --------
    >>> code = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    >>> module = core.Program(code, "c++").compile("cubin")
    >>> module.code_type
    'cubin'
    >>> same = core.ObjectCode.from_cubin(module.code)  # as from a file
    >>> kernel = same.get_kernel("twice")
    """

    __slots__ = ("__weakref__", "_box", "_code", "_code_type", "_name", "_places", "_signatures", "_symbol_mapping")
    _made_by = "Program.compile() or ObjectCode.from_cubin() ..."
    _box: _native.Handle | None  # of the library; None until it is loaded
    _code: bytes | str
    _code_type: str
    _name: str
    # The layouts of kernels' parameters by lowered names, for older drivers; None: not determined yet.
    _places: dict[str, Sequence[ParamInfo]] | None
    _signatures: dict[str, str] | None  # signatures of kernels, by lowered names; None if not determined yet
    _symbol_mapping: dict[str, str]

    def __reduce__(self) -> tuple[Any, ...]:
        return self._init, (self._code, self._code_type, self._name, self._symbol_mapping, self._signatures)

    def __repr__(self) -> str:
        handle = 0 if self._box is None else self._raw()
        name = f" name={shorten(repr(self._name))}" if self._name else ""
        code = f"path={shorten(repr(self._code))}" if isinstance(self._code, str) else f"bytes={len(self._code)}"
        return f"<ObjectCode handle={handle:#x} code_type={self._code_type!r}{name} {code}>"

    def __cudacore_handle__(self) -> object:
        """Return a capsule of the loaded library with its own reference, for extension modules."""
        return (self._box or self._load()).__cudacore_handle__()

    @classmethod
    def _init(
        cls,
        code: bytes | str | os.PathLike[str],
        code_type: str,
        name: str = "",
        symbol_mapping: SymbolMapping | None = None,
        signatures: dict[str, str] | None = None,
    ) -> ObjectCode:
        """Make an ObjectCode from code in memory, or from a file if `code` is a path.

        `signatures` are the signatures of its kernels, if the compiler reports them
        (:func:`._ptx_signatures.ptx_signatures`).
        """
        if isinstance(code, (bytearray, memoryview)):
            code = bytes(code)
        elif not isinstance(code, bytes):
            try:
                code = os.fspath(code)
            except TypeError:
                raise TypeError(f"module must be bytes or a path, not {type(code).__name__}") from None
            if "\0" in code:
                raise ValueError(f"module is a path with a NUL character: {shorten(repr(code))}")
            if isinstance(code, str) and ("\n" in code or "{" in code) and not os.path.exists(code):
                raise ValueError(
                    f"module is text, {shorten(repr(code))}, but a str is the path of a file: give code as bytes, "
                    "such as text.encode(), and compile source code by Program"
                )
            code = os.path.abspath(code)  # the file is read later, when the current directory can be another one
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        names = {}
        if symbol_mapping is not None:
            if not isinstance(symbol_mapping, Mapping):
                raise TypeError(f"symbol_mapping must be a dict of str to str, not {type(symbol_mapping).__name__}")
            names = {
                symbol_name("a name in symbol_mapping", key): symbol_name("a lowered name in symbol_mapping", value)
                for key, value in symbol_mapping.items()
            }
        self = cls.__new__(cls)
        self._box = self._places = None
        self._code, self._code_type, self._name = code, code_type, name
        self._signatures, self._symbol_mapping = signatures, names
        return self

    @staticmethod
    def from_cubin(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: SymbolMapping | None = None
    ) -> ObjectCode:
        """Make an ObjectCode from a cubin: machine code for one architecture.

        Parameters
        ----------
        module : bytes or path
            The code, or the path of its file.
        name : str, optional
            A name for the code. Default none.
        symbol_mapping : dict, optional
            Lowered (mangled) names of kernels, by the names that :meth:`get_kernel` accepts. Each name is a str or its
            UTF-8 bytes.
        """
        return ObjectCode._init(module, "cubin", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_ptx(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: SymbolMapping | None = None
    ) -> ObjectCode:
        """Make an ObjectCode from PTX, which the driver compiles when loading; see :meth:`from_cubin`."""
        return ObjectCode._init(module, "ptx", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_ltoir(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: SymbolMapping | None = None
    ) -> ObjectCode:
        """Make an ObjectCode from LTO-IR, which must be linked before loading; see :meth:`from_cubin`."""
        return ObjectCode._init(module, "ltoir", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_fatbin(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: SymbolMapping | None = None
    ) -> ObjectCode:
        """Make an ObjectCode from a fat binary: code for several architectures; see :meth:`from_cubin`."""
        return ObjectCode._init(module, "fatbin", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_object(module: bytes | str, *, name: str = "", symbol_mapping: SymbolMapping | None = None) -> ObjectCode:
        """Make an ObjectCode from a host object with device code, which must be linked; see :meth:`from_cubin`."""
        return ObjectCode._init(module, "object", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_library(module: bytes | str, *, name: str = "", symbol_mapping: SymbolMapping | None = None) -> ObjectCode:
        """Make an ObjectCode from a host library with device code, which must be linked; see :meth:`from_cubin`."""
        return ObjectCode._init(module, "library", name=name, symbol_mapping=symbol_mapping)

    def get_kernel(self, name: str | bytes) -> Kernel:
        """Return a kernel of the code, which is loaded if necessary (cuLibraryGetKernel).

        Parameters
        ----------
        name : str or bytes
            The kernel's name: a name expression that was given to the compiler (blanks do not matter), an ``extern
            "C"`` name, or a lowered name. For a cubin or PTX, it can also be the C++ name of a kernel, if that name is
            unique.

        Raises
        ------
        CUDAError
            If the code has no such kernel (the error lists its kernels, similar names first), or cannot be loaded.
        """
        name = symbol_name("name", name)
        symbol = self._symbol_mapping.get(name) or self._symbol(name)
        kernel = _native.make_kernel(self._box or self._load(), symbol)
        if not isinstance(kernel, Kernel):
            raise self._not_loaded(kernel, name)
        kernel._name, kernel._known = name, (symbol, self._signature(symbol))
        self._state_parameters(kernel, symbol)
        return kernel

    def get_global(self, name: str | bytes) -> Buffer:
        """Return a variable of the code on the current device (cuLibraryGetGlobal). The code is loaded if necessary.

        Parameters
        ----------
        name : str or bytes
            The variable's name: a name expression that was given to the compiler, such as ``"&n::v"``, with or without
            the ``&``, an ``extern "C"`` name, or a lowered name.

        Returns
        -------
        Buffer
            A view of the variable's memory. It keeps the code loaded.

        Raises
        ------
        CUDAError
            If the code has no such variable, or cannot be loaded.
        """
        from cudacore_handles._memory.buffer import Buffer

        name = symbol_name("name", name)
        mapping = self._symbol_mapping
        symbol = mapping.get(name) or mapping.get(f"&{name}") or self._symbol(name, variable=True)
        address, size = ffi.new("unsigned long long *"), ffi.new("size_t *")
        status = driver_status("cuLibraryGetGlobal", address, size, self._raw(), symbol.encode())
        if status:
            raise self._no_global(status, name)
        return Buffer.from_handle(address[0], size[0], owner=self)

    def get_module(self) -> driver.CUmodule:
        """Return the code as a module of the current context, for ``cuda.bindings`` (cuLibraryGetModule).

        A module does not keep the code loaded. So after the first call, this library never unloads the code, as with
        :attr:`handle`.
        """
        module = query_driver_size("cuLibraryGetModule", self._raw())
        self._disown()
        return bindings().CUmodule(module)

    def _contents(self) -> CodeContents:
        from cudacore_handles._code.contents import read_contents

        return read_contents(self._read(), self._code_type, self._signatures or {})

    def _symbol(self, name: str, *, variable: bool = False) -> str:
        """Return the symbol of a C++ name that has other blanks, or that was not given to the compiler at all."""
        if not _CXX_NAME.search(name):
            return name
        from cudacore_handles._code.demangle import bare_name, squeeze

        wanted = squeeze(name).lstrip("&")
        symbols = {symbol for given, symbol in self._symbol_mapping.items() if squeeze(given).lstrip("&") == wanted}
        if not symbols:
            try:
                contents = self._contents()
            except (UnsupportedCodeError, ValueError):
                return name
            found = contents.globals if variable else contents.kernels
            symbols = {one.symbol for one in found if wanted in (squeeze(one.name), squeeze(bare_name(one.name)))}
        return symbols.pop() if len(symbols) == 1 else name

    def _load(self) -> _native.Handle:
        """Load the code into the driver, once."""
        if self._code_type not in _LOADABLE:
            raise UnsupportedCodeError(
                f'Unsupported code type "{self._code_type}": it cannot be loaded; link it to a cubin first. '
                f"The driver loads {', '.join(_LOADABLE)}"
            )
        if lib.cch_driver_is_other():
            warn_other_driver(stacklevel=3)
        image = self._read()
        out = out_box("cch_library")
        status = lib.cch_library_load(out, image, len(image))
        if status:
            raise self._not_loaded(status)
        if lib.cch_printed_is_possible():
            from cudacore_handles._stream.printed import collect_in_notebooks

            collect_in_notebooks()
        box = adopt(_native.Handle, out)
        with _load_lock:
            if self._box is None:
                self._box = box
            return self._box

    def _disown(self) -> None:
        """Never unload the library."""
        check(lib.cch_library_disown(hold(self._box or self._load())))

    def _signature(self, symbol: str) -> str | None:
        """Return the known signature of a kernel; for PTX, it is read from the code."""
        if self._signatures is None:
            signatures: dict[str, str] = {}
            if self._code_type == "ptx":
                from cudacore_handles._code.ptx_signatures import ptx_signatures

                signatures = ptx_signatures(self._read().decode("utf-8", "replace"))
            self._signatures = signatures
        return self._signatures.get(symbol)

    def _state_parameters(self, kernel: Kernel, symbol: str | None = None) -> None:
        """Read a kernel's parameters from the code, and set them in the library, if the driver cannot report them."""
        if driver_version() >= 12040:  # has cuKernelGetParamInfo
            return
        from cudacore_handles._code.parameters import places_in, state

        if self._places is None:
            self._places = places_in(self._read(), self._code_type)
        places = self._places.get(self._symbol_of(kernel) if symbol is None else symbol)
        if places is not None:
            state(hold(kernel), places)

    def _symbol_of(self, kernel: Kernel) -> str:
        """Return the name of a loaded kernel by comparing handles, because older drivers do not report the name."""
        library = self._box or self._load()
        return next((symbol for symbol in self._places or () if _native.make_kernel(library, symbol) == kernel), "")

    def _raw(self) -> int:
        return (self._box or self._load())._raw

    def _read(self) -> bytes:
        if isinstance(self._code, bytes):
            return self._code
        with open(self._code, "rb") as file:
            return file.read()

    def _not_loaded(self, status: int, name: str = "") -> CUDAError:
        """Make the exception for code that could not be loaded, with details that the result code does not give.

        The driver defers most of the work until the first kernel is requested, so errors about the code can occur at
        either step.
        """
        error = last_error(status)
        if status == results.NOT_FOUND:
            error.hint = self._missing_kernel(name)
        else:
            from cudacore_handles._code.not_loaded import explain

            explain(error, status, self._read)
        return error

    def _missing_kernel(self, name: str) -> str:
        """Return the text of the error about a missing kernel, with a list of the kernels that the code has."""
        try:
            symbols = [kernel.symbol for kernel in self._contents().kernels]
        except (UnsupportedCodeError, ValueError):
            try:
                symbols = self._loaded_names()
            except CUDAError:  # a driver before 12.4 cannot list them
                return f"The code has no kernel {name!r}"
        listing = self._listing(name, symbols, "kernels")
        if not symbols:
            example = name if "<" in name else f"{name}<float>"
            listing += (
                f". A kernel is a __global__ function. A template is compiled for the instances in "
                f'compile(..., name_expressions=["{example}"])'
            )
        elif "<" in name:
            listing += f'. To add it, compile with name_expressions=["{name}"]'
        return f"The code has no kernel {name!r}; {listing}"

    def _loaded_names(self) -> list[str]:
        """Return the lowered names of the kernels that the driver has found in the code."""
        count = query_driver_size("cuLibraryGetKernelCount", self._raw())
        kernels = ffi.new("uintptr_t[]", count)
        if count:
            call_driver("cuLibraryEnumerateKernels", kernels, count, self._raw())
        names = (_native.make_kernel(self._box, kernel)._symbol() for kernel in kernels)
        return [name for name in names if name is not None]

    def _no_global(self, status: int, name: str) -> CUDAError:
        error = last_error(status)
        if status == results.NOT_FOUND:
            error.hint = f"The code has no variable {name!r}"
            with suppress(UnsupportedCodeError, ValueError):
                symbols = [variable.symbol for variable in self._contents().globals]
                error.hint += f"; {self._listing(name, symbols, 'variables')}"
        return error

    def _listing(self, name: str, symbols: list[str], what: str) -> str:
        from difflib import get_close_matches

        from cudacore_handles._code.demangle import bare_name, demangle

        by_symbol = {symbol: expression for expression, symbol in self._symbol_mapping.items()}
        names = sorted(by_symbol.get(symbol, symbol) for symbol in symbols)
        if not names:
            return f"it has no {what} at all"
        plain = {bare_name(demangle(symbol)): by_symbol.get(symbol, symbol) for symbol in symbols}
        near = get_close_matches(name, [*names, *plain], n=3)
        meant = dict.fromkeys(repr(plain.get(one, one)) for one in near)
        listed = ", ".join(names[:_MAX_NAMES])
        if names[_MAX_NAMES:]:
            listed += f" and {len(names) - _MAX_NAMES} more"
        hint = f"did you mean {' or '.join(meant)}? It has: {listed}" if meant else f"it has: {listed}"
        if what == "kernels" and any(n.startswith("_Z") for n in names):
            hint += '. C++ names are mangled: declare the kernel extern "C", or compile with name_expressions'
        return hint

    @property
    def code(self) -> bytes | Any:
        """bytes or str: The code, or the path of its file if it was made from one."""
        return self._code

    @property
    def code_type(self) -> str:
        """str: ``"cubin"``, ``"ptx"``, ``"ltoir"``, ``"fatbin"``, ``"object"`` or ``"library"``."""
        return self._code_type

    @property
    def name(self) -> str:
        """str: The name that was given to the code."""
        return self._name

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """tuple of KernelInfo: The kernels of a cubin or PTX, read from the code itself without a driver."""
        return self._contents().kernels

    @property
    def globals(self) -> tuple[GlobalInfo, ...]:
        """tuple of GlobalInfo: The variables of a cubin or PTX, read from the code itself without a driver."""
        return self._contents().globals

    @property
    def symbol_mapping(self) -> dict[str, str]:
        """dict: Lowered names, by the names that :meth:`get_kernel` accepts."""
        return self._symbol_mapping.copy()

    @property
    def handle(self) -> driver.CUlibrary:
        """cuda.bindings.driver.CUlibrary: The loaded library for ``cuda.bindings``.

        Code that has the handle may unload the library (cuLibraryUnload), as numba-cuda does. So after this attribute
        was read, the library is no longer unloaded with its last kernel and object. It stays loaded until other code
        unloads it, or the process ends. If other code has unloaded it, its kernels must not be used.
        """
        library = bindings().CUlibrary(self._raw())
        self._disown()
        return library
