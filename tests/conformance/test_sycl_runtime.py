"""The real dpctl and dpnp, on the SYCL runtime of the CPU, in another process than the test's."""

import memlease
import numpy as np
import pytest
from fake_dpctl import Described, describe

pytest_plugins = ["sycl_process"]

KINDS = ("shared", "host", "device")
# Without f2, which not every device has.
TYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"]
COUNT = 24
FORMS = (
    "queue",
    "context",
    "queue capsule",
    "context capsule",
    "object with a queue",
    "object with a context",
    "filter string",
)
VALUES = np.arange(COUNT, dtype="f4").reshape(4, 6)


@pytest.fixture
def field(memlease_client):
    array = memlease_client.create("u", shape=(4, 6), dtype="f4", order="F")
    array.put(VALUES)
    return array


# ---- Out: what dpctl and dpnp make of a lease.


@pytest.mark.parametrize("kind", KINDS)
def test_dpnp_computes_on_what_another_process_has_written(sycl, field, kind):
    """R-SYCL-1, 2, 3, 4, 5, 7: with strides, and the copy outlives its lease."""
    assert (sycl.run(square, kind) == VALUES**2).all()
    field.put(VALUES + 1)
    assert (sycl.run(square, kind) == (VALUES + 1) ** 2).all()
    assert field.get().tolist() == (VALUES + 1).tolist()


def square(here, kind):
    import dpctl.memory
    import dpnp

    with here.client.open("u").read() as lease:
        export = lease.sycl_usm(here.queue, usm_type=kind)
        assert export.__sycl_usm_array_interface__["strides"] == (1, 4)
    memory = dpctl.memory.as_usm_memory(export)
    assert (memory.get_usm_type(), memory.nbytes) == (kind, 4 * COUNT)
    assert memory.copy_to_host().view("f4").reshape(6, 4).T[1, 0] == dpnp.asnumpy(export_of(export))
    found = dpnp.asarray(export)
    assert (found.usm_type, found.sycl_queue.sycl_context) == (kind, here.queue.sycl_context)
    del export
    found *= found  # it may be written
    return dpnp.asnumpy(found)


def export_of(export):
    """Return the element [1, 0] as an array of dpnp without axes, by an offset in elements."""
    import dpnp

    fields = export.__sycl_usm_array_interface__
    return dpnp.asarray(Described({**fields, "shape": (), "strides": (), "offset": 1}, export))


def forms_of(queue):
    """Make what may stand for the context of a queue; capsules are used once."""
    context = queue.sycl_context
    return {
        "queue": lambda: queue,
        "context": lambda: context,
        "queue capsule": queue._get_capsule,
        "context capsule": context._get_capsule,
        "object with a queue": lambda: Capsules(queue._get_capsule),
        "object with a context": lambda: Capsules(context._get_capsule),
        "filter string": lambda: "opencl:cpu",
    }


class Capsules:
    def __init__(self, make):
        self._get_capsule = make


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_context_both_ways(sycl, field, form):
    """R-SYCL-5: an export names a queue of that context, an import finds the memory by it."""
    assert (sycl.run(through, form) == VALUES).all()
    assert (field.get() == VALUES + 1).all()


def through(here, form):
    import dpctl
    import dpnp

    device = here.queue.sycl_device
    # A context that is not the default one, which a filter string means.
    own = dpctl.SyclQueue(dpctl.SyclContext([device]), device)
    assert own.sycl_context != here.queue.sycl_context
    queue = here.queue if form == "filter string" else own
    make = forms_of(queue)[form]
    array = here.client.open("u")
    with array.read() as lease:
        export = lease.sycl_usm(make())
    assert export.sycl_queue.sycl_context == queue.sycl_context
    found = dpnp.asnumpy(dpnp.asarray(export))
    plus_one = dpnp.asarray(VALUES + 1, usm_type="shared", sycl_queue=queue)
    queue.wait()
    fields = {**plus_one.__sycl_usm_array_interface__, "syclobj": make()}
    array.put(Described(fields, plus_one))
    return found


@pytest.mark.parametrize("dtype", TYPES)
def test_types(sycl, memlease_client, dtype):
    """R-SYCL-6: there and back."""
    values = np.arange(6).reshape(2, 3).astype(dtype)
    array = memlease_client.put("a", values)
    assert sycl.run(there_and_back) == np.dtype(dtype).str
    assert (array.get() == values).all()
    assert array.version == 2


def there_and_back(here):
    import dpnp

    array = here.client.open("a")
    with array.read() as lease:
        found = dpnp.asarray(lease.sycl_usm(here.queue))
    array.put(found)
    return found.dtype.str


