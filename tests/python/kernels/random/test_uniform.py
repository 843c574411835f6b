"""Numbers of [0, 1) by place: `torch.ops.smex.uniform`."""

import itertools

import pytest
import torch

DTYPES = [torch.float32, torch.float64]


def uniform(shape, offset=None, whole=None, seed=3, stream=1, dtype=torch.float32, device="cpu"):
    like = torch.empty(shape, dtype=dtype, device=device)
    return torch.ops.smex.uniform(like, seed, stream, offset or [0] * len(shape), whole or shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_lie_evenly_in_the_unit_interval(dtype):
    x = uniform([400, 500], dtype=dtype)
    assert x.dtype == dtype and x.min() >= 0 and x.max() < 1
    counts = torch.histc(x.double(), bins=20, min=0, max=1) / x.numel()
    torch.testing.assert_close(counts, torch.full_like(counts, 0.05), atol=2e-3, rtol=0)
    flat = x.flatten().double() - 0.5
    assert abs((flat[1:] * flat[:-1]).mean()) < 1e-3, "neighbours do not depend on each other"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_bit_of_the_mantissa_is_drawn(dtype):
    bits = 24 if dtype == torch.float32 else 53
    whole = uniform([4096], dtype=dtype).double() * 2.0**bits
    assert torch.equal(whole, whole.round())
    odd = (whole.long() % 2).double().mean()
    assert 0.45 < odd < 0.55


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 4, 5), ()])
def test_parts_are_parts_of_the_whole(shape, dtype):
    whole = uniform(list(shape), dtype=dtype)
    cuts = [[(0, size), (size // 3, size), (0, size // 2)] for size in shape]
    for box in itertools.product(*cuts):
        sizes, offset = [hi - lo for lo, hi in box], [lo for lo, _ in box]
        part = uniform(sizes, offset, list(shape), dtype=dtype)
        assert torch.equal(part, whole[tuple(slice(lo, hi) for lo, hi in box)])


def test_seeds_and_streams_differ():
    drawn = [uniform([64], seed=s, stream=t) for s in (1, 2) for t in (0, 1)]
    assert len({tuple(x.tolist()) for x in drawn}) == 4


def test_meta_and_compile():
    like = torch.empty(3, 4, device="meta")
    assert torch.ops.smex.uniform(like, 0, 0, [0, 0], [3, 4], dtype=torch.float64).dtype is (
        torch.float64
    )
    torch.library.opcheck(torch.ops.smex.uniform.default, (torch.empty(3, 4), 1, 2, [0, 1], [3, 8]))


@pytest.mark.parametrize(
    ("like", "offset", "whole", "text"),
    [
        (torch.empty(3, dtype=torch.float16), [0], [3], "dtype must be float32 or float64"),
        (torch.empty(3), [0, 0], [3], "like has 1 dimensions"),
        (torch.empty(3), [1], [3], "must lie within global_shape 3"),
    ],
)
def test_errors(like, offset, whole, text):
    with pytest.raises((ValueError, TypeError), match=text):
        torch.ops.smex.uniform(like, 0, 0, offset, whole)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_equals_the_cpu(dtype):
    for sizes, offset, whole in (([70], [3], [100]), ([5, 33], [2, 0], [9, 40]), ([0], [0], [4])):
        cpu = uniform(sizes, offset, whole, dtype=dtype)
        assert torch.equal(uniform(sizes, offset, whole, dtype=dtype, device="cuda").cpu(), cpu)
