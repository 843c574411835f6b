"""Models for GPUs are traced on the CPU, and cast as on GPUs: by torch's own lists of operators."""

import collections
import contextlib

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists

import smex
from smex.capture.autocast import autocast_for

HALVES = [torch.bfloat16, torch.float16]
LISTS = AutocastTestLists(torch.device("cpu"))
LOWER = [*LISTS.torch_fp16, *LISTS.nn_fp16]
FLOAT32 = [*LISTS.torch_fp32, *LISTS.nn_fp32]
LEFT_OUT = {  # CPU tensors cannot be given to them
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
    "cudnn_convolution",
    "cudnn_convolution_transpose",
    "einsum",  # the list's operands are not the equation's
}


@contextlib.contextmanager
def autocast_on_cuda(dtype):
    """As torch.autocast("cuda"), also where no GPU is: there it does nothing but warn."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])
        torch.clear_autocast_cache()


def called(case, on):
    """What an operator of the lists returns, from tensors of a type; its first result."""
    name, *args = case
    kwargs = args.pop() if isinstance(args[-1], dict) else {}
    args = [x for part in args for x in (part if isinstance(part, tuple) else (part,))]
    moved = torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda x: x.to(on) if x.is_floating_point() else x, (args, kwargs)
    )
    function = next(
        getattr(owner, name)
        for owner in (torch, torch.nn.functional, torch._C._nn)
        if hasattr(owner, name)
    )
    result = function(*moved[0], **moved[1])
    return result[0] if isinstance(result, (tuple, list)) else result


def cases(listed):
    return [pytest.param(c, id=c[0]) for c in listed if c[0] not in LEFT_OUT]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", cases(LOWER))
def test_products_are_made_in_half_precision(case, half):
    with autocast_on_cuda(half), autocast_for("cuda"):
        assert called(case, torch.float32).dtype == half


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", cases(FLOAT32))
def test_what_needs_range_is_made_in_float32(case, half):
    with autocast_on_cuda(half), autocast_for("cuda"):
        found = called(case, half)
    assert found.dtype == torch.float32


def test_rules_of_the_cpu_come_back():
    x = torch.randn(4, 4).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        before = torch.softmax(x, 0).dtype
        with autocast_for("cuda"):
            pass
        assert torch.softmax(x, 0).dtype == before == torch.bfloat16
        assert torch.is_autocast_enabled("cpu")


def test_the_devices_of_regions():
    """A region of CUDA counts, with the state around it; the CPU's own does not."""
    x = torch.randn(4, 4)
    with torch.autocast("cpu", torch.bfloat16), autocast_for("cuda"):
        assert (x @ x).dtype == torch.float32
        with autocast_on_cuda(torch.float16):
            assert (x @ x).dtype == torch.float16
        assert (x @ x).dtype == torch.float32


class Mixed(torch.nn.Module):
    """Products, what needs range, and a region without casts."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        scores = torch.softmax(self.first(x), -1)
        with torch.autocast("cuda", enabled=False):
            scores = scores / self.second.weight.float().norm()
        return self.second(scores), scores


def test_a_captured_model_has_the_types_of_cuda():
    x = torch.randn(3, 8)
    with autocast_on_cuda(torch.bfloat16), autocast_for("cuda"):
        graph = smex.capture_graph(Mixed(), (x,))
    types = collections.defaultdict(set)
    for op in graph.native.ops:
        types[op.target] |= {str(graph.native.values[value].dtype) for value in op.outputs}
    assert types["aten::mm"] == {"bfloat16"}
    assert types["aten::exp"] == types["aten::amax"] == {"float32"}
    assert types["aten::sqrt"] == {"float32"}, "the region without casts"
    # Backward passes run outside of autocast: a gradient of a bias has the type of its rows.
    assert "bfloat16" in types["aten::sum.dim_IntList"]
