"""What a call does beside returning a result, and who may call: each beside the plain module.

| call | test |
| --- | --- |
| with dropout and without, with a state of the generator | test_the_generator_moves_only_where_numbers_are_drawn |
| conjugated and negated views | test_lazy_conjugates |
| gradients inside of forward, in every mode | test_gradients_inside_of_forward |
| tracers and transforms of torch | test_who_looks_into_a_net_is_refused |
| backward() inside of forward, or beside it | test_gradients_that_are_added_to_parameters_are_refused, test_a_backward_pass_beside_a_capture |
"""

import copy
import re
import threading

import pytest
import torch
from pairs import WIDTH, Calls, backward, close, pair, rows, same_grads, same_state, weight
from torch import nn

import smex

pytestmark = [pytest.mark.costly, pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")]


# ---- random numbers ----


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_the_generator_moves_only_where_numbers_are_drawn(training, drop):
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(drop)))
    x = rows()
    for module in (net, plain):
        module.train(training)
        for _ in range(2):
            before = torch.get_rng_state()
            module(x).sum().backward()
            moved = not torch.equal(torch.get_rng_state(), before)
            assert moved == (training and drop > 0)
    if not moved:
        same_grads(net, plain)


def test_a_seed_repeats_the_dropout():
    net, _ = pair(nn.Dropout(0.5))
    x = rows()
    found = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        found.append(net(x))
    close(found[0], found[2])
    assert not torch.equal(found[0], found[1])


# ---- views that are computed when they are read ----


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.complex128)


LAZY = {
    "conjugated": lambda: numbers(6, WIDTH).conj(),
    "negated": lambda: torch._neg_view(numbers(6, WIDTH)),
    "both": lambda: torch._neg_view(numbers(6, WIDTH).conj()),
    "imaginary part": lambda: numbers(6, WIDTH).conj().imag,
    "transposed": lambda: numbers(WIDTH, 6).mH,
}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("case", LAZY)
def test_lazy_conjugates(case, workers):
    """As input, parameter, buffer, constant, result, tangent and loaded state."""

    def step(self, x):
        return (x + self.v * self.table) @ self.w + self.b.sum(), x.conj(), self.w.mH

    make = LAZY[case]
    dtype = make().dtype
    model = Calls(step, w=nn.Parameter(numbers(WIDTH, WIDTH).mH), v=nn.Parameter(make()))
    model.register_buffer("b", make())
    model.table = make()
    if not dtype.is_complex:
        model.w = nn.Parameter(torch._neg_view(rows(WIDTH)))
    net = smex.partition(copy.deepcopy(model), workers=workers, replicate_bytes=0)
    x = make()
    for _ in range(2):
        given = [x.clone().requires_grad_() for _ in range(2)]
        found, wanted = net(given[0].conj()), model(given[1].conj())
        close(found, wanted)
        for result in (found, wanted):
            tangent = torch._neg_view(torch.ones_like(result[0]).conj())
            torch.autograd.backward(result[0], tangent)
        close(given[0].grad, given[1].grad)
        same_grads(net, model)
        with torch.no_grad():
            close(net(x), model(x))
        same_state(net, model)
        state = {name: make() if name != "w" else t for name, t in model.state_dict().items()}
        for module in (net, model):
            module.load_state_dict(state)


# ---- who calls ----


def _dual(net, x):
    with torch.autograd.forward_ad.dual_level():
        return net(torch.autograd.forward_ad.make_dual(x, x))


def _fake(net, x):
    with torch._subclasses.FakeTensorMode() as mode:
        return net(mode.from_tensor(x))


def _vectorised(net, x):
    return torch.autograd.functional.jacobian(net, x, vectorize=True)


