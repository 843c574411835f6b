"""A partitioned model against the model itself, in float64."""

import copy
import itertools
import pickle
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import smex
from support.families import FAMILIES, models, small_case

pytestmark = pytest.mark.costly

WORKERS = [1, 2, 3, 4, 6, 8]


def close(actual, expected, what, rtol=1e-10):
    scale = expected.abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(
        actual, expected, rtol=rtol, atol=rtol * max(scale, 1e-3), msg=lambda m: f"{what}: {m}"
    )


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_iteration_equals_the_model(family, workers):
    model, inputs, target, loss_fn = small_case(family)
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=workers, replicate_bytes=0)
    output = net(*inputs)
    expected = reference(*inputs)
    close(output, expected, "output")
    loss_fn(output, target).backward()
    loss_fn(expected, target).backward()
    grads = net.full_grads()
    for name, parameter in reference.named_parameters():
        close(grads[name], parameter.grad, f"gradient of {name}")
    state = net.state_dict()
    for name, buffer in reference.state_dict().items():
        close(state[name], buffer, name)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize("family", FAMILIES)
def test_training_equals_the_model(family, optimiser):
    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    }[optimiser]
    model, inputs, target, loss_fn = small_case(family)
    reference = copy.deepcopy(model)
    net = smex.partition(
        model, workers=3, loss_fn=loss_fn, replicate_bytes=64, args=(*inputs, target)
    )
    ours, theirs = make(net.parameters()), make(reference.parameters())
    for _ in range(5):
        ours.zero_grad()
        theirs.zero_grad()
        loss = net(*inputs, target)
        expected = loss_fn(reference(*inputs), target)
        close(loss, expected, "loss", rtol=1e-8)
        loss.backward()
        expected.backward()
        ours.step()
        theirs.step()
    state = net.state_dict()
    for name, tensor in reference.state_dict().items():
        # AdamW divides by the root of tiny squares, which magnifies the last digits.
        close(state[name], tensor, name, rtol=1e-6 if optimiser == "adamw" else 1e-8)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("planner", ["data_parallel", "all_row"])
def test_other_planners_compute_the_same(family, planner):
    model, inputs, target, loss_fn = small_case(family)
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=4, loss_fn=loss_fn, planner=planner)
    close(net(*inputs, target), loss_fn(reference(*inputs), target), "loss")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("workers", [2, 3, 8])
def test_bytes_predicted_are_bytes_counted(family, workers):
    model, inputs, target, loss_fn = small_case(family)
    net = smex.partition(model, workers=workers, loss_fn=loss_fn, replicate_bytes=0)
    net(*inputs, target).backward()
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]
    assert stats["bytes_moved"] > 0
    largest = max(value.nbytes for value in net.plan.graph.native.values)
    for predicted, counted in zip(stats["predicted_peak_bytes"], stats["peak_bytes"], strict=True):
        # A peer may have read a tensor sooner than predicted; a reshape may copy a small
        # tile.
        assert 0.95 * predicted - largest <= counted <= 1.02 * predicted + 256


def test_never_worse_than_cutting_rows():
    for family, workers in itertools.product(FAMILIES, (2, 4)):
        model, inputs, target, loss_fn = small_case(family)
        graph = smex.capture_graph(model, (*inputs, target), loss_fn)
        best = smex.search(graph, workers, replicate_bytes=0)
        rows = smex.search(graph, workers, planner="all_row", replicate_bytes=0)
        assert best.exact
        assert best.total_bytes <= rows.total_bytes


def test_eval_and_no_grad_run_forward_only():
    model, inputs, _, _ = small_case("wresnet")
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=2)
    net(*inputs).sum().backward()
    reference(*inputs).sum().backward()
    net.eval()
    reference.eval()
    with torch.no_grad():
        close(net(*inputs), reference(*inputs), "output in eval mode")


