"""The questions of tests/hardware, asked on the stand-in: each answer is what the stand-in does.

And it is another one where the stand-in does something else: what cannot answer otherwise proves
nothing on hardware.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import re
import subprocess
import sys
import time

import pytest
from fakecuda_build import require_stand_in
from gpu_process import Cuda, Process
from part_script import HARDWARE, said_by, world

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]
pytestmark = pytest.mark.no_asan  # asks CUDA alone


def answer(question, change=None):
    """Ask it, in a world that is otherwise in something, or has one GPU."""
    changes = [change] if change not in (None, "one GPU") else []
    with world(*changes, devices=1 if change == "one GPU" else 2) as folder:
        (said,), status = said_by("probes.py", question, FAKECUDA_WORLD=folder)
    assert status == 0
    assert said["answer"] == question
    found = said["is"]
    return found if isinstance(found, str) else {"answer": found.pop("answer"), **found}


# What the stand-in calls potentially unsafe, of what the question tries.
UNSAFE = (
    "cudaEventQuery, cudaStreamQuery, cudaIpcOpenMemHandle, cudaIpcCloseMemHandle, "
    "cudaIpcOpenEventHandle, cudaMalloc"
)
OTHER_MODES = "; ".join(
    f"{mode}{exchanged}: none"
    for mode in ("thread-local", "relaxed")
    for exchanged in ("", ", exchanged")
)
CALLS = ("open_memory", "close_memory", "open_event", "close_event")
OWN_WORK = "kernels of its own process, streams of its own that wait for another process"
# What the stand-in answers: the whole of it, or the dictionary's "answer".
ANSWERS = {
    "ipc_memory": "yes",
    "import_in_the_same_process": "201 cudaErrorDeviceUninitialized",
    "opening_twice": "the same address; each is closed for itself",
    "memory_of_the_dead": "readable",
    "registered_pages": "yes; pages that may only be read, too",
    "ipc_events": "yes",
    "wait_binds_at_its_call": "yes",
    "later_record_overtakes": "no",
    "event_opened_twice": "yes",
    "record_of_a_closed_handle": "yes",
    "record_of_an_ended_process": "yes",
    "event_destroyed_by_its_owner": "no: cudaEventRecord: 400",
    "event_of_a_dead_owner": "yes",
    "shared_events": "40000: more were not tried",
    "later_record_frees": "no",
    "event_after_a_lost_record": "later records complete; a new event works",
    "kernel_of_the_dead_has_stopped": "yes",
    "open_memory_waits_for": "nothing",
    "close_memory_waits_for": "kernels of its own process, "
    "streams of its own that wait for another process",
    "open_event_waits_for": "nothing",
    "close_event_waits_for": "nothing",
    "not_ready_is_an_error": "no",
    "words": "woken by a stream's write, a CPU's store, a copy; pages that may only be read: yes",
    "word_of_the_dead": "it waits; after a CPU's store it goes on",
    "other_pid_namespace": "both open",
    "private_shm": "both open",
    "capture_and_other_threads": f"global: {UNSAFE}; global, exchanged: none; {OTHER_MODES}",
    "contexts_made": "on device 0 by cudaSetDevice(0); on device 1 by cudaSetDevice(1)",
    "context_time": "N ms alone; 4 at once: N ms",
    "memory_of_a_context": "2 MiB",
}
# The same, and something that is otherwise.
OTHERWISE = [
    ("ipc_memory", "cudaIpcOpenMemHandle!201", "failed: cudaIpcOpenMemHandle: 201 cuda"),
    ("import_in_the_same_process", "cudaIpcOpenMemHandle!1", "1 cudaErrorInvalidValue"),
    ("opening_twice", "cudaIpcOpenMemHandle!208*2", "refused: 208 cudaErrorAlreadyMapped"),
    ("opening_twice", "cudaMemcpy!700", "the same address; one closing closes both"),
    ("memory_of_the_dead", "cudaMemcpy!700", "not readable: cudaMemcpy: 700"),
    ("registered_pages", "read_only_register=0", "yes; reading alone: 801 cudaErrorNotSupported"),
    ("registered_pages", "cudaHostRegister!2", "no: 2 cudaErrorMemoryAllocation"),
    ("ipc_events", "cudaStreamWaitEvent!400", "failed: cudaStreamWaitEvent: 400"),
    ("wait_binds_at_its_call", "waits_follow=1", "no"),
    ("later_record_overtakes", "later_record_releases=1", "yes"),
    ("later_record_overtakes", "records_queue=1", "no: a record waits for the earlier one"),
    ("event_opened_twice", "cudaIpcOpenEventHandle!400*2", "refused"),
    ("record_of_an_ended_process", "cudaStreamWaitEvent!400", "failed: cudaStreamWaitEvent: 400"),
    ("event_of_a_dead_owner", "cudaEventRecord!400", "failed: cudaEventRecord: 400"),
    ("shared_events", "cudaEventCreateWithFlags!2*101", "100: 2 cudaErrorMemoryAllocation"),
    ("later_record_frees", "later_record_releases=1", "yes"),
    ("event_after_a_lost_record", "records_queue=1", "it is stuck for good; a new event works"),
    ("not_ready_is_an_error", "not_ready_stays=1", "yes"),
    ("words", "stream_memory_ops=0", "no: 801 cudaErrorNotSupported"),
    ("words", "cpu_store_wakes=0", "woken by a stream's write; pages that may only be read: yes"),
    (
        "words",
        "read_only_register=0",
        "woken by a stream's write, a CPU's store, a copy; pages that may only be read: 801",
    ),
    ("word_of_the_dead", "cpu_store_wakes=0", "it waits; after a stream's write it goes on"),
    ("other_pid_namespace", "pid_namespace_matters=1", "refused: memory, event"),
    ("private_shm", "events_private=1", "refused: event"),
    (
        "contexts_made",
        "one GPU",
        "one GPU, so nothing about a second; on device 0 by cudaSetDevice(0)",
    ),
    (
        "contexts_made",
        "cudaSetDevice!2*2",
        "on device 0 by cudaIpcOpenMemHandle; on device 1 by no step",
    ),
    ("context_time", "cudaFree!2", "failed: cudaFree: 2"),
    ("memory_of_a_context", "cudaMemGetInfo!2", "failed: cudaMemGetInfo: 2"),
    ("ipc_memory", "driver_version=12040", "failed: cudaMalloc: 35"),
]


@pytest.fixture(scope="module")
def answers():
    """Ask all that the tests of this module look at; the questions mostly wait."""
    asked = [(question,) for question in ANSWERS] + [case[:2] for case in OTHERWISE]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return dict(zip(asked, pool.map(lambda case: answer(*case), asked), strict=True))


def short(found):
    told = found if isinstance(found, str) else found["answer"]
    return re.sub(r"\d+ ms", "N ms", told)


def test_the_questions_are_these():
    (listed,), _ = said_by("probes.py")
    assert listed == list(ANSWERS)


@pytest.mark.timeout(600)  # all of them are asked before the first test
@pytest.mark.parametrize("question", ANSWERS)
def test_an_answer_is_what_the_stand_in_does(answers, question):
    found = answers[(question,)]
    assert short(found) == ANSWERS[question], found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("question", "change", "expected"), OTHERWISE)
def test_an_answer_is_another_one_where_cuda_does_otherwise(answers, question, change, expected):
    found = answers[(question, change)]
    assert short(found).startswith(expected), found


@pytest.fixture
def load(monkeypatch):
    """Import modules of tests/hardware for one test."""
    monkeypatch.syspath_prepend(str(HARDWARE))
    before = set(sys.modules)
    yield importlib.import_module
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(HARDWARE)):
            del sys.modules[name]


def test_a_question_without_an_answer_ends_at_its_limit(load):
    asking = load("asking")
    endless = asking.Question(lambda: time.sleep(1000), 0.1)
    assert asking.answered(endless) == "failed: no answer within 0.1 s"


@pytest.mark.parametrize(("counts", "expected"), [(True, "no"), (False, "unknown: its kernel was")])
def test_a_kernel_that_goes_on_after_the_pidfd_is_seen(
    fake_cuda, stand_in_path, load, counts, expected
):
    asking, deaths = load("asking"), load("probe_deaths")
    watcher, counter = Process(Cuda), Process(Cuda)
    raw = watcher.run(asking.export_memory, 0)
    if counts:
        counter.run(deaths.count_up, raw)
    with subprocess.Popen(["sleep", "1000"]) as other:  # not the process that counts
        found = deaths.seen_after_death(watcher, other.pid)
    for process in (counter, watcher):
        process.kill()
    assert found["answer"].startswith(expected), found
    fake_cuda.findings()  # of a killed process: no matter
