"""Inputs and buffers that a call changes, and results that are changed: each beside the plain module.

| call | test |
| --- | --- |
| inputs are changed in place, twice, then trained | test_changes_of_inputs_reach_the_caller |
| keys and values are written into a cache | test_a_cache_of_fixed_length |
| a changed input is expanded, passed twice, trained | test_changes_that_cannot_be_made_are_refused |
| buffers trade places, an old value is returned | test_buffers_that_are_made_of_each_other |
| what is returned, or left in an object, is changed | test_results_are_nobody_else_s |
"""

import copy
import dataclasses

import pytest
import torch
from pairs import WIDTH, Calls, backward, close, pair, rows, same_grads, same_state, weight
from torch import nn
from torch.nn import functional as F

import smex

pytestmark = [pytest.mark.costly, pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")]


# ---- inputs that are changed ----


def _old_and_new(self, x):
    old = x.clone()
    x.mul_(2)
    return old @ self.w, x @ self.w


def _old_view(self, x):
    view = x.t()
    x.add_(1)
    return view * 2, self.w.sum()


def _rows_of_it(self, x):
    x[1:3].mul_(2)
    x[:, 0] = 5
    return x @ self.w


def _through_data(self, x):
    x.data.clamp_(-0.5, 0.5)
    return x @ self.w


def _without_graph(self, x):
    with torch.no_grad():
        x.copy_(x @ self.w)
    return x @ self.w


CHANGES = {
    "add": lambda self, x: x.add_(1) @ self.w,
    "returned itself": lambda self, x: (self.w + 1, x.mul_(3)),
    "old and new": _old_and_new,
    "old view": _old_view,
    "rows": _rows_of_it,
    "data": _through_data,
    "no_grad": _without_graph,
    "relu": lambda self, x: F.relu_(x) @ self.w,
    "masked": lambda self, x: x.masked_fill_(x > 0, 0.5) @ self.w,
    "written to": lambda self, x: torch.sin(x, out=x) @ self.w,
    "zeroed after use": lambda self, x: ((x.clone() @ self.w).sin(), x.zero_()),
    "itself transposed": lambda self, x: (x.copy_(x.t().clone()), x @ self.w),
}

LAYOUTS = {
    "whole": lambda: rows(WIDTH),
    "transposed": lambda: rows(WIDTH).t(),
    "every second row": lambda: rows(2 * WIDTH)[::2],
    "not the first": lambda: rows(WIDTH + 1)[1:],
}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("case", CHANGES)
def test_changes_of_inputs_reach_the_caller(case, workers):
    net, plain = pair(Calls(CHANGES[case], w=weight()), workers=workers)
    for layout in LAYOUTS.values():
        given = layout()
        for training in (True, False):
            ours, theirs = copy.deepcopy(given), copy.deepcopy(given)
            version = ours._version
            for _ in range(2):
                with torch.set_grad_enabled(training):
                    found, wanted = net(ours), plain(theirs)
                    close(found, wanted)
                    backward(found)
                    backward(wanted)
                close(ours, theirs)
                same_grads(net, plain)
            assert ours._version > version


@pytest.mark.parametrize("workers", [1, 2])
def test_changes_of_inputs_inside_of_others(workers):
    def step(self, items, more):
        items["a"][1].add_(items["b"])
        more.value[0] = 7
        return items["a"][1] @ self.w + more.value

    net, plain = pair(Calls(step, w=weight()), workers=workers)
    given = {"a": [rows(), rows()], "b": rows()}, Box(rows())
    ours, theirs = copy.deepcopy(given), copy.deepcopy(given)
    for _ in range(2):
        box = ours[1].value
        close(net(ours[0], more=ours[1]), plain(theirs[0], more=theirs[1]))
        close(ours[0], theirs[0])
        close(ours[1].value, theirs[1].value)
        assert ours[1].value is box


@dataclasses.dataclass
class Box:
    value: torch.Tensor


@dataclasses.dataclass
class Cache:
    """Keys and values of so many words, and how many there are."""

    keys: torch.Tensor
    values: torch.Tensor
    length: torch.Tensor

    def update(self, key, value):
        place = self.length + torch.arange(key.shape[0])
        self.keys.index_copy_(0, place, key)
        self.values.index_copy_(0, place, value)
        self.length.add_(key.shape[0])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, cache):
        q, k, v = self.qkv(x).chunk(3, -1)
        first = cache.length.clone()
        cache.update(k, v)
        allowed = torch.arange(len(cache.keys)) <= first + torch.arange(len(x))[:, None]
        scores = (q @ cache.keys.T).masked_fill(~allowed, -1e9)
        return scores.softmax(-1) @ cache.values


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_cache_of_fixed_length(workers, mode):
    net, plain = pair(Attention(), workers=workers)
    caches = [
        Cache(torch.zeros(8, WIDTH).double(), torch.zeros(8, WIDTH).double(), torch.tensor(0))
        for _ in range(2)
    ]
    own = [caches[0].keys, caches[0].length]
    with mode():
        for count in (3, 1, 1, 2):
            x = rows(count)
            close(net(x, caches[0]), plain(x, caches[1]))
            close(vars(caches[0]), vars(caches[1]))
    assert [caches[0].keys, caches[0].length] == own or caches[0].keys is own[0]
    assert int(caches[0].length) == 7


