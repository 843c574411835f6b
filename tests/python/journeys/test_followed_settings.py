"""Settings of a model, and arguments, that change between calls: each test beside the plain module.

| sequence | test |
| --- | --- |
| call, change an attribute of any kind, call, put it back, call | test_attributes_of_every_kind |
| values that are equal and not the same: 2 and 2.0, 1 and True, 0.0 and -0.0 | test_equal_values_are_told_apart |
| what is inside of partials, methods, closures, subclasses of str and dict | test_values_inside_of_others, test_a_hook_that_is_switched_by_a_variable |
| objects and slices as arguments, changed between calls | test_plain_arguments_that_change |
| more inputs than programs are kept | test_the_program_of_the_last_call_is_kept |
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
from pairs import WIDTH, Calls, both, pair, rows, weight
from torch import nn

import smex
import smex.graph as sg
import smex.graph.function as fn
from smex.errors import CaptureWarning, SmexTypeError
from smex.execution.watch import Reader


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


class Private:
    __slots__ = ("__scale",)

    def __init__(self, scale):
        self.__scale = scale

    def scale(self):
        return self.__scale


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
    "slices": (
        lambda m, x: x[m.setting].sum(0),
        (slice(0, 2), slice(0, 3)),
        (slice(0, 2), slice(0, 4)),
    ),
    "private slot": (lambda m, x: x * m.setting.scale(), Private(2.0), Private(3.0)),
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


def _scaling_by_default(factor):
    return lambda x, *, by=factor: x * by


def _with_attribute(factor):
    def function(x):
        return x

    function.factor = factor
    return function


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
        (lambda x, s: s(x), _scaling_by_default(2.0), _scaling_by_default(3.0)),
        (lambda x, s: x * s.factor, _with_attribute(2.0), _with_attribute(3.0)),
    ],
    ids=[
        "partial",
        "str",
        "int",
        "dict",
        "list",
        "method",
        "closure",
        "keyword default",
        "attribute of a function",
    ],
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
