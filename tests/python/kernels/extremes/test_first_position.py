"""Where a value stands first, over tiles of a row."""

import itertools
import math

import pytest
import torch

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.cuda),
]
NOWHERE = 2**63 - 1


def first_position(*args):
    return torch.ops.smex.first_position(*args)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_the_least_over_tiles_is_the_first_of_all(device, dim, dtype):
    x = torch.randint(0, 3, (5, 7, 4), device=device).to(dtype)  # many are equal
    value = x.amax(dim, keepdim=True)
    size = x.shape[dim]
    at = torch.arange(size, device=device).view([-1 if d == dim else 1 for d in range(3)])
    wanted = torch.where(x == value, at, size).amin(dim, keepdim=True)
    for parts in (1, 2, 3):
        cuts = [size * p // parts for p in range(parts + 1)]
        found = [
            first_position(x.narrow(dim, low, high - low), value, dim, [low])
            for low, high in itertools.pairwise(cuts)
        ]
        assert torch.equal(torch.stack(found).amin(0), wanted)
    assert torch.equal(first_position(x, value, dim), wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_number_is_equal_to_itself(device):
    x = torch.tensor([[1.0, math.nan, 2.0, math.nan], [0.0, 1.0, -0.0, 3.0]], device=device)
    value = torch.tensor([[math.nan], [-0.0]], device=device)
    assert first_position(x, value, 1).flatten().tolist() == [1, 0]
    assert first_position(x, x[:, :1] - 5, 1).flatten().tolist() == [NOWHERE] * 2


def test_the_kernel_agrees_with_the_calls_of_torch():
    x = torch.randint(0, 4, (3, 50, 2)).double()
    x[1, 20:] = math.nan
    value = x.amin(1, keepdim=True)
    by_torch = torch.ops.smex.first_position.default._op_dk
    composite = by_torch(torch._C.DispatchKey.CompositeExplicitAutograd, x, value, 1, [3])
    assert torch.equal(first_position(x, value, 1, [3]), composite)


def test_shapes_on_meta_and_bad_input():
    x = torch.zeros(3, 4)
    made = first_position(x.to("meta"), x[:, :1].to("meta"), 1)
    assert made.shape == (3, 1) and made.dtype == torch.int64
    with pytest.raises(IndexError, match="expected a dimension below 2, found 2"):
        first_position(x, x, 2)
    with pytest.raises(ValueError, match=r"expected values of shape \[3, 1\], found \[3, 4\]"):
        first_position(x, x, 1)
    with pytest.raises(TypeError, match="expected values of type Float, found Long"):
        first_position(x, x[:, :1].long(), 1)
    with pytest.raises(ValueError, match="offset is empty, or where the tile begins"):
        first_position(x, x[:, :1], 1, [1, 2])
