# SPDX-License-Identifier: Apache-2.0
"""Records the reports of compute-sanitizer for the planted kernels and programs, on a machine with a GPU and a toolkit.

``python record.py raw.json`` runs each kernel and program in a separate process under the tools for its check, and
stores the reports in ``raw.json``. Further arguments limit this to some of the files of kernels, or to ``order``.

``python record.py --facts raw.json ...`` writes the findings of such reports to ``compute_sanitizer.json``: for each
kernel and tool the kinds of findings, with the source lines. If a kernel is in several of the given files, the last
file counts. Earlier findings remain only for those files of kernels that no given report is about.
``compute_sanitizer.json`` is committed, and ``test_checks.py`` and ``test_order.py`` compare the simulator's findings
with it.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from planted import FILES, FOLDER, kernels_of

FACTS = FOLDER / "compute_sanitizer.json"
TOOLS = {
    "race": ["racecheck"],
    "sync": ["synccheck"],
    "init": ["initcheck", "memcheck"],
    "order": ["memcheck"],
}
OPTIONS = {
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
    "memcheck": ["--leak-check", "full"],
}
SECONDS_EACH, SECONDS_IN_ALL = 15, 200


def compile_for_gpu(check: str, folder: Path) -> Path:
    path = folder / f"{check}.cubin"
    options = ["-cubin", "-arch=sm_90a", "-lineinfo", "-w", "-o", str(path), f"{check}.cu"]
    subprocess.run(["nvcc", *options], cwd=FOLDER, check=True, capture_output=True, text=True)
    return path


def look(check: str, name: str, tool: str, code: Path, until: float) -> dict[str, object]:
    """Run one kernel or program under a tool; return the output."""
    if time.monotonic() > until:
        return {"check": check, "name": name, "tool": tool, "status": "no time"}
    options = ["--track-stream-ordered-races", "all"] if check == "order" else OPTIONS[tool]
    command = ["timeout", "-k", "2", str(SECONDS_EACH), "compute-sanitizer", "--tool", tool, *options]
    command += [sys.executable, str(FOLDER / "planted.py"), "libcuda.so.1", check, str(code), name]
    began = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = result.stdout.decode(errors="replace")
    if len(text) > 16000:
        text = text[:12000] + "\n...\n" + text[-4000:]
    took = round(time.monotonic() - began, 1)
    return {"check": check, "name": name, "tool": tool, "status": result.returncode, "seconds": took, "text": text}


def record(path: str, *files: str) -> None:
    from order import PROGRAMS

    until = time.monotonic() + SECONDS_IN_ALL
    names = {file: [kernel.name for kernel in kernels_of(file)] for file in FILES} | {"order": list(PROGRAMS)}
    names = {file: names[file] for file in files or names}
    tools = {file: [tool for check in FILES.get(file, file).split(",") for tool in TOOLS[check]] for file in names}
    wanted = [(file, name, tool) for file in names for tool in tools[file] for name in names[file]]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = dict(zip(names, pool.map(lambda check: compile_for_gpu(check, Path(folder)), names), strict=True))
        runs = list(pool.map(lambda one: look(*one, codes[one[0]], until), wanted))
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True).stdout
    Path(path).write_text(json.dumps({"version": version, "runs": runs}, indent=1))


KINDS = {
    r"Potential RAW hazard": "read after write",
    r"Potential WAR hazard": "write after read",
    r"Potential WAW hazard": "write after write",
    r"Divergent thread\(s\) in warp": "a barrier without all of a warp",
    r"Divergent thread\(s\) in block": "a barrier without all of the block",
    r"Barrier error detected. Invalid arguments": "a mask without the lane itself",
    r"Uninitialized __global__ memory read": "uninitialized read",
    r"Invalid __global__ read": "read outside",
    r"Invalid __global__ write": "write outside",
    r"Potential invalid __shared__ \w+": "use of a block that may not be there",
    r"Warpgroup instruction executed with an incomplete warpgroup": "an incomplete warpgroup",
    r"Illegal instruction": "illegal instruction",
    r"Use-before-alloc": "use before the allocation",
    r"Use-after-free": "use after the free",
}


def findings_in(text: str, file: str) -> dict[str, list[int]]:
    """Return, for each kind of finding in a report, the lines of `file` that the report names."""
    found: dict[str, set[int]] = {}
    kind = None
    for line in text.splitlines():
        line = line.removeprefix("=========")
        begins = bool(re.match(r" \S", line))
        if begins:
            kind = next((name for pattern, name in KINDS.items() if re.search(pattern, line)), None)
        if kind is None:
            continue
        lines = found.setdefault(kind, set())
        if place := re.search(rf" in {re.escape(file)}:(\d+)$", line.rstrip()):
            lines.add(int(place[1]))
    return {kind: sorted(lines) for kind, lines in sorted(found.items())}


def facts_of(*raws: dict[str, Any]) -> dict[str, Any]:
    """Return the findings by check, tool and name of the kernel. Kernels without findings are included."""
    looked_at: dict[str, dict[str, dict[str, Any]]] = json.loads(FACTS.read_text())["findings"]
    raw = raws[-1]
    for check in {run["check"] for raw in raws for run in raw["runs"]}:
        looked_at.pop(check, None)
    for run in (run for raw in raws for run in raw["runs"]):
        check, tool = run["check"], run["tool"]
        if run["status"] not in (0, 1):
            print(f"{run['name']} under {tool}: {run['status']}, not recorded")
            continue
        looked_at.setdefault(check, {}).setdefault(tool, {})[run["name"]] = findings_in(run["text"], f"{check}.cu")
    version = re.search(r"Version (\S+)", raw["version"])
    assert version, raw["version"]
    return {"compute-sanitizer": version[1], "device": "NVIDIA H200", "findings": looked_at}


def main(path: str, *others: str) -> None:
    if path != "--facts":
        record(path, *others)
        return
    text = json.dumps(facts_of(*(json.loads(Path(other).read_text()) for other in others)), indent=1)
    FACTS.write_text(re.sub(r"\[[\s\d,]*\]", lambda lines: json.dumps(json.loads(lines[0])), text) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
