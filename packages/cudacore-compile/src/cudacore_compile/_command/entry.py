# SPDX-License-Identifier: Apache-2.0
"""The entry point of the command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from cudacore_compile._command.arguments import make_parser, parse, wants_json
from cudacore_compile._command.errors import FAILURE, INTERRUPTED, USAGE, UsageError
from cudacore_compile._command.explain import note_records, run_explain
from cudacore_compile._command.files import say
from cudacore_compile._command.listing import list_kernels
from cudacore_compile._command.plan import Plan, make_plan
from cudacore_compile._command.report import Report, say_error
from cudacore_compile._command.subcommands import note_statistics, run_cache, run_compilers
from cudacore_handles import CUDAError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments. Default: the arguments of the process; then Ctrl-C ends the process at once, even while a
        compiler runs that cannot be interrupted.

    Returns
    -------
    int
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Python sets a standard stream to None if it was closed at the start.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        return _run(words)
    except KeyboardInterrupt:
        if arguments is None:
            _exit_now()
        return INTERRUPTED
    except UsageError as error:
        say_error(str(error), error.usage or make_parser().format_usage(), as_json=wants_json(words))
        return USAGE
    except BrokenPipeError:  # the program that reads the standard output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else USAGE


def _run(words: Sequence[str]) -> int:
    if words[:2] == ["cache", "explain"]:
        return run_explain(words[2:])
    if words[:1] == ["cache"]:
        return run_cache(words[1:])
    if words[:1] == ["compilers"]:
        return run_compilers(words[1:])
    arguments = parse(make_parser(), words)
    report = Report(arguments)
    try:
        plan = make_plan(arguments)
    except (OSError, CUDAError) as error:
        report.add_error(str(error))
        return report.finish()
    with warnings.catch_warnings(record=True) as caught:  # written as messages of the command: JSON stays JSON
        warnings.simplefilter("always")
        _compile(arguments, plan, report)
    for warning in caught:
        report.add_warning(str(warning.message))
    return report.finish()


def _compile(arguments: argparse.Namespace, plan: Plan, report: Report) -> None:
    """Compile and write what was asked for."""
    try:
        if arguments.only_rule:
            plan.write_rules(report)
            return
        results = plan.compile(report)
        if report.status:
            return
        plan.write(results, report)
        note_records(plan)
        if arguments.list_kernels:
            say(list_kernels(plan.listed(results), as_json=arguments.format == "json"))
    except BrokenPipeError:  # the standard output is no longer read
        raise
    except (OSError, CUDAError, ValueError) as error:
        report.add_error(str(error))
    finally:
        note_statistics(plan.cache)


def _exit_now() -> NoReturn:
    """End the process without waiting for compilers. Outputs are written only after all compilers are done.

    The process ends by SIGINT, so that a shell does not continue its loop or script.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(INTERRUPTED)
