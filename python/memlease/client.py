"""`connect` and `Client`: a process's connection to a daemon."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, overload

from memlease import _core, programs
from memlease.arguments import (
    max_slots_of,
    mode_of,
    refuse_unknown,
    require_text,
    small_number,
    uid_of,
    whole_numbers,
)
from memlease.array import Array
from memlease.attributes import plain_attributes
from memlease.caller import child_explained
from memlease.closing import Closing
from memlease.conversions import Casting
from memlease.devices import TorchDevice, device_name
from memlease.dtypes import dtype_name
from memlease.errors import Closed, InvalidArgument, NotFound, Unsupported
from memlease.filling import elements_to_fill, fill_array, withdrawn_after_error
from memlease.layouts import strides_of
from memlease.recent import RecentArrays
from memlease.sources import source_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Out = TypeVar("Out")
Lifetime = Literal["session", "persistent"]
Writer = Literal["any", "exclusive"]


def connect(
    directory: str | os.PathLike[str] | None = None,
    start: bool = True,
    *,
    strict: bool = False,
    timeout: float | None = None,
    **unknown: Never,
) -> "Client":
    """Connect to a daemon, or start one.

    Blocks, without the GIL, until the daemon answers; Ctrl-C ends the wait. One that is shutting
    down is waited for before another is started: ``drain_timeout_s`` at most, 25 by default. The
    logger ``memlease`` warns after a second of that. All connections of one process to one daemon
    share a session.

    Parameters
    ----------
    directory : path, optional
        Where the daemon's sockets are. Default: ``MEMLEASE_DIR``, else the user's directory
        (``$XDG_RUNTIME_DIR/memlease``, else ``/tmp/memlease-<uid>``), else ``/run/memlease``,
        whichever answers.
    start : bool
        Start a daemon in the user's directory, or the one given, if nobody answers. It ends by
        itself some time after its last user.
    strict : bool
        Let `WriteLease.publish` raise `Busy` while something made from the lease is alive, in place
        of taking write access from it. ``MEMLEASE_STRICT=1`` in the environment says the same.
    timeout : float, optional
        Seconds to wait at most for the daemon: for one that is shutting down, one that is started,
        one that does not answer yet, or is busy with others who connect at once. 0 takes one that
        answers at once. Default: 30 for one that is shutting down, 5 for one that is started, 10
        for an answer.

    Returns
    -------
    Client

    Raises
    ------
    DaemonUnavailable
        Nobody answers and no daemon was, or could be, started.
    Timeout
        Not within `timeout`.
    VersionSkew
        The daemon has an incompatible version.
    """
    if unknown:
        refuse_unknown(connect, unknown)
    where = "" if directory is None else os.fspath(directory)
    require_text("directory", where)
    return Client(
        _core.Client.connect(
            directory=where,
            start=start,
            daemon=programs.daemon(),
            strict=bool(strict),
            timeout=timeout,
        )
    )


class Client(Closing):
    """A connection to a daemon; `connect` makes it. May be used by any threads at once.

    Calls go to the daemon, without the GIL, and raise `DaemonLost` where it has gone. A context
    manager that closes. In a forked child it connects again, at its first use there.
    """

    __slots__ = ("_core", "_recent")

    def __init__(self, core: _core.Client | None = None) -> None:
        if not isinstance(core, _core.Client):
            raise TypeError("memlease.Client is made by memlease.connect(), which finds the daemon")
        self._core = core
        self._recent = RecentArrays()

    def __enter__(self) -> Self:
        """Return itself; `Closed` at once where a call in the block would raise it."""
        if self.closed:
            raise Closed("this client has been closed", "connect again")
        return self

    @property
    def directory(self) -> str:
        """Where the daemon's sockets are."""
        return self._core.directory

    @property
    def session_id(self) -> int:
        """Number of this process's session."""
        return self._core.session_id

    @property
    def closed(self) -> bool:
        """Whether `close` has been called on it."""
        return self._core.closed

    @property
    def calls(self) -> int:
        """How many calls to the daemon this process's session has made so far."""
        return self._core.calls

    @property
    def copies(self) -> int:
        """How many versions this process's session has copied so far, by put, get and update."""
        return self._core.copies

    @property
    def protected_slots(self) -> int:
        """How many slots were protected so far, as views outlived `WriteLease.publish`."""
        return self._core.protected_slots

    @property
    def refused_protections(self) -> int:
        """For how many there was no room to protect them: there late writes are seen."""
        return self._core.refused_protections

    @property
    def refused_registrations(self) -> int:
        """How many arrays have pages that CUDA has not registered.

        Copies of host arrays are slower there; on arrays of a GPU hosts wait in place of streams.
        """
        return self._core.refused_registrations

    @property
    def empty_writes(self) -> int:
        """How many write leases so far ended without anybody having asked for their bytes."""
        return self._core.empty_writes

    def create(
        self,
        name: str,
        shape: int | Sequence[int],
        dtype: Any = "float64",
        *,
        device: str | TorchDevice = "host",
        slots: int = 3,
        max_slots: int | None = None,
        lifetime: Lifetime = "session",
        mode: int = 0o600,
        writer: Writer = "any",
        order: Literal["C", "F"] = "C",
        strides: Sequence[int] | None = None,
        exist_ok: bool = False,
        owner: int | str | None = None,
        fill: Any = None,
        attributes: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> Array:
        """Create an array.

        Parameters
        ----------
        name : str
            Path-like, such as ``"sim/rank0/density"``.
        shape : int or sequence of int
            Extents.
        dtype : str, type or dtype
            A name such as ``"float32"``, ``"f4"``, ``"double"`` or ``"bfloat16"``, a type of
            Python, as ``float``, or a dtype of NumPy, ml_dtypes, PyTorch or JAX.
        device : str or torch.device
            ``"host"``, or ``"cpu"``, which means the same; ``"cuda:0"``, the first GPU that this
            process sees (``"cuda"`` means the same), ``"cuda:1"`` and so on; or a GPU's UUID,
            ``"GPU-..."``, as ``nvidia-smi -L`` has it.
        slots : int
            Versions that have room at once, 1 to 64. With one, readers and the writer take turns.
        max_slots : int, optional
            While readers hold all slots the array grows, slot by slot, up to so many, so that the
            writer need not wait; slots that nobody uses are given back. Default: 64 where these
            take 64 MiB at most, else eight times `slots`. With ``max_slots=slots`` the array does
            not grow; arrays with ``slots=1`` never do.
        lifetime : {"session", "persistent"}
            Until its creator and its last lease have gone, or until it is withdrawn.
        mode : int
            Who may read and write, as for a file.
        writer : {"any", "exclusive"}
            Which of these becomes the writer: whichever writes next; or this process alone, until
            it closes the array or ends, and then the one that writes next. Meanwhile `Array.write`
            raises `Denied` elsewhere, and names it.
        order : {"C", "F"}
            Which axis is fastest in memory: the last or the first.
        strides : sequence of int, optional
            Bytes from one element to the next for each axis, instead of `order`.
        exist_ok : bool
            Open instead if there is an equal array.
        owner : int or str, optional
            With `exist_ok`, whose array it must be, as in `open`. A user who cannot create an array
            for this one gets `Denied`, too.
        fill : scalar or array_like, optional
            Publish version 1 with these elements, broadcast to `shape`, unless there is a version.
            They are converted to `dtype` if that keeps their values except for rounding. A source
            on a GPU must have the array's dtype and shape already.
        attributes : mapping, optional
            What there is to say of the array, as ``{"units": "K", "origin": [0.0, 0.5]}``, for
            whoever opens it: `Array.attributes`. Values are str, bool, int, float, or a list of one
            kind of these but bool; scalars and one-dimensional arrays of NumPy become such. 32 KiB
            at most in all. They never change, and an array that `exist_ok` opens keeps its own.

        Returns
        -------
        Array

        Raises
        ------
        AlreadyExists
            The name is taken, with `exist_ok` by an array of another kind.
        InvalidArgument
            A name, shape, dtype, device, strides or number out of range; a `fill` that `dtype` or
            `shape` cannot take; attributes of another kind or size.
        Unsupported
            There is no such GPU here, or no driver, or the daemon or this build of memlease has no
            GPU arrays.
        QuotaExceeded, OutOfMemory, Denied

        After an error there is no array that this call made.
        """
        if unknown:
            refuse_unknown(Client.create, unknown)
        require_text("name", name)
        device = device_name(device)
        extents = whole_numbers("shape", shape)
        type_name = dtype_name(dtype)
        if strides is None and order not in ("C", "F"):
            raise InvalidArgument(f"order={order!r} is not known", "give 'C', 'F', or strides")
        if lifetime not in ("session", "persistent"):
            raise InvalidArgument(
                f"lifetime={lifetime!r} is not known", "give 'session' or 'persistent'"
            )
        if writer not in ("any", "exclusive"):
            raise InvalidArgument(f"writer={writer!r} is not known", "give 'any' or 'exclusive'")
        if strides is None and order == "F":
            strides = strides_of(extents, _core.itemsize(type_name), "F")
        elements = elements_to_fill(name, fill, type_name, extents)
        with child_explained():
            handle = self._core.create(
                name=name,
                dtype=type_name,
                shape=extents,
                strides_bytes=() if strides is None else whole_numbers("strides", strides),
                device=device,
                slots=small_number("slots", slots, "give one from 1 to 64"),
                max_slots=max_slots_of(max_slots),
                persistent=lifetime == "persistent",
                mode=mode_of(mode),
                exclusive=writer == "exclusive",
                exist_ok=bool(exist_ok),
                attributes=plain_attributes(attributes),
                owner=uid_of(owner),
            )
        array = Array(handle)
        if elements is not None:
            with withdrawn_after_error(array):
                if array.version == 0:
                    fill_array(array, elements)
        return array

    def open(self, name: str, *, owner: int | str | None = None, **unknown: Never) -> Array:
        """Open an array that exists.

        Parameters
        ----------
        name : str
            As in `create`.
        owner : int or str, optional
            Whose array it must be, by uid or user name: another user of the daemon may have taken
            the name. Default: whosever it is.

        Raises
        ------
        NotFound
            No array has this name, or the caller may not read it.
        Denied
            It is not the `owner`'s.
        """
        if unknown:
            refuse_unknown(Client.open, unknown)
        require_text("name", name)
        return Array(self._core.open(name, uid_of(owner)))

    def wait_for(
        self,
        name: str,
        timeout: float | None = None,
        *,
        owner: int | str | None = None,
        **unknown: Never,
    ) -> Array:
        """Open an array that another process may have yet to create.

        Blocks until it is there, at most `timeout` seconds (default: no end); Ctrl-C ends the wait.

        Raises
        ------
        Timeout
            It did not come in time.
        Denied
            It is there, and not the `owner`'s; see `open`.
        """
        if unknown:
            refuse_unknown(Client.wait_for, unknown)
        require_text("name", name)
        return Array(self._core.wait_for(name, timeout, uid_of(owner)))

    def exists(self, name: str) -> bool:
        """Tell whether there is an array of this name that the caller may read."""
        require_text("name", name)
        return self._core.exists(name)

    def list(self, pattern: str = "*") -> list[str]:
        """Names of the arrays that the caller may read.

        In ``pattern`` ``*`` is any text, also across slashes, and ``?`` any one character.
        """
        require_text("pattern", pattern)
        return self._core.list(pattern)

    def withdraw(self, name: str) -> None:
        """Remove a name at once; the bytes go when the last lease and view has gone."""
        require_text("name", name)
        self._core.withdraw(name)

    def put(
        self,
        name: str,
        source: Any,
        *,
        dtype: Any = None,
        casting: Casting = "same_kind",
        wait: float | None = None,
        stream: Any = None,
        ignore_stream: bool | None = None,
        **options: Any,
    ) -> Array:
        """Copy a whole array into the array `name`, which is created if it does not exist.

        The client keeps the 64 arrays in host memory open that it was last asked for by `put` and
        `get`: the next time needs no call to the daemon.

        Parameters
        ----------
        name : str
            As in `create`.
        source : array_like
            As in `Array.put`; it decides the shape, and not the device: what is on a GPU goes into
            a new array in host memory, too, unless `device` says else.
        dtype : str, type or dtype, optional
            As in `create`. Default: that of the array that exists, else the source's.
        casting : {"same_kind", "safe", "unsafe", "equiv", "no"}
            As in `Array.put`.
        wait : float, optional
            Seconds to wait at most for a free slot. Default: 10.
        stream : stream, optional
            As in `Array.put`.
        ignore_stream : bool, optional
            As in `Array.put`.
        **options
            As in `create`, except `fill`: for an array that does not exist yet. One that exists
            must have those that are given, which takes a call, and keeps its own attributes.

        Returns
        -------
        Array
            Its new version is current.

        Raises
        ------
        AlreadyExists
            Options are given, and the array that exists has others, or another shape or dtype.

        What `Array.put` raises, too; an array that was made for it is withdrawn then, unless it has
        a version.
        """
        require_text("name", name)
        for option in options:
            if option not in _PUT_OPTIONS:
                raise TypeError(
                    f"put() has no argument {option!r}; it has name, source, "
                    f"{', '.join(_PUT_ARGUMENTS)}; the source gives the shape"
                )
        try:
            existing = self.open(name)
        except NotFound:
            existing = None
        wanted = None if existing is None else existing.dtype_name
        if dtype is not None:
            wanted = dtype_name(dtype)
        if existing is not None and not options and wanted == existing.dtype_name:
            array = existing
            array.put(
                source, casting=casting, wait=wait, stream=stream, ignore_stream=ignore_stream
            )
        else:
            kept = None if casting == "unsafe" else wanted
            given, elements = source_of(source, stream, ignore_stream, kept)
            # One element is taken for all of the array that exists.
            shape = existing.shape if existing and elements.shape == () else elements.shape
            array = self.create(name, shape, wanted or given, **{"exist_ok": True, **options})
            with withdrawn_after_error(array):
                array._put_elements(given, elements, casting, wait, stream)
        self._recent.keep(self._core, array)
        return array

    @overload
    def get(
        self,
        name: str,
        out: None = ...,
        *,
        timeout: float | None = ...,
        owner: int | str | None = ...,
    ) -> "NDArray[Any]": ...
    @overload
    def get(
        self, name: str, out: Out, *, timeout: float | None = ..., owner: int | str | None = ...
    ) -> Out: ...
    def get(
        self,
        name: str,
        out: Any = None,
        *,
        timeout: float | None = None,
        owner: int | str | None = None,
        **unknown: Never,
    ) -> Any:
        """Copy the current version of an array out; see `Array.get`, and `open` for `owner`.

        As after `put`, the next time needs no call to the daemon.
        """
        if unknown:
            refuse_unknown(Client.get, unknown)
        array = self.open(name, owner=owner)
        copied = array.get(out, timeout=timeout)
        self._recent.keep(self._core, array)
        return copied

    def _refuse(self, *_arguments: Any) -> Never:
        raise Unsupported(
            "a client is not a mapping of names to arrays",
            "client.open(name) opens one, client.put(name, x) publishes one, client.exists(name) "
            "and client.list() tell which there are",
        )

    __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = _refuse

    def close(self) -> None:
        """Close the connection and the arrays that it has opened.

        Leases stay valid, and so do the names of arrays that this process has created.
        """
        self._recent.clear()
        self._core.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a reference: connects to the same daemon where it is unpickled."""
        return connect, (self.directory, False)

    def __repr__(self) -> str:
        """Name the directory, and the session or that it has been closed."""
        state = "closed" if self.closed else f"session={self.session_id}"
        return f"<memlease.Client of {self.directory} {state}>"


_PUT_OPTIONS = [option for option in Client.create.__kwdefaults__ or () if option != "fill"]
_PUT_ARGUMENTS = [*(Client.put.__kwdefaults__ or ()), *_PUT_OPTIONS]
