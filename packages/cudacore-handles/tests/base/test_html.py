# SPDX-License-Identifier: Apache-2.0
"""Tables of properties and memory in notebooks: well-formed, complete and readable."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from kernel_sources import PTX

from cudacore_handles import (
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    DeviceProperties,
    EventOptions,
    LegacyPinnedMemoryResource,
    ObjectCode,
)
from cudacore_handles._base.attribute import Attribute
from cudacore_handles._base.html import attributes_table


def read(html: str) -> dict[str, tuple[str, str]]:
    """Return the rows of an HTML table as a dict from names to (value, meaning)."""
    rows = ElementTree.fromstring(html).findall("table/tbody/tr")
    texts = [["".join(cell.itertext()) for cell in row] for row in rows]
    return {name: (value, meaning) for name, value, meaning in texts}


def test_device_properties(device: Device) -> None:
    """For a device's properties, a notebook would show nothing, an incomplete table, or invalid markup."""
    html = device.properties._repr_html_()
    rows = read(html)
    assert list(rows) == [name for name, value in vars(DeviceProperties).items() if isinstance(value, Attribute)]
    assert rows["warp_size"] == ("32", "Number of threads in a warp.")
    assert rows["managed_memory"][0] in {"True", "False"}
    constant = device.properties.total_constant_memory
    assert rows["total_constant_memory"][0] == f"{constant:,} ({constant // 1024} KiB)"
    assert rows["total_constant_memory"][1] == "Memory for __constant__ variables, in bytes."
    assert "`" not in html
    assert "<code>__constant__</code>" in html


def test_an_attribute_that_cannot_be_had() -> None:
    """If an old driver does not support one property, the whole table would be missing."""

    class Old:
        old = Attribute(1, int, "What is <new>, in bytes.")
        known = Attribute(2, bool, "What is known.")

        def _read(self, attribute: Attribute[int]) -> int:
            if attribute.number == 1:
                raise CUDAError("cuDeviceGetAttribute", 1, "CUDA_ERROR_INVALID_VALUE", "an argument is wrong")
            return 1

    rows = read(attributes_table("of <old>", Old()))
    assert rows == {
        "old": ("CUDA_ERROR_INVALID_VALUE", "What is <new>, in bytes."),
        "known": ("True", "What is known."),
    }


def test_a_pool(device: Device) -> None:
    """A notebook would show a memory resource without its attributes, or fail for a closed one."""
    resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    buffer = resource.allocate(4096, stream=device.default_stream)
    html = resource._repr_html_()
    assert html is not None
    assert "DeviceMemoryResource of device 0" in html
    assert read(html)["used_mem_current"][0] == "4,096 (4 KiB)"
    assert read(resource.attributes._repr_html_()) == read(html)
    buffer.close()
    resource.close()
    assert resource._repr_html_() is None  # if this is None, a notebook shows the repr


def test_a_kernel(device: Device) -> None:
    """A notebook would not show the registers, memory and limits of a kernel."""
    kernel = ObjectCode.from_ptx(PTX).get_kernel("add")
    rows = read(kernel.attributes._repr_html_())
    assert re.fullmatch(r"[\d,]+", rows["max_threads_per_block"][0])


def test_short_reprs(device: Device) -> None:
    """The repr of an object would show only the module and name of its class, and an address."""
    descriptor = device.create_event(EventOptions(ipc_enabled=True)).ipc_descriptor
    assert repr(descriptor) == f"<IPCEventDescriptor of an event of device {device.uuid}>"
    assert repr(LegacyPinnedMemoryResource()) == "<LegacyPinnedMemoryResource>"
