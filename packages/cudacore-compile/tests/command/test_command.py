# SPDX-License-Identifier: Apache-2.0
"""The command cudacore-compile."""

from __future__ import annotations

import _thread
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from compile_sources import SLOW, Python, Run

from cudacore_compile import FileStreamProgramCache, Program
from cudacore_compile._command import arguments as _arguments
from cudacore_compile._command.link import link
from cudacore_compile._compilers.diagnostics import Diagnostic, parse_log, render
from cudacore_handles import ObjectCode

SOURCE = """#include "size.h"
template <class T> __global__ void scale(T *out, T by) { out[SIZE] *= by; }
extern "C" __global__ void __launch_bounds__(64) plain(float *p, int n) {
  __shared__ float s[32];
  s[n] = *p;
  __syncthreads();
  *p = s[n + 1];
}
"""


@pytest.fixture(autouse=True)
def _sources(_own_folder: None) -> None:
    Path("size.h").write_text("#define SIZE 4\n")
    Path("kernel.cu").write_text(SOURCE)
    Path("bad.cu").write_text("__global__ void f(int *p) {\n  int a = 1;\n\t*p = nope + a;\n}\n")


def files() -> set[str]:
    return {path.name for path in Path().iterdir() if path.is_file()} - {"size.h", "kernel.cu", "bad.cu"}


# -- output files


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
def test_formats(run: Run, target: str) -> None:
    """The output would not have the format of its suffix, or its code would differ from that of Program.compile()."""
    assert run("kernel.cu", "--arch", "sm_90", "-o", f"out.{target}", "-e", "scale<int>") == (0, "", "")
    expected = Program(SOURCE, "c++", {"arch": "sm_90", "name": "kernel.cu"}).compile(target, ["scale<int>"])
    assert Path(f"out.{target}").read_bytes() == expected.code
    assert run("kernel.cu", "--arch", "sm_90", "--to", target) == (0, "", "")
    assert files() == {f"out.{target}", f"kernel.{target}"}


def test_several_files(run: Run) -> None:
    """The output files of several sources or architectures would overwrite each other."""
    Path("other.cu").write_text("__global__ void other() {}")
    assert run("kernel.cu", "other.cu", "--arch", "sm_80,sm_90", "--arch", "sm_120", "--to", "ptx")[0] == 0
    Path("other.cu").unlink()
    assert files() == {f"{name}.{arch}.ptx" for name in ("kernel", "other") for arch in ("sm_80", "sm_90", "sm_120")}
    assert b".target sm_80" in Path("kernel.sm_80.ptx").read_bytes()
    assert run("kernel.cu", "--arch", "sm_80,sm_90", "-o", "build/{arch}/{name}.cubin")[0] == 0
    assert Path("build/sm_90/kernel.cubin").exists()


def test_options(run: Run) -> None:
    """An option of the command would not reach the compiler."""
    Path("inc").mkdir()
    Path("inc/first.h").write_text("#define FIRST 1")
    Path("kernel.cu").write_text(
        'static_assert(FIRST && A == 1 && B == 1 && __cplusplus >= 202002L, "");\n'
        "#ifdef GONE\n#error it is there\n#endif\n__global__ void f() {}"
    )
    words = ["-I", "inc", "--include", "first.h", "-D", "A=1", "-D", "B", "-D", "GONE", "-U", "GONE", "--std", "c++20"]
    words += ["--lineinfo", "--use-fast-math", "--maxrregcount", "40", "-X", "ftz=true", "-X", "diag-suppress=177"]
    words += ["-X", "diag-suppress=20012", "-X", "ofast_compile=0"]
    status, _, err = run("kernel.cu", "--arch", "sm_90", "-o", "k.ptx", *words)
    assert (status, err) == (0, "")
    assert b".loc" in Path("k.ptx").read_bytes()


