# SPDX-License-Identifier: Apache-2.0
"""What ``cuda.core`` 1.2 has, so that asking cudacore for it can say whether it does not exist or is not there yet."""

from __future__ import annotations

import sys

CUDA_CORE = {
    "cudacore": frozenset(
        """
        Buffer Context ContextOptions Device DeviceMemoryResource DeviceMemoryResourceOptions DeviceResources Event
        EventOptions GraphMemoryResource GraphicsResource Host Kernel LEGACY_DEFAULT_STREAM LaunchConfig
        LegacyPinnedMemoryResource Linker LinkerOptions ManagedBuffer ManagedMemoryResource
        ManagedMemoryResourceOptions MemoryResource ObjectCode PER_THREAD_DEFAULT_STREAM PinnedMemoryResource
        PinnedMemoryResourceOptions Program ProgramOptions SMResource SMResourceOptions Stream StreamOptions
        TensorMapDescriptor TensorMapDescriptorOptions VirtualMemoryResource VirtualMemoryResourceOptions
        WorkqueueResource WorkqueueResourceOptions checkpoint graph launch system texture typing utils
        """.split()
    ),
    "cudacore.utils": frozenset(
        """
        CopyOptions FileStreamProgramCache InMemoryProgramCache MemcpyOverlapMode MemcpySrcAccessOrder
        ProgramCacheResource StridedMemoryView args_viewable_as_strided_memory copy_batch discard_batch
        discard_prefetch_batch make_program_cache_key prefetch_batch
        """.split()
    ),
    "cudacore.typing": frozenset(
        """
        AddressModeType ArrayFormatType CompilerBackendType DevicePointerType DeviceResourcesType FilterModeType
        GraphConditionalType GraphMemoryType IsStreamType ManagedMemoryLocationType ObjectCodeFormatType PCHStatusType
        ProcessStateType ReadModeType SourceCodeType VirtualMemoryAccessType VirtualMemoryAllocationType
        VirtualMemoryGranularityType VirtualMemoryHandleType VirtualMemoryLocationType WorkqueueSharingScopeType
        """.split()
    ),
}


def message(module: str, name: str) -> str:
    """Return what to say of a name that a module of cudacore does not have."""
    if name not in CUDA_CORE[module]:
        return f"module {module!r} has no attribute {name!r}"
    series = sys.modules["cudacore"].__version__.rpartition(".")[0]
    return f"{module} {series} does not have {name!r} yet ({module.replace('cudacore', 'cuda.core')} 1.2 has it)"


class _Finder:
    """Answers ``from cudacore import texture`` and ``import cudacore.texture``.

    Python replaces the ``AttributeError`` of a module's ``__getattr__`` by an ``ImportError`` of its own, which would
    hide ours; but before that it looks for a submodule of that name, and an ``ImportError`` from there is kept.
    """

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> None:
        module, _, name = fullname.rpartition(".")
        if name in CUDA_CORE.get(module, ()):
            raise ImportError(message(module, name), name=fullname)


def install_finder() -> None:
    """Have failing imports of names that are not there yet say so; the finder is asked only after all others."""
    sys.meta_path.append(_Finder)
