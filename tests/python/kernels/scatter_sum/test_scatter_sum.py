import pytest
import torch

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

CASES = [  # shape of x, dimension, its size in the result
    ((4, 3), 1, 9),
    ((4, 3), 0, 5),
    ((2, 5, 3), 1, 4),
    ((7,), 0, 3),
    ((1, 1), 1, 1),
    ((3, 0), 1, 4),
    ((0, 3), 1, 4),
    ((300, 40), 1, 129),
]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64]


def inputs(shape, dim, size, dtype=torch.float64):
    """Elements, their places, and the result's shape."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(-8, 9, shape, generator=generator).to(dtype)
    index = torch.randint(0, size, shape, generator=generator)
    return x, index, [size if d == dim else n for d, n in enumerate(shape)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim", "size"), CASES, ids=str)
def test_equals_a_scatter(shape, dim, size, dtype):
    x, index, made = inputs(shape, dim, size, dtype)
    wanted = torch.zeros(made, dtype=dtype).scatter_add(dim, index, x)
    torch.testing.assert_close(torch.ops.smex.scatter_sum(x, index, dim, made), wanted)


@pytest.mark.parametrize(("shape", "dim", "size"), CASES, ids=str)
def test_tiles_are_parts_of_the_whole(shape, dim, size):
    x, index, made = inputs(shape, dim, size)
    whole = torch.ops.smex.scatter_sum(x, index, dim, made, [])
    for begin, end in ((0, size // 2), (size // 2, size), (size, size)):
        tile = [end - begin if d == dim else n for d, n in enumerate(made)]
        offset = [begin if d == dim else 7 for d in range(len(made))]  # of others it does not ask
        found = torch.ops.smex.scatter_sum(x, index, dim, tile, offset)
        torch.testing.assert_close(found, whole.narrow(dim, begin, end - begin))


def test_what_is_no_number_stays_where_it_is():
    x = torch.tensor([[float("nan"), 1.0]])
    for offset, wanted in ((0, [0.0, 1.0]), (2, [0.0, float("nan")])):
        found = torch.ops.smex.scatter_sum(x, torch.tensor([[3, 1]]), 1, [1, 2], [0, offset])
        torch.testing.assert_close(found, torch.tensor([wanted]), equal_nan=True)


def test_any_strides():
    x, index, made = inputs((6, 5), 1, 9)
    strided = [t.t().contiguous().t() for t in (x, index)]
    torch.testing.assert_close(
        torch.ops.smex.scatter_sum(*strided, 1, made), torch.ops.smex.scatter_sum(x, index, 1, made)
    )


def test_misuse_is_named():
    x, index, made = inputs((4, 3), 1, 9)
    op = torch.ops.smex.scatter_sum
    with pytest.raises(IndexError, match="expected a dimension below 2, found 2"):
        op(x, index, 2, made)
    with pytest.raises(TypeError, match="positions of type Long, found Int"):
        op(x, index.int(), 1, made)
    with pytest.raises(ValueError, match=r"each element of \[4, 3\], found \[4, 2\]"):
        op(x, index[:, :2], 1, made)
    with pytest.raises(ValueError, match=r"result's shape \[5, 9\] but for dimension 1"):
        op(x, index, 1, [5, 9])
    with pytest.raises(ValueError, match="begins in each of 2 dimensions"):
        op(x, index, 1, made, [3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype):
    x, index, made = inputs((2, 5, 3), 1, 4, dtype)
    torch.library.opcheck(torch.ops.smex.scatter_sum, (x, index, 1, made, []))


@pytest.mark.cuda
def test_cuda_equals_the_cpu():
    x, index, made = inputs((4, 3), 1, 9)
    found = torch.ops.smex.scatter_sum(x.cuda(), index.cuda(), 1, made, [0, 2])
    torch.testing.assert_close(found.cpu(), torch.ops.smex.scatter_sum(x, index, 1, made, [0, 2]))