def test_cuda_headers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's own headers would not be found when requested, or a failure would print a traceback."""
    Path("headers").mkdir()
    Path("headers/mine.h").write_text("#define MINE 4321")
    Path("with.cu").write_text('#include <mine.h>\nextern "C" __global__ void k(int *p) { *p = MINE; }')
    monkeypatch.setattr(_arguments, "cuda_include_path", lambda: ["headers"])
    assert run("with.cu", "--arch", "sm_90", "-o", "k.ptx")[0] == 1
    status, _, err = run("with.cu", "--arch", "sm_90", "--cuda-headers", "-I", "elsewhere", "-o", "k.ptx")
    assert (status, err) == (0, "")
    assert "4321" in Path("k.ptx").read_text()

    def missing() -> list[str]:
        raise FileNotFoundError("CUDA's headers were not found")

    monkeypatch.setattr(_arguments, "cuda_include_path", missing)
    status, _, err = run("with.cu", "--arch", "sm_90", "--cuda-headers", "-o", "k.ptx")
    assert (status, err) == (1, "cudacore-compile: error: CUDA's headers were not found\n")


def test_standard_input(process: Python) -> None:
    """A program from a pipe could not be compiled."""
    process("-", "--arch", "sm_90", "-o", "piped.ptx", given="__global__ void piped() {}").check_returncode()
    assert b"piped" in Path("piped.ptx").read_bytes()


@pytest.mark.usefixtures("_nvfatbin")
def test_fatbin(run: Run) -> None:
    """A fat binary would lack an architecture, or the names of its kernels."""
    status, out, err = run(
        "kernel.cu", "--arch", "sm_80,sm_90,compute_90", "-o", "k.fatbin", "-e", "scale<float>", "--names", "names.json"
    )
    assert (status, out, err) == (0, "", "")
    assert Path("k.fatbin").read_bytes()[:4] == b"\x50\xed\x55\xba"
    names = json.loads(Path("names.json").read_text())
    assert names == {"scale<float>": "_Z5scaleIfEvPT_S0_"}
    assert run("kernel.cu", "--arch", "sm_80", "-o", "k.cubin")[0] == run("kernel.cu", "--arch", "90", "-o", "k.ptx")[0]
    assert run("k.cubin", "k.ptx", "-o", "both.fatbin")[0] == 0
    assert Path("both.fatbin").stat().st_size > 1000


def test_failure_leaves_nothing(run: Run) -> None:
    """A failed build would leave files that look like the output of a successful one."""
    assert run("kernel.cu", "bad.cu", "--arch", "sm_90", "--to", "cubin")[0] == 1
    assert files() == set()


def test_outputs_that_are_no_files(run: Run, process: Python) -> None:
    """Devices, pipes and links would be replaced by files: as root, -o /dev/null would break the system."""
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    assert run("kernel.cu", "--arch", "sm_90", "--to", "ptx", "-o", "pipe") == (0, "", "")
    assert b".target sm_90" in reader.communicate(timeout=60)[0]
    assert Path("pipe").is_fifo()
    Path("link.ptx").symlink_to("real.ptx")
    assert run("kernel.cu", "--arch", "sm_90", "-o", "link.ptx")[0] == 0
    assert (Path("link.ptx").is_symlink(), Path("real.ptx").is_file()) == (True, True)
    before = Path("real.ptx").stat().st_ino  # the file is replaced as a whole, so a reader never sees half of it
    assert run("kernel.cu", "--arch", "sm_90", "-o", "link.ptx")[0] == 0
    assert (Path("link.ptx").is_symlink(), Path("real.ptx").stat().st_ino != before) == (True, True)
    Path("folder.ptx").mkdir()
    assert run("kernel.cu", "--arch", "sm_90", "-o", "folder.ptx")[::2] == (
        1, "cudacore-compile: error: [Errno 21] Is a directory: 'folder.ptx'\n",
    )  # fmt: skip
    out = process("kernel.cu", "--arch", "sm_90", "--to", "ptx", "-o", "-").stdout
    assert (out, Path("-").exists()) == (Path("real.ptx").read_text(), False)


# -- kernels


