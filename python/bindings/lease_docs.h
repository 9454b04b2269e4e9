// What help() says of the types ReadLease and WriteLease, and of their methods.
#pragma once

namespace memlease::python {

inline constexpr const char* kReadDoc =
    R"(A lease on one version, to read it, whose bytes do not change meanwhile.

Use it in ``with``, or call `release`. NumPy, PyTorch, JAX and whatever speaks the buffer protocol,
``__array_interface__`` or DLPack take the lease itself, without a copy; `array` is a NumPy view.
A lease of a region shows that part of the array alone, in all of them; `shape` is the region's.
Every view is read-only and keeps the version's slot until it dies, also beyond the lease. In the
host's memory a library that writes all the same ends the process (see `memlease.explain_faults`).
Arrays on a GPU are taken by DLPack or ``__cuda_array_interface__``; the latter's views do not keep the slot.
A lease is true, as in ``if lease := array.try_read()``; of one element, whose value may be meant,
``bool(lease)`` is a ValueError. Not thread-safe: one thread at a time uses one lease. Nothing here
calls the daemon or blocks, except where the text says so for arrays on a GPU.
)";

inline constexpr const char* kWriteDoc =
    R"(A lease on the next version, to write it. Readers see nothing of it until `publish`.

Use it in ``with``: a clean exit publishes, an exception drops. `array` is a writable NumPy view;
its bytes are unspecified, or after `Array.update` those of the current version. The lease itself
computes with no unspecified bytes: where ``lease[...] *= 2`` or ``lease[3] = x`` comes before
anybody has had the bytes, it begins with the current version's, by a copy, as `Array.update` does,
and with zeros where there is none.
A ``with`` in which nobody asks for the bytes of a host array publishes nothing. A lease of a region
shows that part of the array alone, and the rest is the current version's. Views may outlive the lease: they keep its slot, and are read-only from then on. ``np.asarray(lease)`` is `array`; for a
buffer give `array`, or what `memoryview` returns. Arrays on a GPU are filled through DLPack or
``__cuda_array_interface__``, or by ``lease[...] = source`` with an array on the same GPU, as
`Array.put` takes it: a copy on the lease's stream, or one that blocks. ``bool(lease)`` of one element
is a ValueError, as of a `ReadLease`. Not thread-safe. Nothing
here calls the daemon or blocks, except where the text says so for arrays on a GPU.
)";

inline constexpr const char* kArrayDoc =
    R"(The version's elements as a NumPy array over the shared memory: no copy.

The same object on each access, and for a later lease of the same slot if nobody kept it.

Raises
------
Closed
    The lease has ended.
Unsupported
    NumPy has no such dtype and ml_dtypes, which has, is not installed; or the array is on a GPU.
)";

inline constexpr const char* kDLPackDoc =
    R"(__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
--

Export by DLPack, versioned or not as the consumer asks.

Of an array on a GPU the consumer's `stream` is made to wait for the bytes: a handle, 1 or None the
legacy stream, 2 the thread's own; with -1 the consumer sees to the order. That does not block, unless
the daemon lets the host wait (``event_waits = host``); ``dl_device=(1, 0)``, which copies a version
to the host, does.

Raises
------
BufferError
    The request cannot be met: another device, or a read lease of an array on a GPU for a consumer
    that takes only the unversioned form, which cannot say "read-only" (see `dlpack`).
ValueError
    An invalid stream: 0, which is ambiguous, or for a host array any other than -1.
Closed
    The lease has ended.
)";

inline constexpr const char* kDLPackMethodDoc = R"(dlpack($self, /, *, readonly_ok=False)
--

What to give to a DLPack consumer instead of the lease itself.

Parameters
----------
readonly_ok : bool
    Hand read-only memory of a GPU also to consumers that cannot be told so, as JAX. Writing through
    what they make of it changes a version that others read. The host's memory needs no such word:
    there it ends the process.
)";

inline constexpr const char* kReleaseDoc = R"(release($self, /, stream=None)
--

End the lease. A second call does nothing.

Parameters
----------
stream : stream, optional
    Of an array on a GPU: a writer waits for what this stream was given until now (see
    `memlease.stream`), and in any case for the stream that `__cuda_array_interface__` has named.
    Default: the stream that the lease began with; without one, or if something made from the lease
    was used on another, this blocks until the GPU has nothing to do.

Returns
-------
bool
    False if views of it are alive: they keep the slot. If a writer waits for one, a `ViewAlive`
    warning says so, once an array.

Raises
------
ProducerDied
    The version turned out to be torn: do not use what was computed from it.
)";

inline constexpr const char* kPublishDoc = R"(publish($self, /, stream=None)
--

Make the version current and end the lease.

Views of the lease that are alive keep the slot, and are read-only from here on. `array` itself says
so: ``ValueError``. A late write by a slice of it, a buffer or a tensor ends the process (see
`memlease.explain_faults`); in an array smaller than a page, or on a GPU, it would change what readers
see.

Parameters
----------
stream : stream, optional
    Of an array on a GPU: readers wait for what this stream was given until now. Default: as in
    `ReadLease.release`.

