# SPDX-License-Identifier: Apache-2.0
"""Cubins of compilers that are linked to a program, or that run as processes such as nvcc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernels import run_f
from sanitizers import not_under_asan

import cudacore_sim

pytestmark = not_under_asan("is loaded twice into programs without Python")

CALLER = 'extern "C" __device__ int g(int); extern "C" __global__ void f(int *p) { *p = g(40); }'
CALLED = 'extern "C" __device__ int g(int x) { return x + 2; }'
WHOLE = 'extern "C" __global__ void f(int *p) { *p = 42; }'

# Functions that compile f and write the cubin to a file. They are linked with the compiler's library.
MAKERS = r"""
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { if (int code_ = (call)) { std::printf("%s: %d\n", #call, code_); std::exit(1); } } while (0)

inline void write(const char *file, const std::vector<char> &code) {
  std::FILE *out = std::fopen(file, "wb");
  std::fwrite(code.data(), 1, code.size(), out);
  std::fclose(out);
}

extern "C" {
int nvrtcCreateProgram(void **, const char *, const char *, int, const char *const *, const char *const *);
int nvrtcCompileProgram(void *, int, const char *const *);
int nvrtcGetCUBINSize(void *, size_t *);
int nvrtcGetCUBIN(void *, char *);
int nvrtcGetPTXSize(void *, size_t *);
int nvrtcGetPTX(void *, char *);
int CREATE(void **, uint32_t, const char **);
int ADD(void *, int, const void *, size_t, const char *);
int COMPLETE(void *);
int SIZE(void *, size_t *);
int GET(void *, char *);
int DESTROY(void **);
int compile_with_nvrtc(const char *file);
int get(void *program, char *code);
int link_with_nvjitlink(const char *file);
}

#ifdef NVRTC
/* Nothing is left to do after the call, so that compilers make it a jump. */
int get(void *program, char *code) { return nvrtcGetCUBIN(program, code); }

int compile_with_nvrtc(const char *file) {
  void *program = nullptr;
  const char *options[] = {"-arch=sm_90"};
  const char *source = "extern \"C\" __global__ void f(int *p) { *p = 42; }";
  CHECK(nvrtcCreateProgram(&program, source, "a.cu", 0, nullptr, nullptr));
  CHECK(nvrtcCompileProgram(program, 1, options));
  size_t size = 0;
  CHECK(nvrtcGetCUBINSize(program, &size));
  std::vector<char> code(size);
  CHECK(get(program, code.data()));
  write(file, code);
  return 0;
}
#endif

#ifdef NVJITLINK
int link_with_nvjitlink(const char *file) {
  void *linker = nullptr;
  const char *options[] = {"-arch=sm_90"};
  const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f(.param .u64 p) {"
                     ".reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 42; ret; }";
  CHECK(CREATE(&linker, 1, options));
  CHECK(ADD(linker, 2, ptx, sizeof ptx, "a.ptx"));
  CHECK(COMPLETE(linker));
  size_t size = 0;
  CHECK(SIZE(linker, &size));
  std::vector<char> code(size);
  CHECK(GET(linker, code.data()));
  CHECK(DESTROY(&linker));
  write(file, code);
  return 0;
}
#endif
"""

# LINKED is a program that contains one of MAKERS. LOADER loads one of MAKERS as a library, with local symbols.
LINKED = MAKERS + "int main(int, char **arguments) { return MAKER(arguments[1]); }\n"
LOADER = r"""
#include <cstdio>
#include <dlfcn.h>
int main(int, char **arguments) {
  void *library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::puts(dlerror()), 1;
  /* With no such library in the global scope, there is no such function either. */
  if (dlsym(RTLD_DEFAULT, "nvJitLinkNone") != nullptr || dlsym(RTLD_DEFAULT, "NONE") != nullptr) return 2;
  return reinterpret_cast<int (*)(const char *)>(dlsym(library, arguments[3]))(arguments[1]);
}
"""


def simulated(*command: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command by ``python -m cudacore_sim``."""
    words = [sys.executable, "-m", "cudacore_sim", *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **settings)


def find(tool: str) -> str:
    """Return the path of a program, or skip the test."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"needs {tool}")
    return path


def build(folder: Path, source: str, *options: str) -> None:
    """Compile C++."""
    file = folder / "source.cpp"
    file.write_text(source)
    subprocess.run([find("g++"), "-O2", str(file), *options], cwd=folder, check=True, timeout=60)


@pytest.mark.parametrize("how", ["linked", "loaded"])
@pytest.mark.parametrize("compiler", ["nvrtc", "nvJitLink"])
def test_linked_compilers(cuda: Any, tmp_path: Path, compiler: str, how: str) -> None:
    """The cubins of C++ programs that are linked with NVRTC or nvJitLink, and do not use dlsym, would not run."""
    pathfinder = pytest.importorskip("cuda.pathfinder")
    library = Path(pathfinder.load_nvidia_dynamic_lib(compiler).abs_path)
    major = library.name.rpartition(".")[2]
    maker = "compile_with_nvrtc" if compiler == "nvrtc" else "link_with_nvjitlink"
    names = {"CREATE": "Create", "ADD": "AddData", "COMPLETE": "Complete", "SIZE": "GetLinkedCubinSize"}
    names |= {"GET": "GetLinkedCubin", "DESTROY": "Destroy"}
    options = [f"-D{name}=__nvJitLink{function}_{major}_0" for name, function in names.items()]
    options += [f"-DMAKER={maker}", f"-D{compiler.upper()}", str(library)]
    # NVRTC 13.0 finds the library of its built-in functions only by an old DT_RPATH
    options += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{library.parent}"]
    arguments: tuple[object, ...] = ()
    if how == "linked":
        build(tmp_path, LINKED, "-o", "program", *options)
    else:
        other = {"nvrtc": "nvJitLinkCreate", "nvJitLink": "nvrtcGetCUBIN"}[compiler]
        build(tmp_path, MAKERS, "-shared", "-fPIC", "-o", "libmaker.so", *options)
        build(tmp_path, LOADER.replace("NONE", other), "-o", "program", "-ldl")
        arguments = (tmp_path / "libmaker.so", maker)
    done = simulated(tmp_path / "program", tmp_path / "code", *arguments)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert run_f(cuda, (tmp_path / "code").read_bytes()) == 42


@pytest.mark.parametrize("command", [["-cubin"], ["-fatbin", "-gencode", "arch=compute_90,code=sm_90"]])
@pytest.mark.parametrize("named", ["by its path", "by its name"])
def test_nvcc(cuda: Any, tmp_path: Path, command: list[str], named: str) -> None:
    """Programs that start nvcc, as PyCUDA does, could not run its cubins."""
    nvcc = find("nvcc")
    (tmp_path / "a.cu").write_text(WHOLE)
    options = command if "-gencode" in command else [*command, "-arch=sm_90"]
    done = simulated(nvcc if named == "by its path" else "nvcc", *options, "-o", "code", "a.cu", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert run_f(cuda, (tmp_path / "code").read_bytes()) == 42


def test_nvcc_links(cuda: Any, tmp_path: Path) -> None:
    """Code from several files that nvlink has linked would lack a part."""
    find("nvcc")
    for name, source in (("a", CALLER), ("b", CALLED)):
        (tmp_path / f"{name}.cu").write_text(source)
        done = simulated("nvcc", "-arch=sm_90", "-rdc=true", "-cubin", f"{name}.cu", cwd=tmp_path)
        assert (done.stderr, done.returncode) == ("", 0)
    done = simulated("nvcc", "-arch=sm_90", "-dlink", "-cubin", "-o", "code", "a.cubin", "b.cubin", cwd=tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    assert run_f(cuda, (tmp_path / "code").read_bytes()) == 42


def test_nvcc_errors_and_version(tmp_path: Path) -> None:
    """The output and the exit status of nvcc would differ from those without the simulator."""
    nvcc = find("nvcc")
    (tmp_path / "a.cu").write_text("this is no C++")
    for arguments in (["--version"], ["-cubin", "-arch=sm_90", "a.cu"]):
        plain = subprocess.run(
            [nvcc, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        done = simulated("nvcc", *arguments, cwd=tmp_path)
        assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, plain.returncode)


# An assembler that always writes the file $CUBIN as its output. With the argument "fail", it writes nothing and fails.
STAND_IN = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int count, char **arguments) {
  const char *output = "elf.o";
  for (int i = 1; i < count; i++) {
    if (std::strcmp(arguments[i], "fail") == 0) return std::fputs("no\n", stderr), 3;
    if (std::strncmp(arguments[i], "-o", 2) == 0) output = arguments[i][2] == '=' ? arguments[i] + 3 : arguments[i + 1];
    if (std::strncmp(arguments[i], "--output-file=", 14) == 0) output = arguments[i] + 14;
  }
  char part[4096];
  std::FILE *in = std::fopen(std::getenv("CUBIN"), "rb"), *out = std::fopen(output, "wb");
  for (size_t got = 0; (got = std::fread(part, 1, sizeof part, in)) > 0;) std::fwrite(part, 1, got, out);
  std::fclose(out);
  std::fputs("a warning\n", stderr);
  return 0;
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return the function f as PTX, and as a cubin that contains no PTX."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(WHOLE.encode(), b"a.cu", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])
    codes = []
    for kind in ("PTX", "CUBIN"):
        _, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
        codes.append(bytes(size))
        getattr(nvrtc, f"nvrtcGet{kind}")(program, codes[-1])
    return codes[0].rstrip(b"\0"), codes[1]


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory, made: tuple[bytes, bytes]) -> Path:
    """Build the stand-in for the assembler, and return its path. The program is called ptxas."""
    folder = tmp_path_factory.mktemp("stand_in")
    build(folder, STAND_IN, "-o", "ptxas")
    (folder / "cubin").write_bytes(made[1])
    return folder / "ptxas"


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["a.ptx", "-o", "code"], "code"),
        (["-o=code", "-arch=sm_90", "a.ptx"], "code"),
        (["--output-file=code", "a.ptx"], "code"),
        (["a.ptx"], "elf.o"),
    ],
)
def test_assembler(
    cuda: Any, tmp_path: Path, stand_in: Path, made: tuple[bytes, bytes], arguments: list[str], output: str
) -> None:
    """An option of ptxas would be misread, or the text that ptxas prints would be changed."""
    (tmp_path / "a.ptx").write_bytes(made[0])
    environment = os.environ | {"CUBIN": str(stand_in.with_name("cubin"))}
    done = simulated(stand_in, *arguments, cwd=tmp_path, env=environment)
    assert (done.stdout, done.stderr, done.returncode) == ("", "a warning\n", 0)
    assert run_f(cuda, (tmp_path / output).read_bytes()) == 42


def test_assembler_that_fails(tmp_path: Path, stand_in: Path, made: tuple[bytes, bytes]) -> None:
    """If the assembler fails, the PTX would be added to an output file of an earlier run."""
    (tmp_path / "a.ptx").write_bytes(made[0])
    (tmp_path / "code").write_bytes(made[1])
    done = simulated(stand_in, "fail", "a.ptx", "-o", "code", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", "no\n", 3)
    assert (tmp_path / "code").read_bytes() == made[1]


def test_assembler_of_other_input(tmp_path: Path, stand_in: Path, made: tuple[bytes, bytes]) -> None:
    """If no input of the assembler is PTX, its output would be changed."""
    environment = os.environ | {"CUBIN": str(stand_in.with_name("cubin"))}
    done = simulated(stand_in, "nothing.ptx", "-o", "code", cwd=tmp_path, env=environment)
    assert (done.stderr, done.returncode) == ("a warning\n", 0)
    assert (tmp_path / "code").read_bytes() == made[1]


LOAD = """
import ctypes, sys
import cudacore_sim

cuda = cudacore_sim.load()
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), open(sys.argv[1], "rb").read()) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"f") == 0
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(ctypes.c_uint64()))
print(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))
"""


def test_refusals(tmp_path: Path, made: tuple[bytes, bytes]) -> None:
    """The error message would advise users to run a program under the simulator although it runs under it."""
    (tmp_path / "load.py").write_text(LOAD)
    (tmp_path / "code").write_bytes(made[1])
    command = [sys.executable, str(tmp_path / "load.py"), str(tmp_path / "code")]
    environment = os.environ | {"CUDACORE_SIM_LIBRARY": cudacore_sim.get_library()}
    environment.pop("LD_PRELOAD", None)
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    under = simulated(*command)
    assert alone.stdout == under.stdout == "801\n"  # CUDA_ERROR_NOT_SUPPORTED
    assert "it does not carry the PTX that it was made from. This process was not started by" in alone.stderr
    assert "It was compiled by a process that python -m cudacore_sim did not start" in under.stderr


TILE = b"""
.version 9.0
.target sm_90
.address_size 64
.visible .entry f(.param .u64 p) .reqntid 128 .language 7 { ret; }
"""


def test_tile_kernels(cuda: Any, tmp_path: Path, stand_in: Path) -> None:
    """The error for a kernel of cuda.tile, which is launched with blocks of one thread, would blame the block size."""
    (tmp_path / "a.ptx").write_bytes(TILE)
    environment = os.environ | {"CUBIN": str(stand_in.with_name("cubin"))}
    assert simulated(stand_in, "a.ptx", cwd=tmp_path, env=environment).returncode == 0
    with pytest.raises(Exception, match="801"):  # CUDA_ERROR_NOT_SUPPORTED
        run_f(cuda, (tmp_path / "elf.o").read_bytes())
    assert "because line 5: kernels of cuda.tile are not simulated" in cudacore_sim.reports()[-1]
