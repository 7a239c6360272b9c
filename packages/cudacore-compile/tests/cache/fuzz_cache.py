# SPDX-License-Identifier: Apache-2.0
"""Compile random programs with a cache while their headers change, and compare with fresh compilations.

``python fuzz_cache.py SECONDS [SEED]`` does so for a given time; ``nox -s fuzz_cache -- SECONDS`` runs it. If there is
a C compiler, each path that NVRTC opens or looks for must be in the key. ``NVRTC_LIBRARY`` is another NVRTC to load.
The proportion of refused programs is printed, so that a cache that refuses everything is noticed. With
``INCLUDE_PATH``, directories with colons between or ``cuda``, programs include random installed headers instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from string import Template
from typing import Any
from unittest import mock

from cache_programs import forget

from cudacore_compile import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    NVRTCError,
    Program,
    ProgramOptions,
    _program,
    cuda_include_path,
)
from cudacore_compile._cache import UncacheableError
from cudacore_compile._cache import compile as _compile
from cudacore_compile._cache.digest import key_of
from cudacore_compile._cache.states import paths_of
from cudacore_compile._compilers.wheel_headers import wheel_headers as _wheel_headers

PACKAGE = "site/include"  # an installed package
PLACES = ("src", "inc0", "inc1", "inc2", PACKAGE)
NAMES = ("a.h", "b.h", "sub/c.h", "sub/d.h", "e", "f.stdh", "lib/a.h")
INSTALLED = ("lib/a.h", "lib/b.h", "lib/sub/c.h")
SLOTS = 6  # the number of values that headers set and the program reads
WATCHED = os.environ.get("WATCHED_FILES", "")

BLANKS = ("", "", " ", "\t", "/**/", '/* " */', "\\\n", "/*\n*/", "/*#include <a.h>*/")
# Texts of ordinary programs; those of installed headers are before the others.
TEXTS = (
    "#include $l\n",
    "#if __has_include($l)\n#include_next $l\n#endif\n",
    "#if __has_include($l)\n#include $l\n#endif\n",
    "#define $m $l\n#define $k $m\n#include $k\n",
    "#define $m $l\n#if A0 == 1\n#undef $m\n#define $m <$n>\n#endif\n#include $m\n",
    "#define $m(x) <$d/x.h>\n#include $m(a)\n",
    "#define $m(x) <x>\n#include $m($n)\n",
    "#if A$s == 1\n@#else\n@#endif\n",
    "#if __has_include($l)\n#undef A$s\n#define A$s 3\n#else\n@#endif\n",
    "#if defined(__has_include) && __has_include($l)\n#undef A$s\n#define A$s 4\n#endif\n",
    "#if 0\ndon't /*\n#elif A$s == 1\n@#endif\n",
    '__device__ const char *$m = "/*";\n__device__ char $k = \'"\';\n',
    '__device__ const char *$m = R"(\n#include $l\n)";\n',
    "// #include $l\n// \\\n#include <a.h>\n/* // */\n",
)


# Texts that hide a name, and a condition that follows. $m and $k are new macros, $l is the name of a file with quotes
# or brackets, $n without them, $d a directory, $h and $t parts of words, $s the number of a value, @ another text.
TRICKS = (
    ("#define $m __has_include\n", "$m($l)"),
    ("#define $m(x) __has_include(<x>)\n", "$m($n)"),
    ("#define $k(x) #x\n#define $m(x) $k(x)\n", "__has_include($m($n))"),
    ("#define $m(a, b) a##b\n", "$m($h)($l)"),
    ("#define $m(x) x\n#define a b\n", "$m(__has_include(<a.h>))"),
    ("", "_NV_CONCAT_EVAL($h)($l)"),
    ("", "__has_include(<$n/>)"),
    ("__device__ const char *$k = _NV_CONCAT_EVAL($t);\n", ""),
    ("#define $m <linux.h>\n#include $m\n", ""),
    ("#define $m(a, b) a##b\n#include $m(<a, .h>)\n", ""),
    ("#define $m(x) #x\n#include $m($n)\n", ""),
    ("#define $m include $l\n# $m\n", ""),
    ("#define $k $d\n#define $m(x) <$k/x.h>\n#include $m(a)\n", ""),
    ("#define $m ..\n#define $k <$m/inc1/$n>\n#include $k\n", ""),
    ("#\rinclude $l\n# /* a /* b */ include /*\n*/ $l\n#inc\\ \nlude $l\n#incl\\u0075de $l\n", ""),
    ("??=include $l\n#incl??/\nude $l\n#import $l\n", ""),
    ('#pragma push_macro("A$s")\n#include $l\n#pragma pop_macro("A$s")\n#line 1 "inc1/x.cu"\n#include $l\n', ""),
    ("#define $m(x) x\n$m(\n#include $l\n)\n#if 0\ndon't /*\n#endif\n#include $l\n// */\n", ""),
    ('#include <./$n>\n#include "../inc2/$n"\n#include <sub/../$n>\n#include <sub//c.h>\n', ""),
)


class Generator:
    """Generates random CUDA C++ source code, which sets values that the program then has."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.count = 0
        self.exotic = choose.random() < 0.4  # whether the program may have constructs that the cache should refuse

    def new(self) -> str:
        self.count += 1
        return f"M{self.count}"

    def text(self, *, is_installed: bool = False) -> str:
        pick = self.choose.choice
        template = pick(TEXTS[:8] if is_installed else TEXTS)
        if self.exotic and not is_installed and self.choose.random() < 0.35:
            text, condition = pick(TRICKS)
            template = text + (f"#if {condition}\n#undef A$s\n#define A$s 5\n#else\n@#endif\n" if condition else "")
        name = pick(INSTALLED if is_installed else NAMES).removesuffix(".stdh")
        words = {"m": self.new(), "k": self.new(), "n": name, "l": pick(['"{}"', "<{}>"]).format(name)}
        words["t"] = pick(["__TI, ME__", "__TIME, __", "_, _TIME__", "__, TIME__"])
        words["h"] = pick(["__has_, include", "__, has_include", "__has, _include"])
        filled = Template(template).substitute(words, s=pick(range(SLOTS)), d=pick(["lib", "sub", "none"]))
        parts = filled.split("@")
        filled = "".join(part + self.text(is_installed=is_installed) for part in parts[:-1]) + parts[-1]
        return filled if is_installed else re.sub(r"^#(?=[ipe]\w+ )", self.sign, filled, flags=re.MULTILINE)

    def sign(self, _: re.Match[str]) -> str:
        return self.choose.choice(BLANKS) + self.choose.choice(["#", "#", "#", "%:"]) + self.choose.choice(BLANKS)

    def header(self, slot: int, value: int, *, is_installed: bool = False) -> str:
        text = f"#undef A{slot}\n#define A{slot} {value}\n"
        if self.choose.random() < 0.15:
            return f"#pragma once\n{text}__device__ int CAT(v, __COUNTER__) = {value};\n"
        if self.choose.random() < 0.3:  # included once, so that circular includes end
            guard = self.new()
            text = f"#ifndef {guard}\n#define {guard}\n{text}{self.text(is_installed=is_installed)}#endif\n"
        return text

    def program(self) -> str:
        text = "".join(f"#define A{slot} 0\n" for slot in range(SLOTS))
        text += "#define CAT_(p, q) p##q\n#define CAT(p, q) CAT_(p, q)\n"
        text += "".join(self.text() for _ in range(self.choose.randrange(1, 6)))
        values = ", ".join(f"A{slot}" for slot in range(SLOTS))
        return f"{text}\ntemplate <int n> __global__ void f() {{}}\n__device__ int values[] = {{{values}}};\n"

    def names(self) -> list[str]:
        names = ["f<A0>", "f<CAT(A, 1)>", "&values"]
        names += ["f<__TIME__[7]>", "f<CAT(__TI, ME__)[7]>", 'f<1\n#include "a.h"\n>', "f<1>//"] if self.exotic else []
        return [self.choose.choice(names)] if self.choose.random() < 0.2 else []

    def options(self) -> ProgramOptions:
        include_path = self.choose.sample(["inc0", "inc1", "inc2", PACKAGE], self.choose.randrange(1, 5))
        macros = ["h=h", "a=b", "sub=sub", "d", *(["T=__TI", "E=ME__"] if self.exotic else [])]
        others = {
            "name": ("src/program.cu", 0.7),
            "pre_include": (self.choose.choice(NAMES), 0.2),
            "no_source_include": (True, 0.1),
            "std": (self.choose.choice(["c++11", "c++17", "c++20"]), 0.2),
            "define_macro": (self.choose.choice(macros), 0.2),
        }
        chosen: dict[str, Any] = {
            name: value for name, (value, often) in others.items() if self.choose.random() < often
        }
        return ProgramOptions(arch="sm_90", include_path=include_path, **chosen)


