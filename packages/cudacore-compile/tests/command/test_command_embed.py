# SPDX-License-Identifier: Apache-2.0
"""Code as a part of a program of the host."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from compile_sources import Run

from cudacore_handles import ObjectCode

PRINT = """
#include <stdio.h>
extern const unsigned char kernels[];
extern const unsigned long long kernels_size;
int main(void) { return fwrite(kernels, 1, kernels_size, stdout) != kernels_size || kernels[kernels_size]; }
"""


@pytest.fixture(autouse=True)
def _sources(_shared_cache: None) -> None:
    Path("k.cu").write_text('extern "C" __global__ void f(float *p) { *p += 1; }')
    Path("print.c").write_text(PRINT)


def compiler(name: str = "cc") -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no C compiler {name}")
    return found


@pytest.mark.usefixtures("_nvfatbin")
@pytest.mark.parametrize(("form", "file"), [("c", "e.c"), ("c", "e.cpp"), ("asm", "e.s"), ("obj", "e.o")])
def test_programs_contain_it(form: str, file: str, run: Run) -> None:
    """A program of the host could not contain code without another tool, or would contain other bytes."""
    cc = compiler("c++" if file == "e.cpp" else "cc")
    words = ("k.cu", "--arch", "sm_90,compute_90", "--embed", form, "--symbol", "kernels", "-o", file)
    assert run(*words) == (0, "", "")
    assert run("k.cu", "--arch", "sm_90,compute_90", "-fatbin") == (0, "", "")
    subprocess.run([compiler(), "-c", "print.c"], check=True)
    subprocess.run([cc, "-Wall", "-Werror", file, "print.o", "-o", "print"], check=True)
    assert subprocess.run(["./print"], capture_output=True, check=True).stdout == Path("k.fatbin").read_bytes()


def test_what_is_embedded(run: Run) -> None:
    """PTX, or a file that was compiled before, could not be embedded; or it would be compiled again."""
    assert run("k.cu", "-arch=sm_90", "-ptx", "--embed", "asm") == (0, "", "")
    assert (".globl k\n" in Path("k.s").read_text(), b".entry f" in Path("k.ptx").read_bytes()) == (True, True)
    assert run("k.ptx", "--embed", "c", "-o", "code.c") == (0, "", "")
    text = Path("code.c").read_text()
    assert f"code_size = {Path('k.ptx').stat().st_size};" in text
    assert bytes(map(int, text.partition("] = {\n")[2].partition(",\n}")[0].replace("\n", "").split(","))) == (
        Path("k.ptx").read_bytes() + b"\0"
    )
    assert run("k.cu", "--arch", "80,90", "-cubin", "--embed", "c", "-o", "{name}_{arch}.c")[0] == 0
    assert "k_sm_80_size" in Path("k_sm_80.c").read_text()


def test_no_assembler(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error would not name what is missing."""
    monkeypatch.setenv("AS", "no-such-assembler")
    status, _, err = run("k.cu", "-arch=sm_90", "-cubin", "--embed", "obj")
    assert (status, "there is no assembler no-such-assembler: install binutils" in err) == (1, True)


@pytest.mark.usefixtures("_nvfatbin")
def test_kernels_of_fat_binaries(run: Run) -> None:
    """The kernels in a fat binary could not be listed, or a damaged one would seem to be empty."""
    assert run("k.cu", "-gencode", "arch=compute_80,code=[sm_80,compute_80,lto_80]", "-fatbin") == (0, "", "")
    status, out, _ = run("k.fatbin", "--list-kernels")
    assert (status, [line for line in out.splitlines() if line[:3] != "   "]) == (
        0,
        ["k.fatbin, cubin for sm_80:", "  f", "k.fatbin, ptx for sm_80:", "  f",
         "k.fatbin, LTO-IR: its kernels are known when it is linked"],
    )  # fmt: skip
    assert ObjectCode.from_fatbin("k.fatbin").code
    Path("k.fatbin").write_bytes(Path("k.fatbin").read_bytes()[:24])
    status, _, err = run("k.fatbin", "--list-kernels")
    assert (status, "k.fatbin: the fat binary has no code, or is damaged" in err) == (1, True)
