"""`Array`: a named array, open in this process."""

import sys
from typing import TYPE_CHECKING, Any, Never

from memlease import _core, asynchronous
from memlease.arguments import refuse_unknown
from memlease.caller import numpy_warnings
from memlease.closing import Closing
from memlease.conversions import Casting, converted
from memlease.devices import TorchDevice, device_name
from memlease.dtypes import dtype_for_users, numpy_dtype, require_numpy
from memlease.errors import Error, InvalidArgument, Unsupported
from memlease.layouts import require_same
from memlease.sources import source_of
from memlease.usm_runtime import INTERFACE as USM_INTERFACE
from memlease.usm_sources import Destination

if TYPE_CHECKING:
    import numpy as np

# One element is written to all of an array in place, from this size on: not copied out first.
_LARGE_BYTES = 1 << 20

# Methods of NumPy's arrays.
_WRITES_IN_PLACE = frozenset({"fill", "partition", "setfield", "sort"})


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
        version. Errors and ``memleasectl`` call it ``name@device``. Calls the daemon.

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

    def _get(self, out: Any, timeout: float | None, region: "_core._Region") -> Any:
        """Copy out what `get` does not by itself."""
        if out is None and region is None:
            mine = require_numpy().empty(self.shape, numpy_dtype(self.dtype_name))
            return self.get(mine, timeout=timeout)
        if hasattr(out, USM_INTERFACE):
            destination = Destination(out)
            self.get(destination.elements, timeout=timeout, region=region)
            destination.finish()
            return out
        if isinstance(out, _core.WriteLease):
            self.get(out.array, timeout=timeout, region=region)
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

    def _put(
        self,
        source: Any,
        casting: Casting | None,
        wait: float | None,
        stream: Any,
        ignore_stream: bool | None,
        region: "_core._Region",
    ) -> int:
        """Copy in what `put` does not by itself."""
        casting = "same_kind" if casting is None else casting
        kept = None if casting == "unsafe" else self.dtype_name
        dtype, elements = source_of(source, stream, ignore_stream, kept)
        return self._put_elements(dtype, elements, casting, wait, stream, region)

    def read_async(
        self,
        *,
        newer_than: int | None = None,
        timeout: float | None = None,
        stream: Any = None,
        region: "_core._Region" = None,
        **unknown: Never,
    ) -> asynchronous.Reading:
        """Lease the current version for reading, as `read` does, in asyncio's event loop.

        ``async with array.read_async() as lease`` releases it at its end, ``await`` gives it away.
        Waits in the loop, without a thread of its own, while there is no such version; a task that
        is cancelled meanwhile leaves nothing behind. Many tasks may wait for one array. At the
        first read in a process a thread of the loop's executor calls the daemon. For asyncio; not
        for trio.

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
        coroutine of a ReadLease
            Also an asynchronous context manager.

        Raises
        ------
        Timeout
            No such version within `timeout`.
        OutOfMemory
            No descriptors are left: each wait has one.
        ProducerDied, WriteAborted, Withdrawn, Closed, DaemonLost
        """
        if unknown:
            refuse_unknown(Array.read_async, unknown)
        return asynchronous.Reading(
            self.name, self._read_async(newer_than, timeout, stream, region)
        )

    async def _read_async(
        self, newer_than: int | None, timeout: float | None, stream: Any, region: "_core._Region"
    ) -> _core.ReadLease:
        after = 0 if newer_than is None else _core.version_number(newer_than, "newer_than")
        follower = self.follow(timeout=timeout, after=after, stream=stream, region=region)
        return await asynchronous.read(follower)

    # Python warns by this name where nobody awaits it.
    _read_async.__qualname__ = "Array.read_async"

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
            require_same(dtype, elements.shape, self.name, self.dtype_name, shape, on_gpu=True)
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

    def __array_ufunc__(self, *_arguments: Any, **options: Any) -> Never:
        """Refuse what reads it and what writes into it."""
        (self._refuse_write if "out" in options else self._refuse)()

    # NumPy and pandas would make an array of one object of it, were it not for these; and PyTorch
    # and JAX would not say why they do not take it.
    __array__ = __getitem__ = __iter__ = _refuse
    __dlpack__ = __dlpack_device__ = _refuse
    __setitem__ = __delitem__ = _refuse_write
    # Python would say that a number is wanted.
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _refuse
    __neg__ = __abs__ = __invert__ = __matmul__ = __rmatmul__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __iadd__ = __isub__ = __imul__ = __itruediv__ = _refuse_write

    if not TYPE_CHECKING:  # which would believe that every attribute is there

        def __getattr__(self, name: str) -> Never:
            """Say where to find what NumPy's arrays and leases have."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            numpy = sys.modules.get("numpy")
            if name.startswith("_"):
                pass
            elif name in ("resize", "setflags"):
                text += "; an array keeps the shape and layout that it was created with"
            elif name in _WRITES_IN_PLACE:
                text += f"; a write lease's array has: with a.update() as w: w.array.{name}"
            elif numpy is not None and hasattr(numpy.ndarray, name):
                text += f"; a lease's array has: with a.read() as lease: lease.array.{name}"
            elif hasattr(_core.ReadLease, name):
                text += f"; a lease has: with a.read() as lease: lease.{name}"
            elif hasattr(_core.WriteLease, name):
                text += f"; a write lease has: with a.write() as lease: lease.{name}"
            raise AttributeError(text, name=name, obj=self)

    def __bool__(self) -> bool:
        """Every handle is true: its length has no say."""
        return True

    def __format__(self, format_spec: str) -> str:
        """Format its text."""
        return format(str(self), format_spec)

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
