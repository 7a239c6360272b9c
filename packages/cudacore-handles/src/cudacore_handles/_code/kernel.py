# SPDX-License-Identifier: Apache-2.0
"""Kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.address import as_address
from cudacore_handles._base.driver_calls import driver_status
from cudacore_handles._base.errors import CUDAError, bindings, check, last_error, raise_status
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._base.names import check_type, shorten
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._code.param_kinds import ParamInfo, count_parameters, pack_layout, parameters_of, unpack_layout
from cudacore_handles._driver.device import Device
from cudacore_handles.typing import KernelArgumentType

if TYPE_CHECKING:
    from cuda.bindings import driver

    from cudacore_handles._code.kernel_attributes import KernelAttributes, KernelOccupancy
    from cudacore_handles._code.object_code import ObjectCode
    from cudacore_handles._driver.context import Context
    from cudacore_handles._launch.launch_config import LaunchConfig
    from cudacore_handles._native import PreparedLaunch
    from cudacore_handles._stream.stream import IsStreamType, Stream


class Kernel(_native.KernelHandle, Closing, Made):
    """A kernel, which keeps its code loaded.

    Kernels come from :meth:`ObjectCode.get_kernel`; :meth:`from_handle` borrows one. Two kernels are equal if they are
    the same CUDA kernel.

    Examples
    --------
    >>> code = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    >>> twice = core.Program(code, "c++").compile("cubin").get_kernel("twice")
    >>> twice.num_arguments
    1
    >>> twice.attributes.max_threads_per_block
    1024
    """

    __slots__ = ("__weakref__", "_known", "_warned")
    _made_by = "ObjectCode.get_kernel() or Kernel.from_handle()"
    # The lowered name and the signature (see ptx_signatures.py); set only if the kernel was made from an ObjectCode.
    _known: tuple[str | None, str | None]
    _warned: bool  # True after the warning about unknown parameters; not set before it

    if TYPE_CHECKING:

        @property
        def attributes(self) -> KernelAttributes: ...
        @property
        def occupancy(self) -> KernelOccupancy: ...

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "pickle the ObjectCode, and get the kernel from it")

    def __repr__(self) -> str:
        name = f" name={shorten(self._name)}" if self._name else ""
        return f"<Kernel handle={self._raw:#x}{name}>"

    @classmethod
    def _init(cls, out: Any, name: str | None = None) -> Kernel:
        """Make a kernel for the ``cch_kernel`` in an out-parameter; see :func:`.adopt`."""
        self = adopt(cls, out)
        self._name = name
        return self

    @staticmethod
    def from_handle(handle: int, mod: ObjectCode | None = None) -> Kernel:
        """Borrow a kernel by its address.

        Parameters
        ----------
        handle : int
            Address of a ``CUkernel``.
        mod : ObjectCode, optional
            The code of the kernel, which is kept loaded. Default: the code that the driver reports, if this library
            loaded it. Otherwise the caller must make sure that the kernel outlives the object. Drivers before CUDA 12.5
            do not report the code. Before 12.4, the parameters of a kernel are known only if `mod` is given.

        Raises
        ------
        TypeError, ValueError
            If an argument has a wrong type, the address is NULL, or the kernel is not from `mod`.
        """
        address = as_address(handle, "handle must be an int, the kernel's address")
        if address == 0:
            raise ValueError("handle must be an int, the kernel's address; 0 is not an address")
        library = None
        if mod is not None:
            from cudacore_handles._code.object_code import ObjectCode

            check_type("mod", mod, ObjectCode)
            library = mod._box or mod._load()
        kernel = _native.make_kernel(library, address)
        if not isinstance(kernel, Kernel):
            if mod is not None and kernel == lib.CCH_EMISMATCH:
                raise ValueError(f"handle is {address:#x}, and mod is {mod!r}: {last_error(kernel).meaning}")
            raise_status(kernel)
        if mod is not None:
            mod._state_parameters(kernel)
        return kernel

    def prepare(
        self, stream: Stream | IsStreamType, config: LaunchConfig, *kernel_args: KernelArgumentType
    ) -> PreparedLaunch:
        """Prepare launches of this kernel with one stream, one configuration and arguments of the same types.

        Parameters
        ----------
        stream : Stream
            The stream of the launches.
        config : LaunchConfig
            The configuration; later changes to it have no effect.
        *kernel_args
            The arguments of the first launch.
        """
        from cudacore_handles._launch.launch import prepare

        return prepare(stream, config, self, kernel_args)

    def _query_layout(self, context: Context) -> bytes:
        """Query the kernel's parameters from the driver, in the given context; store and return the layout."""
        found = self._keep_layout(None)
        if found is None:
            out, count = ffi.new("const cch_param **"), ffi.new("size_t *")
            check(lib.cch_kernel_params(out, count, hold(self), hold(context)))
            places = [(param.offset, param.size) for param in out[0][0 : count[0]]]
            symbol, signature = getattr(self, "_known", (None, None))
            found = pack_layout(parameters_of(self._symbol() if symbol is None else symbol, signature, places))
            if symbol is not None:
                found = self._keep_layout(found) or found
        self._layout = found
        layout = self._layout  # another thread may have been first; then its layout stays
        assert layout is not None
        return layout

    def _keep_layout(self, given: bytes | None) -> bytes | None:
        """Return the layout that the kernel's box keeps; if it keeps none, the box keeps the given one from now on.

        Later objects for the kernel, such as that of a node, know no code, and use this layout.
        """
        out, size = ffi.new("const void **"), ffi.new("size_t *")
        check(lib.cch_kernel_layout(out, size, hold(self), ffi.NULL if given is None else given, len(given or b"")))
        return bytes(ffi.buffer(out[0], size[0])) if out[0] else None

    def _symbol(self) -> str | None:
        """Return the kernel's lowered name (cuKernelGetName); None if the driver has no name for it."""
        name = ffi.new("const char **")
        if driver_status("cuKernelGetName", name, self) or not name[0]:
            return None
        return ffi.string(name[0]).decode("utf-8", "backslashreplace")

    def _known_layout(self) -> bytes:
        layout = self._layout
        return self._query_layout(Device().context) if layout is None else layout

    def _ready(self, context: Context, args: Sequence[object], *, stacklevel: int) -> Kernel:
        """Return this kernel with its layout; if that is unknown, a copy with a layout derived from `args`.

        `stacklevel` is the stack level of the caller's warnings.
        """
        if self._layout is None:
            try:
                self._query_layout(context)
            except CUDAError as error:
                if error.code != lib.CCH_ENOSYMBOL:
                    raise
                return self._packed_by(args, stacklevel=stacklevel + 1)
        return self

    def _packed_by(self, args: Sequence[object], *, stacklevel: int) -> Kernel:
        """Make another object for this kernel, with a layout that is derived from the arguments of a launch."""
        from cudacore_handles._code.parameters import by_values, state, warn_unknown

        if not getattr(self, "_warned", False):
            self._warned = True
            warn_unknown(self, stacklevel=stacklevel + 1)
        out = out_box("cch_kernel")
        raw, box = ffi.cast("CUkernel", self._raw), hold(self)
        check(_native.call_owning(self, lib.cch_kernel_wrap, out, raw, lib.cch_kernel_library(box)))
        made = Kernel._init(out, self._name)
        suggested = by_values(args)
        state(hold(made), suggested)
        made._layout = pack_layout(suggested)
        return made

    def _allow_shared(self, nbytes: int, device: Device) -> None:
        """Make sure that launches on a device may use a given amount of dynamic shared memory.

        By default, a kernel may use 48 KiB minus its static shared memory. More must be requested from the driver.
        """
        attributes = self.attributes[device]
        allowed = attributes.max_dynamic_shared_size_bytes
        if nbytes > allowed:
            limit = attributes._max_dynamic_shared()
            if nbytes > limit:
                raise ValueError(
                    f"LaunchConfig.shmem_size is {nbytes}; {self!r} can have at most {limit} bytes of dynamic shared "
                    f"memory on {device.name}"
                )
            attributes._allow_dynamic_shared(nbytes)
        self._set_shared_allowed(max(nbytes, allowed), device.device_id)

    @property
    def num_arguments(self) -> int:
        """int: Number of parameters (cuKernelGetParamInfo); see :attr:`arguments_info` for drivers before CUDA 12.4."""
        return count_parameters(self._known_layout())

    @property
    def arguments_info(self) -> list[ParamInfo]:
        """list of ParamInfo: Offset, size and kind of each parameter (cuKernelGetParamInfo).

        Drivers before CUDA 12.4 do not report parameters. With such a driver, they are known for kernels from an
        :class:`ObjectCode` that can be read. For other kernels, such as those from :meth:`from_handle`, a
        :class:`CUDAError` is raised.

        Offsets and sizes are in bytes. Kinds are known for PTX, for code that :class:`~cudacore_compile.Program`
        compiled, and for kernels with C++ names. For other ``extern "C"`` kernels they are unknown.
        """
        return unpack_layout(self._known_layout())

    @property
    def handle(self) -> driver.CUkernel:
        """cuda.bindings.driver.CUkernel: The kernel for ``cuda.bindings``."""
        hold(self)
        return bindings().CUkernel(self._raw)
