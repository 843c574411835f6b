"""What users do to the model, or with the net, between calls: each test beside the plain module.

| sequence | test |
| --- | --- |
| call, change an attribute of any kind, call, put it back, call | test_attributes_of_every_kind |
| values that are equal and not the same: 2 and 2.0, 1 and True, 0.0 and -0.0 | test_equal_values_are_told_apart |
| call, replace a module or tensor, train, evaluate | test_a_replaced_module_is_followed, ... |
| call, register a hook, call, remove it, call | test_hooks_that_come_and_go |
| call, freeze the shards, partition the model again | test_freezing_shards_leaves_the_model |
| train, load with hooks, versions and extra state, save | test_loading_is_the_model_s_own, ... |
| train, deepcopy, change a plain tensor, call both | test_a_copy_reads_its_own_plain_tensors |
| average weights, then update_bn of the average | test_update_bn_of_a_wrapped_net |
| what is inside of partials, methods, closures, subclasses of str and dict | test_values_inside_of_others, test_a_hook_that_is_switched_by_a_variable |
| train, wrap a module (LoRA), train on with the same optimiser | test_a_module_that_is_wrapped_keeps_its_shards |
| freeze, put a new head on, train | test_a_trainable_head_on_a_frozen_model, test_gradients_and_optimisers_of_what_is_replaced |
| train, load into the model, prune or remove a parametrisation, train | test_what_torch_computes_from_the_model_s_values |
| two nets of one model, which is changed | test_two_nets_of_one_model_that_is_changed |
| net.apply, net.requires_grad_ and net.zero_grad, before the first call and after | test_functions_for_all_modules, test_freezing_before_the_first_call |
| objects and slices as arguments, changed between calls | test_plain_arguments_that_change |
| more inputs than programs are kept | test_the_program_of_the_last_call_is_kept |
| a first call that is interrupted, or of a model without values, then a good one | test_an_interrupted_cut_leaves_nothing, test_a_model_that_gets_its_values_later |
"""

import argparse
import copy
import dataclasses
import enum
import functools
import re
import types
import warnings

import numpy as np
import pytest
import torch
from pairs import WIDTH, Calls, close, pair, rows, same_grads, same_state, weight
from torch import nn
from torch.nn.utils import prune

import smex
import smex.graph as sg
import smex.graph.function as fn
from smex.errors import CaptureWarning, SmexRuntimeError, SmexTypeError, SmexValueError
from smex.execution.watch import Reader


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    nested: dict = dataclasses.field(default_factory=dict)


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


def both(net, plain, *args):
    close(net(*args), plain(*args))


# ---- attributes ----

SETTINGS = {
    "tuple": (lambda m, x: x * m.setting[0] + m.setting[1], (2.0, 1), (3.0, 1)),
    "list": (lambda m, x: x * sum(m.setting), [2.0], [2.0, 5.0]),
    "dict": (lambda m, x: x * m.setting["a"]["b"], {"a": {"b": 2.0}}, {"a": {"b": 3.0}}),
    "set": (lambda m, x: x * len(m.setting), {1, 2}, {1, 2, 3}),
    "enum": (lambda m, x: x * m.setting.value, Colour.RED, Colour.BLUE),
    "function": (lambda m, x: m.setting(x), torch.relu, torch.tanh),
    "dtype": (lambda m, x: x.to(m.setting).double(), torch.float32, torch.bfloat16),
    "none": (lambda m, x: x if m.setting is None else x * m.setting, None, 3.0),
    "object": (lambda m, x: x * m.setting.scale, Config(2.0), Config(3.0)),
    "slots": (lambda m, x: x * m.setting.scale, Slotted(2.0), Slotted(3.0)),
    "namespace": (
        lambda m, x: x * m.setting.scale,
        argparse.Namespace(scale=2),
        argparse.Namespace(scale=3),
    ),
    "tensor": (lambda m, x: x * m.setting, torch.tensor(2.0), torch.tensor(3.0)),
    "slice": (lambda m, x: x[m.setting].sum(0), slice(0, 2), slice(0, 3)),
}


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("name", ["setting", "_setting"])
def test_attributes_of_every_kind(kind, name):
    function, first, second = SETTINGS[kind]

    def forward(self, x):
        return function(types.SimpleNamespace(setting=getattr(self, name)), x @ self.w)

    net, plain = pair(Calls(forward, w=weight(), **{name: first}))
    model, x = net._model[0], rows()
    for value in (first, second, first):
        for each in (plain, model):
            setattr(each, name, copy.deepcopy(value) if kind != "tensor" else value)
        both(net, plain, x)
    assert len(net._programs) == 2


