# SPDX-License-Identifier: Apache-2.0
"""Jobs of batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile.typing import CompileTargetName, ObjectCodeFormatType, SourceCodeName, SourceCodeType
from cudacore_handles._sdk import public

if TYPE_CHECKING:
    from cudacore_compile._compilers.option_dicts import ProgramOptionsDict


class Cancellation:
    """Whether a job is cancelled, and the functions to call when it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.requested = False

    def request(self) -> None:
        """Cancel the job."""
        with self._lock:
            self.requested = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def add(self, listener: Callable[[], None]) -> None:
        """Register a function that is called when the job is cancelled."""
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: Callable[[], None]) -> None:
        """Unregister a function, if :meth:`add` has registered it."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


@public
@dataclass(frozen=True)
class CompileJob:
    """A job for a batch; see :class:`Program` and :meth:`Program.compile`.

    Parameters
    ----------
    code : str or bytes
        The program.
    options : ProgramOptions or mapping, optional
        Options of the compilation. Default: the defaults. If no architecture is set, the current device's is used.
    target_type : ObjectCodeFormatType or str, optional
        The format to compile to. Default ``"cubin"``.
    name_expressions : sequence of str or bytes, optional
        Names of kernels and addresses of variables that will be looked up. Default none.
    code_type : SourceCodeType or str, optional
        The language. Default ``"c++"``.
    headers : mapping, optional
        Header files in memory. Default none.
    """

    code: str | bytes
    options: ProgramOptions | ProgramOptionsDict | None = None
    target_type: ObjectCodeFormatType | CompileTargetName = "cubin"
    name_expressions: Sequence[str | bytes] = ()
    code_type: SourceCodeType | SourceCodeName = "c++"
    headers: Mapping[str, str | bytes] | None = None
    _cancellation: Cancellation = field(default_factory=Cancellation, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cancellation"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _cancellation=Cancellation())

    def cancel(self) -> None:
        """Cancel the job before or while :func:`compile_many` compiles it. Any thread may call this.

        The job fails with the error of its compiler, such as an :class:`NVRTCError` with the code name
        ``"NVRTC_ERROR_CANCELLED"``. A running compilation ends as described at :meth:`Program.cancel`; an executor's
        workers finish running compilations. Equal jobs are compiled unless all of them are cancelled.
        """
        self._cancellation.request()
