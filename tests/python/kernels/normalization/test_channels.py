import pytest
import torch

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

SHAPES = [
    (3, 5, 7, 2),
    (2, 3, 40, 33),
    (6, 4),
    (1, 1, 1),
    (0, 3, 4),
    (2, 3, 0),
    (2, 2, 1031),
    (70, 9),
]
DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def inputs(shape, dtype=torch.float64):
    """Gradient and input of `shape`, and four vectors of its channels."""
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(shape, generator=generator) for _ in range(2)]
    tensors += [torch.randn(shape[1], generator=generator) for _ in range(4)]
    return [tensor.to(dtype) for tensor in tensors]


def reference(grad, x, mean, scale, shift, slope):
    grad, x, mean, scale, shift, slope = (t.double() for t in (grad, x, mean, scale, shift, slope))
    wide = [v.view(1, -1, *[1] * (x.dim() - 2)) for v in (mean, scale, shift, slope)]
    centered = x - wide[0]
    dims = [d for d in range(x.dim()) if d != 1]
    return (
        (centered * centered).sum(dims),
        grad.sum(dims),
        (grad * centered).sum(dims),
        wide[1] * (grad - wide[2] - centered * wide[3]),
    )


def ours(grad, x, mean, scale, shift, slope):
    op = torch.ops.smex
    return (
        op.centered_square_sum(x, mean),
        *op.channel_sums(grad, x, mean),
        op.channel_combine(grad, x, mean, scale, shift, slope),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equal_the_formulas(shape, dtype):
    tensors = inputs(shape, dtype)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2}[dtype]
    for found, expected in zip(ours(*tensors), reference(*tensors), strict=True):
        assert found.dtype == dtype
        scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance * scale)


def test_any_strides():
    grad, x, *vectors = inputs((3, 4, 5, 6))
    strided = (
        grad.transpose(2, 3).contiguous().transpose(2, 3),
        x.to(memory_format=torch.channels_last),
    )
    for found, expected in zip(ours(*strided, *vectors), ours(grad, x, *vectors), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_sum_of_many_keeps_its_digits():
    x = torch.full((4, 1, 1_000_000), 0.1)
    ones = torch.ones_like(x)
    total, _ = torch.ops.smex.channel_sums(x, ones, torch.zeros(1))
    assert total.item() == pytest.approx(4_000_000 * float(x[0, 0, 0]), rel=1e-6)


def test_misuse_is_named():
    grad, x, mean, *_ = inputs((2, 3, 4))
    with pytest.raises(ValueError, match=r"expected a vector of 3 channels, found shape \[4\]"):
        torch.ops.smex.centered_square_sum(x, torch.zeros(4).double())
    with pytest.raises(ValueError, match=r"gradient of shape \[2, 3, 4\], found \[2, 3, 5\]"):
        torch.ops.smex.channel_sums(torch.zeros(2, 3, 5).double(), x, mean)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        torch.ops.smex.centered_square_sum(torch.zeros(3), torch.zeros(3))
    with pytest.raises(TypeError, match="expected type Double, found Float"):
        torch.ops.smex.channel_sums(grad.float(), x, mean)
    with pytest.raises(TypeError, match="expected floating point, found Long"):
        torch.ops.smex.centered_square_sum(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype):
    grad, x, mean, scale, shift, slope = inputs((2, 3, 4, 5), dtype)
    op = torch.ops.smex
    torch.library.opcheck(op.centered_square_sum, (x, mean))
    torch.library.opcheck(op.channel_sums, (grad, x, mean))
    torch.library.opcheck(op.channel_combine, (grad, x, mean, scale, shift, slope))


@pytest.mark.cuda
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cuda_equals_the_cpu(shape):
    tensors = inputs(shape)
    on_device = [tensor.cuda() for tensor in tensors]
    for found, expected in zip(ours(*on_device), ours(*tensors), strict=True):
        torch.testing.assert_close(found.cpu(), expected)