TRACERS = {
    "torch.jit.trace": torch.jit.trace,
    "torch.jit.script": lambda net, x: torch.jit.script(net),
    "torch.export": lambda net, x: torch.export.export(net, (x,)),
    "torch.fx": lambda net, x: torch.fx.symbolic_trace(net),
    "a tracer": _fake,
    "forward-mode differentiation": _dual,
    "torch.vmap": _vectorised,
}

TRANSFORMS = {
    "grad": lambda net, x: torch.func.grad(lambda y: net(y).sum())(x),
    "vmap": lambda net, x: torch.func.vmap(net)(x),
    "jacrev": lambda net, x: torch.func.jacrev(net)(x),
    "jacfwd": lambda net, x: torch.func.jacfwd(net)(x),
    "vjp": lambda net, x: torch.func.vjp(net, x),
    "functionalize": lambda net, x: torch.func.functionalize(net)(x),
}


@pytest.mark.filterwarnings(
    "ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning"
)
@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("case", [*TRACERS, *TRANSFORMS])
def test_who_looks_into_a_net_is_refused(case, captured, inside):
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH)))
    x = rows()
    if captured:
        net(x)
    module = nn.Sequential(net, nn.Tanh()) if inside else net
    name = re.escape("torch.func" if case in TRANSFORMS else case)
    with pytest.raises(smex.SmexRuntimeError, match=f"{name} cannot look into a .*before smex"):
        {**TRACERS, **TRANSFORMS}[case](module, x)
    close(net(x), plain(x))


def test_transforms_inside_of_the_model():
    def step(self, x):
        return torch.func.vmap(torch.func.jacrev(self.layer))(x)

    net, plain = pair(Calls(step, layer=nn.Sequential(nn.Linear(WIDTH, 3), nn.Tanh())))
    x = rows()
    for module in (net, plain):
        module(x).square().sum().backward()
    close(net(x), plain(x))
    same_grads(net, plain)


def test_inputs_without_values_are_refused():
    net, plain = pair(nn.Linear(WIDTH, WIDTH))
    with pytest.raises(smex.SmexValueError, match='"input" is on the meta device'):
        net(rows().to("meta"))
    x = rows()
    close(net(x), plain(x))


def test_a_net_lists_what_it_has():
    net, _ = pair(nn.Linear(WIDTH, WIDTH))
    assert all(hasattr(net, name) for name in dir(net))
    assert "plan" not in dir(net)
    net(rows())
    assert "plan" in dir(net)


# ---- gradients inside of forward ----


class Energy(nn.Module):
    """An energy and what it is derived by, as in models of molecules."""

    def __init__(self, derive):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1))
        self.derive = derive

    def forward(self, x):
        with torch.enable_grad():
            return self.derive(self, x)


def _forces(self, x):
    x = x.detach().requires_grad_()
    energy = self.layers(x).sum()
    return energy, -torch.autograd.grad(energy, x, create_graph=self.training)[0]


def _step(self, x):
    """Parameters after one step, as in meta-learning."""
    parameters = list(self.layers.parameters())
    loss = self.layers(x).square().sum()
    grads = torch.autograd.grad(loss, parameters, create_graph=self.training)
    first = parameters[0] - 0.1 * grads[0]
    return loss, first


def _descent(self, x):
    y = x.detach().requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(self.layers(y).sum(), y, create_graph=self.training)
        y = y - 0.1 * grad
    return y


def _curvature(self, x):
    return torch.autograd.functional.hessian(
        lambda y: self.layers(y).square().sum(), x, create_graph=self.training
    )


def _left_in_grad(self, x):
    y = x.detach().requires_grad_()
    self.layers(y).sum().backward(inputs=[y])
    return y.grad


def _of_input(self, x):
    """By the caller's own tensor, which requires a gradient."""
    return torch.autograd.grad(self.layers(x).sum(), x, create_graph=self.training)[0]


