"""PyTorch and JAX on host arrays, for real."""

import gc

import jax
import jax.numpy as jnp
import memlease
import numpy as np
import pytest
import torch
import tvm_ffi


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=(64, 64), dtype="f4", fill=1)


def test_torch_reads_and_writes_in_place(field):
    with field.write() as w:
        tensor = torch.from_dlpack(w)
        assert tensor.data_ptr() == w.array.ctypes.data
        tensor.fill_(3)
        del tensor
    with field.read() as r:
        tensor = torch.from_dlpack(r)
        assert tensor.data_ptr() == r.array.ctypes.data
        assert float(tensor.sum()) == 3 * 64 * 64
        del tensor
        assert r.release()


def test_a_tensor_keeps_the_bytes(field):
    """R-BUG-8: beyond the lease."""
    with field.read() as r:
        tensor = torch.from_dlpack(r)
    for value in range(5):
        field.put(np.full((64, 64), value, dtype="f4"))
    assert float(tensor.sum()) == 64 * 64


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_types_make_the_round_trip(memlease_client, dtype):
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3).to(getattr(torch, dtype)).T
    array = memlease_client.put("a", tensor)
    assert (array.dtype, array.shape) == (dtype, (3, 2))
    with array.read() as r:
        again = torch.from_dlpack(r)
        assert again.dtype == tensor.dtype
        assert torch.equal(again.float(), tensor.float())
        del again
    created = memlease_client.create("b", shape=3, dtype=tensor.dtype)
    assert created.dtype == dtype


def test_torch_refuses_what_needs_a_gradient(memlease_client):
    with pytest.raises(BufferError, match="gradient"):
        memlease_client.put("a", torch.ones(3, requires_grad=True))


def test_jax_writes_into_put(memlease_client):
    assert np.array_equal(memlease_client.put("a", jnp.arange(4)).get(), [0, 1, 2, 3])
    array = memlease_client.put("b", jnp.ones(3, dtype=jnp.bfloat16))
    assert array.dtype == "bfloat16"
    assert memlease_client.create("c", shape=2, dtype=jnp.bfloat16).dtype == "bfloat16"


def test_jax_reads_in_place(field):
    """R-DLP-2, 6, 12: it takes only the form that cannot say "read-only", and needs no word."""
    with field.read() as r:
        array = jnp.from_dlpack(r)
        assert array.unsafe_buffer_pointer() == r.array.ctypes.data
        assert float(array.sum()) == 64 * 64
        assert isinstance(array, jax.Array)
        array.delete()  # JAX itself may hold the array a little longer than its name lives
        del array
        gc.collect()
        assert r.release()


def test_jax_keeps_the_bytes(field):
    with field.read() as r:
        array = jnp.from_dlpack(r)
    for value in range(5):
        field.put(np.full((64, 64), value, dtype="f4"))
    assert float(jax.jit(jnp.sum)(array)) == 64 * 64


def test_tvm_ffi_takes_it_in_place(field):
    """R-DLP-2, 24: finding no exchange table, it asks for the form without a version."""
    with field.read() as r:
        tensor = tvm_ffi.from_dlpack(r)
        assert tensor.shape == (64, 64)
        again = np.from_dlpack(tensor)
        assert np.shares_memory(again, r.array)
        del tensor, again
        assert r.release()


@pytest.mark.parametrize("library", [np, torch, jnp])
def test_a_handle_says_that_a_lease_is_to_be_taken(field, library):
    with pytest.raises(memlease.Unsupported, match=r"array\.read\(\)"):
        library.from_dlpack(field)


def test_jax_is_told_that_a_traced_function_has_no_elements(field):
    @jax.jit
    def step(x):
        field.put(x)
        return x

    with pytest.raises(memlease.InvalidArgument, match=r"tracer of JAX.*jax\.debug\.callback"):
        step(jnp.ones((64, 64)))
    assert field.version == 1


def test_jax_puts_from_a_callback(field):
    @jax.jit
    def step(x):
        jax.debug.callback(field.put, x + 1)
        return x

    step(jnp.ones((64, 64), "f4"))
    jax.effects_barrier()
    assert (field.version, field.get()[0, 0]) == (2, 2)