CHANGES = {
    "list": ([2.0], lambda s: s.append(3.0), lambda s: sum(s)),
    "dict": ({"a": [2.0]}, lambda s: s["a"].append(4.0), lambda s: sum(s["a"])),
    "nested object": (
        Config(nested={"deep": 1.0}),
        lambda s: s.nested.update(deep=5.0),
        lambda s: s.nested["deep"],
    ),
    "slots": (Slotted(2.0), lambda s: setattr(s, "scale", 7.0), lambda s: s.scale),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_settings_that_are_changed_in_place(kind):
    setting, change, read = CHANGES[kind]
    forward = lambda self, x: x @ self.w * read(self.setting)  # noqa: E731
    net, plain = pair(Calls(forward, w=weight(), setting=copy.deepcopy(setting)))
    x = rows()
    both(net, plain, x)
    for each in (net._model[0], plain):
        change(each.setting)
    both(net, plain, x)


@pytest.mark.parametrize(
    "values", [(2, 2.0), (1, True), (0.0, -0.0), (complex(0, 0.0), complex(0, -0.0))]
)
def test_equal_values_are_told_apart(values):
    def forward(self, x, given):
        told = [type(self.setting).__name__, repr(self.setting), type(given).__name__, repr(given)]
        return {"told": told, "x": x @ self.w}

    net, plain = pair(Calls(forward, w=weight(), setting=0))
    for value in (*values, values[0]):
        net._model[0].setting = plain.setting = value
        assert net(rows(), value)["told"] == plain(rows(), value)["told"]


def test_nan_is_itself():
    net, _ = pair(Calls(lambda s, x, p: x @ s.w * s.p * p, w=weight(), p=float("nan")))
    for _ in range(3):
        assert net(rows(), float("nan")).isnan().all()
    assert len(net._programs) == 1


def test_an_attribute_that_comes_late():
    forward = lambda self, x: x @ self.w * getattr(self, "late", 1.0)  # noqa: E731
    net, plain = pair(Calls(forward, w=weight()))
    x = rows()
    both(net, plain, x)
    net._model[0].late = plain.late = 3.0
    both(net, plain, x)
    del net._model[0].late, plain.late
    both(net, plain, x)
    assert len(net._programs) == 2


def test_an_attribute_that_changes_in_every_call_is_told():
    net, plain = pair(Calls(lambda s, x: x @ s.w * s.step, w=weight(), step=0))
    x = rows()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(12):
            net._model[0].step = plain.step = step
            both(net, plain, x)
    (told,) = [str(each.message) for each in caught if each.category is CaptureWarning]
    assert re.search("captured 8 times .* now 'step'", told)


def test_a_trainer_that_counts_is_no_setting():
    trainer = types.SimpleNamespace(step=0, parts=[{} for _ in range(1000)])
    net, plain = pair(Calls(lambda s, x: x @ s.w, w=weight(), trainer=trainer))
    for step in range(3):
        net._model[0].trainer.step = step
        both(net, plain, rows())
    assert len(net._programs) == 1


def test_a_vocabulary_is_not_read():
    words = {str(n): n for n in range(100_000)}
    net, plain = pair(Calls(lambda s, x: x @ s.w * len(s.words), w=weight(), words=words))
    for _ in range(2):
        both(net, plain, rows())
    reader = Reader()
    reader.read(net._model[0])
    assert not any(part is net._model[0].words for part in reader.containers)


def test_settings_that_lead_to_the_model_itself():
    net, plain = pair(Calls(lambda s, x: x @ s.w * s.setting["scale"], w=weight(), setting={}))
    for each in (net._model[0], plain):
        each.setting.update(scale=2.0, model=each, itself=each.setting)
    for scale in (2.0, 3.0):
        net._model[0].setting["scale"] = plain.setting["scale"] = scale
        both(net, plain, rows())


def test_a_graph_that_is_an_attribute():
    def forward(self, x):
        with self.graph.local_scope():
            self.graph.ndata["h"] = x @ self.w
            self.graph.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
            return self.graph.ndata["h"] * self.graph.ndata["scale"]

    graph = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]), num_nodes=4)
    graph.ndata["scale"] = rows(4, 1)
    net, plain = pair(Calls(forward, w=weight(), graph=graph))
    model, x = net._model[0], rows(4)
    both(net, plain, x)
    both(net, plain, x)
    assert len(net._programs) == 1
    model.graph.ndata["scale"] = plain.graph.ndata["scale"] = rows(4, 1)
    both(net, plain, x)
    model.graph.add_edges([0], [2])
    plain.graph.add_edges([0], [2])
    both(net, plain, x)
    model.graph = plain.graph = sg.add_self_loop(plain.graph)
    both(net, plain, x)


