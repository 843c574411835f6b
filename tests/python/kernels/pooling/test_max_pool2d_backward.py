import itertools

import pytest
import torch
from torch.nn import functional as F

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WINDOWS = [
    # kernel, stride, padding, dilation, ceil_mode
    ([2, 2], [2, 2], [0, 0], [1, 1], False),
    ([2, 2], [], [0, 0], [1, 1], False),
    ([2, 2], [1, 2], [0, 0], [1, 1], False),
    ([3, 3], [2, 2], [1, 1], [1, 1], False),
    ([3, 2], [1, 3], [1, 0], [2, 1], False),
    ([2, 3], [2, 1], [1, 1], [1, 3], False),
    ([3, 2], [2, 2], [0, 1], [1, 1], True),
]


def both(grad, x, *window):
    values, indices = torch.ops.aten.max_pool2d_with_indices(x, *window)
    grad = grad[tuple(slice(n) for n in values.shape)] if grad is not None else values
    expected = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *window, indices)
    return torch.ops.smex.max_pool2d_backward(grad, x, *window), expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 7, 9), (3, 8, 6), (1, 1, 5, 7), (4, 16, 64, 48)], ids=str)
def test_equals_aten(shape, window, dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator).to(dtype)
    grad = torch.randn(shape, generator=generator).to(dtype)
    found, expected = both(grad, x, *window)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_of_equals_the_first_counts_and_nan_is_the_largest(window):
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(0, 2, (2, 2, 8, 9), generator=generator).double()
    grad = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    for values in (x, x.masked_fill(x > 0, float("nan")), torch.full_like(x, float("-inf"))):
        found, expected = both(grad, values, *window)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_any_strides():
    x, grad = torch.randn(2, 8, 6, 4).transpose(1, 3), torch.randn(2, 4, 4, 3).transpose(2, 3)
    found, expected = both(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False)
    torch.testing.assert_close(found, expected)
    found, expected = both(
        None, x.to(memory_format=torch.channels_last), [3, 3], [2, 2], [1, 1], [1, 1], False
    )
    torch.testing.assert_close(found, expected)


def test_empty_batch():
    x = torch.randn(0, 3, 4, 4)
    grad = torch.randn(0, 3, 2, 2)
    assert torch.ops.smex.max_pool2d_backward(grad, x, [2, 2]).shape == x.shape


def test_wrong_shape_and_type():
    x = torch.randn(1, 1, 4, 4)
    with pytest.raises(ValueError, match=r"pooled shape \[1, 1, 2, 2\], found \[1, 1, 3, 3\]"):
        torch.ops.smex.max_pool2d_backward(torch.randn(1, 1, 3, 3), x, [2, 2])
    with pytest.raises(ValueError, match="pooled shape"):
        torch.ops.smex.max_pool2d_backward(torch.randn(1, 1, 3, 3), x, [2, 2], ceil_mode=True)
    with pytest.raises(TypeError, match="gradient of type Float"):
        torch.ops.smex.max_pool2d_backward(torch.randn(1, 1, 2, 2).double(), x, [2, 2])


def test_opcheck():
    for dtype, window in itertools.product((torch.float32, torch.float64), WINDOWS):
        x = torch.randn(2, 2, 8, 8, dtype=dtype)
        y = F.max_pool2d(x, window[0], window[1] or None, *window[2:4], window[4])
        torch.library.opcheck(torch.ops.smex.max_pool2d_backward, (torch.randn_like(y), x, *window))


@pytest.mark.cuda
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_cuda_equals_the_cpu(window):
    x = torch.randn(2, 3, 9, 8)
    y, _ = torch.ops.aten.max_pool2d_with_indices(x, *window)
    grad = torch.randn_like(y)
    found = torch.ops.smex.max_pool2d_backward(grad.cuda(), x.cuda(), *window)
    torch.testing.assert_close(found.cpu(), torch.ops.smex.max_pool2d_backward(grad, x, *window))