def test_no_elements_both_ways(sycl, memlease_client):
    """R-SYCL-4: with an address that the context knows."""
    memlease_client.create("a", shape=(0, 3), dtype="f4", fill=0)
    assert sycl.run(nothing) == (0, 3)


def nothing(here):
    import dpnp

    array = here.client.open("a")
    with array.read() as lease:
        found = dpnp.asarray(lease.sycl_usm(here.queue))
    array.put(found)
    array.get(out=found)
    return found.shape


# ---- Leases are shared memory, which is not USM to a CPU's runtime.


def test_shared_memory_is_not_usm(sycl, field):
    """R-SYCL-4, 10: dpctl refuses its address; so do we, and say which way works."""
    said = sycl.run(refusals)
    assert "is not bound to SyclContext" in said["dpctl"]
    for error in (said["copy=False"], said["write"]):
        assert "the SYCL context does not know it as USM" in error
    assert "array.get(out=x)" in said["copy=False"]
    assert "lease[...] = x" in said["write"]
    for error in (said["source"], said["another context's"]):
        assert "does not know its 96 bytes" in error
    assert field.version == 1


def refusals(here):
    import dpctl.memory

    array = here.client.open("u")
    said = {}
    device = here.queue.sycl_device
    other = dpctl.SyclQueue(dpctl.SyclContext([device]), device)
    memory = dpctl.memory.MemoryUSMShared(96, queue=other)
    fields = {**memory.__sycl_usm_array_interface__, "syclobj": here.queue}
    with array.read() as lease:
        source = describe(lease.array, here.queue)
        for name, call in {
            "dpctl": lambda: dpctl.memory.as_usm_memory(source),
            "copy=False": lambda: lease.sycl_usm(here.queue, copy=False),
            "source": lambda: array.put(source),
            "another context's": lambda: array.put(Described(fields, memory)),
        }.items():
            said[name] = error_of(call)
    with pytest.raises(memlease.Unsupported) as info, array.write() as lease:
        lease.sycl_usm(here.queue)
    return {**said, "write": str(info.value)}


def error_of(call):
    with pytest.raises((ValueError, memlease.Error)) as info:
        call()
    return str(info.value)


# ---- In: what dpctl and dpnp have.


@pytest.mark.parametrize("kind", KINDS)
def test_what_dpnp_has_is_copied_in(sycl, memlease_client, kind):
    """R-SYCL-2, 4, 7: as it is when its queue has done its work, whatever the layout."""
    memlease_client.create("a", shape=(3, 4), dtype="f4")
    for layout, cut in enumerate(LAYOUTS):
        version = sycl.run(put_by_dpnp, kind, layout)
        wanted = cut(np.arange(48, dtype="f4").reshape(6, 8)) * 3
        assert (memlease_client.get("a") == wanted).all(), layout
        assert version == layout + 1


LAYOUTS = [
    lambda whole: whole[:3, :4],
    lambda whole: whole[::-2, 1::2],
    lambda whole: whole[1:5, 5:2:-1].T,
]


def put_by_dpnp(here, kind, layout):
    import dpnp

    whole = dpnp.arange(48, dtype="f4", usm_type=kind, sycl_queue=here.queue)
    whole = whole.reshape(6, 8)
    whole *= 3
    return here.client.open("a").put(LAYOUTS[layout](whole))


@pytest.mark.parametrize("call", ["put", "assign", "get"])
def test_kernels_of_the_queue_are_waited_for(sycl, memlease_client, call):
    """R-SYCL-7: which go on when the call begins; nobody else waits for them."""
    memlease_client.create("a", shape=(SIDE, SIDE), dtype="f8", fill=1)
    assert sycl.run(call_in_a_kernel, call)


SIDE = 1200  # a product of matrices takes a tenth of a second


def call_in_a_kernel(here, call):
    """Return whether the kernel went on, at one time of ten; what comes out is right each time."""
    import dpctl.memory
    import dpnp

    array = here.client.open("a")
    ones = dpnp.ones((SIDE, SIDE), usm_type="shared", sycl_queue=here.queue)
    product = dpnp.empty_like(ones)
    memory = np.frombuffer(dpctl.memory.as_usm_memory(product), "f8")
    # Now, as dpnp itself waits where it is asked for it.
    described = Described(product.__sycl_usm_array_interface__, product)
    for _ in range(10):
        product.fill(0)
        here.queue.wait()
        dpnp.matmul(ones, ones, out=product)
        goes_on = memory[-1] == 0
        if call == "get":
            array.get(out=described)
            here.queue.wait()
            assert (memory == 1).all()
        else:
            if call == "put":
                array.put(described)
            else:
                with array.write() as lease:
                    lease[...] = described
            assert (array.get() == SIDE).all()
        if goes_on:
            return True
    return False


