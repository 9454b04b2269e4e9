"""`Array`: a named array, open in this process."""

from typing import Any, Never

from memlease import _core
from memlease.dtypes import numpy_dtype, require_numpy
from memlease.errors import Error, InvalidArgument, Unsupported
from memlease.layouts import require_same
from memlease.sources import source_of


class Array(_core.Array):
    """A named array, open in this process.

    `Client.create`, `Client.open` and `Client.wait_for` make them. A handle may be used by any
    threads at once. It pickles as a reference: where it is unpickled, on the same machine, the
    array is opened by its name.
    """

    __slots__ = ()

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
        return _core.itemsize(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of one version, without gaps."""
        return self.size * self.itemsize

    def get(self, out: Any = None, *, timeout: float | None = None) -> Any:
        """Copy the current version out, also from a GPU's memory.

        Blocks as `read` does, and until the copy is complete.

        Parameters
        ----------
        out : numpy.ndarray, optional
            Where to copy it, of the same shape; converts to its dtype as NumPy does.
        timeout : float, optional
            Seconds to wait at most for the first version. Default: no end.

        Returns
        -------
        numpy.ndarray
            `out`, or a new array of the array's shape and dtype.
        """
        numpy = require_numpy()
        if out is not None and tuple(out.shape) != self.shape:
            raise InvalidArgument(
                f"out has shape {tuple(out.shape)}, and '{self.name}' has {self.shape}",
                f"give numpy.empty({self.shape}, {self.dtype!r})",
            )
        dtype = numpy_dtype(self.dtype)
        if out is None:
            out = numpy.empty(self.shape, dtype)
        if out.dtype == dtype and out.flags.c_contiguous:
            self._get_bytes(out.view(f"V{dtype.itemsize}"), timeout)
        elif self.device == "host":
            with self.read(timeout=timeout) as lease:
                numpy.copyto(out, lease.array, casting="same_kind")
        else:
            numpy.copyto(out, self.get(timeout=timeout), casting="same_kind")
        return out

    def put(
        self,
        source: Any,
        *,
        wait: float | None = None,
        stream: Any = None,
        ignore_stream: bool | None = None,
    ) -> int:
        """Copy a whole array in, from or to the host or a GPU, and publish it as the next version.

        Blocks as `write` does, and until the copy is complete; but not for that where both are on a
        GPU and there is a `stream`.

        What has ``__dlpack__`` is taken by `DLPack's Python protocol
        <https://dmlc.github.io/dlpack/latest/python_spec.html>`_, and what has only
        ``__cuda_array_interface__``, of version 0 to 3, by the `CUDA array interface
        <https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>`_. A source on a GPU
        is kept until the GPU has copied it, and a later call of memlease sees that.

        Parameters
        ----------
        source : array_like
            Of the array's shape and dtype: a NumPy array, any buffer, a tensor of PyTorch, CuPy or
            JAX or another producer of DLPack or the CUDA array interface, a lease, a number or
            sequence of numbers of Python, which becomes the array's dtype where that keeps its
            values but for rounding. On a GPU it is of the array's own GPU, unless the array is on
            the host, and its elements stand as the array's do, or in C order for an array on the
            host. What is on the host and not in C order is brought into it first, by a copy more.
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

        Returns
        -------
        int
            The version's number.

        Raises
        ------
        InvalidArgument
            Another shape, dtype or GPU; a number that does not fit; no numbers at all; a stream
            that is capturing a graph; an interface that breaks its rules. As after all errors
            nothing is published, and the version stands.
        Unsupported
            A mask, a version above 3, or a source on a GPU whose elements stand in another order.
        BufferError
            The producer cannot hand it over.
        """
        dtype, elements = source_of(source, stream, ignore_stream, self.dtype)
        return self._put_elements(dtype, elements, wait, stream)

    def _put_elements(self, dtype: str, elements: Any, wait: float | None, stream: Any) -> int:
        require_same(dtype, elements.shape, self.name, self.dtype, self.shape)
        if isinstance(elements, _core.GpuSource):
            return self._put_gpu(elements, wait, stream)
        return self._put_bytes(require_numpy().ascontiguousarray(elements), wait, stream)

    def _refuse(self, *_arguments: Any, **_keywords: Any) -> Never:
        raise Unsupported(
            "an array handle has no bytes of its own: take a lease",
            "with array.read() as lease: lease.array, or array.get()",
        )

    # NumPy would make an array of one object of it, were it not for these.
    __array__ = __getitem__ = __setitem__ = __len__ = _refuse

    def __bool__(self) -> bool:
        """Every handle is true; else Python would ask for its length."""
        return True

    def __repr__(self) -> str:
        """Name it, and say what it is and which version is current."""
        extents = ",".join(str(extent) for extent in self.shape)
        try:
            state = "closed" if self.closed else f"v{self.version}"
        except Error as error:
            state = type(error).__name__
        return (
            f"<memlease.Array '{self.name}' {self.dtype}[{extents}] {self.device} {state} "
            f"slots={self.slots}>"
        )
