# SPDX-License-Identifier: Apache-2.0
"""Print the GPUs of this machine: ``python -m cudacore.system``, or ``python -m cudacore.system --json``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cudacore
from cudacore import system

_MIB = 1 << 20
_UNKNOWN = 0xFFFFFFFF_FFFFFFFF  # what NVML reports if it cannot determine the memory of a process


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of GPUs, or the same data as JSON.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line. Default: that of this process.

    Returns
    -------
    int
        The exit status: 1 if there is no NVML, with a message on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="python -m cudacore.system", description="Print the GPUs of this machine, as NVML sees them."
    )
    parser.add_argument("--json", action="store_true", help="print JSON: memory in bytes, null for what is unknown")
    options = parser.parse_args(arguments)
    try:
        facts = describe()
    except (cudacore.CUDAError, ImportError) as error:
        sys.stderr.write(f"cudacore.system: {error}\n")
        return 1
    sys.stdout.write(json.dumps(facts, indent=2) + "\n" if options.json else table(facts))
    return 0


def describe() -> dict[str, Any]:
    """Return the data that the command prints. Values that a device does not support are None."""
    return {
        "driver_version": _version(system.get_kernel_mode_driver_version),
        "nvml_version": _version(system.get_nvml_version),
        "cuda_version": _version(system.get_user_mode_driver_version),
        "devices": [_describe_device(device) for device in system.Device.get_all_devices()],
    }


def _describe_device(device: system.Device) -> dict[str, Any]:
    memory = _or_none(lambda: device.memory_info)
    utilization = _or_none(lambda: device.utilization)
    return {
        "index": device.index,
        "name": device.name,
        "uuid": device.uuid,
        "pci_bus_id": _or_none(lambda: device.pci_bus_id),
        "compute_capability": _version(lambda: device.cuda_compute_capability),
        "memory_total_bytes": memory and memory.total,
        "memory_used_bytes": memory and memory.used,
        "utilization_gpu_percent": utilization and utilization.gpu,
        "utilization_memory_percent": utilization and utilization.memory,
        "clock_sm_mhz": _or_none(lambda: device.get_clock("sm").get_current_mhz()),
        "clock_memory_mhz": _or_none(lambda: device.get_clock("memory").get_current_mhz()),
        "temperature_celsius": _or_none(lambda: device.temperature.get_sensor()),
        "performance_state": _or_none(lambda: device.performance_state),
        "processes": [
            {
                "pid": process.pid,
                "name": _or_none(lambda pid=process.pid: system.get_process_name(pid)),  # type: ignore[misc]
                "memory_used_bytes": process.used_gpu_memory if process.used_gpu_memory != _UNKNOWN else None,
            }
            for process in _or_none(lambda: device.compute_running_processes) or ()
        ],
    }


def _or_none(read: Callable[[], Any]) -> Any:
    """Return a value of a device, or None if the device does not report it."""
    try:
        return read()
    except system.NvmlError:
        return None


def _version(read: Callable[[], tuple[int, ...]]) -> str | None:
    """Return a version as text. The CUDA driver can be missing even if NVML is installed."""
    try:
        return ".".join(map(str, read()))
    except cudacore.CUDAError:
        return None


_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "GPU": lambda d: str(d["index"]),
    "name": lambda d: d["name"],
    "PCI bus": lambda d: _text(d["pci_bus_id"]),
    "memory used / total": lambda d: _text(_mebibytes(d["memory_used_bytes"], d["memory_total_bytes"]), " MiB"),
    "busy": lambda d: _text(d["utilization_gpu_percent"], " %"),
    "SM clock": lambda d: _text(d["clock_sm_mhz"], " MHz"),
    "memory clock": lambda d: _text(d["clock_memory_mhz"], " MHz"),
    "temp.": lambda d: _text(d["temperature_celsius"], " C"),
}


def table(facts: dict[str, Any]) -> str:
    """Return the result of `describe` as text: a row for each device, and one for each process."""
    known = (("driver", "driver_version"), ("CUDA", "cuda_version"), ("NVML", "nvml_version"))
    text = ", ".join(f"{name} {_text(facts[key])}" for name, key in known) + "\n"
    devices = facts["devices"]
    if not devices:
        return text + "no devices\n"
    text += "\n" + _rows([[*_COLUMNS], *([column(device) for column in _COLUMNS.values()] for device in devices)])
    processes = [
        [
            str(device["index"]),
            str(process["pid"]),
            _text(process["name"]),
            _text(_mebibytes(process["memory_used_bytes"]), " MiB"),
        ]
        for device in devices
        for process in device["processes"]
    ]
    if processes:
        text += "\n" + _rows([["GPU", "process", "name", "memory used"], *processes])
    return text


def _rows(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def _mebibytes(*sizes: int | None) -> str | None:
    return None if None in sizes else " / ".join(str(size // _MIB) for size in sizes if size is not None)


def _text(value: object, unit: str = "") -> str:
    return "-" if value is None else f"{value}{unit}"


if __name__ == "__main__":
    sys.exit(main())
