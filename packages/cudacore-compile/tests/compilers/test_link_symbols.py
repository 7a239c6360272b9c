# SPDX-License-Identifier: Apache-2.0
"""Incompatible symbols are refused. nvJitLink would link them nevertheless, or crash."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cudacore_compile import Linker, LinkerOptions, NVJitLinkError, Program, make_fatbin
from cudacore_compile._compilers import nvjitlink
from cudacore_compile._compilers.link_symbols import conflicts
from cudacore_handles import ObjectCode
from cudacore_handles._sdk.compile import Symbol, parts_of, ptx_symbols

Run = Callable[..., subprocess.CompletedProcess[str]]
SM_90 = LinkerOptions(arch="sm_90")
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
F = 'extern "C" __device__ int f(int x) { return x + 1; }\n'
USE_V = "extern __device__ int v; __global__ void k(int *p) { *p = v; }"
CALL_F = 'extern "C" __device__ int f(int x); extern "C" __global__ void k(int *p) { *p = f(*p); }\n'


def build(source: str, target: str = "ptx", *, arch: str = "sm_90", rdc: bool = True, name: str = "") -> ObjectCode:
    options = {"arch": arch} | ({"name": name} if name else {})
    if rdc and target != "ltoir":
        options["relocatable_device_code"] = True  # type: ignore[assignment]
    return Program(source, "c++", options).compile(target)


def refused(*parts: ObjectCode) -> NVJitLinkError:
    with pytest.raises(NVJitLinkError) as caught:
        Linker(*parts, options=SM_90).link("cubin")
    return caught.value


def needs(version: tuple[int, int]) -> None:
    if nvjitlink.load().version < version:
        pytest.skip(f"needs nvJitLink {version[0]}.{version[1]}, of which it is known what it refuses itself")


# ---- symbols that are refused


@pytest.mark.parametrize("second", ["ptx", "cubin"])
@pytest.mark.parametrize("first", ["ptx", "cubin"])
def test_duplicate_function(first: str, second: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One of two functions with the same name would be linked, with only a line on stderr that no program sees."""
    error = refused(build(F, first, name="a.cu"), build(CALL_F, name="b.cu"), build(F, second, name="c.cu"))
    assert error.code_name == "LINK_DUPLICATE_SYMBOL"
    assert str(error).startswith(
        "link: LINK_DUPLICATE_SYMBOL (-1): 'f' is defined by a.cu and by c.cu. Keep one of them, or make all of them"
    )
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (F, 'extern "C" __global__ void f(int *p) { *p = 1; }', "'f' is a function in one, and a kernel in two"),
        ("__device__ int v;", "__device__ int v;", "'v' is defined by one and by two"),
        ("__constant__ int v[4];", "__constant__ int v[4];", "'v' is defined by one and by two"),
        ("__managed__ int v;", "__managed__ int v;", "'v' is defined by one and by two"),
        ("__constant__ int v;", USE_V, "'v' is a variable in constant memory in one, and one in global memory in two"),
        ("__device__ int v[3];", USE_V, "'v' is a variable of 12 bytes in one, and one of 4 bytes in two"),
        (
            "__device__ int v;",
            "extern __device__ int v[3]; __global__ void k(int *p) { *p = v[2]; }",
            "'v' is a variable of 4 bytes in one, and one of 12 bytes in two",
        ),
        ("__managed__ int v;", USE_V, "'v' is managed in one, and not managed in two"),
        (
            F,
            'extern "C" __device__ float f(float x, double y); __global__ void k(float *p) { *p = f(*p, 2); }',
            "'f' is the function b32(b32) in one, and b32(b32, b64) in two",
        ),
        (
            'struct S { int a[4]; }; extern "C" __device__ void f(S) {}',
            'struct S { int a[5]; }; extern "C" __device__ void f(S); __global__ void k() { f(S()); }',
            "'f' is the function void(b8[16]) in one, and void(b8[20]) in two",
        ),
        (
            "namespace n { __device__ int g(int x) { return x; } }",
            "namespace n { __device__ int g(int x) { return 1; } }",
            "'n::g(int)' (_ZN1n1gEi) is defined by one and by two",
        ),
        ("__global__ void k() {}", "__global__ void k() {}", "'k()' (_Z1kv) is defined by one and by two"),
    ],
)
def test_what_does_not_fit(first: str, second: str, words: str) -> None:
    """Code that reads and writes the memory of other variables would be linked."""
    for target in ("ptx", "cubin"):
        error = refused(build(first, name="one"), build(second, target, name="two"))
        assert error.meaning == words


