# SPDX-License-Identifier: Apache-2.0
"""Blur an image and find its edges, with a texture and a surface."""

import struct
import zlib

import numpy as np

import cudacore as core
from cudacore.texture import (
    OpaqueArrayOptions,
    ResourceDescriptor,
    TextureObjectOptions,
)

SIZE = 160
SOURCE = r"""
// A sample between two texels is their weighted mean, so 9 samples are enough for a
// blur of 5 x 5 texels, whose weights are (1, 4, 6, 4, 1) / 16 along both axes.
__device__ float4 blurred(cudaTextureObject_t image, float x, float y) {
    const float places[] = {-1.2f, 0, 1.2f}, weights[] = {5 / 16.f, 6 / 16.f, 5 / 16.f};
    float4 sum = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            float4 texel = tex2D<float4>(image, x + places[i], y + places[j]);
            float weight = weights[i] * weights[j];
            sum.x += weight * texel.x;
            sum.y += weight * texel.y;
            sum.z += weight * texel.z;
        }
    return sum;
}

__device__ float gray(float4 texel) {
    return 0.3f * texel.x + 0.6f * texel.y + 0.1f * texel.z;
}

__device__ unsigned char byte(float value) {
    return 255 * __saturatef(value) + 0.5f;
}

extern "C" __global__ void filter(cudaTextureObject_t image, cudaSurfaceObject_t out,
                                  int size, int want_edges) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= size || row >= size)
        return;
    float x = column + 0.5f, y = row + 0.5f;  // the centre of the texel
    float4 color = blurred(image, x, y);
    if (want_edges) {
        float dx = gray(blurred(image, x + 1, y)) - gray(blurred(image, x - 1, y));
        float dy = gray(blurred(image, x, y + 1)) - gray(blurred(image, x, y - 1));
        float edge = 3 * sqrtf(dx * dx + dy * dy);
        color = {edge, edge, edge, 1};
    }
    uchar4 texel = {byte(color.x), byte(color.y), byte(color.z), 255};
    surf2Dwrite(texel, out, column * sizeof texel, row);
}
"""


def draw() -> np.ndarray:
    """Return an image of colored rings, as bytes: red, green, blue, opacity."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    bright = (np.sin(18 * radius + 2 * angle) > 0) & (radius < 0.95)
    colors = [bright * (0.6 + 0.4 * np.cos(angle + turn)) for turn in (0, 2.1, 4.2)]
    return (255 * np.stack([*colors, np.ones_like(x)], axis=-1)).astype(np.uint8)


def blur(image: np.ndarray) -> np.ndarray:
    """Return the expected result of the kernel."""
    weights = np.array([1, 4, 6, 4, 1]) / 16
    padded = np.pad(image[..., :3].astype(float), ((2, 2), (2, 2), (0, 0)), mode="edge")
    rows = np.zeros((SIZE, SIZE + 4, 3))
    columns = np.zeros((SIZE, SIZE, 3))
    for i, weight in enumerate(weights):
        rows += weight * padded[i : i + SIZE]
    for i, weight in enumerate(weights):
        columns += weight * rows[:, i : i + SIZE]
    return columns


def write_png(path: str, image: np.ndarray) -> None:
    height, width, _ = image.shape
    header = struct.pack(
        ">IIBBBBB", width, height, 8, 2, 0, 0, 0
    )  # 8 bits, three colors
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(rows)),
            (b"IEND", b""),
        ):
            check = zlib.crc32(kind + data)
            file.write(
                struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
            )


def main() -> None:
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("filter")

    image = draw()
    array = device.create_opaque_array(
        OpaqueArrayOptions((SIZE, SIZE), "uint8", num_channels=4)
    )
    array.copy_from(image, stream=stream)
    # Bytes are read as numbers from 0 to 1. Outside, the nearest texel is used.
    texture = device.create_texture_object(
        resource=ResourceDescriptor.from_opaque_array(array),
        options=TextureObjectOptions(
            address_mode="clamp", filter_mode="linear", read_mode="normalized_float"
        ),
    )
    target = device.create_opaque_array(
        OpaqueArrayOptions(
            (SIZE, SIZE), "uint8", num_channels=4, is_surface_load_store=True
        )
    )
    surface = device.create_surface_object(
        resource=ResourceDescriptor.from_opaque_array(target)
    )

    config = core.LaunchConfig(grid=(-(-SIZE // 16), -(-SIZE // 16)), block=(16, 16))
    pictures = [image]
    for want_edges in (False, True):
        core.launch(stream, config, kernel, texture, surface, SIZE, want_edges)
        pictures.append(target.copy_to(np.empty_like(image), stream=stream))
    write_png("filter_image.png", np.hstack(pictures)[..., :3])

    difference = np.abs(blur(image) - pictures[1][..., :3])
    print("the blur is NumPy's, to 2 of 255:", difference.max() <= 2)


if __name__ == "__main__":
    main()