def _twice(self, x, y):
    x.add_(1)
    return x @ self.w + y


def _shared_memory():
    both = rows(4)
    return both[:3], both[1:]


def _reshaped(self, x):
    return x.unsqueeze_(0) @ self.w


REFUSED_CHANGES = {
    "expanded": (
        lambda self, x: x.add_(1) @ self.w, lambda: (rows(1).expand(4, WIDTH),),
        r'"args0" in place, several elements .* one in memory: pass x.clone\(\)',
    ),
    "twice": (_twice, lambda: (rows(),) * 2, r'"args0" in place, .*"args1": pass x.clone\(\)'),
    "overlapping": (_twice, _shared_memory, r'"args0" in place, .*also that of "args1"'),
    "trained": (
        lambda self, x: x.add_(1) @ self.w, lambda: (rows().requires_grad_() * 1,),
        r'"args0" in place, and gradients.*torch.no_grad\(\)',
    ),
    "made of parameters": (
        lambda self, x: x.copy_(x.clone() @ self.w), lambda: (rows(),),
        r'"args0" in place, and gradients.*detach\(\)',
    ),
    "reshaped": (_reshaped, lambda: (rows(),), r'the shape of "args0" itself, from \[6, 12\] to'),
    "emptied": (
        lambda self, x: x.resize_(2, WIDTH) @ self.w, lambda: (rows(),), r'the shape of "args0"'
    ),
}  # fmt: skip


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("case", REFUSED_CHANGES)
def test_changes_that_cannot_be_made_are_refused(case, workers):
    function, make, message = REFUSED_CHANGES[case]
    model = Calls(function, w=weight())
    net = smex.partition(model, workers=workers, replicate_bytes=0)
    args = make()
    before = copy.deepcopy([arg.detach() for arg in args])
    with pytest.raises(smex.SmexError, match=message):
        net(*args)
    close([arg.detach() for arg in args], before)


def test_neighbours_in_memory_are_no_overlap():
    net, plain = pair(Calls(_twice, w=weight()))
    both = rows(6)
    ours, theirs = both.clone(), both.clone()
    close(net(ours[:3], ours[3:]), plain(theirs[:3], theirs[3:]))
    close(ours, theirs)


def _swapped(self, x):
    old = self.a.clone()
    self.a.copy_(self.b)
    self.b.copy_(old)
    return x @ self.w + self.a


def _transposed(self, x):
    self.a.copy_(self.a.t().clone())
    return x @ self.w + self.a


def _counted(self, x):
    old = self.a.clone()
    self.a.add_(1)
    return old, x @ self.w + self.a


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("function", [_swapped, _transposed, _counted])
def test_buffers_that_are_made_of_each_other(function, workers):
    model = Calls(function, w=weight())
    for name in ("a", "b"):
        model.register_buffer(name, rows(WIDTH))
    net, plain = pair(model, workers=workers)
    x = rows(WIDTH)
    for training in (True, False):
        with torch.set_grad_enabled(training):
            for _ in range(2):
                found, wanted = net(x), plain(x)
                close(found, wanted)
                backward(found)
                backward(wanted)
                same_state(net, plain)
                same_grads(net, plain)


# ---- results ----


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("replicate_bytes", [0, 2**20])
def test_results_are_nobody_else_s(workers, training, replicate_bytes):
    """Whoever changes what a net has returned changes neither the net nor its inputs."""

    def everything(self, x, box):
        box.value = self.w
        views = self.w.t(), self.b[1:], x.view(-1), self.b.expand(2, WIDTH), self.table[0]
        return {"same": [self.w, self.b, x, self.table, *views, x.real], "product": x @ self.w}

    model = Calls(everything, w=weight())
    model.register_buffer("b", rows()[0])
    model.table = rows()
    net, plain = pair(model, workers=workers, replicate_bytes=replicate_bytes)
    x, box, table = rows(), Box(rows()), model.table.clone()
    given = x.clone()
    with torch.set_grad_enabled(training):
        wanted = plain(x, Box(box.value))
        for _ in range(2):
            found = net(x, box)
            close(found, wanted)
            for tensor in [*found["same"], box.value]:
                tensor.detach().fill_(7)
            close(x, given)
            close(net._model[0].table, table)
            same_state(net, plain)