def test_all_are_named() -> None:
    """A user with many duplicates would find them one at a time."""
    many = "".join(f'extern "C" __device__ int f{i}(int x) {{ return x; }}\n' for i in range(5))
    error = refused(build(many), build(many, "cubin"), build(many))
    assert re.fullmatch(r"'f\d' is defined by part 1 \(ptx\) and by part 2 \(cubin\)", error.meaning)
    assert sorted(re.findall(r"'(f\d)' is", f"{error.meaning}\n{error.log}")) == ["f0", "f1", "f2", "f3", "f4"]


@pytest.mark.parametrize(
    ("ltoir", "other", "code_name", "words"),
    [
        ("__device__ int v = 3;", "__device__ int v;", "LINK_DUPLICATE_SYMBOL", "Multiple definition of 'v'"),
        ("extern __device__ long v[7];", "__device__ int v;", "LINK_SYMBOL_MISMATCH", "Size doesn't match for 'v'"),
    ],
)
def test_between_ltoir_and_other_code(ltoir: str, other: str, code_name: str, words: str) -> None:
    """nvJitLink would report success for code in which it has found an error."""
    needs((12, 9))
    ltoir += 'extern "C" __global__ void k(long *p) { *p = *(int *)&v; }'
    error = refused(build(ltoir, "ltoir", name="a"), build(other, name="b"))
    assert error.code_name == code_name
    assert error.meaning == f"{words}: between the LTO-IR (a) and the other code (b)"


def test_after_ltoir(python: Run) -> None:
    """A mistake in ordinary code would end the process, once anything has linked LTO-IR."""
    needs((12, 9))
    result = python(f"""
        from cudacore_compile import Linker, NVJitLinkError, Program
        from cudacore_compile._compilers import link_symbols, nvjitlink

        f, options = {F!r}, {{"arch": "sm_90", "relocatable_device_code": True}}
        Linker(Program(f, "c++", {{"arch": "sm_90"}}).compile("ltoir"), options={{"arch": "sm_90"}}).link("cubin")
        parts = [Program(f, "c++", options).compile("ptx") for _ in range(2)]
        try:
            Linker(*parts, options={{"arch": "sm_90"}}).link("cubin")
        except NVJitLinkError as error:
            print(error.code_name)
        flags, inputs = [b"-arch=sm_90"], [nvjitlink.Input("ptx", part.code + b"\\0", "x") for part in parts]
        nvjitlink.load().link(None, "cubin", flags, inputs)  # as code whose symbols cannot be read
        print("lives")
    """)
    assert result.stdout.split() == ["LINK_DUPLICATE_SYMBOL", "lives"], result.stderr