Returns
-------
int
    The version's number.

Raises
------
Busy
    Views of the lease are alive, and the connection is strict. The lease goes on.
)";

inline constexpr const char* kDropDoc = R"(drop($self, /, stream=None)
--

End the lease without a version. A second call does nothing.

`stream` is as in `publish`.
Views of it that are alive keep the slot out of use.
)";

inline constexpr const char* kMemoryviewDoc = R"(memoryview($self, /)
--

A memoryview of the version's elements: no copy, and no need of NumPy.)";

inline constexpr const char* kArrayMethodDoc = R"(__array__($self, /, dtype=None, copy=None)
--

A NumPy array of the version: `array` itself where neither dtype nor copy ask for another.)";

inline constexpr const char* kExitDoc = R"(__exit__($self, kind, value, traceback, /)
--

End the lease.)";

inline constexpr const char* kDLPackDeviceDoc = R"(__dlpack_device__($self, /)
--

(1, 0), the host's memory, or (2, n): cuda:n as this process numbers its GPUs.)";

inline constexpr const char* kCudaInterfaceDoc =
    R"(The CUDA array interface, version 3: arrays on a GPU only, else AttributeError.

A dict, new at each access, and each access makes its ``stream`` wait again for all that must come
before: what is put on that stream, or comes after it was synchronised, sees the version complete.
Does not block, unless MEMLEASE_CUDA_HOST_WAIT is set or the daemon lets the host wait
(``event_waits = host``). A dict holds nothing: whoever uses the address keeps the lease, and its end,
``release`` or ``publish``, must be told where the work ends.

Raises
------
AttributeError
    The array is in host memory, or of a type that NumPy cannot name, such as bfloat16.
Closed
    The lease has ended.
)";

inline constexpr const char* kCudaArrayDoc =
    R"(cuda_array($self, /, *, version=3, host_wait=None, no_stream=None, readonly_ok=False)
--

What to give to a consumer of the CUDA array interface instead of the lease itself.

It has the attribute ``__cuda_array_interface__`` and keeps the lease.

Parameters
----------
version : int
    Of the interface: 3, or 2, which names no stream.
host_wait : bool, optional
    At each access of the attribute block, without the GIL, until the bytes are complete, and name
    no stream: for consumers that ignore the stream, as PyTorch. Default: True for version 2, else
    what the environment variable ``MEMLEASE_CUDA_HOST_WAIT`` says, else False.
no_stream : bool, optional
    Name no stream, ``None``, and wait for nothing: the caller answers for the order, and logs say
    so once. How the lease ends and what it keeps does not change. Default:
    what ``MEMLEASE_CUDA_NO_STREAM`` says where the host does not wait, else False.
readonly_ok : bool
    Do not say that the bytes of a read lease are read-only: for consumers that refuse such, as
    PyTorch. Writing through what they make of it changes a version that others read.

Returns
-------
CudaArraySource
)";

inline constexpr const char* kSyclUsmDoc =
    R"(sycl_usm($self, /, syclobj, *, usm_type='shared', copy=None)
--

The elements as an object with ``__sycl_usm_array_interface__``, version 1.

That is the `SYCL USM array interface
<https://intelpython.github.io/dpctl/latest/api_reference/dpctl/sycl_usm_array_interface.html>`_, as
``dpctl.memory.as_usm_memory`` and ``dpnp.asarray`` take it: of the array's shape and dtype, strides
in elements. It has no stream and no events: the elements are complete when this returns, and the
caller waits for the queue before the lease ends. Needs dpctl.

Shared memory between processes is not USM to any SYCL runtime that does not know of it: then, as
with all of a CPU's, the object has a copy of its own in USM, which lives as long as the object and
is written without changing the array. Where the context knows the memory, there is no copy: the
object keeps the slot, as other views do, waits for the queue when it dies, and is read-only if the
lease is for reading.

An array on a GPU is given, for reading, where ``copy=False`` asks for it and the context knows its
memory, as one of SYCL's CUDA backend may. SYCL promises that for memory of the context's own alone.

Parameters
----------
syclobj : dpctl.SyclQueue, dpctl.SyclContext, capsule, str or object
    The context, in any form that the interface knows: also a capsule ``SyclQueueRef`` or
    ``SyclContextRef``, an object with ``_get_capsule()``, or a filter string as ``"opencl:cpu"``.
    The object names a ``dpctl.SyclQueue`` of that context.
usm_type : {"shared", "host", "device"}
    Of a copy.
copy : bool, optional
    True: a copy always; False: never. Default: where it is needed, but not of a lease to write,
    whose version a copy would not change.

Returns
-------
UsmExport
    With ``__sycl_usm_array_interface__``, ``copied``, ``usm_type`` and ``sycl_queue``.

Raises
------
Unsupported
    A dtype that the interface has no type for; memory that the context does not know, where it must
    not be copied; an array on a GPU, but as above; no dpctl.
InvalidArgument
    `syclobj` is none of these, or selects no device.
OutOfMemory
    There is no room in USM.
Closed
    The lease has ended.
)";

}  // namespace memlease::python
