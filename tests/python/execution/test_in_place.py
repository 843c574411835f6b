"""Results that lie inside of the tiles that later fetches complete."""

import pytest
import torch
from torch.testing import assert_close

import smex
from smex._C import writes_into

aten = torch.ops.aten


def operators_that_write():
    for name in dir(aten):
        packet = getattr(aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for overload in packet.overloads():
            target = f"aten::{name}" + ("" if overload == "default" else f".{overload}")
            if writes_into(target):
                yield getattr(packet, overload)


def test_torch_has_kernels_that_write():
    found = list(operators_that_write())
    assert len(found) >= 15
    registered = set(torch._C._dispatch_get_all_op_names())
    for op in found:
        taken = [(a.name, str(a.type)) for a in op._schema.arguments]
        packet = getattr(aten, op._schema.name.partition("::")[2])
        own = [getattr(packet, form) for form in packet.overloads()]
        own = [form for form in own if form.name() in registered]
        forms = [
            form._schema
            for form in own
            if torch._C._dispatch_has_kernel_for_dispatch_key(form.name(), "CPU")
        ]
        assert any(
            form.arguments[-1].is_out
            and [(a.name, str(a.type)) for a in form.arguments[:-1]] == taken
            for form in forms
        ), op


class Halves(torch.nn.Module):
    """Layers whose results are gathered by rows."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        h = torch.nn.functional.elu(self.first(x))
        return torch.log_softmax(self.second(h).t() @ x, 1)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("planner", ["tofu", "equal_chop", "data_parallel", "random"])
def test_training_equals_one_process(planner, workers):
    torch.manual_seed(0)
    model = Halves().double()
    x = torch.randn(12, 6, dtype=torch.float64)
    expected = model(x)
    expected.square().sum().backward()
    net = smex.partition(
        model, workers, args=(x,), planner=planner, keep_model=True,
        replicate_bytes=0,
    )  # fmt: skip
    for _ in range(2):
        net.zero_grad()
        found = net(x)
        found.square().sum().backward()
        assert_close(found, expected)
        for name, grad in net.full_grads().items():
            assert_close(grad, model.get_parameter(name).grad)
        stats = net.stats()
        pairs = zip(stats["peak_bytes"], stats["predicted_peak_bytes"], strict=True)
        assert all(peak <= predicted for peak, predicted in pairs)
