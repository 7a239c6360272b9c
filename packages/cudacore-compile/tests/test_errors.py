# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle

import pytest

from cudacore_compile import NVRTCError, Program, ProgramOptions
from cudacore_compile._hints import explain
from cudacore_handles import CUDAError


def hint(code_name: str, log: str, *names: str) -> str:
    return explain(code_name, log, names, "12.9", lambda: [75, 90])


def test_error_survives_pickling() -> None:
    """A process pool that compiles would lose the log, or die of the error."""
    with pytest.raises(NVRTCError) as caught:
        Program("nonsense", "c++", ProgramOptions(arch="sm_90")).compile("ptx")
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is NVRTCError
    assert str(error) == str(caught.value)
    assert vars(error) == vars(caught.value)
    assert error.command == "nvrtc -arch=compute_90 default_program"


def test_error_without_command() -> None:
    """An error of another call would speak of a command that there was not."""
    error = NVRTCError("nvrtcVersion", 3, "NVRTC_ERROR_INVALID_INPUT", "an argument is not valid")
    assert str(error) == "nvrtcVersion: NVRTC_ERROR_INVALID_INPUT (3): an argument is not valid"
    assert isinstance(error, CUDAError)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "nvrtc: error: invalid value for --gpu-architecture (-arch)",
            "what NVRTC 12.9 compiles for: sm_ or compute_ of 75, 90",
        ),
        (
            "nvrtc: error: unrecognized option --use-bundled-headers=/x found",
            "NVRTC 12.9 does not know ProgramOptions.use_bundled_headers",
        ),
        ("nvrtc: error: unrecognized option --numba-debug found", "does not know ProgramOptions.numba_debug"),
        ("nvrtc: error: --ftz (-ftz) expects true or false", "See ProgramOptions.ftz"),
        ("nvrtc: error: invalid value for --std(-std)", "See ProgramOptions.std"),
        ("nvrtc: error: unrecognized option --from-elsewhere found", ""),
        ("", ""),
    ],
)
def test_hints_about_options(log: str, expected: str) -> None:
    """An error about an option would not name the option as the user knows it, or name a wrong one."""
    text = hint("NVRTC_ERROR_INVALID_OPTION", log)
    assert expected in text
    assert bool(text) == bool(expected)


def test_hint_about_builtins() -> None:
    """An incomplete installation would look like an error in the program."""
    log = "nvrtc: error: failed to open libnvrtc-builtins.so.13.5."
    assert "libnvrtc-builtins must be of the same version" in hint("NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", log)
    assert hint("NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "failed to create directory '/x'") == ""


def test_hint_names_what_was_asked_for() -> None:
    """Errors that are not about name expressions would be blamed on them."""
    log = 'x: error: Error in parsing name expression. Input name expression was: " g < int >"\n'
    assert "'g<int>'" in hint("NVRTC_ERROR_COMPILATION", log, "f<int>", "g<int>")
    assert "f<int>'," not in hint("NVRTC_ERROR_COMPILATION", log, "f<int>", "g<int>")
    assert hint("NVRTC_ERROR_COMPILATION", "x(1): error: syntax", "f<int>") == ""
    assert hint("NVRTC_ERROR_INTERNAL_ERROR", log, "g<int>") == ""
