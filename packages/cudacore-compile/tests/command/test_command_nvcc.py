# SPDX-License-Identifier: Apache-2.0
"""The command and nvcc, where it is installed: random command lines choose the same headers, macros and code.

``CUDACORE_NVCC_LINES`` is the number of lines.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compile_sources import Python, Run

from cudacore_compile._command.arguments import make_parser
from cudacore_compile._command.nvcc import ROWS
from cudacore_compile._compilers import nvrtc
from cudacore_handles import ObjectCode
from cudacore_handles._sdk.compile import entries

LINES = int(os.environ.get("CUDACORE_NVCC_LINES", "12"))
NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")

SOURCE = """
#include "quoted.h"
#include <pointed.h>
#ifndef PRE
#define PRE 0
#endif
#if defined(__CUDACC_RELAXED_CONSTEXPR__)
constexpr int doubled(int x) { return 2 * x; }
#else
__device__ constexpr int doubled(int x) { return 3 * x; }
#endif
#ifndef M0
#define M0 70
#endif
#ifndef M1
#define M1 71
#endif
#ifdef __CUDACC_RDC__
#define RDC 1
#else
#define RDC 0
#endif
extern "C" __global__ void f(int *p, float *x) {
  p[0] = 1000 + QUOTED;
  p[1] = 2000 + POINTED;
  p[2] = 3000 + PRE;
  p[3] = 4000 + M0;
  p[4] = 5000 + M1;
  p[5] = __CUDA_ARCH__;
  p[6] = __cplusplus % 100000;
  p[7] = 7000 + doubled(100) + RDC;
  x[0] = x[1] / x[2];
  x[3] = sqrtf(x[4]);
  x[5] = x[6] * x[7] + x[8];
}
"""
# Parts of a command line. Each line has some of these, in any order.
PARTS = """
-Ia | -I b | -I=c | --include-path=a,b | -isystem a | -isystem=c | --system-include b | -I b -I a | -isystem a -Ia
-DM0=1 | -D M0=2 | -D=M1 | -DM0=3,M1=4 | --define-macro M1=5 | -UM0 | -U M1 | -DM1=6 -UM1 | -UM1 -DM1=7 | -DM0=8 -UM0,M1
-include pre.h | -include=pre.h | --pre-include pre.h
-std=c++14 | -std c++17 | --std=c++20 | -std=c++17 -std=c++20
-ftz=true | --ftz false | -prec-div=false | -prec-sqrt false | -fmad=false | -use_fast_math | --use_fast_math -ftz=false
-use_fast_math -prec-div=true | -use_fast_math -prec-sqrt=true -fmad=false
-rdc=true | -rdc false | --relocatable-device-code=true
-expt-relaxed-constexpr | --expt-relaxed-constexpr
-O3 | -O 2 | -g | -c | -m64 | -m 64 | -t0 | --threads=2 | -w | -lm | -L. | -Xlinker -s | -ccbin g++
-Xcompiler=-fPIC,-Wall | -Xcompiler -O3 | -forward-unknown-to-host-compiler -fPIC -Wextra | -Wno-deprecated-gpu-targets
-extra-device-vectorization | -Xcudafe --diag_suppress=177 | -diag-suppress=177,550 | -err-no
--options-file options.txt | -optf=options.txt | -Xptxas -O3 | -Xptxas=-v,-O2 | -maxrregcount=40 | -split-compile=1
--source-in-ptx -lineinfo | -Xfatbin -compress-all | -cudart none | --default-stream per-thread
-Wno-deprecated-declarations | -extended-lambda | -Wreorder | -Werror reorder | --keep-dir . | -DM0=(1+1)
-allow-unsupported-compiler | -DM1="4+4"
"""
ARCHITECTURES = """
-arch=sm_80 | -arch sm_90 | --gpu-architecture=sm_90a | -arch=compute_80 | -gencode arch=compute_80,code=sm_90
-gencode=arch=compute_90,code=[sm_90,compute_90] | --generate-code=arch=compute_80,code=compute_80
-arch=compute_80 -code=sm_86 | -arch=compute_80 -code=sm_80,compute_80 | --gpu-architecture=sm_100f
-arch=sm_80 -gencode arch=compute_80,code=sm_80
"""
WRONG = """
-isystema | -ok.ptx | -xcu | -MFk.d | -includepre.h | -std | -fPIC | -ftz=maybe | -maxrregcount40 | -gx | -expt-relaxed
-Werror=nonsense | -ptx=1 | -m32 | -Xptxas-v | -rdcx | -code=sm_90 -UX -arch=sm_80 | -gencode arch=compute_80 | -dl
"""


def choices(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", "|").split("|") if part.strip()]


@pytest.fixture(autouse=True)
def _sources(_shared_cache: None) -> None:
    Path("k.cu").write_text(SOURCE)
    Path("pre.h").write_text("#define PRE 5\n")
    Path("options.txt").write_text('-DM0="9" -I a\n-UM1')
    for number, folder in enumerate("abc"):
        Path(folder).mkdir()
        Path(folder, "quoted.h").write_text(f"#define QUOTED {number}\n")
        Path(folder, "pointed.h").write_text(f'#include "quoted.h"\n#define POINTED {number}\n')


def call_nvcc(*words: str) -> tuple[int, str]:
    made = subprocess.run([str(NVCC), "k.cu", *words], capture_output=True, text=True, timeout=120, check=False)
    return made.returncode, made.stderr + made.stdout


def facts(ptx: str) -> Any:
    """Return what two versions of the compiler have in common: the target, constants and floating-point operations."""
    code = re.sub(r"//[^\n]*", "", ptx)
    target = re.search(r"\.target\s+([^\n]*)", code)
    constants = set(map(int, re.findall(r"\b(\d{3,6});", code)))
    operations = sorted(re.findall(r"\b(?:div|sqrt|fma|mul|add|rcp)\.[\w.]*f32", code))
    return target and target[1].strip(), constants, operations


def same_text(ptx: str) -> str:
    """Return PTX without comments, names of files and the state of their data."""
    code = re.sub(r"//[^\n]*|\.file[^\n]*|\.loc[^\n]*|\.section[^{]*\{[^}]*\}", "", ptx)
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


def random_line(chance: random.Random) -> list[str]:
    target = chance.choice(("-ptx", "-ptx", "-ptx", "-fatbin", "-cubin"))
    parts = [chance.choice(choices(ARCHITECTURES)), target, *chance.sample(choices(PARTS), chance.randint(1, 7))]
    if not any("-I" in part or "system" in part or "include-path" in part or "opt" in part for part in parts):
        parts.append("-Ia")
    chance.shuffle(parts)
    return " ".join(parts).split()


@pytest.mark.usefixtures("_nvfatbin")
@pytest.mark.parametrize("seed", range(LINES))
def test_random_lines(seed: int, process: Python) -> None:
    """A command line would choose another header, macro or architecture than nvcc, or other operations."""
    words = random_line(random.Random(seed))
    target = next(word[1:] for word in words if word in ("-ptx", "-fatbin", "-cubin"))
    status, messages = call_nvcc(*words, "-o", f"nvcc.{target}")
    # in a process of its own, because NVRTC would keep -use_fast_math for later tests
    made = process("k.cu", *words, "-o", f"ours.{target}", "--no-cache")
    ours, err = made.returncode, made.stderr
    if status:  # such as a cubin of a virtual architecture
        assert ours or "multiple GPU" in messages or "virtual" in messages, (words, messages)
        return
    assert ours == 0, (words, err)
    if target == "fatbin":
        found = [
            {(one.code_type, one.arch, one.variant.strip("f")) for one in entries(Path(f"{who}.fatbin").read_bytes())}
            for who in ("nvcc", "ours")
        ]
    elif target == "cubin":
        found = [ObjectCode.from_cubin(f"{who}.cubin")._contents().arch for who in ("nvcc", "ours")]
    else:
        texts = [Path(f"{who}.ptx").read_text() for who in ("nvcc", "ours")]
        same = nvrtc.load().version_text in call_nvcc("--version")[1]
        found = list(map(same_text if same else facts, texts))
    assert found[0] == found[1], words


@pytest.mark.parametrize("words", choices(WRONG))
def test_wrong_lines(words: str, run: Run) -> None:
    """An option that nvcc refuses would mean something: ``-odir=x`` the output dir=x."""
    given = ["-ptx", "-Ia", "-arch=sm_90", *words.split()]
    assert (call_nvcc(*given)[0] != 0, run("k.cu", *given)[0]) == (True, 2)


def test_every_option_has_a_row() -> None:
    """An option of nvcc would be unknown, or the next word would be taken for its value."""
    text = subprocess.run([str(NVCC), "--help"], capture_output=True, text=True, check=True).stdout
    # options that have another meaning here
    other = {"--link", "--verbose", "-v", "-e", "--help", "-h", "--version", "--options-file", "-optf"}
    # options with a value that the help does not show
    hidden = {"--dependency-output", "--qpp-config"}
    for long, value, short in re.findall(r"^(--[\w-]+)([^\n(]*?) +\(?(--?[\w-]+)\)? *$", text, re.MULTILINE):
        for name in {long, short} - other:
            assert (ROWS[name].follows != "-") == (bool(value.strip()) or long in hidden), name
    shown = make_parser()._option_string_actions
    assert [name for name, row in ROWS.items() if row.action == "same" and row.name not in shown] == []
