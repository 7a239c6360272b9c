# SPDX-License-Identifier: Apache-2.0
"""Compile random programs with a cache while their headers change, and compare with fresh compilations.

``python fuzz_cache.py SECONDS [SEED]`` does so for a given time; ``nox -s fuzz_cache -- SECONDS`` runs it. If there is
a C compiler, each path that NVRTC opens or looks for must be in the key. ``NVRTC_LIBRARY`` is another NVRTC to load.
The proportion of refused programs is printed, so that a cache that refuses everything is noticed.
"""

from __future__ import annotations

import collections
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cache_programs import forget

from cudacore_compile import FileStreamProgramCache, InMemoryProgramCache, NVRTCError, Program, ProgramOptions
from cudacore_compile._cache import compile as _compile
from cudacore_compile._cache.digest import key_of
from cudacore_compile._cache.states import paths_of
from cudacore_compile._cache.uncacheable import UncacheableError

PLACES = ("src", "inc0", "inc1", "inc2")
NAMES = ("a.h", "b.h", "sub/c.h", "sub/d.h", "e", "linux.h", "f.stdh")
SLOTS = 6  # the number of values that headers set and the program reads


WATCHED = os.environ.get("WATCHED_FILES", "")


class StaleError(AssertionError):
    """A cache returned code that the compiler would not generate, or the compiler looked for an unknown file."""