# ---- symbols that are accepted


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
def test_what_fits(target: str) -> None:
    """Programs that are correct would be refused: inline functions, templates, static functions."""
    shared = """
    template <class T> __device__ __noinline__ T twice(T x) { return x + x; }
    inline __device__ __noinline__ int once(int x) { return x; }
    static __device__ int counter;
    static __device__ __noinline__ int mine(int x) { return x + counter; }
    namespace { __constant__ int hidden = 3; __device__ __noinline__ int own(int x) { return x + hidden; } }
    struct S { __device__ __noinline__ int get() const { return 7; }
      static __device__ int number(int x) { return x; } };
    __device__ __noinline__ int f(int x);
    extern __device__ int v;
    extern __shared__ float dynamic[];
    __device__ inline int nth() { static int n; return ++n; }
    #define KERNEL(name) extern "C" __global__ void name(int *p) { \\
      *p = twice(*p) + once(*p) + mine(*p) + own(*p) + S().get() + S::number(*p) + f(*p) + v + dynamic[*p] + nth(); \\
      printf("%d\\\\n", *p); }
    """
    sources = [shared + "KERNEL(a)", shared + "KERNEL(b)", shared + "int __device__ f(int x) { return x; }"]
    sources.append("__device__ int v; extern __shared__ double dynamic[]; __global__ void c() { dynamic[0] = v; }")
    sources.append("__device__ int counter2; static __device__ int f2(long x) { return x; } static __device__ int f;")
    kinds = [target] * len(sources) if target == "ltoir" else [target, "ptx", "cubin", target, target]
    parts = [build(source, kind) for source, kind in zip(sources, kinds, strict=True)]
    assert {b"a", b"b"} <= set(re.findall(rb"[\w]+", bytes(Linker(*parts, options=SM_90).link("cubin").code)))  # type: ignore[arg-type]


def test_weak_and_common_symbols() -> None:
    """PTX that is correct would be refused."""
    common = ObjectCode.from_ptx(f"{HEAD}.common .global .b32 c;\n.weak .func f(.param .b32 a) {{ ret; }}".encode())
    larger = ObjectCode.from_ptx(f"{HEAD}.common .global .b64 c;\n.visible .func f(.param .b32 a) {{ ret; }}".encode())
    assert Linker(common, larger, options=SM_90).link("cubin")
    sized = ObjectCode.from_ptx(f"{HEAD}.visible .global .b64 c[2];".encode())
    assert "of 4 bytes in part 1 (ptx), and one of 16 bytes in part 2 (ptx)" in str(refused(common, sized))


def test_code_that_is_not_relocatable() -> None:
    """A linker would leave out a cubin that was not compiled for linking, so that its kernels are missing."""
    plain = build(F + "__global__ void g() {}", "cubin", rdc=False, name="plain.cu")
    for part in (plain, make_fatbin([plain])):
        with pytest.raises(ValueError, match=r"'plain.cu' was not compiled to be linked.*relocatable_device_code=True"):
            Linker(part, build(CALL_F), options=SM_90).link("cubin")


def test_other_architecture(python: Run) -> None:
    """If one thread links a cubin for another architecture, all other threads that link would wait forever."""
    result = python(f"""
        import threading
        from cudacore_compile import Linker, NVJitLinkError, Program

        def link(arch):
            part = Program({F!r}, "c++", {{"arch": arch, "relocatable_device_code": True}}).compile("cubin")
            try:
                Linker(part, options={{"arch": "sm_90"}}).link("cubin")
                print("linked", flush=True)
            except NVJitLinkError as error:
                print(error.code_name, flush=True)

        for arch in ("sm_80", "sm_90a", "sm_90"):
            thread = threading.Thread(target=link, args=(arch,), daemon=True)
            thread.start()
            thread.join(60)
    """)
    words = result.stdout.split()
    assert words[0] == "LINK_OTHER_ARCHITECTURE"
    assert words[1] == ("LINK_OTHER_ARCHITECTURE" if nvjitlink.load().version >= (13, 0) else "linked")
    assert words[2] == "linked"


def test_handle_on_another_thread(python: Run) -> None:
    """If a linker's handle is read on one thread and the linker then links on another thread, the process would end."""
    result = python(f"""
        import threading
        from cudacore_compile import Linker, Program

        part = Program({F!r}, "c++", {{"arch": "sm_90", "relocatable_device_code": True}}).compile("ptx")
        for _ in range(3):
            linker = Linker(part, options={{"arch": "sm_90"}})
            linker.handle
            thread = threading.Thread(target=linker.link, args=("cubin",))
            thread.start()
            thread.join()
            Linker(part, options={{"arch": "sm_90"}}).link("cubin")
        print("lives")
    """)
    assert result.stdout == "lives\n", result.stderr


