"""The kernels of memlease/kernels.h on arrays on a GPU, in all layouts that a view may have."""

from collections.abc import Callable

import numpy as np
import pytest
from gpu_arrays import address_of, create
from gpu_process import Cells

pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

SHAPE = (10, 12, 6)
VALUES = np.arange(720, dtype="u8").reshape(SHAPE)
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "all of it": lambda array: array,
    "without a dimension's ends": lambda array: array[:, 1:-1],
    "each other": lambda array: array[1:-1:2, ::3, 1:5:2],
    "transposed": lambda array: array.transpose(2, 0, 1),
    "backwards": lambda array: array[::-1, 2:, ::-1],
    "an odd number in a row": lambda array: array[..., :5],
    "not aligned to 16 bytes": lambda array: array[..., 1:],
    "one": lambda array: array[3:4, 5:6, 2:3],
    "none": lambda array: array[:, 4:4],
}
each_view = pytest.mark.parametrize("view", VIEWS)


def view_of(name, whole, address):
    """Return the view of what is at the address, laid out as `whole`; and that of `whole`."""
    view = VIEWS[name](whole)
    offset = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return Cells.like(view, address + (offset if view.size else 0)), view


@each_view
def test_fill(gpu, view):
    gpu.run(fill, view)


def fill(here, name):
    array = create(here, shape=SHAPE)
    expected = VALUES.copy()
    array.put(expected)
    with array.update(stream=here.stream()) as lease:
        cells, view = view_of(name, expected, address_of(lease))
        here.fill_cells(cells, 2**40 + 1, here.stream())
    view[...] = 2**40 + 1
    assert (array.get() == expected).all()


@each_view
def test_add_index_tuple(gpu, view):
    gpu.run(add_index_tuple, view)


def add_index_tuple(here, name):
    array = create(here, shape=SHAPE)
    expected = VALUES.copy()
    array.put(expected)
    with array.update(stream=here.stream()) as lease:
        cells, view = view_of(name, expected, address_of(lease))
        here.add_index_tuple(cells, here.stream())
    view += np.indices(view.shape, "u8").sum(axis=0)
    assert (array.get() == expected).all()


@each_view
@pytest.mark.parametrize("compact", [False, True])
def test_copy_with_conversion(gpu, view, compact):
    gpu.run(copy, view, compact)


def copy(here, name, compact):
    """Into a view of an array, from such a view of one of float32, or from a compact one."""
    array = create(here, shape=SHAPE)
    expected = VALUES.copy()
    array.put(expected)
    floats = (VALUES + 1000).astype("f4")
    with here.client.create("floats", shape=SHAPE, dtype="f4", device="cuda") as source:
        source.put(floats)
        stream = here.stream()
        with source.read(stream=stream) as read, array.update(stream=stream) as lease:
            from_, values = view_of(name, floats, address_of(read))
            if compact:
                values = floats.ravel()[: values.size].reshape(values.shape)
                from_ = Cells.like(values, address_of(read))
            to, view = view_of(name, expected, address_of(lease))
            here.copy_cells(from_, to, stream)
    view[...] = values
    assert (array.get() == expected).all()