def test_a_new_shape_keeps_the_parameters():
    model, (x,), _, _ = small_case("wresnet")
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=3)
    net(x)
    reference(x)
    parameters = list(map(id, net.parameters()))
    close(net(x[:-1]), reference(x[:-1]), "output")
    assert list(map(id, net.parameters())) == parameters


def test_gradients_accumulate_over_two_live_calls():
    model, inputs, target, loss_fn = small_case("gpt")
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=2, loss_fn=loss_fn)
    (net(*inputs, target) + net(*inputs, target)).backward()
    (2 * loss_fn(reference(*inputs), target)).backward()
    grads = net.full_grads()
    for name, parameter in reference.named_parameters():
        close(grads[name], parameter.grad, name)


def test_backward_twice_is_an_error():
    model, inputs, target, loss_fn = small_case("dlrm")
    loss = smex.partition(model, workers=2, loss_fn=loss_fn)(*inputs, target)
    loss.backward(retain_graph=True)
    with pytest.raises(smex.SmexRuntimeError, match="already used"):
        loss.backward()


def test_state_moves_between_worker_counts():
    model, inputs, _, _ = small_case("unet")
    args = inputs
    three = smex.partition(copy.deepcopy(model), workers=3, args=args)
    other, _, _, _ = small_case("unet")
    for parameter in other.parameters():
        parameter.data.zero_()
    two = smex.partition(other, workers=2, args=args)
    two.load_state_dict(three.state_dict())
    close(two(*inputs), three(*inputs), "output")


def test_plan_saves_and_loads(tmp_path):
    model, inputs, _, _ = small_case("dlrm")
    net = smex.partition(model, workers=4, args=inputs)
    net.plan.save(tmp_path / "plan.json")
    again = smex.partition(model, plan=tmp_path / "plan.json", args=inputs)
    assert again.plan.placements() == net.plan.placements()
    assert again.plan.total_bytes == net.plan.total_bytes
    assert str(again.plan) and "<svg" in again.plan._repr_html_()
    name = next(iter(dict(model.named_parameters())))
    assert name in again.plan.explain(name)


def test_the_steps_by_hand():
    model, inputs, target, loss_fn = small_case("gpt")
    graph = smex.capture(model, (*inputs, target), loss_fn=loss_fn)
    plan = smex.search(graph, workers=4, planner="all_row", replicate_bytes=0)
    net = smex.partition(copy.deepcopy(model), plan=plan, loss_fn=loss_fn)
    close(net(*inputs, target), loss_fn(model(*inputs), target), "loss")
    assert net.plan.placements() == plan.placements()
    assert net.plan.planner == "all_row"
    with pytest.raises(smex.SmexValueError, match="the plan is for 4 workers, asked for 2"):
        smex.partition(model, workers=2, plan=plan, loss_fn=loss_fn)(*inputs, target)


@pytest.mark.parametrize("planner", ["random", "all_row", "icml18"])
def test_a_plan_at_hand_runs_as_it_is(planner):
    """What its file says of the named tensors might be met otherwise, or by no plan of its own."""
    model, inputs, target, loss_fn = small_case("wresnet")
    graph = smex.capture_graph(model, (*inputs, target), loss_fn=loss_fn)
    plan = smex.search(graph, 4, planner=planner, seed=5)
    net = smex.partition(copy.deepcopy(model), plan=plan, loss_fn=loss_fn)
    for twin in (net, copy.deepcopy(net)):
        close(twin(*inputs, target), loss_fn(model(*inputs), target), "loss")
        assert twin.plan.native.values == plan.native.values
        assert twin.plan.native.ops == plan.native.ops


