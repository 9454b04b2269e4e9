"""release_views: what a notebook still holds gives its slots back, and stays as it was."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import memlease
import numpy as np
import pytest

LARGE = (64, 1024)  # 512 KiB
SHAPES = {"below a page": (10,), "a page": (512,), "odd": (1000, 3), "large": LARGE}


@pytest.fixture(params=SHAPES)
def field(request, memlease_client):
    return memlease_client.create(
        "u", SHAPES[request.param], "f8", slots=3, max_slots=16, fill=0, exist_ok=True
    )


@pytest.fixture
def large(memlease_client):
    return memlease_client.create("u", LARGE, "f8", slots=3, max_slots=16, fill=0)


def keep(field, count, make=lambda lease: lease.array):
    """Return `count` views of as many versions, numbered from 1 by their bytes."""
    views = []
    for number in range(1, count + 1):
        field.put(np.full(field.shape, number, "f8"))
        with field.read() as lease:
            views.append(make(lease))
    return views


def ways():
    yield "the array", lambda lease: lease.array
    yield "a slice", lambda lease: lease.array[1:]
    yield "a buffer", lambda lease: np.frombuffer(memoryview(lease.array).cast("B"), "f8")
    yield "dlpack", np.from_dlpack


@pytest.mark.parametrize(
    ("way", "make"), list(ways()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_views_stay_as_they_were_and_the_slots_are_free(field, way, make):
    views = keep(field, 4, make)
    assert memlease.release_views(field) == 4
    assert memlease.release_views(field) == 0
    for number in range(5, 30):
        field.put(np.full(field.shape, number, "f8"))
        with field.read() as lease:
            assert (np.asarray(lease) == number).all()
    for number, view in enumerate(views, 1):
        assert (np.asarray(view) == number).all(), way


def test_as_many_versions_as_one_likes_in_a_notebook(large):
    out = []
    for number in range(50):
        large.put(np.full(LARGE, number, "f8"))
        try:
            out.append(large.read().array)
        except memlease.TooManyHeld:
            assert memlease.release_views(large) > 0
            out.append(large.read().array)
    with pytest.raises(memlease.TooManyHeld, match="release_views"):
        keep(large, 50)
    assert [view[3, 3] for view in out] == list(range(50))


def test_leases_end_and_what_was_made_of_them_lives(field):
    field.put(np.full(field.shape, 7, "f8"))
    lease, other = field.read(), field.read()
    view = lease.array
    assert memlease.release_views(field) == 1
    assert lease.released
    assert other.released
    with pytest.raises(memlease.Closed):
        _ = other.array
    field.put(np.zeros(field.shape))
    assert (view == 7).all()


def test_views_that_were_never_named_are_found(memlease_client, large):
    views = keep(large, 3)
    slices = [view[2] for view in views]
    del views
    assert memlease.release_views(memlease_client.open("u")) == 3
    assert [each[0] for each in slices] == [1, 2, 3]


def test_the_copies_go_with_their_views(large):
    def copies_kib(addresses):
        # The copies are anonymous pages: what is shared belongs to the segment.
        total, ours = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if mapping := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
                first, last = (int(bound, 16) for bound in mapping.groups())
                ours = any(first <= address < last for address in addresses)
            elif ours and line.startswith("Anonymous:"):
                total += int(line.split()[1])
        return total

    views = keep(large, 4)
    addresses = [view.ctypes.data for view in views]
    assert copies_kib(addresses) == 0
    assert memlease.release_views(large) == 4
    assert copies_kib(addresses) == 4 * 512
    del views
    gc.collect()
    assert copies_kib(addresses) == 0


def test_a_hundred_rounds_use_two_ranges(large):
    def ranges():
        lines = Path("/proc/self/maps").read_text().splitlines()
        return {line.split("-")[0] for line in lines if "memlease-segment" in line}

    for number in range(100):
        view = keep(large, 1)
        assert memlease.release_views(large) == 1
        if number == 2:
            before = len(ranges())
        del view
    assert len(ranges()) <= before + 2


def test_views_of_a_write_lease(large):
    with large.write() as w:
        w[...] = 5
        named, part = w.array, w.array[1:]
        tensor = np.from_dlpack(w)
    assert memlease.release_views(large) == 1
    for number in range(20):
        large.put(np.full(LARGE, number, "f8"))
    assert (named == 5).all()
    assert (part == 5).all()
    assert (tensor == 5).all()
    with pytest.raises(ValueError, match="read-only"):
        named[0] = 1


def test_views_of_a_write_lease_of_a_small_array_keep_their_slot(memlease_client):
    small = memlease_client.create("small", 10, "f8", slots=3, fill=0)
    with small.write() as w:
        w[...] = 5
        view = w.array
    assert memlease.release_views(small) == 0
    small.put(np.zeros(10))
    small.put(np.zeros(10))
    assert (view == 5).all()


def test_a_write_in_progress_goes_on(large):
    views = keep(large, 3)
    with large.write() as w:
        ahead = w.array
        ahead[:32] = 8
        assert memlease.release_views(large) == 3
        ahead[32:] = 8
    with large.read() as lease:
        assert (lease.array == 8).all()
    assert [view[0, 0] for view in views] == [1, 2, 3]


def test_other_arrays_of_the_segment_are_left_alone(memlease_client):
    fields = [
        memlease_client.create(f"s{i}", 10, "f8", slots=3, max_slots=16, fill=i) for i in range(20)
    ]
    others = [field.read() for field in fields[1:]]
    seen = [lease.array for lease in others]
    writing = fields[1].write()
    writing[...] = 77
    views = keep(fields[0], 3)
    assert memlease.release_views(fields[0]) == 3
    writing.publish()
    with fields[1].read() as lease:
        assert (lease.array == 77).all()
    for number, (field, view) in enumerate(zip(fields[1:], seen, strict=True), 1):
        assert (view == number).all()
        field.put(np.full(10, 100 + number, "f8"))
        with field.read() as lease:
            assert (lease.array == 100 + number).all()
        assert (view == number).all()
    assert [view[0] for view in views] == [1, 2, 3]


def test_views_outlive_the_array_and_the_client(memlease_client):
    with memlease.connect(memlease_client.directory) as client:
        array = client.create("mine", LARGE, "f8", slots=3, max_slots=16)
        views = keep(array, 3)
        assert memlease.release_views(array) == 3
        array.close()
    gc.collect()
    assert [view[9, 9] for view in views] == [1, 2, 3]
    del views[0], array
    assert [view[9, 9] for view in views] == [2, 3]


def test_a_closed_array_is_left_once_its_views_are_released(memlease_client, large):
    other = memlease.connect(memlease_client.directory)
    mine = other.open("u")
    views = keep(mine, 2)
    mine.close()
    assert memlease.release_views(mine) == 2
    assert [view[0, 0] for view in views] == [1, 2]
    other.close()


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX's, where another test has loaded it
def test_in_a_child_the_copies_are_not_there(large):
    views = keep(large, 2)
    memlease.release_views(large)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # in place of pytest's
        os._exit(int(views[0][0, 0]))  # SIGSEGV
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -11
    assert [view[0, 0] for view in views] == [1, 2]


def test_threads_read_and_release_at_once(large):
    wrong = []
    stop = threading.Event()

    def read():
        views = []
        while not stop.is_set():
            try:
                with large.read() as lease:
                    view = lease.array
                    expected = float(view[0, 0])
                    views.append((expected, view))
            except (memlease.TooManyHeld, memlease.Closed):
                views.clear()
            wrong.extend(expected for expected, view in views if not (view == expected).all())
            del views[:-5]

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(300):
            large.put(np.full(LARGE, number, "f8"), wait=10)
            memlease.release_views(large)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_writer_that_waits_gets_the_slot(memlease_client):
    field = memlease_client.create("w", LARGE, "f8", slots=3, max_slots=3, fill=0)
    views = [field.read().array]
    for number in (1, 2):
        field.put(np.full(LARGE, number, "f8"))
        views.append(field.read().array)
    published = []
    thread = threading.Thread(target=lambda: published.append(field.put(np.ones(LARGE), wait=30)))
    with warnings.catch_warnings():  # of views, if it waits at all before they are released
        warnings.simplefilter("ignore")
        thread.start()
        while memlease.release_views(field) == 0:
            pass
        thread.join()
    assert published == [4]
    assert [view[0, 0] for view in views] == [0, 1, 2]


@pytest.mark.parametrize("wrong", [None, 5, "u"])
def test_what_is_no_array(wrong):
    with pytest.raises(TypeError, match="takes an array"):
        memlease.release_views(wrong)


def test_an_array_that_nobody_has_read(memlease_client):
    assert memlease.release_views(memlease_client.create("never", 5, "f8")) == 0


def test_a_late_write_through_a_released_view_ends_the_process(large, memlease_client):
    code = f"""
import memlease, numpy as np
memlease.explain_faults()
field = memlease.connect({str(memlease_client.directory)!r}, start=False).open("u")
with field.write() as w:
    tensor = np.from_dlpack(w)
memlease.release_views(field)
tensor[0] = 1
"""
    # ASan's runtime, where it is loaded, would report the fault in place of the kernel.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == -11
    assert "'u'" in done.stderr
