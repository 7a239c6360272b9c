# SPDX-License-Identifier: Apache-2.0
"""The lifetime of programs in each language, and of linkers: their handles, close(), failures and references."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from compile_sources import FUNCTION, FUNCTION_IR, KERNEL, TEMPLATES, build_part

from cudacore_compile import CompilerError, Linker, NVJitLinkError, NVRTCError, NVVMError, Program, ProgramOptions
from cudacore_handles import ObjectCode, live_counts
from cudacore_handles._sdk.compile import Compiler

SM_90 = ProgramOptions(arch="sm_90")
PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"


class Kind(NamedTuple):
    make: Callable[[], Any]
    use: Callable[[Any], ObjectCode]
    wrong: Callable[[], Any]
    """Make one that fails when it is used."""
    error: type[CompilerError]
    live: str
    """What `live_counts` calls the compiler's own object."""
    left: int
    """The number of the compiler's objects after the handle was read and the program was compiled."""
    closed: str
    """The repr after close()."""


def closed_program(backend: str, size: int) -> str:
    return f"<Program backend='{backend}' name='default_program' arch='sm_90' bytes={size} closed>"


KINDS = {
    "C++": Kind(
        make=lambda: Program(TEMPLATES, "c++", SM_90),
        use=lambda program: program.compile("ptx", ["f<int>"]),
        wrong=lambda: Program("nonsense", "c++", SM_90),
        error=NVRTCError,
        live="nvrtc_program",
        left=1,
        closed=closed_program("NVRTC", len(TEMPLATES)),
    ),
    "NVVM IR": Kind(
        make=lambda: Program(FUNCTION_IR, "nvvm", SM_90),
        use=lambda program: program.compile("ptx"),
        wrong=lambda: Program("nonsense", "nvvm", SM_90),
        error=NVVMError,
        live="nvvm_program",
        left=1,
        closed=closed_program("NVVM", len(FUNCTION_IR)),
    ),
    "PTX": Kind(
        make=lambda: Program(PTX, "ptx", SM_90),
        use=lambda program: program.compile("cubin"),
        wrong=lambda: Program(PTX.replace("ret", "nonsense"), "ptx", SM_90),
        error=NVJitLinkError,
        live="nvjitlink_linker",
        left=0,
        closed=closed_program("nvJitLink", len(PTX)),
    ),
    "linker": Kind(
        make=lambda: Linker(build_part(KERNEL, "ptx"), build_part(FUNCTION, "ptx"), options={"arch": "sm_90"}),
        use=lambda linker: linker.link("cubin"),
        wrong=lambda: Linker(build_part(KERNEL, "ptx"), options={"arch": "sm_90"}),  # nothing defines f
        error=NVJitLinkError,
        live="nvjitlink_linker",
        left=0,  # link() destroys the linker of the handle
        closed="<Linker name='<default linker>' codes=0 closed>",
    ),
}


def live(kind: Kind) -> int:
    gc.collect()
    return live_counts()[kind.live]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_handle_and_close(kind: Kind) -> None:
    """The handle would change or leak, or what was closed would keep memory, or still compile."""
    before = live(kind)
    made = kind.make()
    handle = int(made.handle)
    assert int(made.handle) == handle
    assert live(kind) == before + 1
    code = kind.use(made)
    assert live(kind) == before + kind.left
    assert kind.left == 0 or int(made.handle) == handle
    kind.use(made)
    assert live(kind) == before + kind.left  # the compiler's objects do not pile up
    assert not made.is_closed
    made.close()
    made.close()
    assert made.is_closed
    assert live(kind) == before
    for use in (lambda: kind.use(made), lambda: made.handle):
        with pytest.raises(ValueError, match=rf"^{type(made).__name__} has been closed"):
            use()
    assert repr(made) == kind.closed
    assert code.code


def test_close_of_what_was_not_used(kind: Kind) -> None:
    """What has not compiled or linked could not be closed."""
    made = kind.make()
    made.close()
    assert (made.is_closed, repr(made)) == (True, kind.closed)


def test_errors(kind: Kind) -> None:
    """A caught error would keep the memory of what failed, or lose its log in a process pool, or break the pool."""
    before = live(kind)
    made = kind.wrong()
    with pytest.raises(kind.error) as caught:
        kind.use(made)
    made.close()
    assert live(kind) == before
    assert caught.value.__traceback__ is not None
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is kind.error
    assert (str(again), again.args, vars(again)) == (str(caught.value), (str(caught.value),), vars(caught.value))
    assert all(part in again.args[0] for part in (again.code_name, again.log))


def test_no_leak_when_a_call_fails(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program or linker would leak when a call of its compiler fails, or the failure would be lost."""
    result = Compiler.result
    left: list[str] = []  # a call fails when the list has become empty

    def fail_after_others(library: Compiler, name: str, *arguments: Any) -> int:
        if not left:
            raise kind.error(name, 1, "ERROR_OUT_OF_MEMORY", "host memory ran out")
        del left[-1]
        return result(library, name, *arguments)

    before = live(kind)
    used = kind.make()
    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "result", lambda *given: left.append(given[1]) or result(*given))
        kind.use(used)
    calls = len(left)
    assert calls >= 7
    for succeeding in range(calls):
        made = kind.make()
        left[:] = [""] * succeeding
        with monkeypatch.context() as patch:
            patch.setattr(Compiler, "result", fail_after_others)
            with pytest.raises(kind.error, match=r"^\w+: ERROR_OUT_OF_MEMORY \(1\): host memory ran out"):
                kind.use(made)
        made.close()
    used.close()
    assert live(kind) == before


def test_weak_reference(kind: Kind) -> None:
    """A program or linker could not be in weak containers, or would refer to itself and wait for the collector."""
    made = kind.make()
    kind.use(made)
    reference = weakref.ref(made)
    del made
    assert reference() is None


def test_no_copies(kind: Kind) -> None:
    """A copy would share the object of the compiler, which works only once."""
    made = kind.make()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=f"a {type(made).__name__} cannot be pickled or copied"):
            copied(made)
