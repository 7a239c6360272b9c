# SPDX-License-Identifier: Apache-2.0
"""Programs of tinygrad, whose C++ NVRTC compiles."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import cases
import numpy as np

# tinygrad asks for NVRTC by its name, so its folder has to be known before the process begins.
libraries, known = str(Path(sysconfig.get_path("purelib"), "nvidia/cu13/lib")), os.environ.get("LD_LIBRARY_PATH", "")
if libraries not in known:
    os.environ |= {"LD_LIBRARY_PATH": f"{libraries}:{known}", "DEV": "CUDA"}
    os.execv(sys.executable, [sys.executable, *sys.argv])

from tinygrad import Device, Tensor, TinyJit, dtypes  # noqa: E402

random = np.random.default_rng(7)
left, right = (random.random((64, 64)).astype(np.float32) for _ in range(2))


def device() -> None:
    assert Device.DEFAULT == "CUDA"


def elementwise() -> None:
    np.testing.assert_allclose((Tensor(left) + Tensor(right) * 2).numpy(), left + right * 2, rtol=1e-6)


def matmul() -> None:
    np.testing.assert_allclose((Tensor(left) @ Tensor(right)).numpy(), left @ right, rtol=1e-4)


def matmul_of_halves() -> None:
    product = (Tensor(left).half() @ Tensor(right).half()).numpy()
    np.testing.assert_allclose(product, left @ right, rtol=1e-2)


def softmax() -> None:
    np.testing.assert_allclose(Tensor(left).softmax().numpy().sum(1), 1, rtol=1e-5)


def gradient() -> None:
    weights = Tensor(right)
    found = (Tensor(left) @ weights).relu().sum().gradient(weights)[0].numpy()
    np.testing.assert_allclose(found, left.sum(0)[:, None] * np.ones((1, 64)), rtol=1e-4)


def convolution() -> None:
    image = Tensor(np.ones((1, 3, 16, 16), np.float32))
    assert (image.conv2d(Tensor(np.ones((8, 3, 3, 3), np.float32))).numpy() == 27).all()


def sort() -> None:
    assert (Tensor(left[0]).sort()[0].numpy() == np.sort(left[0])).all()


def bfloat16() -> None:
    assert (Tensor(np.array([1.5, 2.5], np.float32)).cast(dtypes.bfloat16).add(1).float().numpy() == [2.5, 3.5]).all()


def replays() -> None:
    step = TinyJit(lambda x: (x * 2 + 1).realize())
    for i in range(4):
        assert step(Tensor(np.array([i], np.float32)).realize()).numpy() == 2 * i + 1


ALL = (device, elementwise, matmul, matmul_of_halves, softmax, gradient, convolution, sort, bfloat16, replays)
cases.run({case.__name__: case for case in ALL}, {})
