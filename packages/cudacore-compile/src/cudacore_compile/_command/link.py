# SPDX-License-Identifier: Apache-2.0
"""Links the compiled code, separately for each architecture."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._command.report import Report
from cudacore_compile._compilers import nvjitlink, nvrtc
from cudacore_compile._compilers.errors import CompilerError
from cudacore_compile._compilers.interrupt import run_interruptibly
from cudacore_compile._compilers.linker_options import LinkerOptions
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._linker import Linker
from cudacore_compile.typing import ObjectCodeFormatType
from cudacore_handles import CUDAError, ObjectCode

_ALWAYS = ("max_register_count", "debug", "lineinfo", "ptxas_options", "split_compile", "no_cache")
# The options that link-time optimization has, and what --use_fast_math implies for them. A linker has no such option.
_OF_LTO = {"ftz": True, "prec_div": False, "prec_sqrt": False, "fma": True}


def make_linker(
    codes: Sequence[ObjectCode], options: ProgramOptions, *, name: str, arch: str | None, lto: bool
) -> Linker:
    """Return a linker.

    Parameters
    ----------
    codes : sequence of ObjectCode
        The code.
    options : ProgramOptions
        The options of the compilations; a linker supports some of them.
    name, arch : str
        The name and the architecture of the linked code.
    lto : bool
        Whether to use link-time optimization; it is always used for LTO-IR.
    """
    has_lto = lto or any(code.code_type == "ltoir" for code in codes)
    given = {field: getattr(options, field) for field in _ALWAYS}
    for field, value in _OF_LTO.items() if has_lto else ():
        implied = value if options.use_fast_math else None
        given[field] = implied if getattr(options, field) is None else getattr(options, field)
    if given["no_cache"] is None:
        given["no_cache"] = no_cache("linked")
    return Linker(*codes, options=LinkerOptions(name=name, arch=arch, **given))


def link(
    linkers: Sequence[tuple[str, Linker]], target: str, *, cache: ProgramCacheResource | None, report: Report
) -> list[ObjectCode]:
    """Link on threads, so that the main thread can be interrupted. If a link fails, the result is incomplete.

    Parameters
    ----------
    linkers : sequence of (str, Linker)
        The linkers, each with the name of the linked code in messages.
    target : str
        The format to link to.
    cache : ProgramCacheResource or None
        Stores the linked code.
    report : Report
        Receives logs and failures.
    """

    def link_with(linker: Linker) -> tuple[ObjectCode, str]:
        code = linker.link(ObjectCodeFormatType(target), cache=cache)
        return code, linker.get_error_log() + "\n" + linker.get_info_log()

    def link_all() -> None:
        with pool:
            futures.extend(pool.submit(link_with, linker) for _, linker in linkers)

    linked: list[ObjectCode] = []
    futures: list[Future[tuple[ObjectCode, str]]] = []
    pool = ThreadPoolExecutor(min(4, len(linkers)), thread_name_prefix="cudacore-compile-link")
    run_interruptibly(link_all, lambda: pool.shutdown(wait=False, cancel_futures=True))
    for (name, _), future in zip(linkers, futures, strict=True):
        try:
            code, log = future.result()
            linked.append(code)
            report.add_log(log)
        except (CUDAError, ValueError) as error:
            report.add_failure(error, name)
    return linked


def no_cache(kind: str) -> bool | None:
    """Return the option `no_cache`, which turns off the cache that the compilers have in the driver.

    Code from that cache comes without warnings or logs.

    Parameters
    ----------
    kind : str
        ``"c++"`` for code that NVRTC compiles, ``"nvvm"`` for libNVVM, anything else for code that is assembled or
        linked.

    Returns
    -------
    bool or None
        None if the compiler has no cache, or is too old to have one.
    """
    if kind == "nvvm":
        return None
    try:
        return bool((nvrtc if kind == "c++" else nvjitlink).load().no_cache_flags([])) or None
    # a missing library is reported when it is needed; the driver can link instead of nvJitLink
    except CompilerError:
        return None if kind == "c++" else True
