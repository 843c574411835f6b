"""What forward keeps, adds and changes while it is captured: each test is one sequence.

| sequence | test |
| --- | --- |
| forward registers hooks; capture, again with another shape, plain | test_hooks_of_forward_are_taken_off |
| forward registers hooks and fails; plain | test_hooks_are_taken_off_after_an_error |
| forward of a transformer that returns what it captures by hooks | test_captured_outputs_of_transformers |
| forward changes modes, adds modules; capture, plain | test_modes_and_modules_are_put_back |
| forward makes a parameter; a plain call, then capture | test_parameters_made_in_forward_are_refused |
| forward makes a buffer: a cache; of the inputs | test_new_buffers |
| forward keeps a tensor in an object, tuple, variable, anywhere | test_kept_tensors_are_named |
| forward keeps what depends on parameters alone; capture, plain | test_caches_are_filled_anew |
| forward keeps a tensor and fails; another capture | test_nothing_is_kept_after_an_error |
| forward assigns to a place in a list | test_a_call_that_needs_what_the_last_one_kept |
| objects of a call refer to each other | test_cycles_of_a_call_are_not_kept |
| counters everywhere | test_counters_are_told |
"""

import copy
import functools
import warnings

import pytest
import torch
from pairs import WIDTH, Calls, Slots, SubSlots, captured, close, pair, rows, same_grads, weight
from torch import nn

import smex


def contents(model):
    """All that the modules hold, by name and identity."""
    return {
        (prefix, name): dict(value) if isinstance(value, dict) else value
        for prefix, module in model.named_modules()
        for name, value in vars(module).items()
    }


# ---- hooks, modes, modules, parameters, buffers ----


def _hooked(self, x, fail=False):
    def double(module, args, result):
        return result * 2

    self.layer.register_forward_hook(double, with_kwargs=False)
    self.layer.register_forward_hook(lambda m, a, k, r: r, with_kwargs=True, always_call=True)
    self.layer.register_forward_pre_hook(lambda m, a: None)
    self.layer.register_forward_pre_hook(lambda m, a, k: None, with_kwargs=True)
    self.layer.register_full_backward_pre_hook(lambda m, g: None)
    self.layer.register_state_dict_pre_hook(lambda *args: None)
    self.layer.register_load_state_dict_post_hook(lambda *args: None)
    if fail:
        raise ValueError("as asked")
    return self.layer(x) @ self.w


def test_hooks_of_forward_are_taken_off():
    model, net = captured(_hooked, layer=nn.Linear(WIDTH, WIDTH))
    before = contents(model)
    plain = copy.deepcopy(model)
    for count in (6, 6, 4):
        x = rows(count)
        close(net(x), copy.deepcopy(plain)(x))
        assert contents(model) == before
    assert len(net._programs) == 2


def test_hooks_are_taken_off_after_an_error():
    model, net = captured(_hooked, layer=nn.Linear(WIDTH, WIDTH))
    before = contents(model)
    with pytest.raises(smex.CaptureError, match="as asked"):
        net(rows(), True)
    assert contents(model) == before
    x = rows()
    close(net(x), copy.deepcopy(model)(x))


def test_captured_outputs_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        vocab_size=99, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    plain = transformers.BertModel(config).eval().double()
    plain.set_attn_implementation("eager")
    model = copy.deepcopy(plain)
    net = smex.partition(model, workers=2, replicate_bytes=0)
    for length in (5, 7, 5):
        words = torch.randint(99, (2, length))
        wants = {"output_hidden_states": True, "output_attentions": True}
        for each in (net, model):
            found, wanted = each(words, **wants), plain(words, **wants)
            assert len(found.hidden_states) == len(wanted.hidden_states) == 3
            for a, b in zip(found.hidden_states, wanted.hidden_states, strict=True):
                close(a, b)
            for a, b in zip(found.attentions, wanted.attentions, strict=True):
                close(a, b)


def test_modes_and_modules_are_put_back():
    def forward(self, x):
        self.norm.eval()
        self.added = nn.ReLU()
        self.later = nn.Tanh()
        return self.later(self.added(self.norm(x @ self.w)))

    model, net = captured(forward, norm=nn.BatchNorm1d(WIDTH))
    model.later = None
    plain, before = copy.deepcopy(model), contents(model)
    for _ in range(2):
        x = rows()
        close(net(x), plain(x))
        assert contents(model) == before
    assert len(net._programs) == 1
    model(x)


def _makes_layer(self, x):
    if not hasattr(self, "layer"):
        self.layer = nn.Linear(WIDTH, WIDTH).double()
    return self.layer(x @ self.w)


