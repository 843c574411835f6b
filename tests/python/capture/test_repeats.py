"""What is traced once and copied equals what is traced call by call, and only equal calls are."""

from __future__ import annotations

import cProfile
import dataclasses
import functools
import itertools
import logging
import types

import models
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from smex.capture import capture
from smex.errors import CaptureError, CaptureWarning

pytestmark = pytest.mark.costly

WIDTH = 6
LAYERS = 6


def described(graph):
    """Everything that a captured graph says."""

    def call(op):
        place = (op.module_path, op.source, op.backward, op.region)
        return (op.id, op.target, op.dispatch, repr(op.args), op.outputs, *place)

    found = [
        (
            (v.id, v.name, v.shape, v.dtype, v.role, v.aliases, v.requires_grad)
            + ((v.tensor.tolist(),) if v.tensor is not None else ())
        )
        for v in graph.values
    ]
    found += [call(op) for op in graph.ops]
    found += [(call(fusion.fused), fusion.members) for fusion in graph.fusions]
    found += [(out.value, out.kind, out.name, out.target) for out in graph.outputs]
    found += [graph.inputs, graph.tangents, graph.in_spec, repr(graph.flat_args)]
    return [*found, graph.out_spec, graph.changes_spec, repr(graph.flat_outputs), graph.training]


def compare(model, *args, **options):
    """Captures with and without copies; returns how many there are."""
    with_copies, without = (capture(model, args, repeats=on, **options) for on in (True, False))
    assert without.copies == 0
    for a, b in zip(described(with_copies), described(without), strict=True):
        assert a == b
    return with_copies.copies


def x():
    return torch.randn(4, WIDTH, requires_grad=True)


class Block(nn.Module):
    """A layer of some calls; `extra(self, x)` is one more."""

    def __init__(self, extra=None, **attributes):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.extra = extra
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        y = self.down(F.gelu(self.up(self.norm(x))))
        return x + (y if self.extra is None else self.extra(self, y))


class Stack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def stack(make=Block, count=LAYERS):
    return Stack(make() for _ in range(count))


def numbered(extra, **attributes):
    return Stack(Block(extra, index=n, **attributes) for n in range(LAYERS))


# ---- what is copied ----


def next_token(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@pytest.mark.costly(cases=3)
@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (models.GPT(LAYERS, 8, 2, 13, 6), next_token),
        (models.GPT(LAYERS, 8, 2, 13, 6, fused_attention=True), next_token),
        (models.GPT(LAYERS, 8, 2, 13, 6, dropout=0.1), next_token),
        (models.GPT(LAYERS, 8, 2, 13, 6).eval().requires_grad_(False), next_token),
        (models.Llama(LAYERS, 16, 4, 2, 24, 13), next_token),
        (models.RNN(1, 6, 11), next_token),
        (models.RNN(3, 6, 11), next_token),
        (models.WResNet.small(), F.cross_entropy),
        (models.UNet.small(), F.binary_cross_entropy_with_logits),
    ],
)
def test_models(model, loss):
    kind = type(model)
    args = kind.small_inputs(torch.float32)
    if kind is models.RNN:
        args = (torch.randint(11, (2, 9)),) * 2
    copies = compare(model, *args, loss_fn=loss)
    if kind in (models.GPT, models.Llama):
        assert copies == LAYERS - 1
    elif kind is models.RNN:
        assert copies >= 7


@pytest.mark.parametrize("training", [True, False])
def test_layers_of_torch(training):
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    assert compare(model, torch.randn(2, 3, WIDTH), training=training) == LAYERS - 1 - training
    sequential = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(5)))
    compare(sequential, x())


def test_blocks_are_copied():
    assert compare(stack(), x()) == LAYERS - 1
    assert compare(stack(), x().detach()) == LAYERS - 2  # the first layer's input has no gradient
    assert compare(stack().eval(), x(), training=False) == LAYERS - 2


def test_attributes_that_are_not_read_may_differ():
    assert compare(numbered(lambda self, y: y * 2), x()) == LAYERS - 1


