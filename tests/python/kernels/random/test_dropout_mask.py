import itertools

import numpy as np
import pytest
import torch

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def dropout_mask(*args, **kwargs):
    return torch.ops.smex.dropout_mask(*args, **kwargs)


def whole(shape, p=0.5, seed=1, stream=2, dtype=torch.float32, device="cpu"):
    like = torch.empty(shape, dtype=dtype, device=device)
    return dropout_mask(like, p, seed, stream, [0] * len(shape), list(shape))


def philox_words(count: int, seed: int, stream: int) -> np.ndarray:
    """Words of elements 0 .. count - 1, from NumPy integers and the paper's round function."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    c0, c1 = blocks & low, blocks >> np.uint64(32)
    c2 = np.full_like(blocks, stream & 0xFFFFFFFF)
    c3 = np.full_like(blocks, (stream >> 32) & 0xFFFFFFFF)
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (product1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            product1 & low,
            (product0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            product0 & low,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).reshape(-1)[:count]


def test_known_answer_of_random123():
    """Counter 0 and key 0 give 6627e8d5 e169c58d bc57ac4c 9b00dbd8; thresholds around each word."""
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(w) for w in philox_words(4, 0, 0)] == words
    for i, word in enumerate(words):
        kept = whole((4,), p=word / 2**32, seed=0, stream=0)
        dropped = whole((4,), p=(word + 1) / 2**32, seed=0, stream=0)
        assert kept[i] != 0
        assert dropped[i] == 0


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (5,), (7, 9), (2, 3, 5), (4, 1, 8)])
@pytest.mark.parametrize("seed", [0, 2**40 + 3, -1])
def test_equals_numpy(shape, seed):
    p, stream = 0.3, 2**33 + 7
    count = int(np.prod(shape))
    words = philox_words(count, seed & (2**64 - 1), stream)
    expected = np.where(words >= round(p * 2**32), 1 / (1 - p), 0.0).reshape(shape)
    found = whole(shape, p, seed, stream, torch.float64).numpy()
    np.testing.assert_array_equal(found, expected)


def boxes(shape, splits):
    """The boxes of a grid that cuts dimension d at splits[d]."""
    ranges = [
        list(itertools.pairwise([0, *cuts, size])) for cuts, size in zip(splits, shape, strict=True)
    ]
    return itertools.product(*ranges)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "splits"),
    [
        ((10,), [[3, 3, 7]]),
        ((6, 7), [[2], []]),
        ((6, 7), [[], [1, 6]]),
        ((5, 6, 7), [[2], [1, 5], [3]]),
        ((3, 4, 5, 6), [[1], [], [2], []]),
        ((2, 3, 2, 3, 2), [[1], [1], [1], [1], [1]]),
        ((300, 301), [[100, 101], [150]]),
    ],
)
def test_mask_does_not_depend_on_the_split(shape, splits, dtype):
    full = whole(shape, dtype=dtype)
    for box in boxes(shape, splits):
        like = torch.empty([hi - lo for lo, hi in box], dtype=dtype)
        part = dropout_mask(like, 0.5, 1, 2, [lo for lo, _ in box], list(shape))
        assert torch.equal(part, full[tuple(slice(lo, hi) for lo, hi in box)])


def test_mask_does_not_depend_on_threads():
    shape, before = (3, 100_003), torch.get_num_threads()
    try:
        masks = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            masks.append(whole(shape))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(mask, masks[0]) for mask in masks)


def test_a_far_corner_of_a_huge_tensor():
    shape = [2**31, 2**31]
    first = 2**62 - 8
    part = dropout_mask(torch.empty(1, 8), 0.5, 3, 0, [2**31 - 1, 2**31 - 8], shape)
    blocks = first // 4
    assert blocks >> 32, "the upper counter word must be in use"
    same = dropout_mask(torch.empty(8), 0.5, 3, 0, [first], [2**62])
    assert torch.equal(part[0], same)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 1e-3, 0.1, 0.5, 0.9, 1.0])
def test_values_and_rate(p, dtype):
    mask = whole((1000, 1003), p, dtype=dtype)
    assert mask.dtype == dtype
    kept = mask[mask != 0]
    if p == 1:
        assert kept.numel() == 0
        return
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - p)))
    if p == 0:
        assert kept.numel() == mask.numel()
        return
    # Five standard deviations of a binomial count.
    n = mask.numel()
    assert abs(n - kept.numel() - n * p) < 5 * (n * p * (1 - p)) ** 0.5


def test_seeds_and_streams_are_independent():
    masks = [whole((10_000,), seed=s, stream=t) != 0 for s in (0, 1) for t in (0, 1)]
    for a, b in itertools.combinations(masks, 2):
        agreement = (a == b).double().mean().item()
        assert abs(agreement - 0.5) < 5 * 0.5 / 100


def test_dtype_argument_and_layout_of_like():
    like = torch.empty(6, 4, dtype=torch.float64).t()
    mask = dropout_mask(like, 0.5, 1, 2, [0, 0], [4, 6], dtype=torch.bfloat16)
    assert mask.dtype == torch.bfloat16
    assert mask.is_contiguous()
    assert torch.equal(mask, whole((4, 6), dtype=torch.bfloat16))
    integers = torch.empty(4, 6, dtype=torch.int32)
    mask = dropout_mask(integers, 0.5, 1, 2, [0, 0], [4, 6], dtype=torch.float32)
    assert torch.equal(mask, whole((4, 6)))


def test_mask_never_requires_a_gradient():
    like = torch.randn(4, 5, requires_grad=True)
    mask = dropout_mask(like, 0.5, 1, 2, [0, 0], [4, 5])
    assert not mask.requires_grad
    (like * mask).sum().backward()
    assert torch.equal(like.grad, mask)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"p": -0.1}, ValueError, r"p must be in \[0, 1\], found -0.1"),
        ({"p": 1.5}, ValueError, r"found 1.5"),
        ({"p": float("nan")}, ValueError, r"found nan"),
        ({"offset": [0]}, ValueError, r"like has 2 dimensions, offset 1 and global_shape 2"),
        ({"global_shape": [4, 5, 6]}, ValueError, r"global_shape 3"),
        ({"offset": [0, 1]}, ValueError, r"dimension 1: offset 1 \+ size 5 must lie within .* 5"),
        ({"offset": [-1, 0]}, ValueError, r"dimension 0: offset -1"),
        ({"global_shape": [2**40, 2**40]}, ValueError, r"over 2\^63 elements"),
        ({"like": torch.zeros(4, 5, dtype=torch.int64)}, TypeError, r"must be float32.*Long"),
        ({"dtype": torch.complex64}, TypeError, r"ComplexFloat"),
        (
            {"like": torch.zeros([1] * 17), "offset": [0] * 17, "global_shape": [1] * 17},
            ValueError,
            r"at most 16 dimensions, found 17",
        ),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_bad_arguments(change, error, text, device):
    arguments = {
        "like": torch.zeros(4, 5),
        "p": 0.5,
        "seed": 0,
        "stream": 0,
        "offset": [0, 0],
        "global_shape": [4, 5],
        **change,
    }
    arguments["like"] = arguments["like"].to(device)
    with pytest.raises(error, match=text):
        dropout_mask(**arguments)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype, requires_grad):
    like = torch.randn(3, 5, dtype=dtype, requires_grad=requires_grad)
    torch.library.opcheck(torch.ops.smex.dropout_mask.default, (like, 0.25, 7, 1, [1, 0], [6, 5]))


def test_meta_has_shape_and_dtype_only():
    like = torch.empty(3, 5, device="meta")
    mask = dropout_mask(like, 0.5, 1, 2, [0, 0], [3, 5], dtype=torch.float16)
    assert mask.is_meta
    assert mask.shape == (3, 5)
    assert mask.dtype == torch.float16


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (1023,), (1025,), (33, 65), (3, 5, 7, 9)])
def test_cuda_equals_cpu(shape, dtype):
    assert torch.equal(whole(shape, dtype=dtype, device="cuda").cpu(), whole(shape, dtype=dtype))


@pytest.mark.cuda
def test_cuda_mask_does_not_depend_on_the_split():
    shape = (300, 301)
    full = whole(shape)
    for box in boxes(shape, [[100, 101], [150]]):
        like = torch.empty([hi - lo for lo, hi in box], device="cuda")
        part = dropout_mask(like, 0.5, 1, 2, [lo for lo, _ in box], list(shape))
        assert torch.equal(part.cpu(), full[tuple(slice(lo, hi) for lo, hi in box)])