def test_memory_of_dpctl_is_bytes(sycl, memlease_client):
    """R-SYCL-3: its flag says True, and it may be written."""
    memlease_client.put("a", np.arange(16, dtype="u1"))
    for kind in KINDS:
        flag, values = sycl.run(fill_memory, kind)
        assert flag is True, "dpctl has changed what its flag means: see usm_runtime.py"
        assert values == list(range(16))
    assert memlease_client.get("a").tolist() == list(range(100, 116))


def fill_memory(here, kind):
    import dpctl.memory

    memory = getattr(dpctl.memory, f"MemoryUSM{kind.capitalize()}")(16, queue=here.queue)
    array = here.client.open("a")
    if array.version == 1:
        here.kept["values"] = array.get()
    array.put(here.kept["values"])
    assert array.get(out=memory) is memory
    values = memory.copy_to_host().tolist()
    memory.copy_from_host(np.arange(100, 116, dtype="u1"))
    array.put(memory)
    return memory.__sycl_usm_array_interface__["data"][1], values


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_dpnp_are_filled(sycl, field, kind):
    """R-SYCL-2, 3, 7: and converted; what says that it is read-only is not."""
    assert (sycl.run(get_into_dpnp, kind) == VALUES).all()
    assert "read-only" in sycl.run(get_into_read_only, kind)


def get_into_dpnp(here, kind):
    import dpnp

    out = dpnp.zeros((4, 6), dtype="f8", usm_type=kind, sycl_queue=here.queue)
    out += 1  # is over before the elements come
    assert here.client.open("u").get(out=out) is out
    return dpnp.asnumpy(out)


def get_into_read_only(here, kind):
    import dpnp

    out = dpnp.zeros((4, 6), dtype="f4", usm_type=kind, sycl_queue=here.queue)
    out.flags.writable = False
    here.client.put("read-only", out)  # it may be read
    return error_of(lambda: here.client.open("u").get(out=out))


def test_a_lease_is_filled_by_dpnp(sycl, field):
    """R-SYCL-2, 7: all of it, or a part."""
    sycl.run(fill_by_dpnp)
    assert field.get()[:3].tolist() == np.full((3, 6), 7).tolist()
    assert field.get()[3].tolist() == list(range(6))


def fill_by_dpnp(here):
    import dpnp

    with here.client.open("u").write() as lease:
        lease[...] = dpnp.full((4, 6), 7, dtype="i4", sycl_queue=here.queue)
        lease[3] = dpnp.arange(6, dtype="f4", usm_type="host", sycl_queue=here.queue)


def test_a_lease_is_an_array_to_dpnp(sycl, field):
    """R-SYCL-10: by its buffer, where a copy by dpnp itself will do."""
    assert (sycl.run(as_dpnp_has_it) == VALUES).all()


def as_dpnp_has_it(here):
    import dpnp

    with here.client.open("u").read() as lease:
        return dpnp.asnumpy(dpnp.asarray(lease.array, sycl_queue=here.queue))


# ---- What is refused.


def test_dpctl_refuses_what_we_refuse(sycl):
    """R-SYCL-1: a version that is not 1, and no syclobj."""
    for changes, ours in (
        ({"version": 2}, "version 2"),
        ({"version": 0}, "version 0"),
        ({"syclobj": None}, "syclobj=None"),
        ({"data": None}, "data=None"),
        ({"shape": None}, "shape=None"),
    ):
        dpctl, memlease_ = sycl.run(both_errors, changes)
        assert dpctl != ""
        assert ours in memlease_


def both_errors(here, changes):
    import dpctl.memory

    memory = dpctl.memory.MemoryUSMShared(16, queue=here.queue)
    fields = {**memory.__sycl_usm_array_interface__, **changes}
    source = Described(fields, memory)
    return (
        error_of(lambda: dpctl.memory.as_usm_memory(source)),
        error_of(lambda: here.client.put("refused", source)),
    )


def test_contexts_that_are_not_there(sycl, field):
    """R-SYCL-5: selectors of no device, other objects, and a capsule that is used up."""
    for error in sycl.run(wrong_contexts):
        assert "SyclQueue" in error
    assert field.version == 1


def wrong_contexts(here):
    import dpctl

    used = here.queue._get_capsule()
    dpctl.SyclQueue(used)
    memory = dpctl.memory.MemoryUSMShared(96, queue=here.queue)
    array = here.client.open("u")
    errors = []
    for syclobj in ("nonsense", "level_zero:gpu:7", used, 3, object(), here.queue.sycl_device):
        fields = {**memory.__sycl_usm_array_interface__, "syclobj": syclobj}
        errors.append(error_of(lambda fields=fields: array.put(Described(fields, memory))))
        with array.read() as lease:
            errors.append(error_of(lambda syclobj=syclobj: lease.sycl_usm(syclobj)))
    return errors