def test_a_plan_for_other_inputs_places_the_named_tensors():
    model, inputs, target, loss_fn = small_case("gpt")
    graph = smex.capture_graph(model, (*inputs, target), loss_fn=loss_fn)
    plan = smex.search(graph, 2, replicate_bytes=0)
    assert plan.of_same(graph).native is plan.native
    fewer = (inputs[0][:2], target[:2])
    net = pickle.loads(pickle.dumps(smex.partition(model, plan=plan, loss_fn=loss_fn)))
    close(net(*fewer), loss_fn(model(fewer[0]), fewer[1]), "loss")
    other = smex.capture_graph(model, fewer, loss_fn=loss_fn)
    assert plan.of_same(other) is None
    assert net.plan.words("blocks.0.up.weight") == plan.words("blocks.0.up.weight")


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"workers": 0}, smex.SmexValueError, "at least 1"),
        ({"workers": 2, "devices": ["cpu"]}, smex.SmexValueError, "2 workers"),
        ({"workers": 2, "objective": "beauty"}, smex.PlanError, "unknown objective"),
        ({"workers": 2, "planner": "luck"}, smex.SmexValueError, "unknown planner"),
    ],
)
def test_misuse_is_named(kwargs, error, text):
    with pytest.raises(error, match=text):
        smex.partition(torch.nn.Linear(4, 4), args=(torch.zeros(2, 4),), **kwargs)


def test_parameters_before_the_capture_are_an_error():
    net = smex.partition(torch.nn.Linear(4, 4), workers=2)
    with pytest.raises(smex.SmexRuntimeError, match="args="):
        torch.optim.SGD(net.parameters(), lr=0.1)


def test_not_a_module():
    with pytest.raises(smex.SmexTypeError, match="torch.nn.Module"):
        smex.partition(lambda x: x, workers=2)


def test_meta_model_can_be_planned_but_not_run():
    with torch.device("meta"):
        model = torch.nn.Linear(64, 64)
    graph = smex.capture_graph(model, (torch.empty(8, 64, device="meta"),))
    assert smex.search(graph, 4).workers == 4
    net = smex.partition(model, workers=2, args=(torch.empty(8, 64),))
    with pytest.raises(smex.SmexRuntimeError, match="meta device"):
        net(torch.empty(8, 64))


def test_dropout_masks_do_not_depend_on_the_workers():
    outputs = []
    for workers in (1, 2, 3):
        torch.manual_seed(0)
        model = models.GPT.small(dropout=0.3).double()
        tokens, _ = models.GPT.small_inputs()
        net = smex.partition(model, workers=workers, args=(tokens,), replicate_bytes=0)
        torch.manual_seed(7)
        outputs.append(net(tokens))
    close(outputs[1], outputs[0], "2 workers")
    close(outputs[2], outputs[0], "3 workers")
    assert not torch.equal(net(tokens), outputs[2])


def test_an_error_in_a_worker_names_the_op_and_the_net_lives_on():
    model = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 4)).double()
    tokens = torch.tensor([[1, 2], [3, 4]])
    net = smex.partition(model, workers=2, args=(tokens,), replicate_bytes=0)
    expected = model(tokens)
    with pytest.raises(IndexError, match="embedding"):
        net(tokens + 100)
    close(net(tokens), expected, "output after the error")


