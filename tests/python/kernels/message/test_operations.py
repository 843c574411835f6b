"""Each operation of messages against torch's of the same meaning, as operations.def names it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import smex
from support.kernel_reference import S, random_graph

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

DTYPES = [(torch.float64, 1e-13), (torch.float32, 2e-6)]
INF, NAN = math.inf, math.nan
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, 0.37, INF, -INF, NAN]
THRESHOLD = [19.5, 20.0, 20.5, 25.0, 90.0, 800.0, -20.0, -90.0, -800.0]  # of softplus


def unary_operations():
    if not smex.show_config().native:
        return []
    from smex._C import message_operations

    return [x for x in message_operations() if x.torch and x.arguments == 1 and not x.sign]


def message_of_edges(text: str, x: torch.Tensor) -> torch.Tensor:
    graph = random_graph(num_edges=len(x))
    return S.sddmm(graph.in_edges, graph.out_edges, text, [x])


def check(text, function, numbers, grads, dtype, tolerance):
    """Values and gradients, for every number with every gradient."""
    x = torch.tensor(numbers, dtype=dtype).repeat_interleave(len(grads)).unsqueeze(1)
    grad = torch.tensor(grads, dtype=dtype).repeat(len(numbers)).unsqueeze(1)
    close = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
    found, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = message_of_edges(text, found), function(wanted)
    torch.testing.assert_close(out, expected, **close)
    zero = expected == 0
    assert torch.equal(out[zero].signbit(), expected[zero].signbit())
    (one,) = torch.autograd.grad(out, found, grad, allow_unused=True)
    (other,) = torch.autograd.grad(expected, wanted, grad)
    torch.testing.assert_close(torch.zeros_like(x) if one is None else one, other, **close)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES, ids=str)
@pytest.mark.parametrize("operation", unary_operations(), ids=lambda operation: operation.name)
def test_each_function_of_one_number(operation, dtype, tolerance):
    function = getattr(torch, operation.torch, None) or getattr(F, operation.torch)
    check(f"{operation.name}(e0)", function, NUMBERS, [1.0, -2.5], dtype, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES, ids=str)
def test_softplus_beside_its_threshold(dtype, tolerance):
    numbers = [*NUMBERS, *THRESHOLD]
    check("softplus(e0)", F.softplus, numbers, [1.0, -2.5, 0.0], dtype, tolerance)
    # An infinite gradient keeps its sign, and is no number where the slope is 0.
    check("softplus(e0)", F.softplus, [0.0, 3.0, 25.0, -INF, NAN], [INF, -INF], dtype, tolerance)


def test_softplus_is_differentiable_twice():
    x = torch.tensor([[0.0, -3.0, 3.0, 19.0, 21.0, 90.0, -90.0, 800.0]], dtype=torch.float64)
    found, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
    results = []
    for value, out in (
        (found, message_of_edges("softplus(e0)", found)),
        (wanted, F.softplus(wanted)),
    ):
        (grad,) = torch.autograd.grad(out.sum(), value, create_graph=True)
        results.append(torch.autograd.grad(grad.sum(), value)[0])
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_softplus_of_16_bits(dtype):
    x = torch.tensor([[0.0], [-5.0], [3.0], [19.5], [21.0], [INF], [-INF], [NAN]], dtype=dtype)
    torch.testing.assert_close(message_of_edges("softplus(e0)", x), F.softplus(x), equal_nan=True)


def test_every_operation_is_documented():
    from smex._C import message_operations

    page = (Path(__file__).parents[4] / "docs" / "message_passing.md").read_text()
    section = page.partition("## The operators below")[2]
    for operation in message_operations():
        if not operation.sign and operation.in_messages:
            assert re.search(rf"[` ]{operation.name}[`( ]", section), operation.name