# ---- modules, tensors, hooks ----


def trained(net, plain, x, steps=2):
    """Both after some steps of an optimiser that is made now."""
    net(x)
    plain(x)
    for module in (net, plain):
        module.zero_grad()
        optimiser = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
        for _ in range(steps):
            optimiser.zero_grad()
            module(x).square().sum().backward()
            optimiser.step()
    same_state(net, plain)


@pytest.mark.parametrize("outputs", [5, WIDTH])
def test_a_replaced_module_is_followed(outputs):
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)))
    x = rows()
    both(net, plain, x)
    trained(net, plain, x)
    head = nn.Linear(WIDTH, outputs).double()
    model = net._model[0]
    before = model[2], plain[2]
    model[2], plain[2] = copy.deepcopy(head), head
    both(net, plain, x)
    trained(net, plain, x)
    # What left has what it learned, and comes back with it.
    close(before[0].weight, before[1].weight)
    model[2], plain[2] = before
    both(net, plain, x)
    trained(net, plain, x)


def test_modules_that_are_added_and_removed():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    x = rows()
    trained_net = net(x)
    close(trained_net, plain(x))
    more = nn.Linear(WIDTH, 3).double()
    net._model[0].append(copy.deepcopy(more))
    plain.append(more)
    with pytest.raises(SmexRuntimeError, match="the shards exist once the model is captured"):
        list(net.parameters())
    both(net, plain, x)
    trained(net, plain, x)
    for each in (net._model[0], plain):
        del each[2]
    both(net, plain, x)
    assert len(list(net.parameters())) == 4
    trained(net, plain, x)


def test_a_parameter_and_a_buffer_that_are_assigned():
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    net, plain = pair(plain)
    x = rows()
    trained(net, plain, x)
    new = weight()
    mean = torch.randn(WIDTH, dtype=torch.float64)
    for each in (net._model[0], plain):
        each[0].weight = nn.Parameter(new.detach().clone())
        each[1].running_mean = mean.clone()
        each.eval()
    net.eval()
    both(net, plain, x)
    programs = len(net._programs)
    net._model[0][1].running_mean, plain[1].running_mean = mean + 1, mean + 1
    both(net, plain, x)
    assert len(net._programs) == programs
    same_state(net, plain)


def test_weights_that_are_tied_late():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)))
    x = rows()
    trained(net, plain, x)
    for each in (net._model[0], plain):
        each[0].weight = each[2].weight
    both(net, plain, x)
    same_state(net, plain)
    trained(net, plain, x)
    both(net, plain, x)


def test_hooks_that_come_and_go():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    x = rows()
    both(net, plain, x)
    handles = [
        each[0].register_forward_hook(lambda m, a, y: 2 * y) for each in (net._model[0], plain)
    ]
    both(net, plain, x)
    for handle in handles:
        handle.remove()
    both(net, plain, x)
    assert len(net._programs) == 2


def test_freezing_shards_leaves_the_model():
    model = nn.Linear(WIDTH, WIDTH).double()
    first = smex.partition(model, workers=2, args=(rows(),))
    for shard in first.parameters():
        shard.requires_grad_(False)
    assert not first(rows()).requires_grad
    assert all(parameter.requires_grad for parameter in model.parameters())
    second = smex.partition(model, workers=2, args=(rows(),))
    assert second(rows()).requires_grad
    model.weight.requires_grad_(False)
    second(rows()).sum().backward()
    assert list(second.full_grads()) == ["bias"]