class Spatial(torch.nn.Module):
    """Windows of every kind: strided, dilated, grouped, overlapping, transposed."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.down = torch.nn.Conv2d(4, 4, 3, stride=2, padding=1, bias=False)
        self.grouped = torch.nn.Conv2d(4, 4, 3, groups=2, padding=1)
        self.up = torch.nn.ConvTranspose2d(4, 3, 2, stride=2)
        self.overlapping = torch.nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)
        self.dilated = torch.nn.Conv2d(2, 2, 3, dilation=2, padding=2)

    def forward(self, x):
        x = F.max_pool2d(F.gelu(self.first(x)), 2)
        x = F.silu(self.grouped(F.silu(self.down(x))))
        x = F.avg_pool2d(self.overlapping(F.silu(self.up(x))), 3, stride=1, padding=1)
        return self.dilated(F.max_pool2d(x, 3, stride=1, padding=1))


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("dim", [2, 3])
def test_images_cut_along_height_or_width_exchange_halos(workers, dim, tmp_path):
    torch.manual_seed(0)
    model = Spatial().double()
    x = torch.randn(1, 2, 72, 60, dtype=torch.float64, requires_grad=True)
    graph = smex.capture_graph(model, (x,))
    steps = len(smex.search(graph, workers).mesh)
    plan = smex.search(graph, workers, replicate_bytes=0, pinned={"x": [dim] * steps})
    windows = [
        plan.split_words(op.id)
        for op in plan.graph.captured.ops
        if "conv" in op.target or "pool" in op.target
    ]
    index = f"i{dim}"
    assert sum(index in strategy for strategy in windows) >= 8, windows
    plan.save(tmp_path / "plan.json")
    net = smex.partition(model, plan=tmp_path / "plan.json", args=(x,))
    weights = torch.randn(model(x).shape, dtype=torch.float64)
    (net(x) * weights).sum().backward()
    grad, x.grad = x.grad, None
    (model(x) * weights).sum().backward()
    close(grad, x.grad, "gradient of x")
    for name, parameter in model.named_parameters():
        close(net.full_grads()[name], parameter.grad, name)
    stats = net.stats()
    assert stats["moved_bytes"]["halo"] > 0
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


class Nested(torch.nn.Module):
    """Nested inputs and outputs, one of them no tensor; a buffer counts the calls."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, batch, scale=1.0):
        y = self.linear(batch["x"]) * scale
        self.calls += 1
        return {"y": y, "rest": (y.sum(), batch["ids"]), "name": "nested"}


def test_nested_inputs_and_outputs():
    torch.manual_seed(0)
    model = Nested().double()
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0)
    batch = {"x": torch.randn(3, 6, dtype=torch.float64), "ids": torch.arange(3)}
    for _ in range(2):
        found, expected = net(batch, scale=2.0), model(batch, scale=2.0)
    assert found["name"] == "nested"
    assert torch.equal(found["rest"][1], batch["ids"])
    close(found["y"], expected["y"], "y")
    (found["rest"][0] + found["y"].square().sum()).backward()
    (expected["rest"][0] + expected["y"].square().sum()).backward()
    close(net.full_grads()["linear.weight"], model.linear.weight.grad, "gradient")
    assert net.state_dict()["calls"] == 2


def test_tied_parameters_have_one_gradient():
    torch.manual_seed(0)
    model = models.GPT.small().double()
    tokens, targets = models.GPT.small_inputs()
    net = smex.partition(
        copy.deepcopy(model), workers=3, replicate_bytes=0, loss_fn=FAMILIES["gpt"][1]
    )
    net(tokens, targets).backward()
    FAMILIES["gpt"][1](model(tokens), targets).backward()
    tied = [name for name, p in model.named_parameters(remove_duplicate=False)]
    tied = set(tied) - {name for name, _ in model.named_parameters()}
    assert tied
    for name in tied:
        close(net.full_grads()[name], dict(model.named_parameters(remove_duplicate=False))[name].grad, name)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("convert", [torch.jit.script, lambda m: torch.jit.trace(m, images())])
def test_torchscript_modules(convert):
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).double().eval()
    net = smex.partition(convert(model), workers=2, replicate_bytes=0)
    close(net(images()), model(images()), "output")


def images():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(5, 3, 8, 8, dtype=torch.float64, generator=generator)


