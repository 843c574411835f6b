import pytest
import torch

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

CASES = [  # shape of x, dimensions of a row
    ((3, 5, 7), 1),
    ((2, 3, 4, 5), 2),
    ((6,), 1),
    ((4, 1), 1),
    ((1, 9), 1),
    ((0, 4), 1),
    ((2, 1031), 1),
    ((70, 33), 1),
    ((2, 3), 2),
]
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
CLOSE = {torch.float64: 1e-11, torch.float32: 2e-4, torch.bfloat16: 8e-2}
EPS = 1e-5


def inputs(shape, rank, dtype=torch.float64):
    """Gradient and input of `shape`, and two vectors of the places of a row."""
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(shape, generator=generator) for _ in range(2)]
    tensors += [torch.randn(shape[len(shape) - rank :], generator=generator) for _ in range(2)]
    return [tensor.to(dtype) for tensor in tensors]


def ours(grad, x, weight, bias, rank):
    op = torch.ops.smex
    count = x.shape[x.dim() - rank :].numel()
    mean = op.row_mean(x, rank, count)
    squares = op.row_squares(x, mean)
    y, rstd = op.row_normalize(x, mean, squares, weight, bias, count, EPS)
    sums, by_weight, by_bias = op.row_gradient_sums(grad, x, mean, rstd, rank, weight)
    grad_x = op.row_gradient(grad, x, mean, rstd, weight, sums, count)
    return y, mean, rstd, grad_x, by_weight, by_bias


def reference(grad, x, weight, bias, rank):
    """By ATen, in float64."""
    grad, x, weight, bias = (None if t is None else t.double() for t in (grad, x, weight, bias))
    shape = x.shape[x.dim() - rank :]
    ones = torch.ones(shape, dtype=x.dtype) if weight is None else weight
    made = torch.ops.aten.native_layer_norm(x, shape, weight, bias, EPS)
    grads = torch.ops.aten.native_layer_norm_backward(
        grad, x, shape, *made[1:], ones, torch.zeros_like(ones), [True] * 3
    )
    return *made, *grads


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "rank"), CASES, ids=str)
def test_equal_the_whole_call(shape, rank, dtype, affine):
    grad, x, weight, bias = inputs(shape, rank, dtype)
    if not affine:
        weight = bias = None
    found, wanted = ours(grad, x, weight, bias, rank), reference(grad, x, weight, bias, rank)
    for ours_, theirs in zip(found, wanted, strict=True):
        scale = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
        torch.testing.assert_close(
            ours_.double(), theirs, rtol=0, atol=CLOSE[dtype] * scale, check_dtype=False
        )
    summed = torch.float32 if dtype == torch.bfloat16 else dtype
    assert [t.dtype for t in found] == [dtype, summed, summed, dtype, dtype, dtype]


def test_parts_of_rows_add_up():
    """Of a row in parts: the means and squares of whole rows, whatever the parts' sizes are."""
    _, x, *_ = inputs((4, 37), 1)
    parts = x.split([5, 31, 1], dim=1)
    op = torch.ops.smex
    mean = sum(op.row_mean(part, 1, 37) for part in parts)
    torch.testing.assert_close(mean, x.mean(1, keepdim=True))
    squares = sum(op.row_squares(part, mean) for part in parts)
    torch.testing.assert_close(squares / 37, x.var(1, correction=0, keepdim=True))


def test_any_strides():
    grad, x, weight, bias = inputs((5, 6), 1)
    strided = [t.t().contiguous().t() for t in (grad, x)]
    wide = [torch.stack([t, t], -1)[..., 0] for t in (weight, bias)]
    for found, wanted in zip(ours(*strided, *wide, 1), ours(grad, x, weight, bias, 1), strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_weight_of_another_type():
    grad, x, weight, bias = inputs((5, 6), 1, torch.bfloat16)
    found = ours(grad, x, weight.float(), bias.float(), 1)
    assert [t.dtype for t in found[3:]] == [torch.bfloat16, torch.float32, torch.float32]


def test_misuse_is_named():
    grad, x, weight, _ = inputs((3, 4), 1)
    op = torch.ops.smex
    mean = op.row_mean(x, 1, 4)
    with pytest.raises(ValueError, match="expected rows of 1 to 2 dimensions, found 3"):
        op.row_mean(x, 3, 4)
    with pytest.raises(ValueError, match="at least 1 element, found 0"):
        op.row_mean(x, 1, 0)
    with pytest.raises(TypeError, match="expected floating point, found Long"):
        op.row_mean(torch.zeros(2, 2, dtype=torch.int64), 1, 2)
    with pytest.raises(ValueError, match=r"a number for each row of \[3, 4\], found \[2, 1\]"):
        op.row_squares(x, mean[:2])
    with pytest.raises(ValueError, match=r"each place of a row of \[3, 4\], found \[3\]"):
        op.row_normalize(x, mean, mean, weight[:3], None, 4, EPS)
    with pytest.raises(ValueError, match=r"gradient of shape \[3, 4\], found \[2, 4\]"):
        op.row_gradient_sums(grad[:2], x, mean, mean, 1, None)
    with pytest.raises(ValueError, match=r"two sums for each row of \[3, 4\], found \[3, 1\]"):
        op.row_gradient(grad, x, mean, mean, None, mean, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype):
    grad, x, weight, bias = inputs((3, 4, 5), 2, dtype)
    op, check = torch.ops.smex, torch.library.opcheck
    check(op.row_mean, (x, 2, 20))
    mean = op.row_mean(x, 2, 20)
    check(op.row_squares, (x, mean))
    squares = op.row_squares(x, mean)
    check(op.row_normalize, (x, mean, squares, weight, bias, 20, EPS))
    check(op.row_gradient_sums, (grad, x, mean, squares, 2, weight))
    sums, *_ = op.row_gradient_sums(grad, x, mean, squares, 2, weight)
    check(op.row_gradient, (grad, x, mean, squares, weight, sums, 20))


@pytest.mark.cuda
@pytest.mark.parametrize(("shape", "rank"), CASES, ids=str)
def test_cuda_equals_the_cpu(shape, rank):
    tensors = inputs(shape, rank)
    on_device = [tensor.cuda() for tensor in tensors]
    for found, expected in zip(ours(*on_device, rank), ours(*tensors, rank), strict=True):
        torch.testing.assert_close(found.cpu(), expected)