# ---- saving and loading ----


class Versioned(nn.Module):
    """A module of a second version, whose weight was called otherwise in the first."""

    _version = 2

    def __init__(self):
        super().__init__()
        self.w = weight()
        self.learned = 0
        self._register_state_dict_hook(lambda module, state, prefix, meta: state)

    def forward(self, x):
        return x @ self.w

    def get_extra_state(self):
        return {"learned": self.learned}

    def set_extra_state(self, state):
        self.learned = state["learned"]

    def _load_from_state_dict(self, state, prefix, meta, *rest):
        if meta.get("version") == 1:
            state[prefix + "w"] = state.pop(prefix + "old").mT
        super()._load_from_state_dict(state, prefix, meta, *rest)


def test_loading_is_the_model_s_own():
    net, plain = pair(nn.Sequential(Versioned(), nn.Tanh(), nn.BatchNorm1d(WIDTH)))
    x = rows()
    trained(net, plain, x)
    state, wanted = net.state_dict(), plain.state_dict()
    assert state._metadata == wanted._metadata
    assert state["0._extra_state"] == {"learned": 0}
    old = copy.copy(wanted)
    old["0.old"] = old.pop("0.w") * 2
    old["0._extra_state"] = {"learned": 9}
    old._metadata = copy.deepcopy(wanted._metadata)
    old._metadata["0"]["version"] = 1
    del old["2.num_batches_tracked"]
    old._metadata["2"]["version"] = 1
    for each in (net, plain):
        each.load_state_dict(copy.copy(old))
    assert net._model[0][0].learned == plain[0].learned == 9
    both(net, plain, x)
    state, wanted = net.state_dict(), plain.state_dict()
    close(state["0.w"], wanted["0.w"])
    assert state["2.num_batches_tracked"] == wanted["2.num_batches_tracked"]


def test_a_load_that_fails_changes_nothing():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)))
    x = rows()
    trained(net, plain, x)
    before = net.state_dict()
    bad = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    bad["1.bias"] = torch.zeros(4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"size mismatch for 1.bias"):
        net.load_state_dict(bad)
    close(net.state_dict(), before)
    own = net._model[0].state_dict()
    with pytest.raises(RuntimeError, match=r"Missing key"):
        net.load_state_dict({})
    net.load_state_dict({"1.bias": torch.ones(3)}, strict=False)
    close(net.state_dict()["1.bias"], torch.ones(3, dtype=torch.float64))
    close(net.state_dict()["0.weight"], before["0.weight"])
    close(net._model[0].state_dict(), own)


def test_a_net_with_extra_state_inside_a_module():
    net, plain = pair(Versioned())
    x = rows()
    both(net, plain, x)
    outer, wanted = nn.ModuleDict({"net": net}), nn.ModuleDict({"net": plain})
    state = outer.state_dict()
    assert list(state) == list(wanted.state_dict())
    assert state._metadata["net"] == wanted.state_dict()._metadata["net"]
    state["net._extra_state"] = {"learned": 4}
    state["net.w"] = state["net.w"] * 3
    for each in (outer, wanted):
        each.load_state_dict(state)
    assert net._model[0].learned == 4
    both(net, plain, x)


def test_a_copy_reads_its_own_plain_tensors():
    table = torch.randn(WIDTH, dtype=torch.float64)
    net, plain = pair(Calls(lambda s, x: x @ s.w + s.table, w=weight(), table=table))
    x = rows()
    for module in (net, plain):
        module.eval()
        module(x)
        module.train()
    both(net, plain, x)
    copies = copy.deepcopy(net), copy.deepcopy(plain)
    both(*copies, x)
    programs = len(copies[0]._programs)
    net._model[0].table.zero_()
    plain.table.zero_()
    both(net, plain, x)
    both(*copies, x)
    copies[0]._model[0].table.fill_(2)
    copies[1].table.fill_(2)
    both(*copies, x)
    for each in copies:
        each.eval()
    both(*copies, x)
    assert len(copies[0]._programs) == programs == 2


