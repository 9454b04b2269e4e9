"""The real Numba and cuda.core.

On the CUDA stand-in they copy and order streams, which is all that it has for them: it runs no
kernel of theirs.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import consumers
import memlease
import numpy as np
import pytest
import real_consumers
from fakecuda_build import FOLDER, IS_STAND_IN, require_stand_in
from gpu_arrays import COUNT, address_of, create, opened, publish, read_with, writer_and_reader
from importing import get_of, stream_of
from memlease.stream import handle_of

require_stand_in()
pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.core")
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

each_twin = pytest.mark.parametrize(
    "twin",
    [*real_consumers.TWINS["numba.cuda"], *real_consumers.TWINS["cuda.core"]],
    ids=lambda it: it.__name__,
)
each_library = pytest.mark.parametrize("library", ["numba", "cuda.core"])
lease_streams = pytest.mark.parametrize("stream", [None, "own", 1, 2])


@pytest.fixture(autouse=True)
def no_memory_is_kept(monkeypatch):
    """Have Numba free at once: what it would free some day counts as a leak."""
    monkeypatch.setenv("NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT", "0")


# ---- What they make of a lease.


@each_twin
def test_they_read_what_another_process_writes(gpu, twin):
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(publish, value)
        assert reader.run(read_with, twin, value) == 0


@each_twin
def test_they_write_what_another_process_reads(gpu, twin):
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(write_with, twin, value)
        assert reader.run(read_with, consumers.torch_from_dlpack, value) == 0


def write_with(here, twin, value):
    with opened(here).write() as lease:
        view = twin(here, lease, here.stream("library"))
        view.fill(value)
        stream = view.stream
        del view
        lease.publish(stream=stream)


def test_they_see_a_region(gpu):
    """R-CAI-3; R-DLP-3, 5: its shape and strides, over the array's own memory."""
    gpu.run(look_at_a_region)


def look_at_a_region(here):
    from cuda.core.utils import StridedMemoryView
    from numba import cuda

    array = create(here, shape=(6, 8), fill=3)
    stream = here.stream()
    with array.read(stream=stream) as whole, array.read(stream=stream, region=np.s_[1:5, 2]) as r:
        first = address_of(whole) + 8 * (8 + 2)
        by_numba = cuda.as_cuda_array(r)
        assert (by_numba.shape, by_numba.strides) == ((4,), (64,))
        assert by_numba.__cuda_array_interface__["data"][0] == first
        by_core = StridedMemoryView.from_dlpack(r, stream_ptr=stream)
        assert (by_core.ptr, by_core.shape, by_core.strides) == (first, (4,), (8,))
        del by_numba, by_core
        whole.release(stream)


# ---- Numba's arrays have the stream that the lease exported for their own.


def ends_on(here, stream):
    return {} if stream is None else {"stream": stream_of(here, stream)}


@lease_streams
def test_numba_writes_on_the_exported_stream(gpu, stream):
    writer, reader = writer_and_reader(gpu)
    writer.run(write_by_numba, stream, 5)
    assert reader.run(read_with, consumers.torch_from_dlpack, 5) == 0


def write_by_numba(here, stream, value, on=None):
    from numba import cuda

    source = here.kept["source"] = cuda.to_device(np.full(COUNT, value, "u8"))
    here.synchronize()
    with opened(here).write(**ends_on(here, stream)) as lease:
        view = cuda.as_cuda_array(lease)
        work = on or view.stream
        here.spin(handle_of(work), 200_000)
        view.copy_to_device(source, stream=work)
        del view


@lease_streams
def test_numba_reads_on_the_exported_stream(gpu, stream):
    writer, reader = writer_and_reader(gpu, published=1)
    reader.run(read_by_numba, stream)
    writer.run(publish, 2)
    assert (reader.run(what_numba_read) == 1).all()


def read_by_numba(here, stream):
    from numba import cuda

    copy = here.kept["copy"] = cuda.device_array(COUNT, "u8")
    with opened(here).read(**ends_on(here, stream)) as lease:
        view = cuda.as_cuda_array(lease)
        here.spin(handle_of(view.stream), 200_000)
        copy.copy_to_device(view, stream=view.stream)
        del view


def what_numba_read(here):
    here.synchronize()
    return here.kept["copy"].copy_to_host()


def test_on_another_stream_it_races(gpu):
    """A control: nobody has told memlease of that one."""
    writer, reader = writer_and_reader(gpu)
    writer.run(write_by_numba_elsewhere)
    reader.run(read_with, consumers.torch_from_dlpack, 5)
    assert "read after write" in gpu.findings()


def write_by_numba_elsewhere(here):
    from numba import cuda

    write_by_numba(here, 1, 5, on=cuda.external_stream(here.stream("elsewhere")))
    here.drain(here.stream("elsewhere"))


# ---- Their streams, where a lease begins and ends.


def new_stream(library):
    if library == "numba":
        from numba import cuda

        return cuda.stream()
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device.create_stream()


def default_streams(library):
    """Return the legacy one and the thread's."""
    if library == "numba":
        from numba import cuda

        return cuda.legacy_default_stream(), cuda.per_thread_default_stream()
    from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM

    return LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM


@each_library
def test_leases_take_their_streams(gpu, library):
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(write_on_theirs, library, value)
        assert reader.run(read_on_theirs, library, value) == 0