def test_attributes_of_equal_value():
    config = [types.SimpleNamespace() for _ in range(LAYERS)]
    model = Stack(Block(lambda self, y: y * self.scale, scale=float("0.5")) for _ in config)
    assert compare(model, x()) == LAYERS - 1
    model = Stack(Block(lambda self, y: y * self.scales["a"][0], scales={"a": [2]}) for _ in config)
    assert compare(model, x()) == LAYERS - 1


@dataclasses.dataclass
class Config:
    scale: float = 2.0


def test_objects_of_settings():
    shared = Config()
    model = Stack(Block(lambda self, y: y * self.config.scale, config=shared) for _ in range(6))
    assert compare(model, x()) == LAYERS - 1
    model = Stack(Block(lambda self, y: y * self.config.scale, config=Config()) for _ in range(6))
    assert compare(model, x()) == LAYERS - 1


def test_closures_of_equal_value():
    def scaled(by):
        return lambda self, y: y * by

    assert compare(Stack(Block(scaled(2.0)) for _ in range(6)), x()) == LAYERS - 1


class Loop(nn.Module):
    def __init__(self, cell, unused=False):
        super().__init__()
        self.cell = cell
        self.unused = unused

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], WIDTH)
        outputs = []
        for step in range(x.shape[1]):
            h, c = self.cell(x[:, step], (h, c))
            outputs.append(h)
        return h if self.unused else torch.stack(outputs, 1)


@pytest.mark.parametrize("unused", [True, False])
@pytest.mark.parametrize("cell", [models.LSTMCell, nn.LSTMCell])
@pytest.mark.parametrize("needs_grad", [True, False])
def test_steps_of_a_loop(cell, unused, needs_grad):
    """The last step's cell state has no gradient: its backward pass is another one."""
    steps = torch.randn(3, 8, WIDTH, requires_grad=needs_grad)
    assert compare(Loop(cell(WIDTH, WIDTH), unused), steps) == 6


@pytest.mark.parametrize("bidirectional", [True, False])
def test_layers_of_lstms(bidirectional):
    model = nn.LSTM(WIDTH, WIDTH, 2, bidirectional=bidirectional)
    compare(model, torch.randn(9, 3, WIDTH))
    compare(Stack(nn.Sequential(nn.LSTM(6, 6), First(), nn.Linear(6, 6)) for _ in range(5)), x())


class First(nn.Module):
    def forward(self, x):
        return x[0]


def test_shared_layers():
    block = Block()
    assert compare(Stack([block] * LAYERS), x()) == LAYERS - 1
    assert compare(Stack([Block(), block, Block(), block, Block(), Block()]), x()) == LAYERS - 1


def test_tied_parameters():
    blocks = [Block() for _ in range(LAYERS)]
    for block in blocks:
        block.up.weight = blocks[0].up.weight
    assert compare(Stack(blocks), x()) == LAYERS - 1
    for block in blocks[3:]:
        block.down.weight = nn.Parameter(block.up.weight.detach().t().contiguous())
    compare(Stack(blocks), x())


def test_parameters_that_are_frozen_in_some_layers():
    model = stack(count=8)
    model.blocks[:3].requires_grad_(False)
    model.blocks[5].norm.requires_grad_(False)
    assert compare(model, x()) >= 4


def test_layers_of_several_kinds():
    model = Stack(Block(lambda self, y: y * self.scale, scale=n % 2 + 1.0) for n in range(10))
    assert compare(model, x()) == 8
    model = Stack(block for _ in range(5) for block in (Block(), nn.Linear(WIDTH, WIDTH)))
    assert compare(model, x()) == 4


def test_dropout():
    model = Stack(Block(lambda self, y: F.dropout(y, 0.5, self.training)) for _ in range(LAYERS))
    assert compare(model, x()) == LAYERS - 1
    model.blocks[2].eval()
    assert compare(model, x()) == LAYERS - 2


class Checkpointed(Stack):
    def forward(self, x):
        for n, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if n % 3 else block(x)
        return x


def inner_checkpoint(self, y):
    return checkpoint(torch.tanh, y * 2, use_reentrant=False)


def test_checkpoints():
    assert compare(Checkpointed(Block() for _ in range(10)), x()) == 8
    assert compare(Stack(Block(inner_checkpoint) for _ in range(6)), x()) == LAYERS - 1
    assert compare(Checkpointed(Block(inner_checkpoint) for _ in range(10)), x()) == 8