def test_update_bn_of_a_wrapped_net():
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2))
    net, plain = pair(plain)
    batches = [rows() for _ in range(3)]
    net(batches[0])
    plain(batches[0])
    averages = [torch.optim.swa_utils.AveragedModel(each) for each in (net, plain)]
    for average in averages:
        torch.optim.swa_utils.update_bn(batches, average)
        average.eval()
    close(averages[0](batches[0]), averages[1](batches[0]))
    close(averages[0].module.state_dict()["1.running_mean"], averages[1].module[1].running_mean)
    wrapped = nn.Sequential(net), nn.Sequential(plain)
    for each in wrapped:
        torch.optim.swa_utils.update_bn(batches, each)
    same_state(net, plain)
    assert [type(part) for part in wrapped[0].modules()] == [nn.Sequential, type(net)]


# ---- arguments ----


def test_plain_arguments_that_change():
    net, plain = pair(Calls(lambda s, x, c: x @ s.w * c.scale, w=weight()))
    x = rows()
    given = Config(2.0)
    for scale in (2.0, 3.0, 2.0):
        given.scale = scale
        both(net, plain, x, given)
    both(net, plain, x, Config(3.0))

    class Options:  # no dataclass; equal by their names alone
        def __init__(self, scale):
            self.scale = scale

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    for scale in (2.0, 5.0):
        both(net, plain, x, Options(scale))
    programs = len(net._programs)
    both(net, plain, x, Options(5.0))
    both(net, plain, x, Slotted(5.0))
    both(net, plain, x, Slotted(6.0))
    assert len(net._programs) == programs + 2


def test_slices_and_sets_are_arguments():
    net, plain = pair(Calls(lambda s, x, part: (x @ s.w)[part], w=weight()))
    for part in (slice(0, 3), slice(1, 3), slice(0, 3)):
        both(net, plain, rows(), part)
    assert len(net._programs) == 2
    with pytest.raises(SmexTypeError, match="must be hashable, got ndarray"):
        net(rows(), np.arange(3))


def test_the_program_of_the_last_call_is_kept():
    net = smex.partition(nn.Linear(2, 2), workers=1)
    often = torch.randn(1, 2)
    net(often)
    first = next(iter(net._programs))
    for count in range(2, 150):
        net(torch.randn(count, 2))
        net(often)
    assert len(net._programs) == 128
    assert first in list(net._programs)


def test_a_partitioned_model_is_refused():
    net = smex.partition(nn.Linear(2, 2), workers=2)
    for model in (net, nn.Sequential(net)):
        with pytest.raises(SmexTypeError, match="partitioned already"):
            smex.partition(model, workers=2)


def test_nothing_is_told_of_calls_that_are_alike():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for training in (True, False):
                net.train(training)
                plain.train(training)
                both(net, plain, rows())
    assert len(net._programs) == 2


def test_an_interrupted_cut_leaves_nothing(monkeypatch):
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)))
    x = rows()
    made = []
    register = type(net).register_parameter

    def interrupted(self, name, parameter):
        made.append(name)
        if len(made) == 3:
            raise KeyboardInterrupt
        register(self, name, parameter)

    with monkeypatch.context() as patched:
        patched.setattr(type(net), "register_parameter", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net(x)
    with pytest.raises(SmexRuntimeError, match="shards exist once the model is captured"):
        list(net.parameters())
    both(net, plain, x)
    trained(net, plain, x)


def test_a_model_that_gets_its_values_later():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    model[0].to_empty(device="cpu")
    model.double()
    net = smex.partition(model, workers=2, replicate_bytes=0)
    with pytest.raises(SmexValueError, match=r'"1.weight" is on the meta device'):
        net(rows())
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)).double()
    net.to_empty(device="cpu")
    net.load_state_dict(plain.state_dict())
    both(net, plain, rows())
    trained(net, plain, rows())


# ---- relatives of settings ----


def _leaky(slope):
    return functools.partial(torch.nn.functional.leaky_relu, negative_slope=slope)


class Word(str):
    pass


class Number(int):
    pass


class Table(dict):
    pass


class Rows(list):
    pass


class Helper:
    def __init__(self, factor):
        self.factor = factor

    def scaled(self, x):
        return x * self.factor


