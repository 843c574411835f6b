"""Plain tensors that forward changes and reads while it is captured: each test is one sequence.

| sequence | test |
| --- | --- |
| plain tensors changed in place; capture, plain | test_plain_tensors_are_not_changed |
| results of plain tensors changed in place | test_results_of_plain_tensors_may_be_changed |
| parameters and buffers changed by data | test_data_is_assigned |
| plain tensors read, as numbers, arrays, indices | test_plain_tensors_are_read |
| plain tensors of another device, of another layout | test_plain_tensors_of_other_devices, ... |
| one_hot out of range, then in range | test_one_hot_of_no_class_is_an_error |
"""

import copy

import pytest
import torch
from pairs import WIDTH, Calls, captured, close, pair, rows, same_grads, same_state, weight
from torch import nn
from torch.nn import functional as F

import smex

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


@pytest.mark.costly(cases=4)
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