# ---- names


def test_names_of_parts(tmp_path: Path) -> None:
    """All parts would have the same name, so that messages are ambiguous."""
    path = tmp_path / "file.ptx"
    path.write_bytes(bytes(build(F).code))
    named, other = build(F, name="same"), build(F, "cubin", name="same")
    in_file = ObjectCode.from_ptx(path)
    for parts, names in (
        ((build(F), build(F, "cubin")), "part 1 (ptx) and by part 2 (cubin)"),
        ((named, other), "same (part 1) and by same (part 2)"),
        ((in_file, named), "file.ptx and by same"),
        ((named, in_file), "same and by file.ptx"),
        ((in_file, in_file), "file.ptx (part 1) and by file.ptx (part 2)"),
    ):
        assert f"'f' is defined by {names}" in str(refused(*parts))
    undefined = refused(build(CALL_F), build("__global__ void g() {}"))
    assert "'part 1 (ptx)' 'part 2 (ptx)'" in undefined.command


# ---- the formats that symbols are read from


def host_object(fatbins: bytes) -> bytes:
    """Return an ELF file with fat binaries in a section, as nvcc makes of a source file."""
    names = b"\0__nv_relfatbin\0.shstrtab\0"
    at = 64 + len(names) + -len(names) % 8
    table = at + len(fatbins)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    sections = [(0,) * 10, (1, 1, 2, 0, at, len(fatbins), 0, 0, 8, 0), (16, 3, 0, 0, 64, len(names), 0, 0, 1, 0)]
    body = header + names + bytes(at - 64 - len(names)) + fatbins
    return body + b"".join(struct.pack("<IIQQQQIIQQ", *section) for section in sections)


