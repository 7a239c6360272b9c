# SPDX-License-Identifier: Apache-2.0
"""The lowest target of each form of an instruction: forms.txt has what ptxas 13.0 accepts."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import CompileError, Engine

# The targets of all compute capabilities that can be simulated.
TARGETS = (
    *("50", "52", "53", "60", "61", "62", "70", "72", "75", "80", "86", "87", "88", "89", "90", "90a"),
    *("100", "100a", "100f", "103", "103a", "110", "110a", "120", "120a", "121", "121f"),
)
REGISTERS = (
    ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>; .reg .f64 %g<9>; .reg .pred %p<9>; "
    ".reg .b128 %q<9>; .reg .b8 %b<9>;"
)


def expand(template: str) -> Iterator[str]:
    """Yield the forms that a template stands for."""
    parts = re.split(r"<([^<>]*\|[^<>]*)>", template)
    alternatives = (part.split("|") if i % 2 else [part] for i, part in enumerate(parts))
    return ("".join(chosen) for chosen in itertools.product(*alternatives))


FORMS = [
    (lowest, form)
    for lowest, template in (
        line.split(" ", 1)
        for line in Path(__file__).with_name("forms.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    for form in expand(template)
]


def has(target: str, lowest: str) -> bool:
    """Return whether a target has the forms with this lowest target."""
    number, suffixed = int(target.rstrip("af")), target[-1] in "af"
    if lowest[-1] == "*":
        return suffixed and not {target, str(number // 10 * 10)}.isdisjoint(lowest[:-1].split("|"))
    return number >= int(lowest.rstrip("+")) and (lowest[-1] != "+" or suffixed)


def kernel(target: str, lines: str) -> str:
    return (
        f".version 9.3\n.target sm_{target}\n.address_size 64\n"
        f".visible .entry k(.param .u64 out) {{\n{REGISTERS}\n{lines}\nret;\n}}\n"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_every_form_has_its_lowest_target(engine: Engine, target: str) -> None:
    """Code for an older device would run with an instruction that this device lacks, or one that it has is refused."""
    wrong = []
    for lowest, form in FORMS:
        try:
            engine.ptx(kernel(target, form))
            log = None
        except CompileError as error:
            log = error.log
        refused = re.compile(r"line 6: (Feature '.+' requires .target sm_\d+ or higher|Instruction '.+' not supported)")
        if log is not None if has(target, lowest) else not refused.match(log or ""):
            wrong.append((lowest, form, log))
    assert not wrong


@pytest.mark.parametrize("directive", [".reqnctapercluster 2, 1, 1", ".explicitcluster", ".maxclusterrank 4"])
def test_directives_for_clusters_have_their_lowest_target(engine: Engine, directive: str) -> None:
    """A kernel for an older device could ask for clusters."""
    text = kernel("90", "").replace(") {", f") {directive} {{")
    assert engine.ptx(text).kernels == ["k"]
    name = directive.split()[0]
    with pytest.raises(CompileError, match=f"line 4: Feature '{name}' requires .target sm_90 or higher"):
        engine.ptx(text.replace("sm_90", "sm_89"))


def test_lowest_targets_are_those_of_the_assembler() -> None:
    """The lowest targets in forms.txt would be others than those of the assembler."""
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    try:
        version = nvjitlink.version()
    except Exception as error:
        pytest.skip(f"needs nvJitLink: {error}")
    if version < (13, 5):  # 13.0 accepts fence.acquire and fence.release for targets that do not have them
        pytest.skip(f"needs nvJitLink 13.5, and this is {version}")
    wrong = []
    for target in TARGETS:
        text = kernel(target, "\n".join(form for _, form in FORMS)).encode()
        # No device below 7.5 is supported, but code for older ones is.
        architecture = target if int(target.rstrip("af")) >= 75 else "75"
        linker = nvjitlink.create(1, [f"-arch=sm_{architecture}"])
        # The linker refuses the code of all targets, because none has all forms.
        with contextlib.suppress(nvjitlink.nvJitLinkError):
            nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "forms")
            nvjitlink.complete(linker)
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        nvjitlink.destroy(linker)
        refused = {int(line) - 6 for line in re.findall(r"line (\d+); error", log.decode())}
        wrong += [
            (target, lowest, form) for i, (lowest, form) in enumerate(FORMS) if (i in refused) == has(target, lowest)
        ]
    assert not wrong
