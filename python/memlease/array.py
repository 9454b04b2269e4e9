"""`Array`: a named array, open in this process."""

import sys
from typing import TYPE_CHECKING, Any, Never, TypeVar, overload

from memlease import _core, asynchronous
from memlease.caller import numpy_warnings
from memlease.closing import Closing
from memlease.conversions import CASTINGS, Casting, converted
from memlease.devices import TorchDevice, device_name
from memlease.dtypes import dtype_for_users, numpy_dtype, require_numpy
from memlease.errors import Error, InvalidArgument, Unsupported
from memlease.layouts import require_same
from memlease.sources import source_of
from memlease.usm_runtime import INTERFACE as USM_INTERFACE
from memlease.usm_sources import Destination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Out = TypeVar("Out")

# One element is written to all of an array in place, from this size on: not copied out first.
_LARGE_BYTES = 1 << 20


class Array(_core.Array, Closing):
    """A named array, open in this process.

    `Client.create`, `Client.open` and `Client.wait_for` make them. A handle may be used by any
    threads at once. A context manager that closes it. It pickles as a reference: where it is
    unpickled, on the same machine, the array is opened by its name. What fails there is raised at
    the handle's first use, and tried again. In a forked child a handle opens its array again, at
    its first use there; leases of the parent raise `ForkedClient`.
    """

    __slots__ = ()

    def __init__(self, handle: _core.Array) -> None:
        if not isinstance(handle, _core.Array):
            raise TypeError(
                "memlease.Array cannot be called with these arguments: Client.create, open, "
                "wait_for and put make arrays"
            )
        super().__init__(handle)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Element type: NumPy's dtype, of ml_dtypes for ``bfloat16`` and its like.

        The name alone, `dtype_name`, where neither is installed that has this type.
        """
        return dtype_for_users(self.dtype_name)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _core.itemsize(self.dtype_name)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of one version, without gaps."""
        return self.size * self.itemsize

    def on(self, device: str | TorchDevice) -> "Array":
        """Return a handle of the same array on another device.

        Its versions are the array's, numbered as they are: reading there copies the newest one over
        unless it is there, once however many processes ask for it, and waits for the copy; writing
        there makes the array's next version, wherever the last one was written. So the newest
        version is where it was last written, and a copy stays until the next write.

        The first handle makes a replica there, with the array's slots, which counts in the quota of
        the array's owner. It goes once nobody has it open and the array's own device has its newest
        version. Errors and `memleasectl` call it ``name@device``. Calls the daemon.

        Parameters
        ----------
        device : str or torch.device
            ``"host"`` (or ``"cpu"``), ``"cuda:0"``, ``"cuda"`` for the current GPU, or its UUID.

        Returns
        -------
        Array
            This handle, if the array is there.

        Raises
        ------
        InvalidArgument, Unsupported
            No such device.
        Denied
            The replica is not there, and this process may not write the array. Reading there raises
            it where this process may not write, and a newer version would have to be copied.
        QuotaExceeded, OutOfMemory
        """
        handle = self._on(device_name(device))
        return self if handle.device == self.device else type(self)(handle)

    @overload
    def get(
        self, out: None = None, *, timeout: float | None = None, region: "_core._Region" = None
    ) -> "NDArray[Any]": ...
    @overload
    def get(
        self, out: Out, *, timeout: float | None = None, region: "_core._Region" = None
    ) -> Out: ...
    def get(
        self, out: Any = None, *, timeout: float | None = None, region: "_core._Region" = None
    ) -> Any:
        """Copy the current version out, or a region of it, also from a GPU's memory.

        Blocks as `read` does, and until the copy is complete.

        Parameters
        ----------
        out : numpy.ndarray or array in USM, optional
            Where to copy it, of the same shape; converts to its dtype as NumPy does. What has
            ``__sycl_usm_array_interface__``, as dpnp's arrays and memory of dpctl, is filled once
            the queue that it names has done its work, and complete when this returns.
        timeout : float, optional
            Seconds to wait at most for the first version. Default: no end.
        region : slice, int, ... or tuple of them, optional
            The part to copy, as in `read`, which then stands for the array. Default: all of it.

        Returns
        -------
        numpy.ndarray or `out`
            `out`, or a new array of the array's shape and dtype.

        Raises
        ------
        InvalidArgument
            `out` has another shape, is read-only, or is in memory that its SYCL context does not
            know.
        Unsupported
            `out` is in a device's USM and not in C order, or there is no dpctl.
        """
        if out is None and region is None:
            out = require_numpy().empty(self.shape, numpy_dtype(self.dtype_name))
        if region is None and self._get_packed(out, timeout):
            return out
        if hasattr(out, USM_INTERFACE):
            destination = Destination(out)
            self.get(destination.elements, timeout=timeout, region=region)
            destination.finish()
            return out
        numpy = require_numpy()
        dtype = numpy_dtype(self.dtype_name)
        shape = self._shape_of(region)
        if out is None:
            out = numpy.empty(shape, dtype)
        _require_out(out, self, shape)
        if out.dtype == dtype and out.flags.c_contiguous:
            self._get_bytes(out.view(f"V{dtype.itemsize}"), timeout, region)
        elif self.device == "host":
            with self.read(timeout=timeout, region=region) as lease, numpy_warnings(numpy):
                numpy.copyto(out, lease.array, casting="same_kind")
        else:
            elements = self.get(timeout=timeout, region=region)
            with numpy_warnings(numpy):
                numpy.copyto(out, elements, casting="same_kind")
        return out

    def put(
        self,
        source: Any,
        *,
        casting: Casting = "same_kind",
        wait: float | None = None,
        stream: Any = None,
        ignore_stream: bool | None = None,
        region: "_core._Region" = None,
    ) -> int:
        """Copy a whole array in, from or to the host or a GPU, and publish it as the next version.

        Blocks as `write` does, and until the copy is complete; but not for that where both are on a
        GPU and there is a `stream`.

        What has ``__dlpack__`` is taken by `DLPack's Python protocol
        <https://dmlc.github.io/dlpack/latest/python_spec.html>`_, and what has only
        ``__cuda_array_interface__``, of version 0 to 3, by the `CUDA array interface
        <https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>`_. A source on a GPU
        is kept until the GPU has copied it, and a later call of memlease sees that. What has
        ``__sycl_usm_array_interface__``, version 1, is taken by the `SYCL USM array interface
        <https://intelpython.github.io/dpctl/latest/api_reference/dpctl/sycl_usm_array_interface.html>`_,
        with dpctl: once the queue that it names has done its work, and as a source on the host.

        Parameters
        ----------
        source : array_like
            Of the array's shape, or one element for all: a NumPy array, any buffer, a tensor of
            PyTorch, CuPy or JAX or another producer of DLPack or the CUDA array interface, an array
            of dpnp or memory of dpctl, a lease, a number or sequence of numbers of Python. What is
            on the host and of another dtype, or not in C order, is converted first, by a copy more.
            On a GPU it has the array's dtype and is on the array's own GPU, unless the array is on
            the host, and its elements are in the array's order, or in C order for an array on the
            host.
        casting : {"same_kind", "safe", "unsafe", "equiv", "no"}
            What may become of the array's dtype, as in `numpy.copyto`: with "same_kind" a float64
            becomes a float32 and an integer a float, but no float an integer; with "unsafe" any
            number becomes what the dtype makes of it. Numbers of Python must fit into the dtype,
            unless with "unsafe".
        wait : float, optional
            Seconds to wait at most for a free slot. Default: 10.
        stream : stream, optional
            Of an array on a GPU: the one that copies (see `memlease.stream`), behind what it was
            given until now; the version is where the copy ends. A DLPack producer is asked to have
            the elements ready there. Default: one of the library's.
        ignore_stream : bool, optional
            The elements of a source on a GPU are ready, and nobody changes them before the copy is
            done: no stream waits, and a DLPack producer is asked for no order (logged once).
            Default: what ``MEMLEASE_CUDA_IGNORE_STREAM`` says, else False.
        region : slice, int, ... or tuple of them, optional
            The part of the array to copy into, as in `read`, whose shape the source has. What it
            leaves out is the current version's, by a copy as in `update`. On a GPU a source in C
            order is taken, too. Default: all of it.

        Returns
        -------
        int
            The version's number.

        Raises
        ------
        InvalidArgument
            Another shape or GPU; a region that does not fit, or no version for the rest; a dtype
            that `casting` does not let become the array's; a number that does not fit; no numbers
            at all; a masked array; a stream that is capturing a graph; an interface that breaks its
            rules. As after all errors nothing is published, and the current version remains.
        Unsupported
            A mask of a CUDA array interface, its version above 3, or a source on a GPU whose
            elements are in another order. A source in USM without dpctl, or of the other byte
            order.
        BufferError
            The producer cannot hand it over.
        """
        if region is None and casting in CASTINGS:
            version = self._put_packed(source, wait, stream)
            if version is not None:
                return version
        kept = None if casting == "unsafe" else self.dtype_name
        dtype, elements = source_of(source, stream, ignore_stream, kept)
        return self._put_elements(dtype, elements, casting, wait, stream, region)

    async def read_async(
        self,
        *,
        newer_than: int | None = None,
        timeout: float | None = None,
        stream: Any = None,
        region: "_core._Region" = None,
    ) -> _core.ReadLease:
        """Lease the current version for reading, as `read` does, in asyncio's event loop.

        Waits in the loop, without a thread of its own, while there is no such version; a task that
        is cancelled meanwhile leaves nothing behind. Many tasks may wait for one array. The first
        read of a process calls the daemon, which blocks; no other does. For asyncio; not for trio.

        Parameters
        ----------
        newer_than : int, optional
            The current version once it is above this one.
        timeout : float, optional
            Seconds to wait at most. Default: no end.
        stream, region : optional
            As in `read`.

        Returns
        -------
        ReadLease

        Raises
        ------
        Timeout
            No such version within `timeout`.
        OutOfMemory
            No descriptors are left: each wait has one.
        ProducerDied, WriteAborted, Withdrawn, Closed, DaemonLost
        """
        after = 0 if newer_than is None else newer_than
        follower = self.follow(timeout=timeout, after=after, stream=stream, region=region)
        return await asynchronous.read(follower)

    def _put_elements(
        self,
        dtype: str,
        elements: Any,
        casting: Casting,
        wait: float | None,
        stream: Any,
        region: "_core._Region" = None,
    ) -> int:
        shape = self._shape_of(region)
        if isinstance(elements, _core.GpuSource):
            require_same(dtype, elements.shape, self.name, self.dtype_name, shape)
            return self._put_gpu(elements, wait, stream, region)
        is_one = elements.shape == ()
        elements = converted(dtype, elements, casting, self, shape)
        if is_one and elements.nbytes > _LARGE_BYTES and self.device == "host":
            kind = self.dtype
            if not isinstance(kind, str):  # else NumPy cannot fill it
                whole = region is None or elements.size == self.size
                return self._fill(elements.view(kind), wait, region, whole)
        return self._put_bytes(require_numpy().ascontiguousarray(elements), wait, stream, region)

    def _fill(self, elements: Any, wait: float | None, region: "_core._Region", whole: bool) -> int:
        begin = self.write if whole else self.update
        with begin(wait=wait, region=region) as lease:
            lease[...] = elements
        return lease.version

    def __len__(self) -> int:
        """Extent of the first axis."""
        if not self.shape:
            raise TypeError("an array of one element without axes has no length")
        return self.shape[0]

    def _refuse(self, *_arguments: Any, **_keywords: Any) -> Never:
        raise Unsupported(
            "an array handle has no bytes of its own: take a lease",
            "with array.read() as lease: lease.array, or array.get()",
        )

    def _refuse_write(self, *_arguments: Any) -> Never:
        raise Unsupported(
            "an array handle has no bytes of its own: publish a version",
            "array.put(x), or with array.write() as w: w[...] = x",
        )

    # NumPy and pandas would make an array of one object of it, were it not for these; and PyTorch
    # and JAX would not say why they do not take it.
    __array__ = __getitem__ = __iter__ = _refuse
    __dlpack__ = __dlpack_device__ = _refuse
    __setitem__ = __delitem__ = _refuse_write

    if not TYPE_CHECKING:  # which would believe that every attribute is there

        def __getattr__(self, name: str) -> Never:
            """Say where to find what NumPy's arrays have."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            numpy = sys.modules.get("numpy")
            if numpy is not None and not name.startswith("_") and hasattr(numpy.ndarray, name):
                text += "; a lease's array has: with a.read() as lease: lease.array." + name
            raise AttributeError(text, name=name, obj=self)

    def __bool__(self) -> bool:
        """Every handle is true: its length has no say."""
        return True

    def __repr__(self) -> str:
        """Name it, and say what it is and which version is current."""
        try:
            extents = ",".join(str(extent) for extent in self.shape)
        except Error as error:  # it could not be opened where it was unpickled
            return f"<memlease.Array '{self.name}' {type(error).__name__}>"
        try:
            state = "closed" if self.closed else f"v{self.version}"
        except Error as error:
            state = type(error).__name__
        return (
            f"<memlease.Array '{self.name}' {self.dtype_name}[{extents}] {self.device} {state} "
            f"slots={self.slots}>"
        )


def _require_out(out: Any, array: Array, shape: tuple[int, ...]) -> None:
    numpy = require_numpy()
    hint = f"give numpy.empty({shape}, {array.dtype_name!r})"
    if not isinstance(out, numpy.ndarray):
        raise InvalidArgument(f"out is of type {type(out).__name__}, not a NumPy array", hint)
    if out.shape != shape:
        what = "" if shape == array.shape else "the region of "
        raise InvalidArgument(
            f"out has shape {out.shape}, and {what}'{array.name}' has {shape}", hint
        )
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only", hint)