def test_list_kernels(run: Run) -> None:
    """The listing would not show the contents of the binary."""
    status, out, err = run("kernel.cu", "--arch", "sm_90", "--list-kernels", "-e", "scale<float>")
    assert (status, err, files()) == (0, "", set())
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "kernel.cu, cubin for sm_90:"
    at = lines.index("void scale<float>(float*, float)")
    assert lines[at + 1] == "symbol: _Z5scaleIfEvPT_S0_"
    assert lines[at + 3 : at + 5] == ["parameter 0: pointer, 8 bytes at 0", "parameter 1: float, 4 bytes at 8"]
    at = lines.index("plain")
    assert lines[at + 1].endswith("128 bytes shared, 0 bytes local, at most 64 threads a block")


def test_list_kernels_of_files(run: Run) -> None:
    """Existing code could not be listed."""
    run("kernel.cu", "--arch", "sm_90", "-o", "k.cubin", "-e", "scale<int>")
    run("kernel.cu", "--arch", "sm_90", "-o", "k.ptx")
    status, out, _ = run("k.cubin", "k.ptx", "--list-kernels", "--format", "json")
    listing = json.loads(out)
    assert status == 0
    assert [(k["file"], k["code_type"], k["arch"]) for k in listing][-1] == ("k.ptx", "ptx", "sm_90")
    plain = next(k for k in listing if k["symbol"] == "plain" and k["code_type"] == "cubin")
    assert (plain["shared_bytes"], plain["max_threads"], len(plain["parameters"])) == (128, 64, 2)
    Path("k.cubin").write_bytes(b"damaged")
    status, _, err = run("k.cubin", "--list-kernels")
    assert (status, "k.cubin: this is not a cubin" in err) == (1, True)
    Path("k.ptx").write_bytes(b"damaged")
    status, _, err = run("k.ptx", "--list-kernels")
    assert (status, "k.ptx: this is not PTX" in err) == (1, True)


# -- diagnostics


def test_errors_point_at_the_source(run: Run) -> None:
    """A user whose program does not compile would not see the place of the error."""
    status, out, err = run("bad.cu", "--arch", "sm_80,sm_90")
    assert (status, out) == (1, "")
    assert err == (
        'bad.cu:3:7: error: identifier "nope" is undefined\n'
        "    1 | __global__ void f(int *p) {\n"
        "    2 |   int a = 1;\n"
        "    3 | \t*p = nope + a;\n"
        "      | \t     ^\n"
    )