def _with_factor(kind, factor):
    made = kind()
    made.factor = factor
    return made


def _scaling(factor):
    return lambda x: x * factor


@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        (lambda x, s: s(x), _leaky(0.1), _leaky(0.7)),
        (lambda x, s: x if s == "a" else -x, Word("a"), Word("b")),
        (lambda x, s: x * s, Number(2), Number(3)),
        (lambda x, s: x * s.factor, _with_factor(Table, 2.0), _with_factor(Table, 3.0)),
        (lambda x, s: x * s.factor, _with_factor(Rows, 2.0), _with_factor(Rows, 3.0)),
        (lambda x, s: s(x), Helper(2.0).scaled, Helper(3.0).scaled),
        (lambda x, s: s(x), _scaling(2.0), _scaling(3.0)),
    ],
    ids=["partial", "str", "int", "dict", "list", "method", "closure"],
)
def test_values_inside_of_others(function, first, second):
    as_attribute = pair(Calls(lambda s, x: function(x @ s.w, s.setting), w=weight(), setting=None))
    as_argument = pair(Calls(lambda s, x, given: function(x @ s.w, given), w=weight()))
    x = rows()
    for value in (first, second, first):
        net, plain = as_attribute
        net._model[0].setting = plain.setting = value
        both(net, plain, x)
        both(*as_argument, x, value)
    assert len(as_attribute[0]._programs) == len(as_argument[0]._programs) == 2


def test_a_hook_that_is_switched_by_a_variable():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH)))
    on = [False]
    helper = Helper(2.0)
    for each in (net._model[0], plain):
        each[0].register_forward_hook(lambda m, a, y: 3 * y if on[0] else None)
        each[0].register_forward_hook(lambda m, a, y: helper.scaled(y))
    for on[0] in (False, True, False):
        both(net, plain, rows())
    helper.factor = 5.0
    both(net, plain, rows())
    assert len(net._programs) == 3


def test_hooks_of_all_modules():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    x = rows()
    both(net, plain, x)

    def double(module, args, result):
        return 2 * result if isinstance(module, nn.Tanh) else None

    handle = torch.nn.modules.module.register_module_forward_hook(double)
    try:
        both(net, plain, x)
    finally:
        handle.remove()
    both(net, plain, x)


def _heads(outputs=WIDTH):
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, outputs))


def test_a_trainable_head_on_a_frozen_model():
    net, plain = pair(_heads().requires_grad_(False))
    x = rows()
    both(net, plain, x)
    head = nn.Linear(WIDTH, WIDTH).double()
    net._model[0][2], plain[2] = copy.deepcopy(head), head
    assert net(x).requires_grad
    trained(net, plain, x)
    frozen = nn.Linear(WIDTH, WIDTH).double().requires_grad_(False)
    net._model[0][2], plain[2] = copy.deepcopy(frozen), frozen
    assert not net(x).requires_grad
    both(net, plain, x)


def test_gradients_and_optimisers_of_what_is_replaced():
    net, plain = pair(_heads())
    x = rows()
    both(net, plain, x)
    optimisers = [torch.optim.SGD(each.parameters(), 0.1) for each in (net, plain)]
    for each in (net, plain):
        each(x).square().sum().backward()
    head = nn.Linear(WIDTH, WIDTH).double()
    net._model[0][2], plain[2] = copy.deepcopy(head), head
    same_grads(net, plain)
    for each, optimiser in zip((net, plain), optimisers, strict=True):
        each(x).square().sum().backward()
        optimiser.step()
    same_grads(net, plain)
    same_state(net, plain)


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_module_that_is_wrapped_keeps_its_shards(when):
    net, plain = pair(_heads())
    x = rows()
    both(net, plain, x)
    optimisers = [torch.optim.SGD(e.parameters(), 0.1, momentum=0.9) for e in (net, plain)]
    for each, optimiser in zip((net, plain), optimisers, strict=True):
        each(x).square().sum().backward()
        optimiser.step()
    results = [each(x).square().sum() for each in (net, plain)]
    if when == "before":
        for result in results:
            result.backward()
    for each in (net._model[0], plain):
        each[2] = nn.Sequential(each[2], nn.Tanh())
    if when == "between":
        for result in results:
            result.backward()
    same_grads(net, plain)
    for each, optimiser in zip((net, plain), optimisers, strict=True):
        each(x).square().sum().backward()
        optimiser.step()
    same_grads(net, plain)
    same_state(net, plain)
    assert any(name.endswith("2.0.weight") for name, _ in net.named_parameters())


