# SPDX-License-Identifier: Apache-2.0
"""The output of printf in kernels. Each program runs in a process of its own, because it concerns file descriptor 1."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Output = Callable[..., list[str]]

# A kernel that prints a number, and the beginning of all programs.
PROGRAM = '''
import io, os, sys, threading
import cudacore_handles as ch

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 text, .param .b64 values);
.global .align 1 .b8 text[10] = {112, 114, 105, 110, 116, 32, 37, 100, 10, 0};
.visible .entry print(.param .u32 number) {
  .local .align 8 .b8 values[8];
  .reg .b64 %at, %generic, %text;
  .reg .b32 %number;
  ld.param.u32 %number, [number];
  mov.u64 %at, values;
  cvta.local.u64 %generic, %at;
  st.local.u32 [%at], %number;
  mov.u64 %text, text;
  cvta.global.u64 %text, %text;
  { .param .b32 result; .param .b64 a; .param .b64 b;
    st.param.b64 [a], %text; st.param.b64 [b], %generic;
    call.uni (result), vprintf, (a, b); }
  ret;
}
"""
device = ch.Device()
device.set_current()
stream = device.create_stream()
one = ch.LaunchConfig(grid=1, block=1)
code = ch.ObjectCode.from_ptx(PTX)

def write(text):
    os.write(1, text.encode() + b"\\n")

def print_number(number, on=stream):
    ch.launch(on, one, code.get_kernel("print"), number)

def wait_idle():
    while not stream.record().is_done:
        pass