def test_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours would be written to files, or be missing on terminals."""
    assert "\x1b" not in run("bad.cu", "--arch", "sm_90")[2]
    assert "\x1b[31;1merror:\x1b[0m" in run("bad.cu", "--arch", "sm_90", "--color", "always")[2]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "\x1b" in run("bad.cu", "--arch", "sm_90")[2]
    assert "\x1b" not in run("bad.cu", "--arch", "sm_90", "--color", "never")[2]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("bad.cu", "--arch", "sm_90")[2]


def test_json(run: Run) -> None:
    """An editor could not parse the messages."""
    status, _, err = run("bad.cu", "--arch", "sm_90", "--format", "json")
    (diagnostic,) = json.loads(err)
    assert (status, diagnostic["file"], diagnostic["line"], diagnostic["column"]) == (1, "bad.cu", 3, 7)
    assert (diagnostic["severity"], diagnostic["message"]) == ("error", 'identifier "nope" is undefined')
    Path("kernel.cu").write_text("__global__ void f() { int unused; }")
    status, _, err = run("kernel.cu", "--arch", "sm_90", "--format", "json")
    (diagnostic,) = json.loads(err)
    assert (status, diagnostic["severity"], diagnostic["number"]) == (0, "warning", "177-D")
    status, _, err = run(
        "kernel.cu", "--arch", "sm_90", "--format", "json", "--no-cache", "-X", "disable_warnings=true"
    )
    assert (status, json.loads(err)) == (0, [])
    run("kernel.cu", "--arch", "sm_90", "--ptx", "-o", "kernel.ptx")
    status, _, err = run("kernel.ptx", "--arch", "sm_90", "--use_fast_math", "--format", "json")  # a warning of Python
    (diagnostic,) = json.loads(err)
    assert (status, diagnostic["severity"]) == (0, "warning")
    assert diagnostic["message"] == "ProgramOptions.use_fast_math: without effect on PTX programs"


def test_hints_and_notes(run: Run) -> None:
    """Hints, and notes about template instantiations, would be omitted."""
    Path("bad.cu").write_text('#include "missing.h"\n')
    assert 'remark: To find "missing.h", set ProgramOptions.include_path' in run("bad.cu", "--arch", "sm_90")[2]
    Path("bad.cu").write_text("template <class T> __global__ void f(T *p) { *p = T::x; }")
    err = run("bad.cu", "--arch", "sm_90", "-e", "f<int>")[2]
    assert '= detected during instantiation of "void f(T *) [with T=int]"' in err
    status, _, err = run("kernel.cu", "--arch", "sm_17")
    assert (status, "invalid value for --gpu-architecture" in err, "remark: Set ProgramOptions.arch" in err) == (
        1,
        True,
        True,
    )


def test_logs_that_are_none() -> None:
    """Text of the log that is not a message would be parsed as one, or a message would be lost."""
    assert parse_log("") == []
    assert parse_log("noise\n\n  more\nRemark: this is none\n") == []
    found = parse_log("a(b).cu(3): warning #1-D: last line\n  x\n  ^\n\nnvrtc: error: bad option\nk.cu(2): error: e")
    assert found == [
        Diagnostic("warning", "last line", "a(b).cu", 3, 1, "1-D", "x"),
        Diagnostic("error", "bad option"),
        Diagnostic("error", "e", "k.cu", 2),
    ]
    assert render(found[2], colour=False) == "k.cu:2: error: e"
    assert "    3 | x" in render(found[0], colour=False, text="the file\nhas\nchanged")


def test_errors_name_the_source(run: Run) -> None:
    """With many sources, a message would not name its source."""
    Path("nul.cu").write_text("int x;\0")
    status, _, err = run("kernel.cu", "nul.cu", "--arch", "sm_90")
    assert (status, err[:49]) == (1, "cudacore-compile: error: nul.cu: code has a NUL c")


def test_closed_output() -> None:
    """If the reader of the output ends early, the command would print a Python traceback."""
    Path("k.ptx").write_text(".version 8.0\n.target sm_90\n.address_size 64\n.entry f() { ret; }\n")
    command = f"{sys.executable} -m cudacore_compile k.ptx --list-kernels"
    gone = f"{{ sleep 0.1; {command}; }} | true; exit ${{PIPESTATUS[0]}}"
    Path("k.cu").write_text('extern "C" __global__ void f() {}')
    written = gone.replace("k.ptx --list-kernels", "k.cu --arch sm_90 --to ptx -o -")
    for line, status in ((gone, 1), (written, 1), (f"{command} >&-", 0), (f"{command} >&- 2>&-", 0)):
        for buffering in ("", "1"):
            result = subprocess.run(
                ["bash", "-c", line],
                env=os.environ | {"PYTHONUNBUFFERED": buffering},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert (result.returncode, result.stderr) == (status, ""), line


# -- errors of the command itself


WRONG = r"""
-o k.exe  the output format is unknown
-c  write -cubin, -ptx or -fatbin
--arch sm_80,sm_90 -o k.ptx  write {arch} in it
bad.cu --arch sm_80 -o k.ptx  write {name} in it
bad.cu --arch sm_80 -o k.fatbin  a fat binary is made of one source
other/kernel.cu --to cubin  two outputs would have the name kernel.cubin
--to ptx -o kernel.cu  kernel.cu is read, and cannot be written too
--to ptx -o ./size.h --include size.h  ./size.h is read, and cannot be written too
--names kernel.cu  kernel.cu is read, and cannot be written too
-ptx -MD -MF size.h --include size.h  size.h is read, and cannot be written too
-MD -ptx -o -  use -MF FILE
ready.cubin  ready.cubin is compiled: --link it with the sources
ready.fatbin -o out.fatbin  ready.fatbin cannot go into a fat binary
ready.ptx --list-kernels  ready.ptx contains a cubin, but has the suffix of PTX: use -x cubin
--embed c --symbol a-b  --symbol a-b: write the name of a C variable
--embed c -o 90.c  --symbol 90: write the name of a C variable
--embed c --arch 80,90 -cubin -o {arch}.c --symbol k  --symbol is for one file
--arch sm_80,sm_80  an architecture twice
--arch 80,sm_80  an architecture twice
--arch=  --arch names no architecture
--arch nonsense  is not an architecture
-X nonsense=1  with a field of ProgramOptions
-X ftz  write FIELD=VALUE
-X ftz=maybe  ftz=maybe: write true or false
-ftz=maybe  ftz=maybe: write true or false
-j -1  must not be negative
--cache-dir=  path must not be empty
--nonsense  unrecognized arguments: --nonsense
-Gw  unrecognized arguments: -Gw
-MFk.d  unrecognized arguments: -MFk.d
-ok.ptx  unrecognized arguments: -ok.ptx
-xcu  unrecognized arguments: -xcu
-expt-relaxed  unrecognized arguments: -expt-relaxed
-isystemsys  unrecognized arguments: -isystemsys
-Wno-this  unrecognized arguments: -Wno-this
-keep  -keep is not supported: there are no intermediate files
-ptx=x  -ptx takes no value
-m32  device code has 64 bits
-Xcompiler -DX=1  -Xcompiler -DX=1: nvcc applies this to device code, too
-Werror=nonsense  write -Werror all-warnings
-Xcudafe --promote  only those for numbers of diagnostics
-code=sm_90  -code needs -arch with the virtual architecture
-std  -std: a value is expected after it
-gencode sm_90  write arch=compute_90,code=sm_90
-rdc=true -gencode arch=compute_80,code=sm_90  relocatable code of compute_80 for sm_90
"""


@pytest.mark.parametrize("row", WRONG.strip().splitlines())
def test_wrong_commands(run: Run, row: str) -> None:
    """An invalid command would not be refused, would mean something else, or would look like a failed compilation."""
    words, message = row.split("  ")
    Path("other").mkdir()
    Path("other/kernel.cu").write_text("__global__ void other() {}")
    for name in ("ready.cubin", "ready.ptx"):
        Path(name).write_bytes(b"\x7fELF" + bytes(14) + b"\xbe\0")
    Path("ready.fatbin").write_bytes(b"\x50\xed\x55\xba\x01\x00\x10\x00")
    before = files()
    names_arch = any(word.startswith(("--arch", "-gencode", "-code")) for word in words.split())
    status, out, err = run("kernel.cu", *([] if names_arch else ["-arch=sm_90"]), *words.split())
    assert (status, out, files(), Path("kernel.cu").read_text()) == (2, "", before, SOURCE)
    assert message in err
    assert err.startswith("usage: cudacore-compile")


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "the following arguments are required: FILE"), (["cache", "nonsense"], "invalid choice")],
)
def test_incomplete_commands(run: Run, words: list[str], message: str) -> None:
    """An error would be a traceback."""
    status, out, err = run(*words)
    assert (status, out, message in err) == (2, "", True)


def test_files_that_are_not_there(run: Run) -> None:
    """A missing source, or an output that cannot be written, would end in a traceback."""
    status, _, err = run("missing.cu", "--arch", "sm_90")
    assert (status, err) == (1, "cudacore-compile: error: [Errno 2] No such file or directory: 'missing.cu'\n")
    status, _, err = run("kernel.cu", "--arch", "sm_90", "-o", "kernel.cu/out.ptx")
    assert (status, "kernel.cu" in err) == (1, True)


def test_cache(run: Run, tmp_path: Path) -> None:
    """The command would compile the same code again, or could not show or clear the cache."""
    where = tmp_path / "cache" / "cudacore" / "programs"
    assert run("cache", "path") == (0, f"{where}\n", "")
    run("kernel.cu", "--arch", "sm_80,sm_90", "--to", "ptx")
    assert len(FileStreamProgramCache()) == 2
    assert run("cache")[1].startswith("2 entries, 0.0 MB, in ")
    facts = json.loads(run("cache", "--format", "json")[1])
    assert (facts["entries"], facts["path"], facts["cleared"]) == (2, str(where), False)
    first = Path("kernel.sm_80.ptx").read_bytes()
    Path("kernel.sm_80.ptx").unlink()
    run("kernel.cu", "--arch", "sm_80,sm_90", "--to", "ptx")
    assert (len(FileStreamProgramCache()), Path("kernel.sm_80.ptx").read_bytes()) == (2, first)
    assert run("cache", "clear")[1].startswith("2 entries, 0.0 MB, removed from ")
    assert len(FileStreamProgramCache()) == 0
    run("kernel.cu", "--arch", "sm_90", "--no-cache")
    assert len(FileStreamProgramCache()) == 0
    run("kernel.cu", "--arch", "sm_90", "--cache-dir", "mine")
    assert (len(FileStreamProgramCache()), len(FileStreamProgramCache("mine"))) == (0, 1)
    Path("file").write_text("")
    status, _, err = run("cache", "--cache-dir", "file/cache")
    assert (status, "cannot be made there" in err) == (1, True)
    assert run("kernel.cu", "--arch", "sm_90", "--cache-dir", "file/cache")[0] == 1
    status, _, err = run("cache", "clear", "--cache-dir", "")
    assert (status, "path must not be empty" in err) == (2, True)


def test_no_home_for_a_cache(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be compiled if the cache cannot be written."""
    Path("file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("file").absolute()))
    assert run("kernel.cu", "--arch", "sm_90") == (0, "", "")


def test_entry_point() -> None:
    """The installed command would not start."""
    command = Path(sys.executable).with_name("cudacore-compile")
    if not command.exists():
        pytest.skip("the package was installed before it had the command")
    result = subprocess.run([str(command), "--version"], capture_output=True, text=True, timeout=120, check=False)
    assert (result.stdout.startswith("cudacore-compile "), result.stderr) == (True, "")


def test_no_driver_is_needed(process: Python) -> None:
    """A machine without a GPU could not compile, or the error would not name the option to set."""
    words = ("kernel.cu", "-o", "k.cubin", "--format", "json")
    result = process(*words, "--arch", "sm_90", CUDACORE_DRIVER="/nonexistent/libcuda.so")
    assert (result.returncode, result.stderr) == (0, "[]\n")
    assert ObjectCode.from_cubin("k.cubin").kernels
    result = process(*words, CUDACORE_DRIVER="/nonexistent/libcuda.so")
    (message,) = json.loads(result.stderr)
    assert result.returncode == 1
    assert re.search("name an architecture, .*such as --arch sm_90", message["message"]), message


def test_interrupt() -> None:
    """Ctrl-C would wait for the compiler, print a traceback, or return a status after which a shell loop continues."""
    Path("slow.cu").write_text(SLOW)
    command = [sys.executable, "-m", "cudacore_compile", "slow.cu", "--arch", "sm_80,sm_90", "--no-cache"]
    # Shells start background jobs with SIGINT ignored, and their children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(signal.SIGINT, before)
    for _ in range(1200):  # until the compiler is running
        if "libnvrtc" in Path(f"/proc/{worker.pid}/maps").read_text() or worker.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(0.5)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    worker.send_signal(signal.SIGINT)
    try:
        out, err = worker.communicate(timeout=120)
    finally:
        worker.kill()
    # One of the two compilations takes 5 seconds. On a busy machine, only the time of the processor says so.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used < 4
    assert (worker.returncode, out, err) == (-signal.SIGINT, b"", b"")
    assert not list(Path().glob("*.cubin"))


def test_interrupted_links() -> None:
    """After Ctrl-C, the process would wait until it has linked for all architectures."""
    begun, release = [], threading.Event()

    class Slow:
        def link(self, *args: object, **kwargs: object) -> None:
            begun.append(self)
            if len(begun) == 4:
                _thread.interrupt_main()
            release.wait(60)

    linkers: Any = [("k", Slow()) for _ in range(12)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            link(linkers, "cubin", cache=None, report=None)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
        release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("cudacore-compile-link"):
            thread.join(60)
    assert len(begun) == 4