def test_autocast_and_a_gradient_scaler():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.randn(5, 6)
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0, args=(x,))
    before = net.state_dict()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = net(x), model(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    scaler.scale(found.float().sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    expected.float().sum().backward()
    step = before["2.bias"] - net.state_dict()["2.bias"]
    torch.testing.assert_close(step, 0.1 * model[2].bias.grad, rtol=1e-2, atol=1e-3)


def test_conversions_reach_the_model_or_are_an_error():
    net = smex.partition(torch.nn.Linear(6, 4), workers=2, replicate_bytes=0).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    assert net(x).dtype == torch.float64
    net.double()  # changes nothing
    with pytest.raises(smex.SmexRuntimeError, match=r'shards of "weight" are torch.float64 on cpu'):
        net.half()
    assert net(x).dtype == torch.float64


class Square(torch.nn.Module):
    """Everything is needed again by backward: the input, the weight, the output."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64))

    def forward(self, x):
        return torch.tanh(x @ self.weight)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("changed", ["input", "parameter", "output"])
def test_changes_in_place_before_backward_are_an_error(changed, workers):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    values = x * 1
    net = smex.partition(Square(), workers=workers, args=(values,), replicate_bytes=0)
    output = net(values)
    with torch.no_grad():
        if changed == "input":
            values.zero_()
        elif changed == "output":
            output.mul_(2)
        else:
            next(net.parameters()).zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
    net(x).sum().backward()


def test_changes_that_backward_does_not_see_are_allowed():
    net = smex.partition(torch.nn.Linear(4, 4), workers=1)
    output = net(torch.randn(3, 4))
    with torch.no_grad():
        output.mul_(2)
        net._state.cuts["bias"].tiles[0].zero_()
    output.sum().backward()


def test_a_second_derivative_is_an_error():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    net = smex.partition(Square(), workers=2, replicate_bytes=0)
    with pytest.raises(smex.SmexRuntimeError, match="no second derivative"):
        torch.autograd.grad(net(x).sum(), x, create_graph=True)


class Counting(torch.nn.Module):
    """Backward needs what the buffer was before this call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((4,), 2.0, dtype=torch.float64))

    def forward(self, x):
        y = x * self.scale
        self.scale = self.scale + 1
        return y


def test_a_buffer_is_updated_after_backward_has_what_it_needs():
    x = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
    net = smex.partition(Counting(), workers=2, replicate_bytes=0)
    for scale in (2.0, 3.0):
        x.grad = None
        net(x).sum().backward()
        assert torch.equal(x.grad, torch.full_like(x, scale))
    assert torch.equal(net.state_dict()["scale"], torch.full((4,), 4.0, dtype=torch.float64))


class Growing(Counting):
    def forward(self, x):
        self.scale = torch.cat([self.scale, self.scale])
        return x * 2


def test_a_buffer_keeps_its_shape():
    text = r'assigned \[8\] to its buffer "scale" of shape \[4\]'
    with pytest.raises(smex.CaptureError, match=text):
        smex.partition(Growing(), workers=2)(torch.ones(3, 4))


class Times(torch.nn.Module):
    def forward(self, x, factor):
        return x * factor


def test_constants_of_equal_value_and_other_type_are_other_calls():
    net = smex.partition(Times(), workers=2)
    x = torch.arange(4)
    assert net(x, 2).dtype == torch.int64
    assert net(x, 2.0).dtype == torch.float32
    assert net(x, True).dtype == torch.int64
    with pytest.raises(smex.SmexTypeError, match="must be hashable, got bytearray"):
        net(x, bytearray(b"2"))


class WeightedLoss(torch.nn.Module):
    """A loss whose state has the names and shapes of the model's."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 6, dtype=torch.float64))
        self.register_buffer("bias", torch.randn(4, dtype=torch.float64))

    def forward(self, y, target):
        return ((y - target) @ self.weight + F.pad(self.bias, (0, 2))).square().sum()


def test_a_loss_may_have_state():
    torch.manual_seed(0)
    model, loss_fn = torch.nn.Linear(6, 4).double(), WeightedLoss()
    x, target = torch.randn(5, 6).double(), torch.randn(5, 4).double()
    net = smex.partition(
        copy.deepcopy(model), workers=2, loss_fn=copy.deepcopy(loss_fn), replicate_bytes=0
    )
    found, expected = net(x, target), loss_fn(model(x), target)
    close(found, expected, "loss")
    found.backward()
    expected.backward()
    grads = net.full_grads()
    close(grads["weight"], model.weight.grad, "weight")
    close(grads["loss_fn.weight"], loss_fn.weight.grad, "the loss's weight")
    assert list(net.state_dict()) == ["weight", "bias", "loss_fn.weight", "loss_fn.bias"]
    weights = torch.rand(4).double()
    net = smex.partition(model, workers=2, loss_fn=torch.nn.CrossEntropyLoss(weight=weights))
    labels = torch.tensor([0, 1, 3, 2, 1])
    close(net(x, labels), F.cross_entropy(model(x), labels, weight=weights), "cross entropy")


def test_a_copy_of_a_net_is_independent():
    torch.manual_seed(0)
    x = torch.randn(3, 6)
    net = smex.partition(torch.nn.Linear(6, 4), workers=2, replicate_bytes=0, args=(x,))
    before = net(x)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert net(x).abs().max() == 0
    assert torch.equal(twin(x), before)
    twin(x).sum().backward()
    assert list(twin.full_grads()) == ["weight", "bias"]
    assert net.full_grads() == {}


def test_a_captured_net_cannot_be_pickled():
    net = smex.partition(torch.nn.Linear(6, 4), workers=2, args=(torch.randn(3, 6),))
    with pytest.raises(smex.SmexTypeError, match=r"save net.state_dict\(\)"):
        pickle.dumps(net)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_target_that_is_no_class_is_an_error(workers):
    model = torch.nn.Linear(6, 4)
    x, target = torch.randn(5, 6), torch.tensor([0, 3, -100, 2, 1])
    net = smex.partition(model, workers, loss_fn=F.cross_entropy, args=(x, target))
    torch.testing.assert_close(net(x, target), F.cross_entropy(model(x), target))
    for wrong in (4, -1):
        target[1] = wrong
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            net(x, target)


class Noise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x):
        noise = torch.rand(6, dtype=x.dtype)
        order = torch.randperm(x.shape[0])
        return self.linear(x)[order] * noise, noise, order


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
@pytest.mark.parametrize("planner", ["tofu", "data_parallel"])
def test_random_numbers_without_a_spec_are_drawn_once(planner):
    torch.manual_seed(0)
    model = Noise().double()
    x = torch.randn(8, 6, dtype=torch.float64)
    results = []
    for workers in (1, 2, 4):
        net = smex.partition(model, workers, replicate_bytes=0, planner=planner, args=(x,))
        torch.manual_seed(3)
        y, noise, order = net(x)
        close(y, model.linear(x)[order] * noise, "output")
        results.append((noise, order))
    for noise, order in results[1:]:
        assert torch.equal(noise, results[0][0])
        assert torch.equal(order, results[0][1])


def test_every_capture_is_logged(caplog):
    net = smex.partition(torch.nn.Linear(6, 4), workers=2)
    with caplog.at_level("INFO", logger="smex"):
        for size in (3, 3, 2):
            net(torch.randn(size, 6))
    lines = [record.getMessage() for record in caplog.records if record.name == "smex"]
    assert [line.partition(":")[0] for line in lines] == ["program 1", "program 2"]
    assert "Linear" in lines[0]


def test_an_empty_batch():
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.randn(0, 6)
    net = smex.partition(copy.deepcopy(model), workers=3, replicate_bytes=0)
    net(x).sum().backward()
    model(x).sum().backward()
    assert net(x).shape == (0, 2)
    assert torch.equal(net.full_grads()["0.weight"], model[0].weight.grad)


class Lookup(torch.nn.Module):
    def forward(self, x, index):
        return x[index] * 2


def test_errors_in_workers_name_the_line_and_signatures_share_threads():
    net = smex.partition(Lookup(), workers=4)
    x = torch.randn(6, 4)
    for size in range(1, 7):
        net(x[:size], torch.tensor([0]))
    threads = len(list(Path("/proc/self/task").iterdir())) if Path("/proc").exists() else 0
    net(x[:, :3], torch.tensor([0]))
    if threads:
        assert len(list(Path("/proc/self/task").iterdir())) == threads
    with pytest.raises(IndexError, match=r"aten::index\S* \(test_partition.py:\d+"):
        net(x, torch.tensor([99]))


class LossAndLog(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        loss = self.linear(x).square().mean()
        return loss, {"log": loss.detach()}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_detached_output_beside_itself(workers):
    net = smex.partition(LossAndLog(), workers=workers)
    loss, logged = net(torch.randn(3, 6))
    assert loss.requires_grad
    assert not logged["log"].requires_grad
    assert torch.equal(loss, logged["log"])
    loss.backward()


def test_parameters_may_be_frozen_and_thawed():
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 4)).double()
    model[0].requires_grad_(False)
    x = torch.randn(3, 6, dtype=torch.float64)
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0, args=(x,))
    net(x).sum().backward()
    assert list(net.full_grads()) == ["1.weight", "1.bias"]
    for parameter in net.parameters():
        parameter.requires_grad_(True)
        parameter.grad = None
    net(x).sum().backward()
    model.requires_grad_(True)
    model(x).sum().backward()
    grads = net.full_grads()
    for name, parameter in model.named_parameters():
        close(grads[name], parameter.grad, name)


def test_names_of_shards_end_with_the_model_s_own():
    x = torch.randn(3, 6)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4))
    net = smex.partition(model, workers=2, replicate_bytes=0, args=(x,))
    names = [name for name, _ in net.named_parameters()]
    assert names == ["shard0.0.weight", "shard1.0.weight", "shard0.0.bias", "shard1.0.bias"]
    outer = torch.nn.ModuleDict({"net": net})
    assert len(list(outer.parameters())) == 4


def test_a_net_inside_a_module_saves_and_loads():
    torch.manual_seed(0)
    x = torch.randn(3, 6)
    make = lambda workers: torch.nn.ModuleDict({  # noqa: E731
        "net": smex.partition(torch.nn.Linear(6, 4), workers, replicate_bytes=0, args=(x,)),
        "head": torch.nn.Linear(4, 2),
    })  # fmt: skip
    one, other = make(2), make(3)
    state = one.state_dict()
    assert list(state) == ["net.weight", "net.bias", "head.weight", "head.bias"]
    other.load_state_dict(state)
    assert torch.allclose(other["net"](x), one["net"](x))
    del state["net.bias"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "net.bias"'):
        other.load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch for net.bias"):
        other.load_state_dict({**state, "net.bias": torch.zeros(7)})


def test_a_first_call_in_inference_mode():
    model = torch.nn.BatchNorm1d(6).double()
    x = torch.randn(5, 6, dtype=torch.float64)
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0)
    with torch.inference_mode():
        close(net(x), model(x), "output")
    net(x).sum().backward()
    assert set(net.full_grads()) == {"weight", "bias"}


def test_devices():
    net = smex.partition(torch.nn.Linear(4, 4), workers=2, devices="cpu")
    assert net.devices == [torch.device("cpu")] * 2
    for device, text in {
        "bogus": 'like "cpu" or "cuda:0", got \'bogus\'',
        "meta": 'like "cpu" or "cuda:0", got \'meta\'',
        "cuda:99": 'no device "cuda:99"; torch sees',
    }.items():
        with pytest.raises(smex.SmexValueError, match=text):
            smex.partition(torch.nn.Linear(4, 4), devices=[device, "cpu"])


class Sliced(torch.nn.Module):
    """The gradient of the norm's output is a slice: not contiguous."""

    def forward(self, x):
        return torch.cat([F.group_norm(x, 3), x], dim=3)


@pytest.mark.parametrize("workers", [1, 2])
def test_group_norm_takes_any_strides(workers):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 3, 2, 8, dtype=torch.float64)
    net = smex.partition(Sliced(), workers=workers, replicate_bytes=0)
    (found,) = torch.autograd.grad((net(x) * weights).sum(), x)
    (expected,) = torch.autograd.grad((Sliced()(x) * weights).sum(), x)
    close(found, expected, "gradient")