DERIVATIVES = [_forces, _step, _descent, _curvature, _left_in_grad, _of_input]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("derive", DERIVATIVES)
def test_gradients_inside_of_forward(derive, frozen, workers):
    model = Energy(derive).double()
    if frozen and derive is not _step:
        model.requires_grad_(False)
    net, plain = pair(model, workers=workers)
    x = rows(1)
    if derive is _of_input:
        x.requires_grad_()
    wanted = torch.utils._pytree.tree_map(torch.detach, plain(x))
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        for training in (True, False):
            net.train(training)
            with mode():
                close(torch.utils._pytree.tree_map(torch.detach, net(x)), wanted)
    for module in (net, plain):
        module.train()
        backward(module(x))
    same_grads(net, plain)


def test_gradients_that_are_added_to_parameters_are_refused():
    def step(self, x):
        with torch.enable_grad():
            (x @ self.w).sum().backward()
        return x

    net, _ = pair(Calls(step, w=weight()))
    for mode in (torch.no_grad, torch.enable_grad):
        with mode(), pytest.raises(smex.CaptureError, match=r"backward\(\) at test_calls.py:\d+"):
            net(rows())


def test_a_backward_pass_beside_a_capture():
    """One of another thread is none of the model's."""

    def step(self, x):
        thread = threading.Thread(target=lambda: x0.square().sum().backward())
        thread.start()
        thread.join()
        return x @ self.w

    x0 = rows().requires_grad_()
    net, _ = pair(Calls(step, w=weight()))
    net(rows())
    assert x0.grad is not None


# ---- tensors that are not what they seem ----


def _tied_by_data():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)).double()
    model[1].weight.data = model[0].weight.data
    return model


def _overlapping_buffers():
    model = Calls(lambda self, x: (self.a.add_(1), x + self.b)[1])
    both = rows()[0]
    model.register_buffer("a", both[1:])
    model.register_buffer("b", both)
    return model


@pytest.mark.parametrize("make", [_tied_by_data, _overlapping_buffers])
def test_state_that_shares_memory_is_refused(make):
    net = smex.partition(make(), workers=2, replicate_bytes=0)
    with pytest.raises(smex.CaptureError, match=r'".*" and ".*" of the model share memory'):
        net(rows())


def test_shared_memory_that_nobody_changes():
    model = _tied_by_data()
    net = smex.partition(model, workers=2, replicate_bytes=0)
    x = rows()
    with torch.no_grad():
        close(net(x), model(x))


def test_neighbours_in_the_memory_of_parameters():
    both = rows(WIDTH, 2)
    model = Calls(lambda self, x: x * self.a + self.b)
    model.a, model.b = nn.Parameter(both[:, 0]), nn.Parameter(both[:, 1])
    net = smex.partition(model, workers=2, replicate_bytes=0)
    x = rows()
    for module in (net, model):
        module(x).sum().backward()
    same_grads(net, model)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_made_of_others_are_refused():
    net, plain = pair(Calls(lambda self, x: x.sum() * self.w, w=weight()))
    x = torch.ones(2, 2, dtype=torch.float64)
    quantised = torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8)
    for wrapped in (torch.masked.masked_tensor(x, x > 0), quantised):
        for _ in range(2):  # before and after one that is plain
            with pytest.raises(smex.SmexTypeError, match="is a (Masked|quantised )[tT]ensor"):
                net(wrapped)
            close(net(x), plain(x))


def test_a_target_without_a_loss_is_told_of_it():
    batch = (torch.zeros(2, 4), torch.zeros(2, 4))
    with pytest.raises(smex.CaptureError, match="positional arguments but .*loss_fn= is given"):
        smex.partition(torch.nn.Linear(4, 4), workers=2, args=batch)


def test_parameters_that_forward_freezes_are_refused():
    net, _ = pair(Calls(lambda self, x: x @ self.w.requires_grad_(False), w=weight()))
    for mode in (torch.no_grad, torch.enable_grad):
        with mode(), pytest.raises(smex.CaptureError, match=r"freeze or thaw .* outside"):
            net(rows())