def _makes_parameter(self, x):
    if not hasattr(self, "b"):
        self.register_parameter("b", nn.Parameter(torch.zeros(WIDTH).double()))
    return x @ self.w + self.b


@pytest.mark.parametrize(
    ("forward", "name"), [(_makes_layer, "layer.weight"), (_makes_parameter, "b")]
)
def test_parameters_made_in_forward_are_refused(forward, name):
    model, net = captured(forward)
    before = contents(model)
    with pytest.raises(smex.CaptureError, match=f'makes its parameter "{name}".*smex.partition'):
        net(rows())
    assert contents(model) == before
    model(rows())
    x = rows()
    net, plain = pair(model)
    close(net(x), plain(x))
    net(x).sum().backward()
    plain(x).sum().backward()
    same_grads(net, plain)


def _cached(self, x):
    if not hasattr(self, "table"):
        self.register_buffer("table", torch.arange(12.0).double().cos(), persistent=False)
    if self.empty is None:
        self.empty = self.w.detach().sum(0)
    return x @ self.w * self.table + self.empty


def _of_inputs(self, x):
    self.register_buffer("last", x @ self.w)
    return x


def _into_none(self, x):
    self.empty = x @ self.w
    return x


def test_new_buffers():
    model, net = captured(_cached)
    model.register_buffer("empty", None)
    before, plain = contents(model), copy.deepcopy(model)
    for _ in range(2):
        x = rows()
        close(net(x), plain(x))
        assert contents(model) == before
    assert len(net._programs) == 1
    for forward, name in ((_of_inputs, "last"), (_into_none, "empty")):
        model.function = forward
        before = contents(model)
        with pytest.raises(smex.CaptureError, match=f'keeps a tensor made at .*"{name}"'):
            net(rows())
        assert contents(model) == before
    model.function = lambda self, x: x @ self.w
    close(net(x), model(x))


# ---- what is kept ----


class Holder:
    pass


HELD = Holder()

SLOTTED = SubSlots()

KEPT: dict = {}

PLACES: list = []


def _in_object(self, x):
    HELD.value = x @ self.w


def _in_slot(self, x):
    SLOTTED.value = x @ self.w


def _in_private_slot(self, x):
    SLOTTED.hold(x @ self.w)


def _in_tuple(self, x):
    KEPT["a"] = (1, x @ self.w)


def _in_nested_tuple(self, x):
    HELD.value = ((x @ self.w,), 2)


def _in_set(self, x):
    KEPT["s"] = {x @ self.w}


def _in_partial(self, x):
    KEPT["f"] = functools.partial(torch.add, x @ self.w)


def _in_global(self, x):
    global GLOBAL
    GLOBAL = x @ self.w


def _in_class(self, x):
    Holder.last = x @ self.w


def _in_function(self, x):
    _in_function.last = x @ self.w


def _in_own_object(self, x):
    self.held.value = x @ self.w


def _in_own_slot(self, x):
    self.slotted.hold([x @ self.w])


def _in_deep_list(self, x):
    self.deep["a"][0].append(x @ self.w)


def _in_new_object(self, x):
    self.new = Holder()
    self.new.value = x @ self.w


def _in_variable():
    kept = None

    def step(self, x):
        nonlocal kept
        kept = x @ self.w

    return step, lambda: kept


in_variable, variable = _in_variable()

KEEPS = {
    _in_object: 'as the attribute "value" of a Holder',
    _in_slot: 'as the attribute "value" of a SubSlots',
    _in_private_slot: "as the attribute \"_Slots__private\" of a SubSlots",
    _in_tuple: "in a tuple under 'a' in a dict",
    _in_nested_tuple: 'in a tuple in a tuple as the attribute "value" of a Holder',
    _in_set: "in a set",
    _in_partial: "in a tuple in a partial under 'f' in a dict",
    _in_global: 'as the global variable "GLOBAL" of module .*test_kept_and_changed',
    _in_class: 'as the attribute "last" of class Holder',
    _in_function: 'as the attribute "last" of function _in_function',
    in_variable: 'in the variable "kept" of an enclosing function',
    _in_own_object: 'as its attribute "held.value"',
    _in_own_slot: r'as its attribute "slotted._Slots__private\[0\]"',
    _in_deep_list: r"""as its attribute "deep\['a'\]\[0\]\[0\]\"""",
    _in_new_object: r'as its attribute "new.value"',
}  # fmt: skip