def archive(members: dict[str, bytes]) -> bytes:
    """Return a static library as ``ar`` writes it."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        parts += [
            f"{name + '/':16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode(),
            data,
            b"\n" * (len(data) % 2),
        ]
    return b"".join(parts)


@pytest.mark.parametrize("compress", [False, True])
def test_fat_binaries_objects_and_libraries(compress: bool) -> None:
    """Duplicate symbols would be found only in plain code, not in fat binaries, objects and libraries."""
    images = [build(F, "cubin"), build(F, "cubin", arch="sm_80"), build(F, arch="sm_75")]
    fatbin = make_fatbin(images, compress=compress)
    one, two = (
        bytes(make_fatbin([build(f"__device__ int {name};", "cubin")], compress=compress).code)  # type: ignore[arg-type]
        for name in ("one", "two")
    )
    as_object = host_object(one + bytes(fatbin.code))  # type: ignore[arg-type]
    nameless = bytearray(host_object(two))
    nameless[62:64] = bytes(2)  # the object has no table of the names of its sections
    as_library = archive({"first.o": bytes(nameless), "second.o": as_object})
    for part, name in (
        (fatbin, "part 2 (fatbin)"),
        (ObjectCode.from_object(as_object), "part 2 (object)"),
        (ObjectCode.from_library(as_library), "part 2 (library)(second.o)"),
    ):
        assert refused(build(F), part).meaning == f"'f' is defined by part 1 (ptx) and by {name}"


def test_tables_of_ptx_and_cubins_agree() -> None:
    """The same symbol would be read differently from PTX and from a cubin."""
    source = """
    struct S { double a[3]; };
    __device__ int plain; __device__ float4 vector = {1, 2, 3, 4}; __device__ long table[3][5];
    __constant__ short small[3]; __managed__ double managed;
    extern __device__ int e[]; extern __device__ char unsized[]; extern __constant__ int ec;
    extern __device__ S ext(S, float, double, long, char, short, bool, int *, float4);
    extern "C" __device__ void none(); template <class T> __device__ __noinline__ T weak(T x) { return x; }
    __device__ __noinline__ double func(S s, float4 v, unsigned long long n) { return s.a[0] + v.x + n; }
    __global__ void k(S s, int *p) { none();
      *p = ext(s, 1, 2, 3, 4, 5, true, p, vector).a[0] + weak(*p) + weak(*p * 2.0) + func(s, vector, 3)
        + e[*p] + unsized[*p] + ec + table[1][*p] + small[*p] + plain + managed; }
    """
    of_ptx, of_cubin = (parts_of(bytes(build(source, t).code), t, "90")[0].symbols for t in ("ptx", "cubin"))  # type: ignore[index, arg-type]
    assert of_ptx == of_cubin
    assert {symbol.kind for symbol in of_ptx.values()} == {"function", "variable", "kernel"}
    assert of_ptx["table"] == Symbol("variable", "strong", "", "global", size=120)
    assert of_ptx["none"] == Symbol("function", "undefined", "#v")


STRONG = Symbol("function", "strong", "#v")


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        (".visible /* .weak */ .func // no\n f () { ret; }", {"f": STRONG}),
        ('.file 1 "} .visible .func g() {"\n.visible .func f { ret; }', {"f": STRONG}),
        (".visible .global .b8 v[3] = {1};\n.func f() {}", {"v": Symbol("variable", "strong", "", "global", size=3)}),
        (".visible .global .b8 v[] = {1, 2};", {"v": Symbol("variable", "strong", "", "global")}),
        (".visible .func f();\n.visible .func f() { ret; }", {"f": STRONG}),
        (".extern .func f();\n.visible .func f() { ret; }", {"f": STRONG}),
        (".visible .func f();\n.visible .func g() {}\n.alias f, g;", dict.fromkeys("fg", STRONG)),
        (".visible .global .texref t;", {}),
        ("/* " * 20_000, {}),  # quickly
        (".visible .func " * 20_000, {}),
        (".visible .func f(.param .pred p) { ret; }", {"f": Symbol("function", "strong", "")}),
        ("{ .visible .func f() {", {}),
        ("}}} nonsense {{{", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_ptx_of_all_kinds(ptx: str, expected: dict[str, Symbol]) -> None:
    """Unusual PTX would be parsed incorrectly."""
    assert ptx_symbols(HEAD + ptx) == expected


def test_damaged_code() -> None:
    """Code that cannot be read would raise an error other than the linker's."""
    good = bytes(build(F, "cubin").code)
    rnd = random.Random(1)
    for _ in range(20):
        bad = bytearray(good)
        for _ in range(rnd.randint(1, 20)):
            bad[rnd.randrange(len(bad))] = rnd.randrange(256)
        for code in (bytes(bad), bytes(bad[: rnd.randrange(len(bad))])):
            for kind in ("cubin", "fatbin", "object", "library", "ptx", "ltoir"):
                parts_of(code, kind, "90")
    library = archive({"a.o": host_object(bytes(make_fatbin([build(F, "cubin")]).code))})  # type: ignore[arg-type]
    for end in range(0, len(library), 97):
        parts_of(library[:end], "library", "90")
    nameless = bytearray(host_object(bytes(make_fatbin([build(F, "cubin")]).code)))  # type: ignore[arg-type]
    nameless[62:64] = b"\xff\xff"  # the index of the section with the names
    assert parts_of(bytes(nameless), "object", "90") is None


# ---- compared with nvJitLink