class Several(nn.Module):
    """Takes and returns what is nested, and what it is given."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, state, *, scale=1.0, mask=None):
        a, b = self.linear(state["a"]), torch.tanh(state["b"]).detach()
        if mask is not None:
            a = a.masked_fill(mask, 0.0)
        return {"a": a * scale, "b": b + 1, "same": state["a"], "twice": a, "also": a}, mask, 7


class Threads(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Several() for _ in range(LAYERS))

    def forward(self, x, mask):
        state = {"a": x, "b": x}
        for part in self.parts:
            made, mask, seven = part({"a": state["a"], "b": state["b"]}, scale=0.5, mask=mask)
            state = {"a": made["a"] + made["same"] + made["also"], "b": made["b"] * seven}
        return state


def test_nested_arguments_and_results():
    assert compare(Threads(), x(), torch.rand(4, WIDTH) > 0.5) >= LAYERS - 2


class Mask(nn.Module):
    """Makes a constant, and reads one of all layers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return torch.tanh(self.linear(x) * torch.tensor([1.0, 2, 3, 4, 5, 6]) + TABLE).relu()


TABLE = torch.arange(WIDTH).float()


def test_constants():
    assert compare(stack(Mask), x()) == LAYERS - 1


class Collected(Stack):
    """The result of each layer is used beside the next one: gradients come from both."""

    def forward(self, x):
        found = []
        for block in self.blocks:
            found.append(x)
            x = block(x)
        return torch.stack([*found, x])


def test_gradients_of_several_parts():
    compare(Collected(Block() for _ in range(LAYERS)), x())
    compare(Collected(Mask() for _ in range(LAYERS)), x().requires_grad_())


def test_outputs_that_are_changed_in_place():
    class Adds(Stack):
        def forward(self, x):
            for block in self.blocks:
                x = block(x)
                x += 1
            return x

    assert compare(Adds(Block() for _ in range(LAYERS)), x()) == 0
    compare(Stack(Block(lambda self, y: F.relu(y, inplace=True)) for _ in range(LAYERS)), x())


def test_no_grad_inside():
    class Half(Stack):
        def forward(self, x):
            with torch.no_grad():
                for block in self.blocks[:5]:
                    x = block(x)
            return super().forward(x)

    assert compare(Half(Block() for _ in range(10)), x()) >= 10


# ---- what is traced call by call ----

COUNT = 0
SETTINGS = {"scale": 1.0}
LOG = []
NUMBERS = itertools.count()


def counts(self, y):
    global COUNT
    COUNT += 1
    return y * COUNT


def counts_in_a_dict(self, y):
    SETTINGS["scale"] += 1.0
    return y * SETTINGS["scale"]


def logs(self, y):
    LOG.append(y.shape)
    return y * len(LOG)


def numbers(self, y):
    return y * next(NUMBERS)


def counts_calls(self, y):
    self.calls = getattr(self, "calls", 0) + 1
    return y * self.calls


def by_index(self, y):
    return torch.tanh(y) if self.index == 3 else y * 2


def by_computed_name(self, y):
    return y * getattr(self, "ind" + "ex")


def by_dict(self, y):
    return y * self.__dict__["index"]


def by_vars(self, y):
    return y * vars(self)["index"]


def by_identity(self, y):
    return y * (id(self) % 7)


class Counter:
    count = 0


def counts_in_a_class(self, y):
    Counter.count += 1
    return y * Counter.count


def counted(self, y, seen=[]):  # noqa: B006
    seen.append(1)
    return y * len(seen)


@pytest.mark.parametrize(
    "extra",
    [
        counts,
        counts_in_a_dict,
        logs,
        numbers,
        counts_in_a_class,
        counted,
        by_index,
        by_computed_name,
        by_dict,
        by_vars,
        by_identity,
        counts_calls,
    ],
    ids=lambda function: function.__name__,
)
@pytest.mark.filterwarnings("ignore::smex.errors.CaptureWarning")
def test_state_of_python(extra):
    """Each layer has a number of its own, or counts: as if traced layer by layer."""
    found = []
    model = numbered(extra)
    for repeats in (True, False):
        reset()
        graph = capture(model, (x(),), repeats=repeats)
        found.append(described(graph))
        assert graph.copies <= (3 if extra is by_index else 0)
    assert found[0] == found[1]