'''
NOTEBOOK = '''
import types
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: "a shell")
sys.stdout = shown = io.StringIO()
'''  # fmt: skip


@pytest.fixture
def output_of(run_on_driver: Callable[..., str]) -> Callable[..., list[str]]:
    """Give a function that returns the lines that a program writes to file descriptor 1."""

    def lines(program: str, *, notebook: bool = False) -> list[str]:
        return run_on_driver(PROGRAM + NOTEBOOK * notebook + textwrap.dedent(program)).splitlines()

    return lines


@pytest.mark.parametrize(
    "wait",
    [
        "stream.sync()",
        "stream.record().sync()",
        "device.sync()",
        "wait_idle(); stream.sync()",
        "wait_idle(); event = stream.record(); event.is_done; event.sync()",
        "thread = threading.Thread(target=stream.sync); thread.start(); thread.join()",
        "import numpy as np; buffer = device.allocate(8, stream=stream); buffer.copy_to(np.zeros(1), stream=stream)",
    ],
)
def test_waits(wait: str, output_of: Output) -> None:
    """A wait would end with a query, and kernels would seem to print nothing before the next launch."""
    program = f"""
    print_number(1)
    {wait}
    write("after")
    """
    assert output_of(program) == ["print 1", "after"]


def test_notebook(output_of: Output) -> None:
    """In a notebook, the output would not be in the cell, or what other code writes to the descriptor would be."""
    program = """
    write("before")
    print_number(1)
    stream.sync()
    assert shown.getvalue() == "print 1\\n", shown.getvalue()
    for number in (2, 3, 4):
        print_number(number)
        write("between")
    device.sync()
    assert shown.getvalue() == "".join(f"print {i}\\n" for i in (1, 2, 3, 4)), shown.getvalue()
    thread = threading.Thread(target=lambda: (print_number(5), stream.sync()))
    thread.start(); thread.join()
    assert shown.getvalue().endswith("print 5\\n")
    write("after")
    """
    assert output_of(program, notebook=True) == ["before", *["between"] * 3, "after"]


def test_choice(output_of: Output) -> None:
    """A program could not choose, or the choice would have no effect."""
    program = """
    assert not ch.set_printf_to_stdout(True)
    real, sys.stdout = sys.stdout, io.StringIO()
    print_number(1)
    stream.sync()
    assert sys.stdout.getvalue() == "print 1\\n"
    print_number(2)
    ch.LegacyPinnedMemoryResource().allocate(8).close()  # waits for the kernel, and makes the driver write its output
    print_number(3)
    wait_idle()
    code = ch.ObjectCode.from_ptx(PTX)
    print_number(4)  # loads the code, which does so, too
    assert ch.set_printf_to_stdout(False)
    assert sys.stdout.getvalue() == "print 1\\nprint 2\\nprint 3\\n", sys.stdout.getvalue()
    stream.sync()
    try:
        ch.set_printf_to_stdout("yes")
    except TypeError as error:
        write(str(error))
    """
    assert output_of(program) == ["print 4", "enabled must be True or False, not 'yes', of type str"]


@pytest.mark.parametrize("there", ["sys.__stdout__", "None"])
def test_no_notebook(there: str, output_of: Output) -> None:
    """IPython in a terminal, whose standard output is the descriptor, would collect output for nothing."""
    program = f"""
    sys.stdout = {there}
    ch.set_printf_to_stdout(False) if sys.stdout is None else None
    print_number(1)
    stream.sync()
    write("after")
    """
    assert output_of(program, notebook=True) == ["print 1", "after"]


def test_at_exit(output_of: Output) -> None:
    """Output that was collected, but not shown yet, would be lost at the end of the program."""
    program = """
    ch.set_printf_to_stdout(True)
    print_number(1)
    ch.LegacyPinnedMemoryResource().allocate(8).close()
    print_number(2)
    """
    # The driver may write the second line, too: a call that frees memory at exit makes it do so.
    assert output_of(program)[:1] == ["print 1"]


def test_output_that_cannot_be_written(output_of: Output) -> None:
    """A wait that is done would fail, because sys.stdout is closed."""
    program = """
    sys.unraisablehook = lambda what: write(type(what.exc_value).__name__)
    ch.set_printf_to_stdout(True)
    sys.stdout = io.StringIO()
    sys.stdout.close()
    print_number(1)
    stream.sync()
    sys.stdout = sys.__stdout__
    """
    assert output_of(program) == ["ValueError"]


def test_threads(output_of: Output) -> None:
    """Threads that print, wait and fork at the same time would lose output, or leave the descriptor replaced."""
    program = """
    ch.set_printf_to_stdout(True)
    sys.stdout = shown = io.StringIO()
    def work(first):
        device.set_current()
        own = device.create_stream()
        for number in range(first, first + 20):
            print_number(number, own)
            own.sync()
    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(1, 4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        if os.fork() == 0:
            write("child")
            os._exit(0)
        os.wait()
    for thread in threads:
        thread.join()
    write("after")
    expected = {f"print {100 * i + j}" for i in range(1, 4) for j in range(20)}
    assert set(shown.getvalue().split("\\n")) - {"child", ""} == expected
    """
    assert sorted(output_of(program)) == ["after", *["child"] * 5]


def test_signals(output_of: Output) -> None:
    """Ctrl-C would be lost at the end of a wait."""
    program = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of shells ignore it
    ch.set_printf_to_stdout(True)
    arrived = 0
    for _ in range(20):
        try:
            stream.callback(lambda: os.kill(os.getpid(), signal.SIGINT))
            stream.sync()
            stream.sync()
        except KeyboardInterrupt:
            arrived += 1
    write(str(arrived))
    """
    assert output_of(program) == ["20"]


@pytest.mark.parametrize("moment", ["the call", "the output"])
def test_signals_in_a_wait_that_fails(moment: str, run_on_sim: Any) -> None:
    """Ctrl-C that arrives during a call that fails, or while output is written, would be lost."""
    program = """
    import signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = lambda what: os._exit(3)

    def interrupt(text="a number"):
        if text:
            time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

    ch.set_printf_to_stdout(True)
    print_number(1)
    ch.LegacyPinnedMemoryResource().allocate(8).close()  # makes the driver write the output
    print_number(2)
    if moment == "the call":
        stream.callback(interrupt)
        sim.fail("cuEventSynchronize", 1, 700)
    else:
        sys.stdout = type("", (), {"write": interrupt, "flush": print})
        sim.fail("cuStreamQuery", 1, 700)
    try:
        stream.sync()
    except KeyboardInterrupt:
        sys.stdout = sys.__stdout__
    else:
        raise AssertionError("it was lost")
    """
    run_on_sim(f"moment = {moment!r}\n{PROGRAM}\n{textwrap.dedent(program)}")


def test_closed_descriptor(output_of: Output) -> None:
    """A file that is opened as the closed file descriptor 1 would be taken for what was collected, and truncated."""
    program = """
    import tempfile
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.close(1)
        ch.set_printf_to_stdout(True)
        file.write(b"precious")
        file.flush()
        os.dup2(file.fileno(), 1)
        sys.stdout = io.StringIO()
        print_number(1)
        stream.sync()
        file.seek(0)
        content = file.read()
        os.dup2(kept, 1)
    write(f"{content!r} {sys.stdout.getvalue()!r}")
    """
    assert output_of(program) == [r"b'precious' 'print 1\n'"]


def test_descriptor_that_is_closed_later(output_of: Output) -> None:
    """A program that closes its standard output would see no output in its notebook."""
    program = """
    kept = os.dup(1)
    ch.set_printf_to_stdout(True)
    sys.stdout = io.StringIO()
    os.close(1)
    print_number(1)
    stream.sync()
    try:
        os.fstat(1)
    except OSError as error:
        is_closed = str(error)
    os.dup2(kept, 1)
    print_number(2)
    stream.sync()
    write(f"{is_closed} {sys.stdout.getvalue()!r}")
    """
    assert output_of(program) == [r"[Errno 9] Bad file descriptor 'print 1\nprint 2\n'"]


def test_fork(output_of: Output) -> None:
    """A child would take the output that its parent has yet to write."""
    program = """
    import atexit, warnings
    warnings.simplefilter("ignore")
    ch.set_printf_to_stdout(True)
    sys.stdout = io.StringIO()
    print_number(1)
    wait_idle()
    code = ch.ObjectCode.from_ptx(PTX)
    print_number(2)  # the driver writes the output when it loads other code, and nobody has shown it yet
    child = os.fork()
    if child == 0:  # it ends without the driver, which can write at the exit what its parent printed
        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(child, 0)
    stream.sync()
    write(repr(sys.stdout.getvalue()))
    """
    assert output_of(program) == [r"'print 1\nprint 2\n'"]
