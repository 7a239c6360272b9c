# SPDX-License-Identifier: Apache-2.0
"""Properties of devices."""

from __future__ import annotations

from typing import Any

from cudacore_handles._base import results
from cudacore_handles._base.attribute import Attribute, Flag, HasAttributes, Number
from cudacore_handles._base.errors import result_of
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import lib


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

    __slots__ = ("__dict__", "_device_id")
    _made_by = "Device.properties"

    def __repr__(self) -> str:
        return f"<DeviceProperties of device {self._device_id}>"

    def _title(self) -> str:
        return f"Properties of device {self._device_id}"

    def _read(self, attribute: Attribute[Any]) -> int:
        hint = f"The installed driver does not have the property {attribute.name!r}: update the driver"
        hints = {results.INVALID_VALUE: hint}
        return result_of(lib.cch_device_attribute, attribute.number, self._device_id, hints=hints)

    max_threads_per_block: Number = Number(1, "Maximum number of threads per block.")
    max_block_dim_x: Number = Number(2, "Maximum x-dimension of a block, in threads.")
    max_block_dim_y: Number = Number(3, "Maximum y-dimension of a block, in threads.")
    max_block_dim_z: Number = Number(4, "Maximum z-dimension of a block, in threads.")
    max_grid_dim_x: Number = Number(5, "Maximum x-dimension of a grid, in blocks.")
    max_grid_dim_y: Number = Number(6, "Maximum y-dimension of a grid, in blocks.")
    max_grid_dim_z: Number = Number(7, "Maximum z-dimension of a grid, in blocks.")
    max_shared_memory_per_block: Number = Number(8, "Maximum shared memory per block, in bytes.")
    total_constant_memory: Number = Number(9, "Memory for ``__constant__`` variables, in bytes.")
    warp_size: Number = Number(10, "Number of threads in a warp.")
    max_pitch: Number = Number(11, "Maximum pitch of memory copies, in bytes.")
    maximum_texture1d_width: Number = Number(21, "Maximum width of a 1D texture.")
    maximum_texture1d_linear_width: Number = Number(
        69, "Maximum width of a 1D texture on linear memory; deprecated by CUDA."
    )
    maximum_texture1d_mipmapped_width: Number = Number(77, "Maximum width of a mipmapped 1D texture.")
    maximum_texture2d_width: Number = Number(22, "Maximum width of a 2D texture.")
    maximum_texture2d_height: Number = Number(23, "Maximum height of a 2D texture.")
    maximum_texture2d_linear_width: Number = Number(70, "Maximum width of a 2D texture on linear memory.")
    maximum_texture2d_linear_height: Number = Number(71, "Maximum height of a 2D texture on linear memory.")
    maximum_texture2d_linear_pitch: Number = Number(72, "Maximum pitch of a 2D texture on linear memory, in bytes.")
    maximum_texture2d_mipmapped_width: Number = Number(73, "Maximum width of a mipmapped 2D texture.")
    maximum_texture2d_mipmapped_height: Number = Number(74, "Maximum height of a mipmapped 2D texture.")
    maximum_texture3d_width: Number = Number(24, "Maximum width of a 3D texture.")
    maximum_texture3d_height: Number = Number(25, "Maximum height of a 3D texture.")
    maximum_texture3d_depth: Number = Number(26, "Maximum depth of a 3D texture.")
    maximum_texture3d_width_alternate: Number = Number(
        47, "Maximum width of a 3D texture in the alternate limits; 0 without them."
    )
    maximum_texture3d_height_alternate: Number = Number(
        48, "Maximum height of a 3D texture in the alternate limits; 0 without them."
    )
    maximum_texture3d_depth_alternate: Number = Number(
        49, "Maximum depth of a 3D texture in the alternate limits; 0 without them."
    )
    maximum_texturecubemap_width: Number = Number(52, "Maximum width and height of a cubemap texture.")
    maximum_texture1d_layered_width: Number = Number(42, "Maximum width of a layered 1D texture.")
    maximum_texture1d_layered_layers: Number = Number(43, "Maximum number of layers of a layered 1D texture.")
    maximum_texture2d_layered_width: Number = Number(27, "Maximum width of a layered 2D texture.")
    maximum_texture2d_layered_height: Number = Number(28, "Maximum height of a layered 2D texture.")
    maximum_texture2d_layered_layers: Number = Number(29, "Maximum number of layers of a layered 2D texture.")
    maximum_texturecubemap_layered_width: Number = Number(53, "Maximum width and height of a layered cubemap texture.")
    maximum_texturecubemap_layered_layers: Number = Number(54, "Maximum number of layers of a layered cubemap texture.")
    maximum_surface1d_width: Number = Number(55, "Maximum width of a 1D surface.")
    maximum_surface2d_width: Number = Number(56, "Maximum width of a 2D surface.")
    maximum_surface2d_height: Number = Number(57, "Maximum height of a 2D surface.")
    maximum_surface3d_width: Number = Number(58, "Maximum width of a 3D surface.")
    maximum_surface3d_height: Number = Number(59, "Maximum height of a 3D surface.")
    maximum_surface3d_depth: Number = Number(60, "Maximum depth of a 3D surface.")
    maximum_surface1d_layered_width: Number = Number(61, "Maximum width of a layered 1D surface.")
    maximum_surface1d_layered_layers: Number = Number(62, "Maximum number of layers of a layered 1D surface.")
    maximum_surface2d_layered_width: Number = Number(63, "Maximum width of a layered 2D surface.")
    maximum_surface2d_layered_height: Number = Number(64, "Maximum height of a layered 2D surface.")
    maximum_surface2d_layered_layers: Number = Number(65, "Maximum number of layers of a layered 2D surface.")
    maximum_surfacecubemap_width: Number = Number(66, "Maximum width of a cubemap surface.")
    maximum_surfacecubemap_layered_width: Number = Number(67, "Maximum width of a layered cubemap surface.")
    maximum_surfacecubemap_layered_layers: Number = Number(68, "Maximum number of layers of a layered cubemap surface.")
    max_registers_per_block: Number = Number(12, "Maximum number of 32-bit registers per block.")
    clock_rate: Number = Number(13, "Typical clock frequency, in kilohertz.")
    texture_alignment: Number = Number(14, "Alignment that textures need, in bytes.")
    texture_pitch_alignment: Number = Number(
        51, "Alignment that the pitch of 2D textures on linear memory needs, in bytes."
    )
    gpu_overlap: Flag = Flag(
        15, "Whether memory can be copied while a kernel runs; :attr:`async_engine_count` says more."
    )
    multiprocessor_count: Number = Number(16, "Number of multiprocessors.")
    kernel_exec_timeout: Flag = Flag(17, "Whether the run time of kernels is limited.")
    integrated: Flag = Flag(18, "Whether the device is integrated with the host memory.")
    can_map_host_memory: Flag = Flag(19, "Whether host memory can be mapped into the address space of CUDA.")
    compute_mode: Number = Number(
        20, "Compute mode, a ``CUcomputemode``: 0 default, 2 prohibited, 3 one process at a time.", constant=False
    )
    concurrent_kernels: Flag = Flag(31, "Whether several kernels can run at once.")
    ecc_enabled: Flag = Flag(32, "Whether error correction is on.")
    pci_bus_id: Number = Number(33, "PCI bus number; :attr:`Device.pci_bus_id` is the whole address.")
    pci_device_id: Number = Number(34, "PCI device (slot) number.")
    pci_domain_id: Number = Number(50, "PCI domain number.")
    tcc_driver: Flag = Flag(35, "Whether the device uses the TCC driver model of Windows.")
    memory_clock_rate: Number = Number(36, "Peak clock frequency of the memory, in kilohertz.")
    global_memory_bus_width: Number = Number(37, "Width of the memory bus, in bits.")
    l2_cache_size: Number = Number(38, "Size of the L2 cache, in bytes.")
    max_threads_per_multiprocessor: Number = Number(39, "Maximum number of resident threads per multiprocessor.")
    unified_addressing: Flag = Flag(41, "Whether device and host share one address space.")
    compute_capability_major: Number = Number(75, "Major number of the compute capability.")
    compute_capability_minor: Number = Number(76, "Minor number of the compute capability.")
    global_l1_cache_supported: Flag = Flag(79, "Whether globals can be cached in L1.")
    local_l1_cache_supported: Flag = Flag(80, "Whether locals can be cached in L1.")
    max_shared_memory_per_multiprocessor: Number = Number(81, "Maximum shared memory per multiprocessor, in bytes.")
    max_registers_per_multiprocessor: Number = Number(82, "Maximum number of 32-bit registers per multiprocessor.")
    managed_memory: Flag = Flag(83, "Whether managed memory can be allocated.")
    multi_gpu_board: Flag = Flag(84, "Whether the device is on a board with other GPUs.")
    multi_gpu_board_group_id: Number = Number(85, "Number that the GPUs of one board have in common.")
    host_native_atomic_supported: Flag = Flag(86, "Whether the link to the host supports all native atomic operations.")
    single_to_double_precision_perf_ratio: Number = Number(
        87, "Single-precision throughput as a multiple of double-precision throughput."
    )
    pageable_memory_access: Flag = Flag(
        88, "Whether the device can use pageable host memory coherently, without registering it."
    )
    concurrent_managed_access: Flag = Flag(89, "Whether device and host can use managed memory at the same time.")
    compute_preemption_supported: Flag = Flag(90, "Whether a running kernel can be preempted.")
    can_use_host_pointer_for_registered_mem: Flag = Flag(
        91, "Whether registered host memory has the same address on the device as on the host."
    )
    cooperative_launch: Flag = Flag(95, "Whether kernels can be launched cooperatively.")
    max_shared_memory_per_block_optin: Number = Number(
        97, "Maximum shared memory per block for kernels that opt in to more than the portable limit, in bytes."
    )
    pageable_memory_access_uses_host_page_tables: Flag = Flag(
        100, "Whether pageable memory is accessed by the host's page tables."
    )
    direct_managed_mem_access_from_host: Flag = Flag(
        101, "Whether the host can use managed memory on the device without migration."
    )
    virtual_memory_management_supported: Flag = Flag(
        102, "Whether virtual memory management (``cuMemCreate``, ``cuMemMap``) is supported."
    )
    handle_type_posix_file_descriptor_supported: Flag = Flag(
        103, "Whether memory can be exported as a POSIX file descriptor."
    )
    handle_type_win32_handle_supported: Flag = Flag(104, "Whether memory can be exported as a Win32 NT handle.")
    handle_type_win32_kmt_handle_supported: Flag = Flag(105, "Whether memory can be exported as a Win32 KMT handle.")
    max_blocks_per_multiprocessor: Number = Number(106, "Maximum number of resident blocks per multiprocessor.")
    generic_compression_supported: Flag = Flag(107, "Whether memory can be compressed.")
    max_persisting_l2_cache_size: Number = Number(
        108, "Maximum size of the L2 cache that can be set aside for persisting lines, in bytes."
    )
    max_access_policy_window_size: Number = Number(109, "Maximum size of an access policy window, in bytes.")
    gpu_direct_rdma_with_cuda_vmm_supported: Flag = Flag(
        110, "Whether ``cuMemCreate`` can make memory for GPUDirect RDMA."
    )
    reserved_shared_memory_per_block: Number = Number(111, "Shared memory that CUDA reserves in each block, in bytes.")
    sparse_cuda_array_supported: Flag = Flag(112, "Whether sparse arrays and sparse mipmapped arrays are supported.")
    read_only_host_register_supported: Flag = Flag(
        113, "Whether host memory can be registered as read-only for the device."
    )
    memory_pools_supported: Flag = Flag(115, "Whether memory pools and stream-ordered allocation are supported.")
    gpu_direct_rdma_supported: Flag = Flag(116, "Whether GPUDirect RDMA is supported.")
    gpu_direct_rdma_flush_writes_options: Number = Number(
        117, "How GPUDirect RDMA writes can be flushed: bits of ``CUflushGPUDirectRDMAWritesOptions``."
    )
    gpu_direct_rdma_writes_ordering: Number = Number(
        118, "Scope within which GPUDirect RDMA writes need no flush: a ``CUGPUDirectRDMAWritesOrdering``."
    )
    mempool_supported_handle_types: Number = Number(
        119, "Handles by which memory pools can be shared: bits of ``CUmemAllocationHandleType``."
    )
    deferred_mapping_cuda_array_supported: Flag = Flag(121, "Whether arrays can be mapped later than they are made.")
    numa_config: Number = Number(130, "NUMA configuration of the device memory: a ``CUdeviceNumaConfig``.")
    numa_id: Number = Number(131, "NUMA node of the device memory; -1 for none.")
    multicast_supported: Flag = Flag(132, "Whether the switch can multicast and reduce.")
    surface_alignment: Number = Number(30, "Alignment that surfaces need, in bytes.")
    async_engine_count: Number = Number(40, "Number of engines that copy memory while kernels run.")
    can_tex2d_gather: Flag = Flag(44, "Whether 2D texture gather is supported; deprecated by CUDA.")
    maximum_texture2d_gather_width: Number = Number(45, "Maximum width of a 2D texture for gather.")
    maximum_texture2d_gather_height: Number = Number(46, "Maximum height of a 2D texture for gather.")
    stream_priorities_supported: Flag = Flag(78, "Whether streams can have priorities.")
    can_flush_remote_writes: Flag = Flag(98, "Whether stream memory operations can flush remote writes.")
    host_register_supported: Flag = Flag(99, "Whether host memory can be registered.")
    timeline_semaphore_interop_supported: Flag = Flag(114, "Whether external timeline semaphores are supported.")
    cluster_launch: Flag = Flag(120, "Whether blocks can be launched in clusters.")
    can_use_64_bit_stream_mem_ops: Flag = Flag(122, "Whether stream memory operations can have 64 bits.")
    can_use_stream_wait_value_nor: Flag = Flag(
        123, "Whether stream memory operations support ``CU_STREAM_WAIT_VALUE_NOR``."
    )
    dma_buf_supported: Flag = Flag(124, "Whether memory can be shared by dma_buf.")
    ipc_event_supported: Flag = Flag(125, "Whether events can be shared between processes.")
    mem_sync_domain_count: Number = Number(126, "Number of memory synchronization domains.")
    tensor_map_access_supported: Flag = Flag(127, "Whether memory can be accessed by tensor maps.")
    handle_type_fabric_supported: Flag = Flag(128, "Whether memory can be exported as a fabric handle.")
    unified_function_pointers: Flag = Flag(129, "Whether function pointers are the same on all devices.")
    mps_enabled: Flag = Flag(133, "Whether contexts of the device are shared by MPS.")
    host_numa_id: Number = Number(134, "NUMA node of the host that is closest to the device; -1 for none.")
    d3d12_cig_supported: Flag = Flag(135, "Whether CUDA in graphics is supported with Direct3D 12.")
    mem_decompress_algorithm_mask: Number = Number(
        136, "Algorithms of the decompression engine: bits of ``CUmemDecompressAlgorithm``."
    )
    mem_decompress_maximum_length: Number = Number(137, "Maximum length of one decompression, in bytes.")
    vulkan_cig_supported: Flag = Flag(138, "Whether CUDA in graphics is supported with Vulkan.")
    gpu_pci_device_id: Number = Number(139, "PCI device ID in the high and PCI vendor ID in the low 16 bits.")
    gpu_pci_subsystem_id: Number = Number(
        140, "PCI subsystem ID in the high and PCI subsystem vendor ID in the low 16 bits."
    )
    host_numa_virtual_memory_management_supported: Flag = Flag(
        141, "Whether virtual memory management can place memory on a NUMA node of the host."
    )
    host_numa_memory_pools_supported: Flag = Flag(142, "Whether memory pools can be on a NUMA node of the host.")
    host_numa_multinode_ipc_supported: Flag = Flag(
        143, "Whether memory on a NUMA node of the host can be shared between the nodes of a multi-node system."
    )
    host_memory_pools_supported: Flag = Flag(144, "Whether memory pools can be in host memory.")
    host_virtual_memory_management_supported: Flag = Flag(
        145, "Whether virtual memory management can place memory on the host."
    )
    host_alloc_dma_buf_supported: Flag = Flag(146, "Whether page-locked host memory can be shared by dma_buf.")
    only_partial_host_native_atomic_supported: Flag = Flag(
        147, "Whether the link to the host supports only some native atomic operations."
    )
