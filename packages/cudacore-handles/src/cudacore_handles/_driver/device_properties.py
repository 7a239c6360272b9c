# SPDX-License-Identifier: Apache-2.0
"""Properties of devices."""

from __future__ import annotations

from typing import Any

from cudacore_handles._base import results
from cudacore_handles._base.attribute import Attribute, HasAttributes
from cudacore_handles._base.errors import check
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import ffi, lib


@public
class DeviceProperties(HasAttributes):
    """Properties and abilities of a device (cuDeviceGetAttribute).

    :attr:`Device.properties` returns it. Each property is one ``CUdevice_attribute``. It is queried at first use and
    then cached, except :attr:`compute_mode`, which an administrator can change at any time. A notebook shows a table of
    all properties.

    Raises
    ------
    CUDAError
        If a property is read that the installed driver is too old for.
    """

    __slots__ = ("_device_id", "_known")
    _made_by = "Device.properties"
    _device_id: int
    _known: dict[int, int]

    def __repr__(self) -> str:
        return f"<DeviceProperties of device {self._device_id}>"

    def _title(self) -> str:
        return f"Properties of device {self._device_id}"

    @classmethod
    def _init(cls, device_id: int) -> DeviceProperties:
        self = cls.__new__(cls)
        self._device_id = device_id
        self._known = {}
        return self

    def _read(self, attribute: Attribute[Any]) -> int:
        value = self._known.get(attribute.number)
        if value is None:
            value = self._query(attribute)
            if attribute.constant:
                self._known[attribute.number] = value
        return value

    def _query(self, attribute: Attribute[Any]) -> int:
        out = ffi.new("int *")
        status = lib.cch_device_attribute(out, attribute.number, self._device_id)
        hint = ""
        if status == results.INVALID_VALUE:
            hint = f"The installed driver does not have the property {attribute.name!r}: update the driver"
        check(status, hint=hint)
        return int(out[0])

    max_threads_per_block: Attribute[int] = Attribute(1, int, "Maximum number of threads per block.")
    max_block_dim_x: Attribute[int] = Attribute(2, int, "Maximum x-dimension of a block, in threads.")
    max_block_dim_y: Attribute[int] = Attribute(3, int, "Maximum y-dimension of a block, in threads.")
    max_block_dim_z: Attribute[int] = Attribute(4, int, "Maximum z-dimension of a block, in threads.")
    max_grid_dim_x: Attribute[int] = Attribute(5, int, "Maximum x-dimension of a grid, in blocks.")
    max_grid_dim_y: Attribute[int] = Attribute(6, int, "Maximum y-dimension of a grid, in blocks.")
    max_grid_dim_z: Attribute[int] = Attribute(7, int, "Maximum z-dimension of a grid, in blocks.")
    max_shared_memory_per_block: Attribute[int] = Attribute(8, int, "Maximum shared memory per block, in bytes.")
    total_constant_memory: Attribute[int] = Attribute(9, int, "Memory for ``__constant__`` variables, in bytes.")
    warp_size: Attribute[int] = Attribute(10, int, "Number of threads in a warp.")
    max_pitch: Attribute[int] = Attribute(11, int, "Maximum pitch of memory copies, in bytes.")
    maximum_texture1d_width: Attribute[int] = Attribute(21, int, "Maximum width of a 1D texture.")
    maximum_texture1d_linear_width: Attribute[int] = Attribute(
        69, int, "Maximum width of a 1D texture on linear memory; deprecated by CUDA."
    )
    maximum_texture1d_mipmapped_width: Attribute[int] = Attribute(77, int, "Maximum width of a mipmapped 1D texture.")
    maximum_texture2d_width: Attribute[int] = Attribute(22, int, "Maximum width of a 2D texture.")
    maximum_texture2d_height: Attribute[int] = Attribute(23, int, "Maximum height of a 2D texture.")
    maximum_texture2d_linear_width: Attribute[int] = Attribute(
        70, int, "Maximum width of a 2D texture on linear memory."
    )
    maximum_texture2d_linear_height: Attribute[int] = Attribute(
        71, int, "Maximum height of a 2D texture on linear memory."
    )
    maximum_texture2d_linear_pitch: Attribute[int] = Attribute(
        72, int, "Maximum pitch of a 2D texture on linear memory, in bytes."
    )
    maximum_texture2d_mipmapped_width: Attribute[int] = Attribute(73, int, "Maximum width of a mipmapped 2D texture.")
    maximum_texture2d_mipmapped_height: Attribute[int] = Attribute(74, int, "Maximum height of a mipmapped 2D texture.")
    maximum_texture3d_width: Attribute[int] = Attribute(24, int, "Maximum width of a 3D texture.")
    maximum_texture3d_height: Attribute[int] = Attribute(25, int, "Maximum height of a 3D texture.")
    maximum_texture3d_depth: Attribute[int] = Attribute(26, int, "Maximum depth of a 3D texture.")
    maximum_texture3d_width_alternate: Attribute[int] = Attribute(
        47, int, "Maximum width of a 3D texture in the alternate limits; 0 without them."
    )
    maximum_texture3d_height_alternate: Attribute[int] = Attribute(
        48, int, "Maximum height of a 3D texture in the alternate limits; 0 without them."
    )
    maximum_texture3d_depth_alternate: Attribute[int] = Attribute(
        49, int, "Maximum depth of a 3D texture in the alternate limits; 0 without them."
    )
    maximum_texturecubemap_width: Attribute[int] = Attribute(52, int, "Maximum width and height of a cubemap texture.")
    maximum_texture1d_layered_width: Attribute[int] = Attribute(42, int, "Maximum width of a layered 1D texture.")
    maximum_texture1d_layered_layers: Attribute[int] = Attribute(
        43, int, "Maximum number of layers of a layered 1D texture."
    )
    maximum_texture2d_layered_width: Attribute[int] = Attribute(27, int, "Maximum width of a layered 2D texture.")
    maximum_texture2d_layered_height: Attribute[int] = Attribute(28, int, "Maximum height of a layered 2D texture.")
    maximum_texture2d_layered_layers: Attribute[int] = Attribute(
        29, int, "Maximum number of layers of a layered 2D texture."
    )
    maximum_texturecubemap_layered_width: Attribute[int] = Attribute(
        53, int, "Maximum width and height of a layered cubemap texture."
    )
    maximum_texturecubemap_layered_layers: Attribute[int] = Attribute(
        54, int, "Maximum number of layers of a layered cubemap texture."
    )
    maximum_surface1d_width: Attribute[int] = Attribute(55, int, "Maximum width of a 1D surface.")
    maximum_surface2d_width: Attribute[int] = Attribute(56, int, "Maximum width of a 2D surface.")
    maximum_surface2d_height: Attribute[int] = Attribute(57, int, "Maximum height of a 2D surface.")
    maximum_surface3d_width: Attribute[int] = Attribute(58, int, "Maximum width of a 3D surface.")
    maximum_surface3d_height: Attribute[int] = Attribute(59, int, "Maximum height of a 3D surface.")
    maximum_surface3d_depth: Attribute[int] = Attribute(60, int, "Maximum depth of a 3D surface.")
    maximum_surface1d_layered_width: Attribute[int] = Attribute(61, int, "Maximum width of a layered 1D surface.")
    maximum_surface1d_layered_layers: Attribute[int] = Attribute(
        62, int, "Maximum number of layers of a layered 1D surface."
    )
    maximum_surface2d_layered_width: Attribute[int] = Attribute(63, int, "Maximum width of a layered 2D surface.")
    maximum_surface2d_layered_height: Attribute[int] = Attribute(64, int, "Maximum height of a layered 2D surface.")
    maximum_surface2d_layered_layers: Attribute[int] = Attribute(
        65, int, "Maximum number of layers of a layered 2D surface."
    )
    maximum_surfacecubemap_width: Attribute[int] = Attribute(66, int, "Maximum width of a cubemap surface.")
    maximum_surfacecubemap_layered_width: Attribute[int] = Attribute(
        67, int, "Maximum width of a layered cubemap surface."
    )
    maximum_surfacecubemap_layered_layers: Attribute[int] = Attribute(
        68, int, "Maximum number of layers of a layered cubemap surface."
    )
    max_registers_per_block: Attribute[int] = Attribute(12, int, "Maximum number of 32-bit registers per block.")
    clock_rate: Attribute[int] = Attribute(13, int, "Typical clock frequency, in kilohertz.")
    texture_alignment: Attribute[int] = Attribute(14, int, "Alignment that textures need, in bytes.")
    texture_pitch_alignment: Attribute[int] = Attribute(
        51, int, "Alignment that the pitch of 2D textures on linear memory needs, in bytes."
    )
    gpu_overlap: Attribute[bool] = Attribute(
        15, bool, "Whether memory can be copied while a kernel runs; :attr:`async_engine_count` says more."
    )
    multiprocessor_count: Attribute[int] = Attribute(16, int, "Number of multiprocessors.")
    kernel_exec_timeout: Attribute[bool] = Attribute(17, bool, "Whether the run time of kernels is limited.")
    integrated: Attribute[bool] = Attribute(18, bool, "Whether the device is integrated with the host memory.")
    can_map_host_memory: Attribute[bool] = Attribute(
        19, bool, "Whether host memory can be mapped into the address space of CUDA."
    )
    compute_mode: Attribute[int] = Attribute(
        20, int, "Compute mode, a ``CUcomputemode``: 0 default, 2 prohibited, 3 one process at a time.", constant=False
    )
    concurrent_kernels: Attribute[bool] = Attribute(31, bool, "Whether several kernels can run at once.")
    ecc_enabled: Attribute[bool] = Attribute(32, bool, "Whether error correction is on.")
    pci_bus_id: Attribute[int] = Attribute(33, int, "PCI bus number; :attr:`Device.pci_bus_id` is the whole address.")
    pci_device_id: Attribute[int] = Attribute(34, int, "PCI device (slot) number.")
    pci_domain_id: Attribute[int] = Attribute(50, int, "PCI domain number.")
    tcc_driver: Attribute[bool] = Attribute(35, bool, "Whether the device uses the TCC driver model of Windows.")
    memory_clock_rate: Attribute[int] = Attribute(36, int, "Peak clock frequency of the memory, in kilohertz.")
    global_memory_bus_width: Attribute[int] = Attribute(37, int, "Width of the memory bus, in bits.")
    l2_cache_size: Attribute[int] = Attribute(38, int, "Size of the L2 cache, in bytes.")
    max_threads_per_multiprocessor: Attribute[int] = Attribute(
        39, int, "Maximum number of resident threads per multiprocessor."
    )
    unified_addressing: Attribute[bool] = Attribute(41, bool, "Whether device and host share one address space.")
    compute_capability_major: Attribute[int] = Attribute(75, int, "Major number of the compute capability.")
    compute_capability_minor: Attribute[int] = Attribute(76, int, "Minor number of the compute capability.")
    global_l1_cache_supported: Attribute[bool] = Attribute(79, bool, "Whether globals can be cached in L1.")
    local_l1_cache_supported: Attribute[bool] = Attribute(80, bool, "Whether locals can be cached in L1.")
    max_shared_memory_per_multiprocessor: Attribute[int] = Attribute(
        81, int, "Maximum shared memory per multiprocessor, in bytes."
    )
    max_registers_per_multiprocessor: Attribute[int] = Attribute(
        82, int, "Maximum number of 32-bit registers per multiprocessor."
    )
    managed_memory: Attribute[bool] = Attribute(83, bool, "Whether managed memory can be allocated.")
    multi_gpu_board: Attribute[bool] = Attribute(84, bool, "Whether the device is on a board with other GPUs.")
    multi_gpu_board_group_id: Attribute[int] = Attribute(85, int, "Number that the GPUs of one board have in common.")
    host_native_atomic_supported: Attribute[bool] = Attribute(
        86, bool, "Whether the link to the host supports all native atomic operations."
    )
    single_to_double_precision_perf_ratio: Attribute[int] = Attribute(
        87, int, "Single-precision throughput as a multiple of double-precision throughput."
    )
    pageable_memory_access: Attribute[bool] = Attribute(
        88, bool, "Whether the device can use pageable host memory coherently, without registering it."
    )
    concurrent_managed_access: Attribute[bool] = Attribute(
        89, bool, "Whether device and host can use managed memory at the same time."
    )
    compute_preemption_supported: Attribute[bool] = Attribute(90, bool, "Whether a running kernel can be preempted.")
    can_use_host_pointer_for_registered_mem: Attribute[bool] = Attribute(
        91, bool, "Whether registered host memory has the same address on the device as on the host."
    )
    cooperative_launch: Attribute[bool] = Attribute(95, bool, "Whether kernels can be launched cooperatively.")
    max_shared_memory_per_block_optin: Attribute[int] = Attribute(
        97, int, "Maximum shared memory per block for kernels that opt in to more than the portable limit, in bytes."
    )
    pageable_memory_access_uses_host_page_tables: Attribute[bool] = Attribute(
        100, bool, "Whether pageable memory is accessed by the host's page tables."
    )
    direct_managed_mem_access_from_host: Attribute[bool] = Attribute(
        101, bool, "Whether the host can use managed memory on the device without migration."
    )
    virtual_memory_management_supported: Attribute[bool] = Attribute(
        102, bool, "Whether virtual memory management (``cuMemCreate``, ``cuMemMap``) is supported."
    )
    handle_type_posix_file_descriptor_supported: Attribute[bool] = Attribute(
        103, bool, "Whether memory can be exported as a POSIX file descriptor."
    )
    handle_type_win32_handle_supported: Attribute[bool] = Attribute(
        104, bool, "Whether memory can be exported as a Win32 NT handle."
    )
    handle_type_win32_kmt_handle_supported: Attribute[bool] = Attribute(
        105, bool, "Whether memory can be exported as a Win32 KMT handle."
    )
    max_blocks_per_multiprocessor: Attribute[int] = Attribute(
        106, int, "Maximum number of resident blocks per multiprocessor."
    )
    generic_compression_supported: Attribute[bool] = Attribute(107, bool, "Whether memory can be compressed.")
    max_persisting_l2_cache_size: Attribute[int] = Attribute(
        108, int, "Maximum size of the L2 cache that can be set aside for persisting lines, in bytes."
    )
    max_access_policy_window_size: Attribute[int] = Attribute(
        109, int, "Maximum size of an access policy window, in bytes."
    )
    gpu_direct_rdma_with_cuda_vmm_supported: Attribute[bool] = Attribute(
        110, bool, "Whether ``cuMemCreate`` can make memory for GPUDirect RDMA."
    )
    reserved_shared_memory_per_block: Attribute[int] = Attribute(
        111, int, "Shared memory that CUDA reserves in each block, in bytes."
    )
    sparse_cuda_array_supported: Attribute[bool] = Attribute(
        112, bool, "Whether sparse arrays and sparse mipmapped arrays are supported."
    )
    read_only_host_register_supported: Attribute[bool] = Attribute(
        113, bool, "Whether host memory can be registered as read-only for the device."
    )
    memory_pools_supported: Attribute[bool] = Attribute(
        115, bool, "Whether memory pools and stream-ordered allocation are supported."
    )
    gpu_direct_rdma_supported: Attribute[bool] = Attribute(116, bool, "Whether GPUDirect RDMA is supported.")
    gpu_direct_rdma_flush_writes_options: Attribute[int] = Attribute(
        117, int, "How GPUDirect RDMA writes can be flushed: bits of ``CUflushGPUDirectRDMAWritesOptions``."
    )
    gpu_direct_rdma_writes_ordering: Attribute[int] = Attribute(
        118, int, "Scope within which GPUDirect RDMA writes need no flush: a ``CUGPUDirectRDMAWritesOrdering``."
    )
    mempool_supported_handle_types: Attribute[int] = Attribute(
        119, int, "Handles by which memory pools can be shared: bits of ``CUmemAllocationHandleType``."
    )
    deferred_mapping_cuda_array_supported: Attribute[bool] = Attribute(
        121, bool, "Whether arrays can be mapped later than they are made."
    )
    numa_config: Attribute[int] = Attribute(
        130, int, "NUMA configuration of the device memory: a ``CUdeviceNumaConfig``."
    )
    numa_id: Attribute[int] = Attribute(131, int, "NUMA node of the device memory; -1 for none.")
    multicast_supported: Attribute[bool] = Attribute(132, bool, "Whether the switch can multicast and reduce.")
    surface_alignment: Attribute[int] = Attribute(30, int, "Alignment that surfaces need, in bytes.")
    async_engine_count: Attribute[int] = Attribute(40, int, "Number of engines that copy memory while kernels run.")
    can_tex2d_gather: Attribute[bool] = Attribute(
        44, bool, "Whether 2D texture gather is supported; deprecated by CUDA."
    )
    maximum_texture2d_gather_width: Attribute[int] = Attribute(45, int, "Maximum width of a 2D texture for gather.")
    maximum_texture2d_gather_height: Attribute[int] = Attribute(46, int, "Maximum height of a 2D texture for gather.")
    stream_priorities_supported: Attribute[bool] = Attribute(78, bool, "Whether streams can have priorities.")
    can_flush_remote_writes: Attribute[bool] = Attribute(
        98, bool, "Whether stream memory operations can flush remote writes."
    )
    host_register_supported: Attribute[bool] = Attribute(99, bool, "Whether host memory can be registered.")
    timeline_semaphore_interop_supported: Attribute[bool] = Attribute(
        114, bool, "Whether external timeline semaphores are supported."
    )
    cluster_launch: Attribute[bool] = Attribute(120, bool, "Whether blocks can be launched in clusters.")
    can_use_64_bit_stream_mem_ops: Attribute[bool] = Attribute(
        122, bool, "Whether stream memory operations can have 64 bits."
    )
    can_use_stream_wait_value_nor: Attribute[bool] = Attribute(
        123, bool, "Whether stream memory operations support ``CU_STREAM_WAIT_VALUE_NOR``."
    )
    dma_buf_supported: Attribute[bool] = Attribute(124, bool, "Whether memory can be shared by dma_buf.")
    ipc_event_supported: Attribute[bool] = Attribute(125, bool, "Whether events can be shared between processes.")
    mem_sync_domain_count: Attribute[int] = Attribute(126, int, "Number of memory synchronization domains.")
    tensor_map_access_supported: Attribute[bool] = Attribute(
        127, bool, "Whether memory can be accessed by tensor maps."
    )
    handle_type_fabric_supported: Attribute[bool] = Attribute(
        128, bool, "Whether memory can be exported as a fabric handle."
    )
    unified_function_pointers: Attribute[bool] = Attribute(
        129, bool, "Whether function pointers are the same on all devices."
    )
    mps_enabled: Attribute[bool] = Attribute(133, bool, "Whether contexts of the device are shared by MPS.")
    host_numa_id: Attribute[int] = Attribute(
        134, int, "NUMA node of the host that is closest to the device; -1 for none."
    )
    d3d12_cig_supported: Attribute[bool] = Attribute(
        135, bool, "Whether CUDA in graphics is supported with Direct3D 12."
    )
    mem_decompress_algorithm_mask: Attribute[int] = Attribute(
        136, int, "Algorithms of the decompression engine: bits of ``CUmemDecompressAlgorithm``."
    )
    mem_decompress_maximum_length: Attribute[int] = Attribute(
        137, int, "Maximum length of one decompression, in bytes."
    )
    vulkan_cig_supported: Attribute[bool] = Attribute(138, bool, "Whether CUDA in graphics is supported with Vulkan.")
    gpu_pci_device_id: Attribute[int] = Attribute(
        139, int, "PCI device ID in the high and PCI vendor ID in the low 16 bits."
    )
    gpu_pci_subsystem_id: Attribute[int] = Attribute(
        140, int, "PCI subsystem ID in the high and PCI subsystem vendor ID in the low 16 bits."
    )
    host_numa_virtual_memory_management_supported: Attribute[bool] = Attribute(
        141, bool, "Whether virtual memory management can place memory on a NUMA node of the host."
    )
    host_numa_memory_pools_supported: Attribute[bool] = Attribute(
        142, bool, "Whether memory pools can be on a NUMA node of the host."
    )
    host_numa_multinode_ipc_supported: Attribute[bool] = Attribute(
        143, bool, "Whether memory on a NUMA node of the host can be shared between the nodes of a multi-node system."
    )
    host_memory_pools_supported: Attribute[bool] = Attribute(144, bool, "Whether memory pools can be in host memory.")
    host_virtual_memory_management_supported: Attribute[bool] = Attribute(
        145, bool, "Whether virtual memory management can place memory on the host."
    )
    host_alloc_dma_buf_supported: Attribute[bool] = Attribute(
        146, bool, "Whether page-locked host memory can be shared by dma_buf."
    )
    only_partial_host_native_atomic_supported: Attribute[bool] = Attribute(
        147, bool, "Whether the link to the host supports only some native atomic operations."
    )
