# SPDX-License-Identifier: Apache-2.0
"""The driver's linker, with replacements for the driver's functions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from cudacore_handles import CUDAError, Device
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._compiler import driver_linker


class FakeLinker:
    """Replaces cuLinkCreate and similar functions, and records their calls."""

    def __init__(self, *, fails: str = "") -> None:
        self.fails = fails
        self.options: dict[int, int] = {}
        self.inputs: list[tuple[int, bytes, bytes]] = []
        self.states = 0
        self.image = ffi.new("char[]", b"cubin")
        self.values: Any = None

    def status(self, name: str, *arguments: Any) -> int:
        return 218 if name == self.fails else getattr(self, name)(*arguments) or 0

    def cuLinkCreate(self, count: int, keys: Any, values: Any, out: Any) -> None:
        assert lib.cch_current_device(ffi.new("int *")) == 0  # the linker needs a current context
        self.options = {keys[i]: int(ffi.cast("uintptr_t", values[i])) for i in range(count)}
        self.log, self.values, self.keys = values[list(self.options).index(5)], values, list(self.options)
        self.states += 1
        out[0] = ffi.cast("void *", 1)

    def cuLinkAddData(self, state: Any, kind: int, data: Any, size: int, name: Any, *_: Any) -> None:
        self.inputs.append((kind, data[:size], name))

    def cuLinkComplete(self, state: Any, out: Any, size: Any) -> None:
        text = b"a warn\xefng"
        ffi.memmove(self.log, text, len(text))
        if 2 in self.keys:
            bits = ffi.cast("uint32_t *", ffi.new("float *", 1.5))[0]
            self.values[self.keys.index(2)] = ffi.cast("void *", bits)
        out[0], size[0] = self.image, 5

    def cuLinkDestroy(self, state: Any) -> None:
        self.states -= 1


def link(monkeypatch: pytest.MonkeyPatch, fake: FakeLinker, **options: Any) -> tuple[bytes, bytes, bytes]:
    monkeypatch.setattr(driver_linker, "driver_status", fake.status)
    time = options.pop("time", False)
    inputs = [("ptx", b"text\0", b"first"), ("library", b"\0\1\2", b"")]
    return driver_linker.link_with_driver(inputs, options, time=time)


def test_link(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs or options would be lost, or the linked code would not be copied before the linker is destroyed."""
    fake = FakeLinker()
    result = link(monkeypatch, fake, target=90, max_register_count=32, debug=1, time=True)
    assert result == (b"cubin", b"a warn\xefng", b"linking took 1.500 ms\n")
    assert fake.inputs == [(1, b"text\0", b"first"), (4, b"\0\1\2", b"")]
    assert {key: fake.options[key] for key in (9, 0, 11, 2)} == {9: 90, 0: 32, 11: 1, 2: 0}
    assert fake.states == 0


@pytest.mark.parametrize("function", ["cuLinkCreate", "cuLinkAddData", "cuLinkComplete"])
def test_failure(device: Device, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """A failure would not be reported, or would leak the linker."""
    fake = FakeLinker(fails=function)
    with pytest.raises(CUDAError, match=rf"^{function}: CUDA_ERROR_INVALID_PTX \(218\)"):
        link(monkeypatch, fake)
    assert fake.states == 0


def test_no_current_context(device: Device, monkeypatch: pytest.MonkeyPatch, in_new_thread: Any) -> None:
    """On a thread without a current context, linking would fail, or would leave a context current."""
    from cuda.bindings import driver

    def run() -> None:
        assert link(monkeypatch, FakeLinker())[0] == b"cubin"
        assert int(driver.cuCtxGetCurrent()[1]) == 0

    in_new_thread(run)


def test_what_is_no_ptx(device: Device) -> None:
    """A failed link would look successful, the driver's log would be lost, or the error could not be pickled."""
    with pytest.raises(CUDAError, match=r"^cuLinkAddData: CUDA_ERROR_INVALID_IMAGE") as caught:
        driver_linker.link_with_driver([("ptx", b"nothing\0", b"n.ptx")], {}, time=False)
    assert caught.value.log
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_version() -> None:
    """The driver's version would not be split into major and minor numbers."""
    major, minor = driver_linker.driver_cuda_version()
    assert major >= 12
    assert 0 <= minor < 10
