# SPDX-License-Identifier: Apache-2.0
"""Compile random programs with a cache while their headers change, and compare with fresh compilations.

``python fuzz_cache.py SECONDS [SEED]`` does so for a given time; ``nox -s fuzz_cache -- SECONDS`` runs it. If there is
a C compiler, each path that NVRTC opens or looks for must be in the key. ``NVRTC_LIBRARY`` is another NVRTC to load.
The proportion of refused programs is printed, so that a cache that refuses everything is noticed. With
``INCLUDE_PATH``, directories with colons between or ``cuda``, programs include random installed headers instead.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from string import Template
from typing import Any

from cache_programs import forget

from cudacore_compile import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    NVRTCError,
    Program,
    ProgramOptions,
    cuda_include_path,
)
from cudacore_compile._cache import compile as _compile
from cudacore_compile._cache.digest import key_of
from cudacore_compile._cache.states import paths_of
from cudacore_compile._cache.uncacheable import UncacheableError

PACKAGE = "site/include"  # an installed package
PLACES = ("src", "inc0", "inc1", "inc2", PACKAGE)
NAMES = ("a.h", "b.h", "sub/c.h", "sub/d.h", "e", "linux.h", "f.stdh", "lib/a.h")
INSTALLED = ("lib/a.h", "lib/b.h", "lib/sub/c.h")
SLOTS = 6  # the number of values that headers set and the program reads
WATCHED = os.environ.get("WATCHED_FILES", "")

BLANKS = ("", "", " ", "\t", "/**/", "/* ' */", '/* " */', "\\\n", "/*\n*/", "/*#include <a.h>*/")
ENDS = ("", "", " // <a.h>", " /* a comment\n of two lines */", "// \\\n of two lines")
SKIPPED = ("don't", '"', "'/*'", '"/*"', "won't \"can't\"", 'R"(', "#what", "it's // here", "'\"'")
# $m and $k are new macros, $l is the name of a file with quotes or brackets, $n without them, $s the number of a value.
NOISE = (
    '__device__ const char *$m = "/*";\n',
    '__device__ const char *$m = "\\"//";\n',
    "__device__ char $m = '\"';\n",
    "__device__ char $m = '\\'';\n",
    '__device__ const char *$m = R"(\n#include $l\n)";\n',
    "__device__ int $m = 1'000;\n",
    '// #include $l\n// \\\n#include <a.h>\n/* // */\n/* " */\n',
    "#define $m(a, b) a##b\n",
    "#define $m(...) #__VA_ARGS__\n__device__ const char *${m}_ = $m(/* ) */ '\"');\n",
)
# Definitions, and a condition that follows them
TRICKS = (
    ("#define $m __has_include\n", "$m($l)"),
    ("#define $m(x) __has_include(<x>)\n", "$m($n)"),
    ("#define $k(x) #x\n#define $m(x) $k(x)\n", "__has_include($m($n))"),
    ("#define $m $l\n", "__has_include($m)"),
    ("#define $m(a, b) a##b\n", "$m($h)($l)"),
    ("#define $m(f) f($l)\n", "$m(__has_include)"),
    ("#define $m(x) x\n#define a b\n", "$m(__has_include(<a.h>))"),
    ("", "_NV_CONCAT_EVAL($h)($l)"),
    ("", "__has_include(<$n/>)"),
    ("__device__ const char *$k = _NV_CONCAT_EVAL($t);\n", ""),
    ('_Pragma("unroll (CAT($t)[7])")\n', ""),
    ("#define $m <NULL>\n#include $m\n", ""),
    ("#define $m <linux.h>\n#include $m\n", ""),
    ("#define $m(a, b) a##b\n#include $m(<a, .h>)\n", ""),
    ("#define $m(x) #x\n#include $m($n)\n", ""),
    ("#define $m include $l\n# $m\n", ""),
    ("#define $m ..\n#define $k <$m/inc1/$n>\n#include $k\n", ""),
    ("#define a b\n#define $m <a.h>\n#include $m\n#undef a\n", ""),
    ("#define $m\n#include $m $l\n", ""),
    ("#include \\\n$m\n#define $m $l\n#include $m\n", ""),
    ("#\rinclude $l\n# /* a /* b */ include /*\n*/ $l\n", ""),
    ("??=include $l\n#incl??/\nude $l\n#import $l\n", ""),
    ("#inc\\ \nlude $l\n#incl\\u0075de $l\n", ""),
    ('#line 1 "inc1/x.cu"\n#include $l\n', ""),
    ('#pragma push_macro("A$s")\n#include $l\n#pragma pop_macro("A$s")\n', ""),
    ("#define $m(x) x\n$m(\n#include $l\n)\n", ""),
    ("#if 0\ndon't /*\n#endif\n#include $l\n// */\n", ""),
    ('__device__ char $m[] = R"(\\\n)" "\n#include $l\n', ""),
    ('#define $m R"(\n#include $l\n)"\n', ""),
    ('#include <./$n>\n#include "../inc2/$n"\n#include <sub/../$n>\n#include <sub//c.h>\n', ""),
    ("#include <1'0$n>\n#include <it's $n>\n", ""),
)


class StaleError(AssertionError):
    """A cache returned code that the compiler would not generate, or the compiler looked for an unknown file."""


class Generator:
    """Generates random CUDA C++ source code."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.count = 0
        self.exotic = choose.random() < 0.4  # whether the program may have constructs that the cache should refuse
        self.is_installed = False  # whether the text is a header of an installed package, which hides nothing

    def name(self) -> str:
        return self.choose.choice(INSTALLED if self.is_installed else NAMES).removesuffix(".stdh")

    def new(self, prefix: str = "M") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def fill(self, template: str) -> str:
        pick = self.choose.choice
        times = pick(["__TI, ME__", "__TIME, __", "_, _TIME__", "__, TIME__"])
        has = pick(["__has_, include", "__, has_include", "__has, _include"])
        words = {"m": self.new(), "k": self.new(), "l": self.literal(), "n": self.name(), "t": times, "h": has}
        return Template(template).substitute(words, s=pick(range(SLOTS)))

    def literal(self) -> str:
        return self.choose.choice(['"{}"', "<{}>"]).format(self.name())

    def directive(self, name: str, rest: str) -> str:
        if self.is_installed:
            return f"# {name} {rest}\n"
        blanks = self.choose.choices(BLANKS, k=3)
        if self.choose.random() < 0.1:
            at = self.choose.randrange(1, len(name))
            name = f"{name[:at]}\\\n{name[at:]}"
        sign = self.choose.choice(["#", "#", "#", "%:"])
        return f"{blanks[0]}{sign}{blanks[1]}{name}{blanks[2]}{rest}{self.choose.choice(ENDS)}\n"

    def include(self) -> str:
        literal = self.literal()
        text = self.directive(self.choose.choice(["include", "include", "include", "include_next"]), literal)
        if self.choose.random() < 0.4:  # it is not an error if these files are missing
            return f"#if __has_include({literal})\n{text}#endif\n"
        return text

    def include_macro(self) -> str:
        macro, again = self.new(), self.new()
        text = self.directive("define", f" {macro} {self.literal()}")
        text += self.directive("define", f" {again} {macro}")
        if self.choose.random() < 0.3:
            text += (
                f"#if A0 == 1\n#undef {macro}\n" + self.directive("define", f" {macro} {self.literal()}") + "#endif\n"
            )
        return text + self.directive("include", f" {self.choose.choice([macro, again])}")

    def include_call(self) -> str:
        macro, part = self.new(), self.new()
        known = "lib" if self.is_installed else "sub"
        text = self.directive("define", f" {part} {self.choose.choice([known, known, known, 'none'])}")
        if self.choose.random() < 0.5:
            text += self.directive("define", f" {macro}(x) <{self.choose.choice([known, part])}/x.h>")
            name = self.choose.choice("ab" if self.is_installed else "cd")
            return text + self.directive("include", f" {macro}({name})")
        text += self.directive("define", f" {macro}(x) <x>")
        return text + self.directive("include", f" {macro}({self.choose.choice([self.name(), part + '/c.h'])})")

    def condition(self, condition: str) -> str:
        slot, start = self.choose.randrange(SLOTS), self.choose.choice(["if", "if", "if A1\n#elif"])
        value = f"#undef A{slot}\n#define A{slot} {self.choose.randrange(3, 9)}\n"
        return f"#{start} {condition}\n{value}#else\n{self.choose.choice(['', self.include()])}#endif\n"

    def test(self) -> str:
        word = self.choose.choice(["__has_include"] * 6 + ["defined(__has_include) && __has_include"])
        return self.condition(f"{word}({self.literal()})")

    def branch(self) -> str:
        condition = self.choose.choice([f"A{self.choose.randrange(SLOTS)} == 1", "0", "1", "defined(NOTHING)"])
        return f"#if {condition}\n{self.snippet()}#else\n{self.snippet()}#endif\n"

    def noise(self) -> str:
        return self.choose.choice([f"#if 0\n{self.choose.choice(SKIPPED)}\n#endif\n", *map(self.fill, NOISE)])

    def snippet(self) -> str:
        if self.exotic and not self.is_installed and self.choose.random() < 0.35:
            text, condition = (self.fill("|".join(self.choose.choice(TRICKS)))).split("|")
            return text + self.condition(condition) if condition else text
        choices = [self.include, self.include, self.include_macro, self.include_call, self.test, self.test, self.branch]
        return self.choose.choice(choices if self.is_installed else [*choices, self.noise, self.noise, self.noise])()

    def header(self, slot: int, value: int, *, is_installed: bool) -> str:
        self.is_installed = is_installed
        text = f"#undef A{slot}\n#define A{slot} {value}\n"
        if self.choose.random() < 0.15:
            text = f"#pragma once\n{text}__device__ int CAT(v, __COUNTER__) = {value};\n"
        elif self.choose.random() < 0.3:  # included once, so that circular includes end
            guard = self.new("G")
            text = f"#ifndef {guard}\n#define {guard}\n{text}{self.snippet()}#endif\n"
        self.is_installed = False
        return text

    def program(self) -> str:
        text = "".join(f"#define A{slot} 0\n" for slot in range(SLOTS))
        text += "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n"
        text += "".join(self.snippet() for _ in range(self.choose.randrange(1, 6)))
        values = ", ".join(f"A{slot}" for slot in range(SLOTS))
        return f"{text}\ntemplate <int n> __global__ void f() {{}}\n__device__ int values[] = {{{values}}};\n"

    def names(self) -> list[str]:
        names = ["f<A0>", "f<CAT(A, 1)>", "&values", "f<sizeof(values)>"]
        if self.exotic:
            names += ["f<__TIME__[7]>", "f<CAT(__TI, ME__)[7]>", 'f<1\n#include "a.h"\n>', "f<1>//", "f</* */ A3>"]
        return [self.choose.choice(names)] if self.choose.random() < 0.2 else []

    def options(self) -> dict[str, Any]:
        include_path = self.choose.sample(["inc0", "inc1", "inc2"], self.choose.randrange(1, 4))
        if self.choose.random() < 0.5:
            include_path.insert(self.choose.randrange(len(include_path) + 1), PACKAGE)
        macros = [[("M1", self.literal())], ["h=h"], ["a=b"], [("M2(x)", "<x>")], ["sub=sub"], ["d"]]
        if self.exotic:
            macros += [["T=__TI", "E=ME__"], [("M1", "__has_include")]]
        options: dict[str, Any] = {"arch": "sm_90", "include_path": include_path}
        others = {
            "name": ("src/program.cu", 0.7),
            "pre_include": (self.name(), 0.2),
            "no_source_include": (True, 0.1),
            "std": (self.choose.choice(["c++11", "c++14", "c++17", "c++20"]), 0.2),
            "define_macro": (self.choose.choice(macros), 0.2),
        }
        return options | {name: value for name, (value, often) in others.items() if self.choose.random() < often}


