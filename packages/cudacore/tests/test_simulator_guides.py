# SPDX-License-Identifier: Apache-2.0
"""The programs and the tests that the simulator's guides show, and the simulator's reports about them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from guide_programs import DOCS, blocks_of, program_of

ORDER = DOCS / "simulator" / "order.py"

pytestmark = pytest.mark.cuda_sim


def run(
    *command: str | Path, folder: Path, env: dict[str, str] | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    settings = {f"CUDACORE_SIM_{name}": value for name, value in settings.items()}
    environment = os.environ | {"CUDACORE_DRIVER": "sim"} | settings | (env or {})
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )


def run_pytest(*options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run tests with the simulator's plugin alone, because importing all plugins that are installed takes longer.

    Where $CI is set, Hypothesis has no time limits, which a busy machine does not meet.
    """
    alone = ("-m", "pytest", "-q", "-p", "cudacore_sim", "-p", "no:cacheprovider", "--cuda-driver=sim")
    return run(*alone, *options, folder=folder, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": "true"})


def without_places(text: str) -> str:
    """Return a message without the parts that can change: addresses, paths, PTX lines, and numbers of calls."""
    return " ".join(re.sub(r"0x\w+|/\S+/|\[PTX line \d+\]|no\. \d+", "", text).split())


def reports_of(page: str) -> list[str]:
    return [without_places(block.code) for block in blocks_of(page, "text")]


@pytest.mark.parametrize(("page", "number"), [("control", 0), ("testing", 0), ("testing", 1)])
def test_tests(page: str, number: int, tmp_path: Path) -> None:
    """Tests that a reader pastes into a file would not pass."""
    tests = blocks_of(f"simulator/{page}", "python")[number]  # without the files that the page includes
    (tmp_path / "test_pasted.py").write_text(tests.code)
    ran = run_pytest("test_pasted.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert f"{tests.code.count('def test_')} passed" in ran.stdout


def test_the_tutorial(tmp_path: Path) -> None:
    """The tests of the tutorial would not pass, or would not find the mistake that the tutorial makes."""
    text = (DOCS / "tutorial" / "testing.rst").read_text(encoding="utf-8")
    for block in blocks_of("tutorial/testing", "python"):
        (tmp_path / block.options["caption"]).write_text(block.code)
    ran = run_pytest(folder=tmp_path)
    assert ran.returncode == 0, ran.stdout
    (passed,) = re.findall(r"^   (\d+ passed)$", text, re.MULTILINE)
    assert passed in ran.stdout
    module = tmp_path / "scale.py"
    module.write_text(module.read_text().replace("if (i < n)", ""))
    ran = run_pytest("-k", "test_scale and 1", folder=tmp_path)
    (report,) = re.findall(r"^   (kernel 'scale'.*\n.*\n.*)$", text, re.MULTILINE)
    assert without_places(report) in without_places(ran.stdout)


def test_a_fault_in_a_test(tmp_path: Path) -> None:
    """pytest would show functions of cudacore instead of the line of the test, or a report twice beside stderr."""
    fault = blocks_of("simulator/testing", "python")[1].code.split('"""')[1]  # a program that writes beyond a buffer
    (tmp_path / "test_it.py").write_text(f"def test_it():\n{textwrap.indent(fault, '    ')}")
    ran = run_pytest("test_it.py", folder=tmp_path)
    failure, _, rest = ran.stdout.partition("Captured stderr call")
    captured = rest.partition(" short test summary info ")[0]  # with $CI set, the summary repeats the whole message
    assert ">       stream.sync()" in failure
    assert "def raise_status" not in failure
    assert failure.count("illegal write of 4 bytes") == captured.count("illegal write of 4 bytes") == 1


def test_an_illegal_read(tmp_path: Path) -> None:
    """The illegal read in the guide's program would not stop the program, or the report would differ from the guide."""
    saxpy = blocks_of("simulator/checks", "python")[0]
    (tmp_path / "saxpy.py").write_text(saxpy.code)
    ran = run("saxpy.py", folder=tmp_path)
    assert ran.returncode == 1
    report = next(line for line in ran.stderr.splitlines() if line.startswith("cudacore-sim: kernel"))
    assert without_places(report) in reports_of("simulator/checks")


def test_a_race(tmp_path: Path) -> None:
    """The race of the guide would not be found, or the report would differ from the guide."""
    (kernel,) = blocks_of("simulator/checks", "cuda")
    program = f"""
import cudacore as core

device = core.Device()
device.set_current()
stream = device.create_stream()
options = core.ProgramOptions(name="reverse.cu", arch=f"sm_{{device.arch}}", lineinfo=True)
reverse = core.Program('''{kernel.code}''', "c++", options).compile("cubin").get_kernel("reverse")
core.launch(stream, core.LaunchConfig(grid=1, block=64), reverse, device.allocate(256, stream=stream))
stream.sync()
"""
    ran = run("-c", program, folder=tmp_path, CHECK="race")
    assert ran.returncode == 0, ran.stderr
    assert without_places(ran.stderr) in reports_of("simulator/checks")


def test_a_missing_order(tmp_path: Path) -> None:
    """The guide's program would cause no finding, or different seeds would not give the values in the guide."""
    ran = run(ORDER, folder=tmp_path, CHECK="order")
    assert ran.returncode == 0, ran.stderr
    finding = without_places(ran.stderr)
    if finding.startswith("cudacore-sim: order: copy"):
        assert ran.stdout == "7\n"
        assert finding in reports_of("simulator/checks")
    else:  # on a busy machine, the kernel can run last
        assert finding.startswith("cudacore-sim: order: kernel 'fill'")
        assert "which copy (cuMemcpyAsync" in finding
    # On a busy machine, the order of concurrent work also depends on chance, so no seed has a fixed result.
    values = {run(ORDER, folder=tmp_path, SHUFFLE=str(seed)).stdout.strip() for seed in range(1, 6)}
    assert values == {"0", "7"}


def lessons() -> Iterator[tuple[str, str]]:
    """Yield the programs with mistakes of the page "Ten kernels", each with the report that the page shows."""
    begin, *blocks = blocks_of("ten-kernels", "python", "text")
    lesson: list[str] = []
    for before, block in zip([begin, *blocks], blocks, strict=False):
        if block.language == "text":
            yield "\n".join([begin.code, *lesson]), block.code
            lesson = []
        elif before.language != "text":  # the block behind a report is the repair
            lesson.append(block.code)


FINDING = re.compile(r"race|undefined sync|uninitialized read|illegal \w+|no progress|order|an array of float64")


@pytest.mark.parametrize(("program", "report"), list(lessons()), ids=range(1, 11))
def test_a_lesson(program: str, report: str, tmp_path: Path) -> None:
    """The mistake of a lesson would not be found, or reported as another one than on the page."""
    ran = run("-c", program, folder=tmp_path, CHECK="race,sync,init,order")
    (kind,) = set(FINDING.findall(report)) - {"order"} or {"order"}  # other parts depend on which thread is faster
    assert kind in ran.stderr


def test_the_repairs(tmp_path: Path) -> None:
    """A repaired kernel would have another mistake."""
    program = program_of("ten-kernels", lambda needs: needs is None)
    ran = run("-c", program, folder=tmp_path, CHECK="race,sync,init,order")
    assert (ran.returncode, ran.stderr) == (0, "")