class Generator:
    """Generates random CUDA C++ source code."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.macros: list[str] = []
        self.count = 0
        self.exotic = choose.random() < 0.4  # whether the program may have constructs that the cache should refuse

    def name(self) -> str:
        return self.choose.choice(NAMES).removesuffix(".stdh")

    def new(self, prefix: str = "M") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def blank(self) -> str:
        return self.choose.choice(
            ["", "", " ", "\t", "/**/", "/* ' */", '/* " */', "\\\n", "/*\n*/", "/*#include <a.h>*/"]
        )

    def literal(self) -> str:
        return self.choose.choice(['"{}"', "<{}>"]).format(self.name())

    def directive(self, name: str, rest: str) -> str:
        sign = self.choose.choice(["#", "#", "#", "%:"])
        if self.choose.random() < 0.1:
            at = self.choose.randrange(1, len(name))
            name = f"{name[:at]}\\\n{name[at:]}"
        end = self.choose.choice(["", "", " // <a.h>", " /* a comment", "// \\\n of two lines"])
        more = " of two lines */" if end.endswith("comment") else ""
        return f"{self.blank()}{sign}{self.blank()}{name}{self.blank()}{rest}{end}{more}\n"

    def define(self, name: str, body: str) -> str:
        return self.directive("define", f" {name} {body}")

    def include(self) -> str:
        literal = self.literal()
        text = self.directive("include", literal)
        if self.choose.random() < 0.4:  # it is not an error if these files are missing
            return f"#if __has_include({literal})\n{text}#endif\n"
        return text

    def include_next(self) -> str:
        return self.directive("include_next", self.literal())

    def include_macro(self) -> str:
        macro = self.new()
        text = self.define(macro, self.literal())
        if self.choose.random() < 0.4:
            again = self.new()
            text += self.define(again, macro)
            macro = again
        if self.choose.random() < 0.3:
            text += f"#if A0 == 1\n#undef {macro}\n" + self.define(macro, self.literal()) + "#endif\n"
        return text + self.directive("include", f" {macro}")

    def include_call(self) -> str:
        macro, part = self.new(), self.new()
        stem = self.choose.choice(["sub", part])
        text = self.define(part, self.choose.choice(["sub", "sub", "sub", "none"]))
        text += self.define(f"{macro}(x)", f"<{stem}/x.h>" if self.choose.random() < 0.5 else "<x>")
        argument = self.choose.choice(["a.h", "b.h", "sub/c.h", "sub/d.h", f"{part}/c.h"])
        if "/x.h" in text:
            argument = self.choose.choice(["c", "d"])
        return text + self.directive("include", f" {macro}({argument})")

    def test(self) -> str:
        word = self.choose.choice(["__has_include"] * 6 + ["defined(__has_include) && __has_include"])
        return self.condition(f"{word}{self.blank()}({self.literal()})")

    def condition(self, condition: str) -> str:
        value, slot = self.choose.randrange(3, 9), self.choose.randrange(SLOTS)
        start = self.choose.choice(["if", "if", "if A1\n#elif"])
        return (
            f"{self.blank()}#{start} {condition}\n#undef A{slot}\n#define A{slot} {value}\n"
            f"#else\n{self.choose.choice(['', self.include()])}#endif\n"
        )

    def branch(self) -> str:
        condition = self.choose.choice([f"A{self.choose.randrange(SLOTS)} == 1", "0", "1", "defined(NOTHING)"])
        return f"#if {condition}\n{self.snippet()}#else\n{self.snippet()}#endif\n"

    def skipped(self) -> str:
        text = self.choose.choice(
            ["don't", '"', "'/*'", '"/*"', "won't \"can't\"", 'R"(', "#what", "it's // here", "'\"'"]
        )
        return f"#if 0\n{text}\n#endif\n"

    def noise(self) -> str:
        n = self.new("n")
        return self.choose.choice(
            [
                f'__device__ const char *{n} = "/*";\n',
                f'__device__ const char *{n} = "\\"//";\n',
                f"__device__ char {n} = '\"';\n",
                f"__device__ char {n} = '\\'';\n",
                f'__device__ const char *{n} = R"({self.include()})";\n',
                f"__device__ int {n} = 1'000;\n",
                f"// {self.include()}",
                "// \\\n#include <a.h>\n",
                "/* // */\n",
                '/* " */\n',
                f"#define {n}(a, b) a##b\n",
                f"#define {n}(...) #__VA_ARGS__\n__device__ const char *{n}_ = {n}(/* ) */ '\"');\n",
            ]
        )

    def trick(self) -> str:
        literal, name, m, k = self.literal(), self.name(), self.new(), self.new()
        time_parts = self.choose.choice([("__TI", "ME__"), ("__TIME", "__"), ("_", "_TIME__"), ("__", "TIME__")])
        has_parts = self.choose.choice([("__has_", "include"), ("__", "has_include"), ("__has", "_include")])
        slot = self.choose.randrange(SLOTS)
        condition = self.condition
        return self.choose.choice(
            [
                lambda: f"#define {m} __has_include\n" + condition(f"{m}({literal})"),
                lambda: f"#define {m}(x) __has_include(<x>)\n" + condition(f"{m}({name})"),
                lambda: f"#define {k}(x) #x\n#define {m}(x) {k}(x)\n" + condition(f"__has_include({m}({name}))"),
                lambda: f"#define {m} {literal}\n" + condition(f"__has_include({m})"),
                lambda: f"#define {m}(a, b) a##b\n" + condition(f"{m}({has_parts[0]}, {has_parts[1]})({literal})"),
                lambda: f"#define {m}(f) f({literal})\n" + condition(f"{m}(__has_include)"),
                lambda: f"#define {m}(x) x\n#define a b\n" + condition(f"{m}(__has_include(<a.h>))") + "#undef a\n",
                lambda: f"__device__ const char *{k} = _NV_CONCAT_EVAL({', '.join(time_parts)});\n",
                lambda: condition(f"_NV_CONCAT_EVAL({', '.join(has_parts)})({literal})"),
                lambda: f'_Pragma("unroll (CAT({", ".join(time_parts)})[7])")\n',
                lambda: f"#define {m} <{self.choose.choice(['NULL', 'assert', 'linux.h'])}>\n#include {m}\n",
                lambda: f"#define {m}(a, b) a##b\n#include {m}(<{name[:1]}, {name[1:]}>)\n",
                lambda: f"#define {m}(x) #x\n#include {m}({name})\n",
                lambda: f"#define {m} include {literal}\n# {m}\n",
                lambda: f"#define {m} ..\n#define {k} <{m}/inc1/{name}>\n#include {k}\n",
                lambda: f"#define a b\n#define {m} <a.h>\n#include {m}\n#undef a\n",
                lambda: f"#define {m}\n#include {m} {literal}\n",
                lambda: f"#include \\\n{m}\n#define {m} {literal}\n#include {m}\n",
                lambda: f"#\rinclude {literal}\n",
                lambda: f"# /* a /* b */ include /*\n*/ {literal}\n",
                lambda: f"??=include {literal}\n#incl??/\nude {literal}\n",
                lambda: f"#inc\\ \nlude {literal}\n#incl\\u0075de {literal}\n",
                lambda: f'#line 1 "inc1/x.cu"\n#include {literal}\n',
                lambda: f'#pragma push_macro("A{slot}")\n#include {literal}\n#pragma pop_macro("A{slot}")\n',
                lambda: f"#define {m}(x) x\n{m}(\n#include {literal}\n)\n",
                lambda: f"#if 0\ndon't /*\n#endif\n#include {literal}\n// */\n",
                lambda: f'__device__ char {m}[] = R"(\\\n)" "\n#include {literal}\n',
                lambda: f'#define {m} R"(\n#include {literal}\n)"\n',
                lambda: f"#import {literal}\n",
                lambda: f'#include <./{name}>\n#include "../inc2/{name}"\n#include <sub/../{name}>\n',
                lambda: f'#include "{os.path.abspath("inc2")}/{name}"\n#include <sub//c.h>\n',
                lambda: f"#include <1'0{name}>\n#include <it's {name}>\n",
                lambda: condition(f"__has_include(<{name}/>)"),
            ]
        )()

    def snippet(self) -> str:
        if self.exotic and self.choose.random() < 0.35:
            return self.trick()
        choices: list[Callable[[], str]] = [
            self.include,
            self.include,
            self.include_macro,
            self.include_call,
            self.test,
        ]
        choices += [self.test, self.branch, self.skipped, self.noise, self.noise, self.include_next]
        return self.choose.choice(choices)()

    def header(self, slot: int, value: int) -> str:
        text = f"#undef A{slot}\n#define A{slot} {value}\n"
        if self.choose.random() < 0.15:
            return f"#pragma once\n{text}__device__ int CAT(v, __COUNTER__) = {value};\n"
        if self.choose.random() < 0.3:  # included once, so that circular includes end
            guard = self.new("G")
            text = f"#ifndef {guard}\n#define {guard}\n{text}{self.snippet()}#endif\n"
        return text

    def program(self) -> str:
        text = "".join(f"#define A{slot} 0\n" for slot in range(SLOTS))
        text += "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n"
        text += "".join(self.snippet() for _ in range(self.choose.randrange(1, 6)))
        values = ", ".join(f"A{slot}" for slot in range(SLOTS))
        return f"{text}\ntemplate <int n> __global__ void f() {{}}\n__device__ int values[] = {{{values}}};\n"

    def names(self) -> list[str]:
        if self.choose.random() < 0.8:
            return []
        names = ["f<A0>", "f<CAT(A, 1)>", "&values", "f<sizeof(values)>"]
        if self.exotic:
            names += ["f<__TIME__[7]>", "f<CAT(__TI, ME__)[7]>", 'f<1\n#include "a.h"\n>', "f<1>//", "f</* */ A3>"]
        return [self.choose.choice(names)]

    def options(self) -> dict[str, Any]:
        include_path = ["inc0", "inc1", "inc2"]
        self.choose.shuffle(include_path)
        options: dict[str, Any] = {"arch": "sm_90", "include_path": include_path[: self.choose.randrange(1, 4)]}
        if self.choose.random() < 0.7:
            options["name"] = "src/program.cu"
        if self.choose.random() < 0.2:
            options["pre_include"] = self.name()
        if self.choose.random() < 0.1:
            options["no_source_include"] = True
        if self.choose.random() < 0.2:
            options["std"] = self.choose.choice(["c++11", "c++14", "c++17", "c++20"])
        if self.choose.random() < 0.2:
            options["define_macro"] = self.choose.choice(
                [
                    [("M1", self.literal())],
                    ["h=h"],
                    ["a=b"],
                    [("M2(x)", "<x>")],
                    ["T=__TI", "E=ME__"] if self.exotic else ["sub=sub"],
                    [("M1", "__has_include")] if self.exotic else ["d"],
                ]
            )
        return options


def is_covered(path: str, paths: set[str], name: str) -> bool:
    """Return whether every change of a file, or its creation, changes the key or has the files searched for again.

    Parameters
    ----------
    path : str
        A path that the compiler opens or looks for.
    paths : set of str
        The paths of the key: files, directories, and places without a file.
    name : str
        The name of the program.
    """
    plain = os.path.join(os.getcwd(), "")
    known = {re.sub("(/[.])*/+", "/", os.path.join(plain, one)).removesuffix("/.") for one in paths}
    path = re.sub("(/[.])*/+", "/", path).rstrip("/")
    if path in known or path in (plain + name, plain + "default_program") or path.startswith(plain + "__nv_"):
        return True
    real = os.path.realpath(path) + "/"
    if os.path.isdir(path) and any(
        place.startswith((path + "/", real)) for one in known for place in (one + "/", os.path.realpath(one) + "/")
    ):
        return True  # on the way to a known file
    while len(path) > 1:
        above = os.path.dirname(path)
        if above in known and not os.path.lexists(path):
            return True
        path = above
    return False


class Case:
    """One random program, and the files that it can include, which change between compilations."""

    def __init__(self, seed: int, counts: collections.Counter[str]) -> None:
        self.choose = random.Random(seed)
        self.seed = seed
        self.counts = counts
        self.maker = Generator(self.choose)
        self.versions: dict[str, list[str]] = {}
        for place in PLACES:
            for name in NAMES:
                if self.choose.random() < 0.7:
                    slot = self.choose.randrange(SLOTS)
                    path = f"{place}/{name}"
                    one = self.maker.header(slot, 1)
                    two = (
                        one.replace(f"A{slot} 1\n", f"A{slot} 2\n", 1)
                        if self.choose.random() < 0.7
                        else self.maker.header(slot, 2)
                    )
                    self.versions[path] = [one, two]
        self.source = self.maker.program()
        self.options = self.maker.options()
        self.names = self.maker.names()
        self.headers = None
        if self.choose.random() < 0.15:
            once = self.choose.choice(["", "#pragma once\n"])
            self.headers = {name: once + self.maker.header(0, 5) for name in {self.maker.name(), self.maker.name()}}
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
        path = self.choose.choice(list(self.versions) or ["inc0/none.h"])
        if self.headers and how < 0.1:  # NVRTC treats a header in memory and a file of the same name as one file
            name = self.choose.choice(list(self.headers))
            if os.path.lexists(name):
                os.unlink(name)
            elif os.path.isdir(os.path.dirname(name) or "."):
                os.symlink(os.path.abspath(path), name)
        elif how < 0.65 and path in self.versions:
            self.write(path)
        elif how < 0.75:
            if not os.path.isdir(path):
                Path(path).unlink(missing_ok=True)
        elif how < 0.85:
            one, two = self.choose.sample(["inc0", "inc1", "inc2"], 2)
            if os.path.isdir(one) and os.path.isdir(two):
                os.rename(one, "aside")
                os.rename(two, one)
                os.rename("aside", two)
        elif how < 0.9 and os.path.isfile(path):
            os.utime(path)
        elif how < 0.95:
            if not os.path.lexists(path):
                os.makedirs(path)
        else:
            shutil.rmtree(path.split("/")[0] + "/sub", ignore_errors=True)

    def check_paths(self) -> None:
        """Check that the key covers each path that the compiler opens or looks for."""
        program = Program(self.source, "c++", ProgramOptions(**self.options), headers=self.headers)
        try:
            files = key_of(program._request("ptx", self.names)).files
        except UncacheableError:
            return
        Path(WATCHED).write_bytes(b"")
        self.compile(None)
        found = set(os.fsdecode(Path(WATCHED).read_bytes()).split("\0")) - {"", "."}
        paths = {os.path.join(os.getcwd(), path) for path in found} - {os.path.abspath(place) for place in PLACES}
        os.unlink(WATCHED)
        self.counts["paths"] += len(paths)
        known = set(paths_of(files.groups))
        for path in paths:
            if path.startswith(os.getcwd() + "/") and not is_covered(path, known, program._name):
                raise StaleError(f"seed {self.seed}: {path} is not in the key")

    def compile(self, cache: Any) -> bytes | str:
        try:
            program = Program(self.source, "c++", ProgramOptions(**self.options), headers=self.headers)
            code = program.compile("ptx", self.names, cache=cache)
            return code.code + repr(code.symbol_mapping).encode()
        except NVRTCError as error:
            return re.sub(r"\d\d:\d\d:\d\d", "", error.code_name)

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
            cached = self.compile(cache)
            fresh = self.compile(None)
            self.counts["compilations"] += 1
            is_hit = cache.statistics.hits > before[0]
            self.counts["hits"] += is_hit
            if is_hit and cached != fresh:  # without a hit, the code can differ, because it can contain the time
                raise StaleError(f"seed {self.seed}")
            if isinstance(fresh, str):
                self.counts["that fail"] += 1
            if cache.statistics.uncacheable > before[1]:
                self.counts["refused programs"] += 1
                if not self.choose.random() < 0.2:
                    return  # the program would be refused again after any change
            if WATCHED and self.choose.random() < 0.5:
                self.check_paths()
            for _ in range(self.choose.choice([0, 1, 1, 1, 2])):
                self.change()

    def compile_while_changing(self, cache: Any) -> None:
        """Change a file, and change it back, while the compiler may be reading it."""
        path = self.choose.choice(list(self.versions) or ["inc0/none.h"])
        if not os.path.isfile(path):
            return
        pause = self.choose.random() * 0.02

        def change() -> None:
            time.sleep(pause)
            old = Path(path).read_text()
            for text in (*self.versions.get(path, ()), old):
                Path(path).write_text(text, newline="")
                time.sleep(pause)

        thread = threading.Thread(target=change)
        thread.start()
        self.compile(cache)
        thread.join()
        self.counts["compilations while a file changes"] += 1


def run(seconds: float, seed: int) -> collections.Counter[str]:
    """Compile random programs for some seconds; return the number of each result.

    Raises
    ------
    StaleError
        If a cache returns code that the compiler would not generate; the folder with the program remains.
    """
    counts: collections.Counter[str] = collections.Counter()
    _compile._has_warned = True  # of refused programs
    end = time.monotonic() + seconds
    start = os.getcwd()
    while time.monotonic() < end:
        folder = tempfile.mkdtemp(prefix="fuzz-cache-")
        try:
            os.chdir(folder)
            forget()
            case = Case(seed, counts)
            try:
                case.run(12)
            except StaleError:
                Path("program.cu").write_text(f"// {case.options} {case.headers} {case.names}\n{case.source}")
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
    if os.environ.get("NVRTC_LIBRARY"):
        for library in (
            *Path(os.environ["NVRTC_LIBRARY"]).parent.glob("libnvrtc-builtins.so.1*"),
            os.environ["NVRTC_LIBRARY"],
        ):
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**9)
    print(f"seed {first}", flush=True)
    for key, number in sorted(run(float(sys.argv[1]), first).items()):
        print(f"{number:8} {key}")
