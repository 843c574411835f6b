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
| objects with slots, dicts with attributes, pytrees without keys as arguments and results | test_objects_of_every_kind |
| tensors in slots, sets and bound arguments | test_hidden_tensors_are_found |
| a batch of graphs, with other sizes | test_sizes_of_a_batch_tell_graphs_apart |
| a graph changed in forward; its copy changed | test_graphs_keep_their_structure |
| data of PyG with a new feature, a new type | test_stores_of_pyg_keep_their_types |
| plain tensors changed in place; capture, plain | test_plain_tensors_are_not_changed |
| results of plain tensors changed in place | test_results_of_plain_tensors_may_be_changed |
| parameters and buffers changed by data | test_data_is_assigned |
| plain tensors read, as numbers, arrays, indices | test_plain_tensors_are_read |
| plain tensors of another device, of another layout | test_plain_tensors_of_other_devices, ... |
| one_hot out of range, then in range | test_one_hot_of_no_class_is_an_error |
| another thread runs torch while one captures | test_other_threads_run_plain_torch |
| several threads capture | test_captures_in_threads |
| counters everywhere | test_counters_are_told |
"""

import collections
import copy
import dataclasses
import functools
import threading
import types
import warnings

import pytest
import torch
from pairs import WIDTH, Calls, close, pair, rows, same_grads, same_state, weight
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import smex
import smex.graph as sg
import smex.graph.function as fn

HOOKS = [name for name in vars(nn.Module()) if "hook" in name]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def contents(model):
    """All that the modules hold, by name and identity."""
    return {
        (prefix, name): dict(value) if isinstance(value, dict) else value
        for prefix, module in model.named_modules()
        for name, value in vars(module).items()
    }


def captured(function, **members):
    """A model, and a net of it itself."""
    model = Calls(function, w=weight(), **members).double()
    return model, smex.partition(model, workers=2, replicate_bytes=0)


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


class Slots:
    __slots__ = ("__private", "value")

    def hold(self, tensor):
        self.__private = tensor


class SubSlots(Slots):
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


# ---- objects ----


@dataclasses.dataclass
class Named(collections.OrderedDict):
    value: torch.Tensor = None
    note: str = "a"


@dataclasses.dataclass(slots=True)
class Lean:
    value: torch.Tensor


class Extra(Lean):
    __slots__ = ("extra",)


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: torch.Tensor


class Keyless:
    def __init__(self, *parts):
        self.parts = parts


pytree.register_pytree_node(
    Keyless, lambda k: (list(k.parts), None), lambda parts, _: Keyless(*parts)
)


def _extra():
    found = Extra(rows())
    found.extra = rows()
    return found


def _named():
    found = Named(rows())
    found["item"] = rows()
    return found


def _with_extra(self, o):
    made = Extra(o.value @ self.w)
    made.extra = o.extra * 2
    return made, o


def _with_items(self, o):
    made = Named(o.value @ self.w, note="b")
    made["more"] = o["item"] * 2
    o["new"] = made.value
    return made, o


def _with_frozen(self, o):
    return Frozen(o.value @ self.w), o


def _with_keyless(self, o):
    return Keyless(o.parts[0] @ self.w, [o.parts[1]["a"] * 2]), Keyless(o.parts[0] * 3)


OBJECTS = {
    "slots of a class": (_with_extra, _extra),
    "dict": (_with_items, _named),
    "frozen": (_with_frozen, lambda: Frozen(rows())),
    "no keys": (_with_keyless, lambda: Keyless(rows(), {"a": rows()})),
}


def parts_of(thing):
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, (list, tuple)):
        return [part for item in thing for part in parts_of(item)]
    held = {name: getattr(thing, name) for name in ("value", "extra", "note", "parts")
            if hasattr(thing, name)}  # fmt: skip
    held |= dict(thing) if isinstance(thing, dict) else {}
    return [part for name in sorted(held) for part in (name, *parts_of_value(held[name]))]


def parts_of_value(value):
    return parts_of(value) if not isinstance(value, (str, dict)) else [str(value)[:1]]


@pytest.mark.parametrize("case", OBJECTS)
def test_objects_of_every_kind(case):
    function, make = OBJECTS[case]
    net, plain = pair(Calls(function, w=weight()))
    for _ in range(2):
        given = make()
        mine, theirs = copy.deepcopy(given), copy.deepcopy(given)
        found, wanted = net(mine), plain(theirs)
        pairs = [(found, wanted), (mine, theirs)]
        for a, b in pairs:
            for one, other in zip(parts_of(a), parts_of(b), strict=True):
                if isinstance(one, torch.Tensor):
                    close(one, other)
                else:
                    assert one == other
        if case != "no keys":
            assert found[1] is mine
        assert type(found[0]) is type(wanted[0])


def test_keyless_attributes():
    net, plain = pair(Calls(lambda s, x: x @ s.w @ s.kept.parts[0], w=weight()))
    net._model[0].kept = plain.kept = Keyless(rows(WIDTH))
    x = rows()
    close(net(x), plain(x))
    plain.kept.parts[0].requires_grad_()
    with pytest.raises(smex.CaptureError, match="would get no gradient"):
        net(rows(3))


def _slotted():
    found = SubSlots()
    found.hold(rows())
    return found


class Listed(list):
    pass


def _listed():
    found = Listed()
    found.value = rows()
    return found


HIDDEN = {
    "slot": (_slotted, "_Slots__private"),
    "deque": (lambda: collections.deque([rows()]).copy(), None),
    "partial": (lambda: functools.partial(torch.add, rows()), r"\.args\[0\]"),
    "attribute of a list": (_listed, r"\.value"),
    "object in a slot": (
        lambda: types.SimpleNamespace(a=_slotted()),
        r"\.a\._Slots__private",
    ),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_tensors_are_found(case):
    make, where = HIDDEN[case]
    net, _ = pair(Calls(lambda s, x, o: x @ s.w, w=weight()))
    if where is None:
        net(rows(), make())  # a node of pytrees
        return
    with pytest.raises(smex.SmexTypeError, match=rf"args\[1\] is a .* tensor in .*{where}"):
        net(rows(), make())
    net, _ = pair(Calls(lambda s, x: (x @ s.w, make()), w=weight()))
    with pytest.raises(smex.SmexTypeError, match=f"the result.* tensor in .*{where}"):
        net(rows())


# ---- graphs ----


def graph(nodes=6):
    found = sg.add_self_loop(sg.rand_graph(nodes, 2 * nodes))
    found.ndata["x"] = rows(nodes)
    return found


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
def test_sizes_of_a_batch_tell_graphs_apart():
    net, plain = pair(Calls(lambda s, g: sg.readout_nodes(g, "x", op="sum") @ s.w, w=weight()))
    g = graph()
    for sizes in ([2, 4], [1, 5], [6], [3, 3]):
        g.set_batch_num_nodes(torch.tensor(sizes))
        g.set_batch_num_edges(torch.tensor([0] * (len(sizes) - 1) + [g.num_edges()]))
        count = len(net._programs)
        for _ in range(2):
            close(net(g.clone()), plain(g.clone()))
        assert len(net._programs) == count + 1


def _adds_edges(self, g):
    g.add_edges([0], [1])
    return g.ndata["x"] @ self.w


def _adds_nodes(self, g):
    g.ndata.pop("x")
    g.add_nodes(2)
    return self.w * 2


def _sets_batch(self, g):
    g.set_batch_num_nodes(torch.tensor([2, 4]))
    return g.ndata["x"] @ self.w


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
@pytest.mark.parametrize("function", [_adds_edges, _adds_nodes, _sets_batch])
def test_graphs_keep_their_structure(function):
    _, net = captured(lambda self, x, held: function(self, held["g"]))
    g = graph()
    edges = g.num_edges()
    with pytest.raises(
        smex.CaptureError, match=r"structure of its argument args\[1\]\['g'\].*g.clone\(\)"
    ):
        net(rows(), {"g": g})
    assert (g.num_nodes(), g.num_edges()) == (6, edges)

    def changes_a_copy(self, g):
        g = g.clone()
        g.add_edges([0], [1])
        g.ndata["h"] = g.ndata["x"] @ self.w
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata["h"]

    net, plain = pair(Calls(changes_a_copy, w=weight()))
    close(net(g), plain(g))


def test_stores_of_pyg_keep_their_types():
    data = pytest.importorskip("torch_geometric.data")

    def sets_feature(self, d):
        d["a"].h = d["a"].x @ self.w
        return d["a"].h.sum()

    def adds_type(self, d):
        d["new"].x = d["a"].x @ self.w
        return d["new"].x.sum()

    given = data.HeteroData()  # without edges
    given["a"].x, given["b"].x = rows(), rows(2)
    net, plain = pair(Calls(sets_feature, w=weight()))
    mine, theirs = given.clone(), given.clone()
    close(net(mine), plain(theirs))
    close(mine["a"].h, theirs["a"].h)
    _, net = captured(adds_type)
    with pytest.raises(smex.CaptureError, match=r"structure of its argument args\[0\]"):
        net(given)
    assert given.node_types == ["a", "b"]


# ---- plain tensors that are changed ----

TABLE = torch.zeros(WIDTH, dtype=torch.float64)


def _adds_to_attribute(self, x):
    self.count += 1
    return x @ self.w * self.count


def _adds_in_dict(self, x):
    self.kept["n"].add_(1)
    return x @ self.w


def _adds_to_global(self, x):
    TABLE.add_(1)
    return x @ self.w + TABLE


def _writes_item(self, x):
    TABLE[0] = x[0, 0]
    return x @ self.w + TABLE


def _writes_view(self, x):
    TABLE.view(3, 4).T[1].mul_(2)
    return x @ self.w + TABLE


def _writes_out(self, x):
    torch.add(TABLE, 1, out=TABLE)
    return x @ self.w


def _writes_data(self, x):
    TABLE.data.add_(1)
    return x @ self.w


def _assigns_data(self, x):
    TABLE.data = TABLE * 2 + 1
    return x @ self.w


def _writes_many(self, x):
    torch._foreach_add_([TABLE], 1)
    return x @ self.w


def _writes_statistics(self, x):
    return F.batch_norm(x @ self.w, TABLE, None, training=True)


def _writes_local():
    table = TABLE

    def step(self, x):
        table.copy_(x[0])
        return x @ self.w

    return step


CHANGES = {
    _adds_to_attribute: 'changes its attribute "count" at test_kept',
    _adds_in_dict: r"""changes its attribute "kept\['n'\]" at test_kept""",
    _adds_to_global: 'changes the global tensor "TABLE" at test_kept',
    _writes_item: "TABLE",
    _writes_view: "TABLE",
    _writes_out: "TABLE",
    _writes_data: "TABLE",
    _assigns_data: "TABLE",
    _writes_many: "TABLE",
    _writes_local(): "TABLE",
}


@pytest.mark.parametrize("function", CHANGES, ids=lambda function: function.__name__)
def test_plain_tensors_are_not_changed(function):
    model, net = captured(function)
    model.count = torch.zeros((), dtype=torch.float64)
    model.kept = {"n": torch.zeros(2)}
    with pytest.raises(smex.CaptureError, match=f"{CHANGES[function]}.* register a buffer"):
        net(rows())
    for tensor in (TABLE, model.count, model.kept["n"]):
        assert type(tensor) is torch.Tensor
        assert not tensor.any()
    model.function = lambda self, x: x @ self.w
    x = rows()
    close(net(x), model(x))


CONSTANT = torch.arange(12.0, dtype=torch.float64)


def _adds_to(make):
    def forward(self, x):
        made = make()
        made.add_(1)
        made[0] = x[0, 0]
        made.view(3, 4)[1].mul_(2)
        return x @ self.w + made

    return forward


MADE = {
    "clone": lambda: CONSTANT.clone(),
    "sum": lambda: CONSTANT + 1,
    "cat": lambda: torch.cat([CONSTANT[6:], CONSTANT[:6]]),
    "empty_like": lambda: torch.empty_like(CONSTANT).fill_(2),
    "new_zeros": lambda: CONSTANT.new_zeros(12),
    "zeros": lambda: torch.zeros(12, dtype=torch.float64),
    "tensor": lambda: torch.tensor([1.0] * 12, dtype=torch.float64),
    "numpy": lambda: torch.as_tensor(CONSTANT.numpy() * 2).clone(),
    "deepcopy": lambda: copy.deepcopy(CONSTANT),
    "indexed": lambda: CONSTANT[[1] * 12],
}


@pytest.mark.parametrize("case", MADE)
def test_results_of_plain_tensors_may_be_changed(case):
    before = CONSTANT.clone()
    net, plain = pair(Calls(_adds_to(MADE[case]), w=weight()))
    x = rows()
    found, wanted = net(x), plain(x)
    close(found, wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    same_grads(net, plain)
    close(CONSTANT, before)


def test_plain_tensors_are_read():
    """In forward and backward, as numbers, arrays, indices, under vmap and in functions."""

    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * CONSTANT

        @staticmethod
        def backward(ctx, grad):
            return grad * CONSTANT * ctx.saved_tensors[0].cos()

    def forward(self, x):
        y = Times.apply(x @ self.w) * float(CONSTANT.numpy().sum()) / sum(CONSTANT.tolist())
        y = torch.vmap(lambda row: row * CONSTANT)(y)
        return y[:, CONSTANT.long()] * (CONSTANT * self.w.sum())

    net, plain = pair(Calls(forward, w=weight()))
    x = rows()
    for _ in range(2):
        found, wanted = net(x), plain(x)
        close(found, wanted)
        found.sum().backward()
        wanted.sum().backward()
        same_grads(net, plain)
        CONSTANT.add_(0)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.scale = torch.ones(3)

    def forward(self, x):
        shift = self.scale * 2
        shift += 1
        return self.layer(x) * self.scale + shift.to(self.scale.device)


def test_plain_tensors_of_other_devices():
    with torch.device("meta"):
        there = smex.capture(Scaled(), (torch.ones(2, 3),))
    here = smex.capture(Scaled(), (torch.ones(2, 3),))
    assert [op.target for op in there.ops] == [op.target for op in here.ops]

    def changes(self, x):
        self.scale.mul_(2)
        return x * self.scale

    with torch.device("meta"), pytest.raises(smex.CaptureError, match='attribute "scale"'):
        smex.capture(Calls(changes, scale=torch.ones(3)), (torch.ones(2, 3),))


def test_sparse_plain_tensors_are_refused():
    model, net = captured(lambda self, x: torch.sparse.mm(self.table, x.T).T @ self.w)
    model.table = torch.eye(WIDTH, dtype=torch.float64).to_sparse()
    with pytest.raises(smex.SmexTypeError, match=r'attribute "table" is .*sparse_coo.*to_dense'):
        net(rows())


def _assigns(self, x):
    self.w.data = self.w.data * 0.5
    self.b.data = self.b + x.mean(0)
    self.w.data = self.w.data
    return x @ self.w + self.b


def test_data_is_assigned():
    model = Calls(_assigns, w=weight())
    model.register_buffer("b", torch.ones(WIDTH))
    net, plain = pair(model)
    for _ in range(3):
        x = rows()
        close(net(x), plain(x))
        same_state(net, plain)
    model, net = captured(lambda self, x: setattr(self.w, "data", x) or x)
    with pytest.raises(smex.CaptureError, match="keeps its shape and dtype"):
        net(rows())


# ---- operators ----


def test_one_hot_of_no_class_is_an_error():
    def forward(self, i):
        return F.one_hot(i, 5).double() @ self.w[:5] + torch.ops.aten.one_hot(i, 6)[:, :1]

    net, plain = pair(Calls(forward, w=weight()))
    close(net(torch.tensor([0, 4, 2])), plain(torch.tensor([0, 4, 2])))
    for wrong in (5, -1):
        indices = torch.tensor([1, wrong, 0])
        with pytest.raises(RuntimeError):
            plain(indices)
        with pytest.raises(RuntimeError, match="one_hot: a value is no class"):
            net(indices)
    net, _ = pair(Calls(lambda self, i: F.one_hot(i) @ self.w.long()[:3], w=weight()))
    with pytest.raises(smex.CaptureError, match="depends on a tensor's values at test_kept"):
        net(torch.tensor([0, 1, 2]))


def test_higher_order_operators_are_told():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x @ self.w,))

    net, _ = pair(Calls(forward, w=weight()))
    with pytest.raises(smex.CaptureError, match="higher-order operator cond is not captured"):
        net(rows())


# ---- threads ----


def _seeds():
    torch.manual_seed(3)
    first = torch.rand(2)
    torch.random.manual_seed(3)
    assert torch.equal(first, torch.rand(2))
    assert isinstance(torch.seed(), int)


def _validates():
    with pytest.raises(ValueError, match="scale"):
        torch.distributions.Normal(0.0, torch.tensor(-1.0))


def _averages():
    norm = nn.BatchNorm1d(3, momentum=None)
    x = torch.randn(5, 3)
    norm(x)
    torch.testing.assert_close(norm.running_mean, x.mean(0))
    assert norm.num_batches_tracked == 1


def _records():
    with torch.profiler.profile() as profile, torch.profiler.record_function("mine"):
        torch.ones(2) + 1
    assert "mine" in {event.key for event in profile.key_averages()}


def _checkpoints():
    ran = []
    for reentrant in (True, False):
        x = torch.ones(2, requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(
            lambda x: ran.append(1) or x.sin(), x, use_reentrant=reentrant
        )
        y.sum().backward()
    assert len(ran) == 4  # again in backward


def _compiles():
    assert not torch.compiler.is_compiling()
    flag = False
    flag |= torch.compiler.is_compiling()
    assert flag is False


def _calls_modules():
    nn.Sequential(nn.Linear(2, 2), nn.ReLU())(torch.ones(1, 2))


@pytest.mark.parametrize(
    "work",
    [_seeds, _validates, _averages, _records, _checkpoints, _compiles, _calls_modules],
    ids=lambda work: work.__name__,
)
def test_other_threads_run_plain_torch(work, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    failed = []

    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    def forward(self, x):
        assert torch.compiler.is_compiling()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        torch.distributions.Normal(x, 1.0).log_prob(x)
        return self.layer(x) @ self.w

    work()
    model = Calls(forward, w=weight(), layer=nn.Linear(WIDTH, WIDTH)).double()
    before = {name: getattr(torch, name) for name in ("manual_seed", "seed")}
    graph = smex.capture(model, (rows(),))
    assert not failed, failed
    assert {op.module_path for op in graph.ops if "addmm" in op.target or "mm" in op.target} >= {
        "layer"
    }
    assert {name: getattr(torch, name) for name in before} == before
    assert torch.distributions.Distribution._validate_args is True
    assert torch.compiler._is_compiling_flag is False
    work()


def test_captures_in_threads():
    def patched():
        return [
            torch.manual_seed,
            torch.nn.modules.batchnorm._BatchNorm.forward,
            torch.autograd.profiler.record_function.__enter__,
            torch.utils.checkpoint.CheckpointFunction.apply,
        ]

    before, found = patched(), []
    x = rows()

    def capture(count):
        found.append(smex.capture(lambda x: x.expand(count, 6, WIDTH).sum(0) * count, (x,)))

    threads = [threading.Thread(target=capture, args=(count,)) for count in (1, 200, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert patched() == before


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