@pytest.mark.parametrize("part", [nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)])
@pytest.mark.parametrize("copied", [False, True])
def test_one_of_two_places_of_a_module(part, copied):
    net, plain = pair(nn.Sequential(part, nn.Tanh(), part))
    x = rows()
    trained(net, plain, x)
    if copied:
        net, plain = copy.deepcopy((net, plain))
    for each in (net._model[0], plain):
        torch.manual_seed(1)
        each[0] = type(part)(*[WIDTH] * (1 + isinstance(part, nn.Linear))).double()
    same_state(net, plain)
    both(net, plain, x)
    trained(net, plain, x)


def test_two_nets_of_one_model_that_is_changed():
    model = _heads().double()
    plains = [copy.deepcopy(model) for _ in range(2)]
    nets = [smex.partition(model, workers=n, replicate_bytes=0) for n in (2, 3)]
    x = rows()
    for net, plain in zip(nets, plains, strict=True):
        trained(net, plain, x, steps=1 + nets.index(net))
    model[0] = nn.Sequential(model[0])
    for plain in plains:
        plain[0] = nn.Sequential(plain[0])
    for net, plain in zip(nets, plains, strict=True):
        same_state(net, plain)
        both(net, plain, x)


def test_functions_for_all_modules():
    def fill(module):
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)
            module.bias.data.add_(1.0)

    net, plain = pair(_heads())
    x = rows()
    for _ in range(2):
        assert net.apply(fill) is net
        plain.apply(fill)
        both(net, plain, x)
        trained(net, plain, x)


def test_freezing_before_the_first_call():
    net, plain = pair(_heads())
    for each in (net, plain):
        each.zero_grad()
        assert each.requires_grad_(False) is each
    assert not net(rows()).requires_grad
    net.requires_grad_(True)
    plain.requires_grad_(True)
    trained(net, plain, rows())


def test_what_a_net_says_of_its_model():
    class Talking(nn.Linear):
        def generate(self):
            return 1

    net = smex.partition(Talking(4, 4), workers=2)
    with pytest.raises(AttributeError, match="no attribute 'generate', which the model has"):
        net.generate()
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        _ = net.nonsense
    model = nn.Linear(4, 4)
    model.weight.register_hook(lambda grad: grad * 0)
    model.bias._no_decay = True
    with pytest.warns(CaptureWarning, match='"weight" has hooks for its gradient'):
        net = smex.partition(model, workers=2, args=(torch.zeros(2, 4),))
    marked = [hasattr(shard, "_no_decay") for name, shard in net.named_parameters()]
    assert marked == ["bias" in name for name, _ in net.named_parameters()]


def test_a_model_that_is_converted_after_it_was_cut():
    model = nn.Linear(WIDTH, WIDTH)
    net = smex.partition(model, workers=2, replicate_bytes=0)
    net(rows().float())
    model.double()
    with pytest.raises(SmexRuntimeError, match="are torch.float32 on cpu and cannot become"):
        net(rows())


def test_what_torch_computes_from_the_model_s_values():
    def made():  # twice: copies of a parametrised module share its class, which is changed
        normed = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
        return nn.Sequential(normed, nn.Tanh()).double()

    model, plain, x = made(), made(), rows()
    model.load_state_dict(plain.state_dict())
    net = smex.partition(model, workers=2, replicate_bytes=0)
    trained(net, plain, x)
    model.load_state_dict(net.state_dict())
    for each in (model, plain):
        nn.utils.parametrize.remove_parametrizations(each[0], "weight")
    both(net, plain, x)
    trained(net, plain, x)
    model.load_state_dict(net.state_dict())
    for each in (model, plain):
        prune.l1_unstructured(each[0], "weight", amount=0.5)
    both(net, plain, x)
    trained(net, plain, x)
    model.load_state_dict(net.state_dict())
    for each in (model, plain):
        prune.remove(each[0], "weight")
    both(net, plain, x)
    trained(net, plain, x)
