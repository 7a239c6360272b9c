# SPDX-License-Identifier: Apache-2.0
"""The input of linkers: what nvJitLink would ignore or wait for forever is refused; the names of the parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compile_sources import Python

from cudacore_compile import Linker, LinkerOptions, NVJitLinkError, Program, make_fatbin
from cudacore_compile._compilers import nvjitlink
from cudacore_handles import ObjectCode

SM_90 = LinkerOptions(arch="sm_90")
F = 'extern "C" __device__ int f(int x) { return x + 1; }\n'
CALL_F = 'extern "C" __device__ int f(int x); extern "C" __global__ void k(int *p) { *p = f(*p); }\n'


def build(source: str, target: str = "ptx", *, arch: str = "sm_90", rdc: bool = True, name: str = "") -> ObjectCode:
    options = {"arch": arch} | ({"name": name} if name else {})
    if rdc and target != "ltoir":
        options["relocatable_device_code"] = True  # type: ignore[assignment]
    return Program(source, "c++", options).compile(target)


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


def test_code_that_is_not_relocatable() -> None:
    """A linker would leave out a cubin that was not compiled for linking, so that its kernels are missing."""
    plain = build(F + "__global__ void g() {}", "cubin", rdc=False, name="plain.cu")
    for part in (plain, make_fatbin([plain])):
        with pytest.raises(ValueError, match=r"'plain.cu' was not compiled to be linked.*relocatable_device_code=True"):
            Linker(part, build(CALL_F), options=SM_90).link("cubin")


def test_other_architecture(python: Python) -> None:
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
                assert "compiled for an architecture that does not run on LinkerOptions.arch" in str(error)
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


def test_handle_on_another_thread(python: Python) -> None:
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


def test_names_of_parts(tmp_path: Path) -> None:
    """All parts would have the same name, so that messages are ambiguous."""
    path = tmp_path / "file.ptx"
    path.write_bytes(bytes(build(CALL_F).code))
    named = build(CALL_F, name="same")
    in_file = ObjectCode.from_ptx(path)
    for parts, names in (
        ((build(CALL_F), build("__global__ void g() {}")), "'part 1 (ptx)' 'part 2 (ptx)'"),
        ((named, named), "'same (part 1)' 'same (part 2)'"),
        ((in_file, named), "file.ptx same"),
        ((in_file, in_file), "'file.ptx (part 1)' 'file.ptx (part 2)'"),
    ):
        with pytest.raises(NVJitLinkError) as caught:
            Linker(*parts, options=SM_90).link("cubin")  # nothing defines f
        assert names in caught.value.command


def test_names_of_parts_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    """nvJitLink keeps pointers to the names, so that a message would show what the memory is used for later."""
    other = 'extern "C" __device__ int g(int x) { return x; }'
    parts = [build(source, "cubin", name=f"the name of part {i}") for i, source in enumerate((F, other, F))]
    Linker(*parts, options=SM_90).link("cubin")
    assert "'the name of part 2', first defined in 'the name of part 0'" in capfd.readouterr().err