def uncovered(found: set[str], known: list[str]) -> list[str]:
    """Return the paths, of those that the compiler opens or looks for, whose changes a key would not notice."""

    def plain(path: str) -> str:
        return re.sub("(/[.])*/+", "/", os.path.join(os.getcwd(), path)).removesuffix("/.").rstrip("/")

    paths = {plain(path) for path in known}
    ways = {str(place) for path in paths for one in (path, os.path.realpath(path)) for place in Path(one).parents}

    def is_covered(path: str) -> bool:
        # A directory on the way to a file of the key, or a path that cannot exist before a directory has changed
        if path in paths or (os.path.isdir(path) and not ways.isdisjoint((path, os.path.realpath(path)))):
            return True
        return any(str(one.parent) in paths and not os.path.lexists(one) for one in (Path(path), *Path(path).parents))

    return sorted(path for path in map(plain, found) if not is_covered(path))


class Case:
    """One random program, and the files that it can include, which change between compilations."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.choose = random.Random(seed)
        self.seed = seed
        self.counts = counts
        maker = Generator(self.choose)
        self.versions: dict[str, list[str]] = {}
        for place in PLACES:
            for name in INSTALLED if place == PACKAGE else NAMES:
                slot = self.choose.randrange(SLOTS)
                texts = [maker.header(slot, value, is_installed=place == PACKAGE) for value in (1, 2)]
                self.versions[f"{place}/{name}"] = texts
        headers = {self.choose.choice(NAMES): maker.header(0, 5)} if self.choose.random() < 0.15 else None
        self.program = Program(maker.program(), "c++", maker.options(), headers=headers)
        self.names = maker.names()
        self.caches = [InMemoryProgramCache(), FileStreamProgramCache("cache")]

    def change(self) -> None:
        """Change one file, or a directory or link on its path."""
        how = self.choose.choice(["write", "write", "keep the times", "replace", "link", "remove", "exchange"])
        path = self.choose.choice(list(self.versions))
        text = self.choose.choice(self.versions[path])
        one, two = self.choose.sample(["inc0", "inc1", "inc2"], 2)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if how == "exchange":
            if os.path.isdir(one) and os.path.isdir(two):
                for old, new in ((one, "aside"), (two, one), ("aside", two)):
                    os.rename(old, new)
        elif how in ("remove", "link") or not os.path.isfile(path):
            Path(path).unlink(missing_ok=True)
            if how == "link":  # of the name of a header in memory, of another file, or of a file elsewhere
                others = [*map(os.fsdecode, self.program._headers), *self.versions]
                os.symlink(os.path.abspath(self.choose.choice(others)), path)
            elif how != "remove":
                Path(path).write_text(text, newline="")
        elif how == "replace":  # as editors do
            Path(path + "~").write_text(text, newline="")
            os.replace(path + "~", path)
        else:
            times = None if how == "write" else (os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns)
            Path(path).write_text(text, newline="")
            os.utime(path, ns=times) if times else os.utime(path)

    def compile(self, cache: Any) -> bytes | str:
        try:
            code = self.program.compile("ptx", self.names, cache=cache)
            return bytes(code.code) + repr(code.symbol_mapping).encode()
        except NVRTCError as error:
            return re.sub(r"\d\d:\d\d:\d\d", "", error.code_name)

    def run(self, steps: int) -> None:
        for _ in range(30):
            self.change()
        for _ in range(steps):
            cache = self.choose.choice(self.caches)
            before = cache.statistics.hits, cache.statistics.uncacheable
            if self.choose.random() < 0.2:
                forget()
            cached, fresh = self.compile(cache), self.compile(None)
            is_hit = cache.statistics.hits > before[0]
            is_refused = cache.statistics.uncacheable > before[1]
            kinds = {"hits": is_hit, "refused programs": is_refused, "that fail": isinstance(fresh, str)}
            self.counts += Counter({"compilations": 1} | kinds)
            if is_hit and cached != fresh:  # without a hit, the code can differ, because it can contain the time
                raise AssertionError(f"seed {self.seed}")
            if is_refused and self.choose.random() < 0.8:
                return  # the program would be refused again after any change
            if WATCHED and self.choose.random() < 0.5:
                check_paths(self.program, self.names, self.counts, [os.getcwd()])
            for _ in range(self.choose.choice([0, 1, 1, 1, 2])):
                self.change()


def wheel_headers(*arguments: Any) -> list[str]:
    """Return the directories of CUDA's headers in wheels. This package itself looks for them, which is not watched."""
    os.rename(WATCHED, f"{WATCHED}-")
    try:
        return _wheel_headers(*arguments)
    finally:
        os.rename(f"{WATCHED}-", WATCHED)