def random_part(rnd: random.Random, index: int) -> str:
    """Return PTX with functions and variables of a few names. Some are compatible with symbols of other parts."""
    text, uses = "", ""
    types = [".b32", ".b32", ".b32", ".f32", ".b64", ".align 8 .b8 @[16]"]
    for name in rnd.sample(["f", "g", "v", "w"], rnd.randint(1, 4)):
        if name in "fg":
            linkage = rnd.choice([".visible", ".weak", ".weak", ".extern", ".extern"])
            kind, returns = rnd.choice(types), rnd.random() < 0.8

            def param(word: str, kind: str = kind) -> str:
                return f".param {kind.replace('@', word)}" if "@" in kind else f".param {kind} {word}"

            declaration = f"{linkage} .func {'(.param .b32 r) ' if returns else ''}{name}({param('a')})"
            text += declaration + (";\n" if linkage == ".extern" else " { ret; }\n")
            if linkage == ".extern":
                uses += f"{{ {param('q')}; .param .b32 o; call {'(o), ' if returns else ''}{name}, (q); }}\n"
        else:
            linkage = rnd.choice([".visible", ".weak", ".extern", ".extern"])
            space = rnd.choice([".global"] * 5 + [".const", ".shared"])
            managed = ".attribute(.managed) " if space == ".global" and rnd.random() < 0.1 else ""
            declared = rnd.choice([".b32 @"] * 4 + [".b64 @", ".b32 @[2]"]).replace("@", name)
            text += f"{linkage} {space} {managed}{declared};\n"
    return f"{HEAD}{text}.visible .entry k{index}() {{\n{uses} ret; }}\n"


def random_table(seed: int) -> list[str]:
    rnd = random.Random(seed)
    return [random_part(rnd, index) for index in range(rnd.randint(2, 4))]


SEEDS = 40  # 1,000 seeds gave no difference with nvJitLink 12.9, nor with 13.5
_SAYS = re.compile(r"error\s+: (?:Multiple definition of|\w[\w ]* doesn't match for) '([^']+)'")


def test_random_tables(python: Run) -> None:
    """Compatible symbols would be refused, or incompatible ones would be accepted."""
    needs((12, 9))
    result = python(
        """
        import sys
        from cudacore_compile import CompilerError
        from cudacore_compile._compilers.nvjitlink import Input, load
        from test_link_symbols import SEEDS, random_table
        for seed in range(SEEDS):
            print("TABLE", seed, file=sys.stderr, flush=True)
            inputs = [Input("ptx", ptx.encode() + b"\\0", "x") for ptx in random_table(seed)]
            try:
                load().link(None, "cubin", [b"-arch=sm_90"], inputs)
            except CompilerError as error:
                if "Undefined reference" not in error.log:
                    raise
        """,
        PYTHONPATH=os.pathsep.join(map(str, (*Path(__file__).parents[:2], *filter(None, sys.path)))),
    )
    assert result.returncode == 0, result.stderr[-2000:]
    tables = result.stderr.split("TABLE ")[1:]
    assert len(tables) == SEEDS
    refused_tables = 0
    for seed, said in enumerate(tables):
        ours = {found.name for found in conflicts((str(i), ptx_symbols(p)) for i, p in enumerate(random_table(seed)))}
        assert ours == set(_SAYS.findall(said)), seed
        refused_tables += bool(ours)
    assert SEEDS // 4 < refused_tables < SEEDS


def test_threads() -> None:
    """Threads that link at the same time, some of them with incompatible code, would disturb each other."""
    good = [build(CALL_F), build(F)]
    ltoir = [build(CALL_F, "ltoir"), build(F, "ltoir")]
    expected = bytes(Linker(*good, options=SM_90).link("cubin").code)  # type: ignore[arg-type]

    def work(number: int) -> bool:
        if number % 3 == 0:
            return Linker(*good, options=SM_90).link("cubin").code == expected
        if number % 3 == 1:
            return Linker(*ltoir, options=SM_90).link("cubin").code[:4] == b"\x7fELF"  # type: ignore[comparison-overlap]
        return refused(*good, good[1]).code_name == "LINK_DUPLICATE_SYMBOL"

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(48)))