def uncovered(found: set[str], known: list[str]) -> list[str]:
    """Return the paths, of those that the compiler opens or looks for, whose changes would not be noticed.

    Parameters
    ----------
    found : set of str
        The paths that the compiler opens or looks for.
    known : list of str
        The paths of the key: files, directories, and places without a file.
    """

    def plain(path: str) -> str:
        return re.sub("(/[.])*/+", "/", os.path.join(os.getcwd(), path)).removesuffix("/.").rstrip("/")

    paths = {plain(path) for path in known}
    ways = {place for path in paths for one in (path, os.path.realpath(path)) for place in above(one)}

    def is_covered(path: str) -> bool:
        # A directory on the way to a file of the key, or a path that cannot exist before a directory has changed
        if path in paths or (os.path.isdir(path) and not ways.isdisjoint((path, os.path.realpath(path)))):
            return True
        return any(os.path.dirname(place) in paths and not os.path.lexists(place) for place in (path, *above(path)))

    return sorted(path for path in map(plain, found) if not is_covered(path))


def above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


class Case:
    """One random program, and the files that it can include, which change between compilations."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.choose = random.Random(seed)
        self.seed = seed
        self.counts = counts
        maker = Generator(self.choose)
        self.versions: dict[str, list[str]] = {}
        for place in PLACES:
            is_installed = place == PACKAGE
            for name in INSTALLED if is_installed else NAMES:
                if self.choose.random() < 0.7:
                    slot = self.choose.randrange(SLOTS)
                    one = maker.header(slot, 1, is_installed=is_installed)
                    two = one.replace(f"A{slot} 1\n", f"A{slot} 2\n", 1)
                    if self.choose.random() < 0.3:
                        two = maker.header(slot, 2, is_installed=is_installed)
                    self.versions[f"{place}/{name}"] = [one, two]
        once = self.choose.choice(["", "#pragma once\n"])
        headers = {maker.name(): once + maker.header(0, 5, is_installed=False) for _ in range(2)}
        self.program = Program(
            maker.program(),
            "c++",
            ProgramOptions(**maker.options()),
            headers=headers if self.choose.random() < 0.15 else None,
        )
        self.names = maker.names()
        self.caches = [InMemoryProgramCache(), FileStreamProgramCache("cache")]

    def write(self, path: str) -> None:
        text = self.choose.choice(self.versions[path])
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if os.path.islink(path) and not os.path.isfile(path):  # a link to a directory, to a missing file or to itself
            os.unlink(path)
        elif os.path.isdir(path):
            os.rmdir(path)
        how = self.choose.random()
        if how < 0.15 and os.path.isfile(path):  # the contents change, but the times of the file do not
            times = os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns
            Path(path).write_text(text, newline="")
            os.utime(path, ns=times)
        elif how < 0.55:
            Path(path).write_text(text, newline="")
        elif how < 0.65 and any(map(os.path.isfile, self.versions)):  # a link to another of the files
            other = self.choose.choice([one for one in self.versions if os.path.isfile(one)])
            if not os.path.lexists(path):
                (os.link if how < 0.6 else os.symlink)(os.path.abspath(other), path)
        elif how < 0.8:  # replace the file by a new one, as editors do
            Path(path + "~").write_text(text, newline="")
            os.replace(path + "~", path)
        else:
            target = Path(f"elsewhere{self.choose.randrange(2)}/{path.replace('/', '_')}")
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, newline="")
            Path(path).unlink(missing_ok=True)
            os.symlink(target.resolve(), path)

    def change(self) -> None:
        """Change one file, or a directory or link on its path."""
        how = self.choose.random()
        path = self.choose.choice(list(self.versions))
        one, two = self.choose.sample(["inc0", "inc1", "inc2"], 2)
        if self.program._headers and how < 0.1:  # NVRTC treats a header in memory and a file of that name as one file
            name = os.fsdecode(self.choose.choice(list(self.program._headers)))
            if os.path.lexists(name):
                os.unlink(name)
            elif os.path.isdir(os.path.dirname(name) or "."):
                os.symlink(os.path.abspath(path), name)
        elif how < 0.65:
            self.write(path)
        elif how < 0.75 and not os.path.isdir(path):
            Path(path).unlink(missing_ok=True)
        elif how < 0.85 and os.path.isdir(one) and os.path.isdir(two):
            os.rename(one, "aside")
            os.rename(two, one)
            os.rename("aside", two)
        elif how < 0.9 and os.path.isfile(path):
            os.utime(path)
        elif how < 0.95 and not os.path.lexists(path):
            os.makedirs(path)
        else:
            shutil.rmtree(path.split("/")[0] + "/sub", ignore_errors=True)

    def compile(self, cache: Any) -> bytes | str:
        try:
            code = self.program.compile("ptx", self.names, cache=cache)
            return bytes(code.code) + repr(code.symbol_mapping).encode()
        except NVRTCError as error:
            return re.sub(r"\d\d:\d\d:\d\d", "", error.code_name)

    def compile_while_changing(self, cache: Any) -> None:
        """Change a file, and change it back, while the compiler may be reading it."""
        path = self.choose.choice(list(self.versions))
        pause = self.choose.random() * 0.02

        def change() -> None:
            time.sleep(pause)
            old = Path(path).read_text()
            for text in (*self.versions[path], old):
                Path(path).write_text(text, newline="")
                time.sleep(pause)

        if os.path.isfile(path):
            thread = threading.Thread(target=change)
            thread.start()
            self.compile(cache)
            thread.join()
            self.counts["compilations while a file changes"] += 1

    def run(self, steps: int) -> None:
        for path in self.versions:
            if self.choose.random() < 0.8:
                self.write(path)
        for _ in range(steps):
            cache = self.choose.choice(self.caches)
            before = cache.statistics.hits, cache.statistics.uncacheable
            if self.choose.random() < 0.2:
                forget()
            if self.choose.random() < 0.15:
                self.compile_while_changing(cache)
            cached, fresh = self.compile(cache), self.compile(None)
            is_hit = cache.statistics.hits > before[0]
            is_refused = cache.statistics.uncacheable > before[1]
            kinds = {"hits": is_hit, "refused programs": is_refused, "that fail": isinstance(fresh, str)}
            self.counts += Counter({"compilations": 1} | kinds)
            if is_hit and cached != fresh:  # without a hit, the code can differ, because it can contain the time
                raise StaleError(f"seed {self.seed}")
            if is_refused and self.choose.random() < 0.8:
                return  # the program would be refused again after any change
            if WATCHED and self.choose.random() < 0.5:
                check_paths(self.program, self.names, self.counts, [os.getcwd()])
            for _ in range(self.choose.choice([0, 1, 1, 1, 2])):
                self.change()


def check_paths(program: Program, names: list[str], counts: Counter[str], places: list[str]) -> None:
    """Check that the key covers each path in some places that the compiler opens or looks for."""
    try:
        files = key_of(program._request("ptx", names)).files
    except UncacheableError:
        counts["refused programs"] += 1
        return
    Path(WATCHED).write_bytes(b"")
    try:
        program.compile("ptx", names)
    except NVRTCError:
        counts["that fail"] += 1
    found = set(os.fsdecode(Path(WATCHED).read_bytes()).split("\0")) - {"", "."}
    os.unlink(WATCHED)
    own = {os.path.abspath(path) for path in (*PLACES, *places, program._name, "default_program")}
    paths = {path for path in (os.path.join(os.getcwd(), path) for path in found) if path.startswith(tuple(places))}
    paths = {path for path in paths - own if not os.path.basename(path).startswith("__nv_")}
    counts["paths"] += len(paths)
    if missing := uncovered(paths, list(paths_of(files.groups))):
        raise StaleError(f"{missing} are not in the key")


def check_header(choose: random.Random, include_path: list[str], counts: Counter[str]) -> None:
    """Check that the key of a program with an installed header covers each path."""
    place = choose.choice(include_path)
    name = choose.choice([os.path.join(top, name) for top, _, names in os.walk(place) for name in names])
    options = ProgramOptions(
        arch=choose.choice(["sm_80", "sm_90"]),
        include_path=include_path,
        define_macro=choose.choice([[], ["CCCL_DISABLE_NVRTC_COMPATIBILITY_CHECK"]]),
        fdevice_syntax_only=True,
    )
    Path("program.cu").write_text(f"#include <{os.path.relpath(name, place)}>")
    check_paths(Program(Path("program.cu").read_text(), "c++", options), [], counts, include_path)


def run(seconds: float, seed: int) -> Counter[str]:
    """Compile random programs for some seconds; return the number of each result.

    Raises
    ------
    StaleError
        If a cache returns code that the compiler would not generate; the folder with the program remains.
    """
    counts: Counter[str] = Counter()
    _compile._has_warned = True  # of refused programs
    given = os.environ.get("INCLUDE_PATH", "")
    include_path = cuda_include_path() if given == "cuda" else given.split(":")
    end = time.monotonic() + seconds
    start = os.getcwd()
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
        except StaleError:
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