def check_paths(program: Program, names: list[str], counts: Counter[str], places: list[str]) -> None:
    """Check that the key covers each path in some places that the compiler opens or looks for."""
    try:
        files = key_of(program._request("ptx", names))
    except UncacheableError:
        counts["refused programs"] += 1
        return
    Path(WATCHED).write_bytes(b"")
    with contextlib.suppress(NVRTCError), mock.patch.object(_program, "wheel_headers", wheel_headers):
        program.compile("ptx", names)
    found = {os.path.abspath(path) for path in os.fsdecode(Path(WATCHED).read_bytes()).strip("\0").split("\0")}
    os.unlink(WATCHED)
    own = {os.path.abspath(path) for path in (*PLACES, *places, program._name, "default_program")}
    paths = {path for path in found - own if path.startswith(tuple(places)) and "/__nv_" not in path}
    counts["paths"] += len(paths)
    if missing := uncovered(paths, list(paths_of(files.groups))):
        raise AssertionError(f"{missing} are not in the key")


def check_header(choose: random.Random, include_path: list[str], counts: Counter[str]) -> None:
    """Check that the key of a program with an installed header covers each path."""
    place = choose.choice(include_path)
    name = choose.choice([os.path.join(top, name) for top, _, names in os.walk(place) for name in names])
    macros = choose.choice([[], ["CCCL_DISABLE_NVRTC_COMPATIBILITY_CHECK"]])
    options = ProgramOptions(arch="sm_90", include_path=include_path, define_macro=macros, fdevice_syntax_only=True)
    Path("program.cu").write_text(f"#include <{os.path.relpath(name, place)}>")
    check_paths(Program(Path("program.cu").read_text(), "c++", options), [], counts, include_path)


