# SPDX-License-Identifier: Apache-2.0
"""Compiles source code."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_compile._compilers.errors import CompilerError, cancelled, without_frames
from cudacore_compile._compilers.libraries import load
from cudacore_compile._compilers.option_values import encode
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import Request, Result
from cudacore_compile._compilers.sources import check_headers, check_logs, check_names, check_no_path, check_source
from cudacore_compile._compilers.targets import BACKENDS, check_code_type, check_target
from cudacore_compile._compilers.wheel_headers import wheel_headers
from cudacore_compile.typing import (
    CompilerBackendType,
    CompileTargetName,
    ObjectCodeFormatType,
    PCHStatusType,
    SourceCodeName,
    SourceCodeType,
)
from cudacore_handles import CUDAError, ObjectCode
from cudacore_handles._sdk import Closing, as_options, closed, copy_options, not_pickled, options_apart, shorten

if TYPE_CHECKING:
    from cuda.bindings import nvrtc

    from cudacore_compile._cache.resource import ProgramCacheResource
    from cudacore_compile._compilers.option_dicts import ProgramOptionsDict


class Program(Closing):
    """Source code that can be compiled.

    A program can be compiled any number of times, to different formats, and by several threads at once: the compiler
    runs without the GIL. Later changes of `options` or `headers` do not affect the program. A driver is needed only if
    no architecture is given, to query the current device's. (NVRTC uses a cache in the driver if there is one; see
    :attr:`ProgramOptions.no_cache`.)

    Parameters
    ----------
    code : str, bytes or bytearray
        The source code. A C++ program can be empty.
    code_type : SourceCodeType or str
        Its type: ``"c++"``, ``"ptx"``, or ``"nvvm"``, which can be text or bitcode. See :data:`SUPPORTED_TARGETS`.
    options : ProgramOptions or dict of its fields, optional
        Options of the compilation. Default ``ProgramOptions()``.
    headers : mapping of str to str or bytes, optional
        Contents of header files in memory, by the names used in ``#include``. They take precedence over files. For C++
        only. Default none.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, such as a type of source code that this release cannot compile.

    Examples
    --------
    >>> code = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    >>> program = core.Program(code, "c++", core.ProgramOptions(arch="sm_90"))
    >>> module = program.compile("ptx")
    >>> b".visible .entry twice" in module.code
    True
    """

    __slots__ = (
        "__weakref__",
        "_box",
        "_cancelled",
        "_closed",
        "_code",
        "_code_type",
        "_cubin_names",
        "_headers",
        "_is_new",
        "_lock",
        "_options",
        "_pch_status",
        "_running",
    )
    _box: Any  # the compiler's program that was created last, or None; for PTX a Linker
    _is_new: bool  # whether the program in `_box` has not been compiled yet
    _cubin_names: dict[str, str] | None  # lowered names, if the program in `_box` was compiled to a cubin
    _running: list[Any]  # the compiler's programs that are being compiled

    @options_apart("ProgramOptions")
    def __init__(
        self,
        code: str | bytes | bytearray,
        code_type: SourceCodeType | SourceCodeName,
        options: ProgramOptions | ProgramOptionsDict | None = None,
        *,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> None:
        self._code_type = check_code_type(code_type)
        options = as_options(ProgramOptions, options)
        options = options._without_ignored(self._code_type, stacklevel=4)
        self._code = check_source("code", code, binary=self._code_type is SourceCodeType.NVVM)
        check_no_path(self._code)
        if not self._code and self._code_type is not SourceCodeType.CXX:  # an empty file is a valid C++ program
            raise ValueError(f"code must not be empty: there is no {self._code_type} to compile")
        self._headers = check_headers(headers)
        if self._headers and self._code_type is not SourceCodeType.CXX:
            raise ValueError(f"headers are for C++ programs, which include them, and not for {self._code_type}")
        self._options = copy_options(options)
        self._lock = threading.Lock()  # guards the attributes below; never held while the compiler runs
        self._box = None
        self._is_new = False
        self._cubin_names = None
        self._running = []
        self._cancelled = False
        self._closed = False
        self._pch_status: PCHStatusType | None = None

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "make another of the same source")

    def __repr__(self) -> str:
        arch = "" if self._options.arch is None else f" arch={str(self._options.arch)!r}"
        state = " closed" if self._closed else ""
        return (
            f"<Program backend={str(self.backend)!r} name={shorten(repr(self._name))}{arch} "
            f"bytes={len(self._code)}{state}>"
        )

    def compile(
        self,
        target_type: ObjectCodeFormatType | CompileTargetName,
        name_expressions: Iterable[str | bytes] | None = (),
        logs: Any = None,
        *,
        cache: ProgramCacheResource | None = None,
    ) -> ObjectCode:
        """Compile the program (nvrtcCompileProgram, nvvmCompileProgram, or nvJitLinkComplete for PTX).

        Parameters
        ----------
        target_type : ObjectCodeFormatType or str
            The format to compile to; see :data:`SUPPORTED_TARGETS`.
        name_expressions : iterable of str or bytes, optional
            Names of kernels and addresses of variables as C++ writes them: ``"f<int>"``, ``"&n::v"``. Templates with
            these names are instantiated, and kernels can be looked up by them
            (:attr:`~cudacore_handles.ObjectCode.symbol_mapping` has the mangled names). For PTX and NVVM programs, they
            are ignored with a RuntimeWarning. Default none.
        logs : object with a ``write`` method, optional
            Receives the compiler's log as a str if there is any, whether the compilation succeeds or fails.
            Default None.
        cache : ProgramCacheResource, optional
            A cache in which the code is looked up first, and stored with its lowered names and the log.
            :func:`make_program_cache_key` describes the key. If the included files cannot be determined, the program is
            compiled each time. Default None.

        Returns
        -------
        ObjectCode
            The compiled code. PTX has no NUL at its end.

        Raises
        ------
        NVRTCError, NVVMError, NVJitLinkError
            If the program does not compile (the error has the compiler's log and command line), or there is no
            compiler.
        CUDAError
            If no architecture is set and there is no current device.
        OSError
            If the file of `fdevice_time_trace` cannot be written.
        TypeError, ValueError
            If an argument is invalid, options contradict the target, or the program is closed.
        """
        request = self._request(target_type, name_expressions)
        check_logs(logs)
        if cache is not None:
            from cudacore_compile._cache.compile import check_cache, compile_cached

            check_cache(cache)
        self._check_state()
        if cache is not None:
            return compile_cached(cache, request, lambda log: self._compile_now(request, log, is_kept=True), logs)
        return self._compile_now(request, logs)

    def _compile_now(self, request: Request, logs: Any, *, is_kept: bool = False) -> ObjectCode:
        """Compile without looking into a cache.

        Parameters
        ----------
        request : Request
            The result of :meth:`_request`.
        logs : object with a ``write`` method, or None
            Receives the log.
        is_kept : bool, optional
            Whether the code can be kept in a cache. NVRTC's own cache in the driver is not used then: its code can be
            from a process in which NVRTC had kept options of other libraries, and comes without a log. Default False.
        """
        self._check_state()
        target = request.target
        log = ""
        try:
            result = _COMPILE[self._code_type](self, request, is_kept)
            log = result.log
        except CUDAError as error:
            log = error.log
            if isinstance(error, CompilerError):
                raise without_frames(error)  # noqa: B904
            raise
        finally:
            if logs is not None and log:
                logs.write(log)
        self._pch_status = result.pch_status
        return ObjectCode._init(
            result.code.rstrip(b"\0") if target is ObjectCodeFormatType.PTX else result.code,
            target.value,
            name=self._name,
            symbol_mapping=result.lowered_names,
            signatures=result.signatures,
        )

    def _request(
        self, target_type: ObjectCodeFormatType | CompileTargetName, name_expressions: Iterable[str | bytes] | None
    ) -> Request:
        """Return the request that :meth:`compile` compiles."""
        target = check_target(self._code_type, target_type)
        names = check_names(name_expressions)
        if names and self._code_type is not SourceCodeType.CXX:
            warnings.warn(
                f"name_expressions: without effect on programs in {self._code_type}, which have no templates",
                RuntimeWarning,
                stacklevel=3,
            )
            names = []
        return Request(self._code, self._code_type, self._options, target, names, self._headers)

    def dependencies(self) -> list[str]:
        """Return the files that the program may include. They determine the compiled code.

        All branches of conditionals are considered, so there can be more files than the compiler reads, but never
        fewer. Files in `headers` and headers that the compiler contains are omitted. Only C++ programs include files.
        A program that is not cached because it has ``__TIME__`` or the like has dependencies, too.

        Returns
        -------
        list of str
            Their paths, as the compiler opens them: relative to the current directory, or absolute.

        Raises
        ------
        UncacheableError
            If the included files cannot be determined. The error has the reason, and its `files` are those that are
            known.
        """
        if self._code_type is not SourceCodeType.CXX:
            return []
        from cudacore_compile._cache.digest import included_files

        return sorted(included_files(self._code, self._options, self._headers))

    def cancel(self) -> None:
        """Cancel the compilations of the program that are running, and all later ones (nvrtcSetFlowCallback).

        Cancelled compilations raise the error of their compiler with a code name such as ``"NVRTC_ERROR_CANCELLED"``.
        Any thread may call this. NVRTC 12.8 and later usually end a compilation in about 0.3 seconds. If a single
        kernel takes very long, this can take minutes. Older versions, and the compilers of other languages, finish a
        compilation that has begun.

        Ctrl-C works without this method. If a signal handler raises an exception while NVRTC compiles for the main
        thread, the exception is raised at once. NVRTC 12.8 and later then cancel the compilation; older versions finish
        it in the background.
        """
        with self._lock:
            self._cancelled = True
            running = list(self._running)
        if self._code_type is SourceCodeType.CXX:
            for box in running:
                load(CompilerBackendType.NVRTC).cancel(box)

    def _check_state(self) -> None:
        """Raise if the program was closed or cancelled."""
        if self._closed:
            raise closed(self)
        if self._cancelled:
            raise cancelled(self.backend)

    def close(self) -> None:
        """Release the program. Closing twice does nothing; compilations in progress are finished."""
        with self._lock:
            self._closed = True
            box, self._box, self._is_new, self._cubin_names = self._box, None, False, None
        del box  # calls nvrtcDestroyProgram, outside the lock

    def _compile_cxx(self, request: Request, is_kept: bool) -> Result:
        from cudacore_compile._compilers import process_state  # not needed if the code comes from a cache

        options = request.options
        flags = options.as_bytes(CompilerBackendType.NVRTC, request.target)
        options._check_trace_file()
        compiler = load(CompilerBackendType.NVRTC)
        found = wheel_headers(self._code, flags, self._headers, compiler.version[0])
        flags += [b"--include-path=" + os.fsencode(place) for place in found]
        if is_kept:
            flags += compiler.no_cache_flags(flags)
        process_state.note(options, stacklevel=6 if is_kept else 4)  # a cache has two frames

        def compile_once() -> tuple[Any, Result]:
            with self._compiling() as box:
                return box, compiler.compile(box, request, flags)

        box, result = compile_once()
        if result.pch_status is not None and compiler.grow_pch_heap(box):
            box, result = compile_once()
        if request.target is ObjectCodeFormatType.CUBIN:
            with self._lock:
                if self._box is box:  # otherwise, another thread has replaced the box
                    self._cubin_names = result.lowered_names
        return result

    def _compile_nvvm(self, request: Request, is_kept: bool) -> Result:
        flags = request.options.as_bytes(CompilerBackendType.NVVM, request.target)
        with self._compiling() as box:
            code, log = load(CompilerBackendType.NVVM).compile(box, flags, program_name=encode(self._name))
        return Result(code, log, {}, None, None)

    def _compile_ptx(self, request: Request, is_kept: bool) -> Result:
        with self._compiling() as linker:
            code = linker.link(request.target)
        return Result(code.code, linker.get_error_log() + linker.get_info_log(), {}, code._signatures, None)

    def _new_box(self) -> Any:
        """Return a new program of the compiler; the caller must compile it."""
        if self._code_type is SourceCodeType.CXX:
            return load(CompilerBackendType.NVRTC).create(self._code, encode(self._name), self._headers)
        if self._code_type is SourceCodeType.NVVM:
            modules = [(encode(self._name), self._code)]
            for name, source in self._options.extra_sources or ():
                modules.append((encode(name), check_source(f"extra_sources[{name!r}]", source, binary=True)))
            return load(CompilerBackendType.NVVM).create(modules, use_libdevice=bool(self._options.use_libdevice))
        from cudacore_compile._linker import Linker

        return Linker(ObjectCode._init(self._code, "ptx", name=self._name), options=self._options._for_linker())

    @contextmanager
    def _compiling(self) -> Iterator[Any]:
        """Provide a program of the compiler, which the caller compiles. Each program is compiled only once."""
        with self._lock:
            box = self._box if self._is_new else None
            self._is_new = False
        if box is None:
            box = self._new_box()
        with self._lock:  # _check_state() finds an earlier cancellation; a later one cancels the box
            self._check_state()
            previous = self._box
            if previous is not box:
                self._box, self._cubin_names = box, None
            self._running.append(box)
        del previous  # destroys the previous program outside the lock
        try:
            yield box
        finally:
            with self._lock:
                self._running = [other for other in self._running if other is not box]

    @property
    def _name(self) -> str:
        return self._options.name or "default_program"

    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
        return self._closed

    @property
    def backend(self) -> CompilerBackendType:
        """CompilerBackendType: The compiler: NVRTC for C++, NVVM for NVVM IR, the available linker for PTX."""
        if self._code_type is not SourceCodeType.PTX:
            return BACKENDS[self._code_type]
        from cudacore_compile._linker import Linker

        return Linker.which_backend()

    @property
    def pch_status(self) -> PCHStatusType | None:
        """PCHStatusType or None: The status of the precompiled header in the last successful compilation.

        None before that, or if the options do not create one (`pch`, `create_pch`).
        """
        return self._pch_status

    @property
    def intermediate_ptx(self) -> ObjectCode | None:
        """ObjectCode or None: The PTX that NVRTC generated on the way to a cubin. Reading it compiles nothing.

        Available if the last compilation was one to a cubin by NVRTC. None before the first compilation, and after any
        other compilation, such as one whose code came from a cache.
        """
        with self._lock:
            if self._closed:
                raise closed(self)
            box, names = self._box, self._cubin_names
        if names is None:
            return None
        return ObjectCode._init(load(CompilerBackendType.NVRTC).ptx(box), "ptx", name=self._name, symbol_mapping=names)

    @property
    def handle(self) -> nvrtc.nvrtcProgram | int:
        """cuda.bindings.nvrtc.nvrtcProgram or int: The program of the compiler, for ``cuda.bindings``.

        An ``nvrtcProgram``; or an int for an ``nvvmProgram`` or an ``nvJitLinkHandle``, as in ``cuda.bindings``. Before
        the first compilation, it is the program that will be compiled; later, the program of the latest compilation,
        which can be done, failed or running. It is valid until the next compilation starts or the program is closed.
        """
        if self._box is None and not self._closed:
            box = self._new_box()
            with self._lock:
                if self._box is None and not self._closed:
                    self._box, self._is_new = box, True
        box = self._box
        if box is None:
            raise closed(self)
        if self._code_type is SourceCodeType.PTX:
            return int(box.handle)
        found: nvrtc.nvrtcProgram | int = load(self.backend).handle(box)
        return found


_COMPILE = {
    SourceCodeType.CXX: Program._compile_cxx,
    SourceCodeType.NVVM: Program._compile_nvvm,
    SourceCodeType.PTX: Program._compile_ptx,
}


def make_program_cache_key(
    *,
    code: str | bytes,
    code_type: SourceCodeType | SourceCodeName,
    options: ProgramOptions,
    target_type: ObjectCodeFormatType | CompileTargetName,
    name_expressions: Iterable[str | bytes] = (),
    extra_digest: bytes | None = None,
    headers: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """Return the key of a compilation for a program cache.

    :meth:`Program.compile` computes the key itself if a cache is passed to it. The key depends on everything that
    determines the code: the program, the current contents of all files that it may include, the options (with the
    architecture of the current device if none is set), the format, the name expressions, and the compiler's build.

    Parameters
    ----------
    code : str or bytes
        The program.
    code_type : SourceCodeType or str
        Its language.
    options : ProgramOptions
        The options of the compilation.
    target_type : ObjectCodeFormatType or str
        The format to compile to.
    name_expressions : iterable of str or bytes, optional
        The name expressions, in any order. Default none.
    extra_digest : bytes, optional
        Additional bytes for the key, for inputs that are not visible here. With these bytes, there is a key even for a
        program whose included files cannot be determined; then the bytes must change whenever those files do. Default
        none.
    headers : mapping, optional
        Header files in memory, as in :class:`Program`. Default none.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    ValueError
        If the options make the compiler write files (`create_pch`, `time`, `fdevice_time_trace`), which would not
        happen if the code came from a cache; or if the inputs of the program cannot be determined, and `extra_digest`
        is not given.

    Examples
    --------
    >>> options = core.ProgramOptions(arch="sm_90")
    >>> key = core.utils.make_program_cache_key(
    ...     code="__device__ int x;", code_type="c++", options=options, target_type="cubin"
    ... )
    >>> len(key)
    32
    """
    if extra_digest is not None and not isinstance(extra_digest, (bytes, bytearray)):
        raise TypeError(f"extra_digest must be bytes, not {type(extra_digest).__name__}")
    from cudacore_compile._cache.digest import key_of

    request = Program(code, code_type, options, headers=headers)._request(target_type, name_expressions)
    return key_of(request, extra_digest=None if extra_digest is None else bytes(extra_digest)).value