def write_on_theirs(here, library, value):
    stream = here.kept.setdefault("theirs", new_stream(library))
    with opened(here).write(stream=stream) as lease:
        here.fill(address_of(lease), COUNT, value, handle_of(stream))
        lease.publish(stream=stream)


def read_on_theirs(here, library, value):
    stream = here.kept.setdefault("theirs", new_stream(library))
    with opened(here).read(stream=stream) as lease:
        here.look(address_of(lease), COUNT, value, handle_of(stream))
        lease.release(stream=stream)
    return here.mismatches(handle_of(stream))


@each_library
def test_leases_take_their_default_streams(gpu, library):
    gpu.run(use_default_streams, library)


def use_default_streams(here, library):
    create(here)
    for number, stream in enumerate(default_streams(library), 1):
        assert handle_of(stream) == number
        with opened(here).write(stream=stream) as lease:
            here.fill(address_of(lease), COUNT, number, number)
        with opened(here).read(stream=stream) as lease:
            here.look(address_of(lease), COUNT, number, number)
    assert here.mismatches() == 0


def test_numbas_default_stream_is_ambiguous(gpu):
    """Which one it is depends on how Numba was configured."""
    gpu.run(refuse_default_stream)


def refuse_default_stream(here):
    from numba import cuda

    create(here)
    with pytest.raises(memlease.InvalidArgument, match="stream 0 is ambiguous"):
        opened(here).write(stream=cuda.default_stream())


# ---- Their arrays.


@pytest.mark.parametrize("stream", [None, "own", 1, "theirs"])
def test_arrays_of_numbas_are_put(gpu, stream):
    writer, reader = gpu.process(), gpu.process()
    writer.run(put_array_of_numbas, stream)
    assert (reader.run(get_of) == 3).all()


def put_array_of_numbas(here, stream):
    from numba import cuda

    array, theirs = create(here), cuda.stream()
    source = cuda.device_array(COUNT, "u8", stream=theirs)
    for value in (1, 2, 3):
        here.spin(handle_of(theirs), 10_000)
        here.fill(address_of(source), COUNT, value, handle_of(theirs))
        given = theirs if stream == "theirs" else stream_of(here, stream)
        assert array.put(source, stream=given) == value
    here.synchronize()
    array.read().release()  # lets go of what has been copied


# ---- A worker as examples/gpu/worker_numba.py, which copies instead of launching a kernel.

WORKER = """
import memlease
from numba import cuda

with memlease.connect() as client:
    field = client.wait_for("gpu/field", timeout=60)
    try:
        with cuda.gpus[field.device_ordinal]:
            stream = cuda.stream()
            for lease in field.follow(stream=stream):
                host = cuda.as_cuda_array(lease).copy_to_host(stream=stream)
                stream.synchronize()
                print(f"version {lease.version}: mean {host.mean()}", flush=True)
    except memlease.Withdrawn:
        print("the publisher has ended")
"""
PUBLISHER = Path(__file__).resolve().parents[2] / "examples" / "gpu" / "publisher.py"


@pytest.mark.timeout(180)
def test_a_worker_follows_the_publisher(gpu):
    with start("-c", WORKER) as worker, start(PUBLISHER) as publisher:
        try:
            seen = [worker.stdout.readline() for _ in range(3)]
            publisher.send_signal(signal.SIGINT)
            assert publisher.communicate(timeout=60) == ("", None)
            *more, last = worker.communicate(timeout=60)[0].splitlines()
        finally:
            publisher.kill()
            worker.kill()
    assert (publisher.returncode, worker.returncode) == (0, 0), (seen, more, last)
    assert last == "the publisher has ended"
    for line in (*seen, *more):
        version, mean = line.removeprefix("version ").split(": mean ")
        assert float(mean) == int(version)


def start(*arguments):
    environment = dict(os.environ)
    if IS_STAND_IN:  # Numba loads CUDA's runtime by the path of its package, if there is none yet
        before = environment.get("LD_PRELOAD", "")
        environment["LD_PRELOAD"] = f"{before} {FOLDER / 'libcudart.so.13'}".strip()
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


# ---- JAX, which asks for __jax_array__ first. The stand-in has none that knows a GPU.


def test_jax_takes_a_lease_as_it_takes_arrays(gpu):
    gpu.run(take_by_jax)


def take_by_jax(here):
    import jax
    import jax.numpy as jnp

    array = create(here, shape=(4, 3), dtype="f4", fill=3)
    with array.read() as lease:
        if IS_STAND_IN:
            with pytest.raises(memlease.Unsupported, match=r"JAX cannot .* array\.get"):
                jnp.asarray(lease)
            taken = []
            jax.devices = lambda backend: [backend]
            jnp.from_dlpack = lambda source: taken.append(source) or jnp.full((4, 3), 3.0)
        elements = jnp.asarray(lease)
        if IS_STAND_IN:
            assert [source.__dlpack_device__() for source in taken] == [lease.__dlpack_device__()]
        assert np.asarray(elements).tolist() == [[3] * 3] * 4
    with memlease.connect() as client, client.put("host", [1.0, 2]).read() as lease:
        assert not hasattr(lease, "__jax_array__")
        assert np.asarray(jnp.asarray(lease)).tolist() == [1, 2]