def reset():
    global COUNT, NUMBERS
    COUNT, NUMBERS, Counter.count = 0, itertools.count(), 0
    LOG.clear()
    SETTINGS["scale"] = 1.0
    counted.__defaults__[0].clear()


def test_settings_that_change_between_layers():
    class Changes(Stack):
        def forward(self, x):
            for n, block in enumerate(self.blocks):
                SETTINGS["scale"] = float(n // 4)
                x = block(x)
            return x

    def scaled(self, y):
        return y * SETTINGS["scale"]

    compare(Changes(Block(scaled) for _ in range(12)), x())


def test_closures_that_differ():
    def scaled(by):
        return lambda self, y: y * by

    assert compare(Stack(Block(scaled(n + 1.0)) for n in range(6)), x()) == 0
    blocks = [Block(functools.partial(lambda by, self, y: y * by, n // 3)) for n in range(6)]
    assert compare(Stack(blocks), x()) == 4


def test_closures_that_count():
    count = 0

    def counting(self, y):
        nonlocal count
        count += 1
        return y * count

    first = described(capture(Stack(Block(counting) for _ in range(6)), (x(),), repeats=True))
    count = 0
    assert first == described(
        capture(Stack(Block(counting) for _ in range(6)), (x(),), repeats=False)
    )


def test_one_layer_differs():
    model = numbered(lambda self, y: y * self.scale, scale=2.0)
    model.blocks[3].scale = 3.0
    assert compare(model, x()) == LAYERS - 2
    model.blocks[3].scale = 2
    assert compare(model, x()) == LAYERS - 2
    model.blocks[3].scale = 2.0
    model.blocks[4].norm.eps = 1e-3
    assert compare(model, x()) == LAYERS - 2
    model.blocks[4].norm.eps = 1e-5
    model.blocks[4].up.bias = None
    assert compare(model, x()) == LAYERS - 2


def test_hooks():
    seen = []
    model = stack()
    model.blocks[2].register_forward_hook(lambda module, args, result: result * 2)
    model.blocks[4].up.register_forward_pre_hook(lambda module, args: seen.append(1))
    assert compare(model, x()) == LAYERS - 3
    assert len(seen) == 4  # each capture runs the model twice


def test_a_forward_of_one_layers_own():
    model = stack()
    forward = model.blocks[3].forward
    model.blocks[3].forward = lambda x: forward(x) * 2
    assert compare(model, x()) == LAYERS - 2


def test_a_class_of_one_layers_own():
    class Twice(Block):
        def forward(self, x):
            return super().forward(x) * 2

    model = stack()
    model.blocks[3] = Twice()
    assert compare(model, x()) == LAYERS - 2


def test_batch_norms_update_their_buffers():
    def make():
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())

    compare(nn.Sequential(*(make() for _ in range(LAYERS))), x())
    compare(nn.Sequential(*(make() for _ in range(LAYERS))).eval(), x())


class Assigns(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.mean(0).detach() * 0.1
        return super().forward(x) + self.mean


def test_buffers_that_are_assigned():
    compare(stack(Assigns), x())


class Cache:
    def __init__(self):
        self.keys = {}

    def update(self, index, key):
        self.keys[index] = key
        return torch.cat(list(self.keys.values()), 0)


class Cached(Stack):
    def forward(self, x):
        cache = Cache()
        for n, block in enumerate(self.blocks):
            x = block(x + cache.update(n, x).mean(0))
        return x


class CachedInside(Block):
    def forward(self, x, cache, n):
        return super().forward(x) + cache.update(n, x).sum(0)


class CachesInside(Stack):
    def forward(self, x):
        cache = Cache()
        for n, block in enumerate(self.blocks):
            x = block(x, cache, n % 2)
        return x


def test_caches():
    assert compare(Cached(Block() for _ in range(LAYERS)), x()) == LAYERS - 1
    compare(CachesInside(CachedInside() for _ in range(LAYERS)), x())


class ByNumber(Block):
    def forward(self, x, n):
        return super().forward(x) * (2.0 if n > 3 else 1.0)


class Counts(Stack):
    def forward(self, x):
        for n, block in enumerate(self.blocks):
            x = block(x, n)
        return x


def test_the_number_of_a_layer_as_an_argument():
    assert compare(Counts(ByNumber() for _ in range(LAYERS)), x()) == 0


class Outer(nn.Module):
    """Layers that read a tensor of the call which they are not given."""

    def __init__(self):
        super().__init__()
        self.kept = [None]
        kept = self.kept
        self.stack = Stack(Block(lambda self, y: y * kept[0]) for _ in range(LAYERS))

    def forward(self, x):
        self.kept[0] = x.exp()
        try:
            return self.stack(x)
        finally:
            self.kept[0] = None


def test_tensors_that_are_not_given():
    compare(Outer(), x())


def test_attributes_of_tensors():
    class Marks(Stack):
        def forward(self, x):
            for n, block in enumerate(self.blocks):
                x = block(x)
                x.mark = n
            return x

    compare(Marks(Block(lambda self, y: y + 1) for _ in range(LAYERS)), x())


def test_gradients_inside():
    class Norm(Stack):
        def forward(self, x):
            x = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad(super().forward(x).sum(), x, create_graph=True)
            return grad

    compare(Norm(Block() for _ in range(LAYERS)), x())


def test_autograd_functions_of_users():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3 * len(LOG)

    compare(Stack(Block(lambda self, y: Doubled.apply(y)) for _ in range(LAYERS)), x())


def test_autocast():
    class Casts(Stack):
        def forward(self, x):
            with torch.autocast("cpu"):
                return super().forward(x)

    compare(Casts(Block() for _ in range(LAYERS)), x())


def test_default_dtypes_and_modes_of_users():
    class Modes(Stack):
        def forward(self, x):
            for n, block in enumerate(self.blocks):
                with torch.set_grad_enabled(n % 3 > 0), torch.device("cpu"):
                    x = block(x)
            return x

    compare(Modes(Block() for _ in range(10)), x())


def test_errors_are_those_of_the_model():
    def fails(self, y):
        return y * y[0, 0].item() if self.index == 4 else y

    for repeats in (True, False):
        with pytest.raises(CaptureError, match=r"depends on a tensor's values at test_repeats.py"):
            capture(numbered(fails), (x(),), repeats=repeats)


def test_kept_tensors_are_refused():
    def keeps(self, y):
        LOG.append(y)
        return y

    for repeats in (True, False):
        with pytest.raises(CaptureError, match="is kept"):
            capture(numbered(keeps), (x(),), repeats=repeats)


def test_counters_warn():
    for repeats in (True, False):
        with pytest.warns(CaptureWarning, match='attribute "blocks.0.calls"'):
            capture(numbered(counts_calls, calls=0), (x(),), repeats=repeats)


def test_the_environment_switches_copies_off(monkeypatch):
    monkeypatch.setenv("SMEX_REPEATS", "0")
    assert capture(stack(), (x(),)).copies == 0
    monkeypatch.delenv("SMEX_REPEATS")
    assert capture(stack(), (x(),)).copies == LAYERS - 1


def test_the_model_is_left_as_it_was():
    model = stack()
    before = dict(model.named_parameters())
    classes = {cls: dict(vars(cls)) for cls in map(type, model.modules())}
    capture(model, (x(),))
    assert all(a is before[name] for name, a in model.named_parameters())
    assert {cls: dict(vars(cls)) for cls in classes} == classes


def test_reasons_are_logged(caplog):
    with caplog.at_level(logging.DEBUG, "smex"):
        capture(numbered(numbers), (x(),))
    assert "each call of Block is traced" in caplog.text


def test_under_a_profiler_each_call_is_traced():
    profiler = cProfile.Profile()
    with profiler:
        graph = capture(stack(), (x(),))
    assert graph.copies == 0


def test_steps_of_torchs_lstms_are_copied():
    """Those with projections; of others a layer is one call."""
    assert compare(nn.LSTM(WIDTH, WIDTH, proj_size=4), torch.randn(9, 3, WIDTH)) == 7
    assert compare(nn.LSTM(WIDTH, WIDTH), torch.randn(9, 3, WIDTH)) == 0