def run(seconds: float, seed: int) -> Counter[str]:
    """Compile random programs for some seconds; return the number of each result. A failed program's folder remains."""
    counts: Counter[str] = Counter()
    _compile._has_warned = True  # of refused programs
    given = os.environ.get("INCLUDE_PATH", "")
    include_path = cuda_include_path() if given == "cuda" else given.split(":")
    end, start = time.monotonic() + seconds, os.getcwd()
    while time.monotonic() < end:
        folder = tempfile.mkdtemp(prefix="fuzz-cache-")
        os.chdir(folder)
        Path("site/package.dist-info").mkdir(parents=True)
        try:
            if given:
                check_header(random.Random(seed), include_path, counts)
            else:
                forget()
                case = Case(seed, counts)
                Path("program.cu").write_text(f"// {case.program._options} {case.names}\n{case.program._code.decode()}")
                case.run(12)
        except AssertionError:
            print(f"stale: seed {seed}, {folder}", flush=True)
            raise
        finally:
            os.chdir(start)
        shutil.rmtree(folder)
        counts["programs"] += 1
        seed += 1
    return counts


def watch() -> None:
    """Start this program again, with the library that watches files; without a C compiler, do nothing."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if WATCHED or shutil.which(compiler[0]) is None:
        return
    folder = tempfile.mkdtemp(prefix="fuzz-watch-")
    source = Path(__file__).with_name("watch_files.c")
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", f"{folder}/watch.so", str(source), "-ldl"], check=True)
    preload = {"LD_PRELOAD": f"{folder}/watch.so", "WATCHED_FILES": f"{folder}/paths"}
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | preload)


if __name__ == "__main__":
    watch()
    if library := os.environ.get("NVRTC_LIBRARY"):
        for file in (*Path(library).parent.glob("libnvrtc-builtins.so.1*"), library):
            ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**9)
    print(f"seed {first}", flush=True)
    for key, number in sorted(run(float(sys.argv[1]), first).items()):
        print(f"{number:8} {key}")