def kept():
    """All that the functions above may have kept."""
    private = getattr(SLOTTED, "_Slots__private", None), getattr(SLOTTED, "value", None)
    found = [*vars(HELD).values(), *private, *KEPT.values(), *PLACES, variable()]
    found += [getattr(Holder, "last", None), globals().get("GLOBAL")]
    found += vars(_in_function).values()
    return [thing for thing in found if thing is not None and thing != set()]


@pytest.mark.costly(cases=5)
@pytest.mark.parametrize("keep", KEEPS, ids=lambda keep: keep.__name__)
def test_kept_tensors_are_named(keep):
    KEPT.clear()

    def forward(self, x):
        keep(self, x)
        return x @ self.w

    model, net = captured(forward, held=Holder(), slotted=SubSlots(), deep={"a": ([],)})
    before = contents(model)
    with pytest.raises(smex.CaptureError, match=f"made at test_kept.*{KEEPS[keep]}"):
        net(rows())
    assert contents(model) == before
    assert not kept()
    assert not vars(model.held)
    assert not hasattr(model.slotted, "_Slots__private")
    assert not model.deep["a"][0]
    model.function = lambda self, x: x @ self.w
    x = rows()
    close(net(x), model(x))


def _cache_in_objects(self, x):
    if not hasattr(HELD, "mask"):
        HELD.mask = self.w.detach() * 2
    if KEPT.get("pair") is None:
        KEPT["pair"] = (self.w.detach() * 3, 1)
    if not hasattr(self.held, "mask"):
        self.held.mask = self.w.detach() * 4
    return x @ (HELD.mask + KEPT["pair"][0] + self.held.mask)


def _cache_in_variable():
    mask = None

    def step(self, x):
        nonlocal mask
        if mask is None:
            mask = self.w.detach() * 2
        return x @ mask

    return step


@pytest.mark.parametrize("make", [lambda: _cache_in_objects, _cache_in_variable])
def test_caches_are_filled_anew(make):
    vars(HELD).clear()
    KEPT.clear()
    model, net = captured(make(), held=Holder())
    for count in (6, 4, 6):
        x = rows(count)
        found = net(x)
        close(found, net(x))
        assert not kept()
        assert not vars(model.held)
    close(found, copy.deepcopy(model)(x))


def test_nothing_is_kept_after_an_error():
    def forward(self, x):
        KEPT["last"] = x @ self.w
        HELD.value = (x @ self.w,)
        raise ValueError("as asked")

    KEPT.clear()
    model, net = captured(forward)
    with pytest.raises(smex.CaptureError, match="as asked"):
        net(rows())
    assert not kept()
    model.function = lambda self, x: x @ self.w
    x = rows()
    close(net(x), model(x))


def test_a_call_that_needs_what_the_last_one_kept():
    """The tracer calls a model twice, and takes away what the first call has kept."""

    def forward(self, x):
        PLACES[0] = x @ self.w
        return x

    PLACES.append(None)
    _, net = captured(forward)
    with pytest.raises(smex.CaptureError, match=r"IndexError.*made at test_kept.* in a list"):
        net(rows())
    PLACES.clear()


def test_cycles_of_a_call_are_not_kept():
    def forward(self, x):
        first, second = Holder(), Slots()
        first.other, second.value = second, (first, x @ self.w)
        first.listed = [first, second.value[1]]
        return first.listed[1] * 2

    net, plain = pair(Calls(forward, w=weight()))
    x = rows()
    close(net(x), plain(x))


# ---- counters ----


def test_counters_are_told():
    def forward(self, x):
        self.none = 1
        self.number += 0.5
        self.gone = None
        self.kept["n"] += 1
        self.held.calls += 1
        self.same = float("2.5")
        self.flag = True
        self.fresh = x.shape[0]
        return x @ self.w

    model, net = captured(
        forward, none=None, number=1.0, gone=3, kept={"n": 0}, held=Holder(), same=2.5, flag=False
    )
    model.held.calls = 7
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net(rows())
    told = sorted(str(w.message).split("when")[0] for w in caught if "attribute" in str(w.message))
    assert told == [
        f"capture: the model changes its attribute {change} "
        for change in (
            '"gone" from 3 to None', '"held.calls" from 7 to 8', '"kept[\'n\']" from 0 to 1',
            '"none" from None to 1', '"number" from 1.0 to 1.5',
        )
    ]  # fmt: skip
    found = (model.none, model.number, model.gone, model.kept, model.held.calls, model.flag)
    assert found == (None, 1.0, 3, {"n": 0}, 7, False)
    assert not hasattr(model, "fresh")
    count = len(net._programs)
    net(rows())
    assert len(net._programs) == count
