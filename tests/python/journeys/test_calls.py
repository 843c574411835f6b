"""What a call does beside returning a result, and who may call: each beside the plain module.

| call | test |
| --- | --- |
| inputs are changed in place, twice, then trained | test_changes_of_inputs_reach_the_caller |
| keys and values are written into a cache | test_a_cache_of_fixed_length |
| a changed input is expanded, passed twice, trained | test_changes_that_cannot_be_made_are_refused |
| buffers trade places, an old value is returned | test_buffers_that_are_made_of_each_other |
| what is returned, or left in an object, is changed | test_results_are_nobody_else_s |
| with dropout and without, with a state of the generator | test_the_generator_moves_only_where_numbers_are_drawn |
| conjugated and negated views | test_lazy_conjugates |
| gradients inside of forward, in every mode | test_gradients_inside_of_forward |
| tracers and transforms of torch | test_who_looks_into_a_net_is_refused |
| backward() inside of forward, or beside it | test_gradients_that_are_added_to_parameters_are_refused, test_a_backward_pass_beside_a_capture |
| `torch.linalg`, `torch.fft` | test_linear_algebra, test_fourier_transforms |
"""

import copy
import dataclasses
import re
import threading

import pytest
import torch
from pairs import WIDTH, Calls, close, pair, rows, same_grads, same_state, weight
from torch import nn
from torch.nn import functional as F

import smex

pytestmark = pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


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


def gradients(module, found):
    """Sums the results up and adds the gradients, where there are any."""
    leaves = [t for t in torch.utils._pytree.tree_leaves(found) if t.requires_grad]
    if leaves:
        sum(leaf.sum() for leaf in leaves).backward()


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
                    gradients(net, found)
                    gradients(plain, wanted)
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
                gradients(net, found)
                gradients(plain, wanted)
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
        gradients(module, module(x))
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


# ---- linear algebra and Fourier transforms ----


def spd(a):
    return a @ a.mH + torch.eye(len(a), dtype=a.dtype)


def _of_eigenvectors(values, vectors):
    return (vectors @ torch.diag(values.to(vectors.dtype)) @ torch.linalg.inv(vectors)).abs()


LINALG = {
    "cholesky": lambda a, x: torch.linalg.cholesky(spd(a)),
    "cholesky_ex": lambda a, x: torch.linalg.cholesky_ex(spd(a)),
    "cond": lambda a, x: torch.linalg.cond(a),
    "cross": lambda a, x: torch.linalg.cross(a[:, :3], x[:, :3]),
    "det": lambda a, x: torch.linalg.det(a),
    "diagonal": lambda a, x: torch.linalg.diagonal(a),
    "eig": lambda a, x: _of_eigenvectors(*torch.linalg.eig(a)),
    "eigh": lambda a, x: _of_eigenvectors(*torch.linalg.eigh(a + a.mH)),
    "eigvals": lambda a, x: torch.linalg.eigvals(a).abs().sum(),
    "eigvalsh": lambda a, x: torch.linalg.eigvalsh(a + a.mH),
    "householder_product": lambda a, x: torch.linalg.householder_product(a[:, :3], x[0, :3]),
    "inv": lambda a, x: torch.linalg.inv(a),
    "inv_ex": lambda a, x: torch.linalg.inv_ex(a),
    "ldl_factor": lambda a, x: [*torch.linalg.ldl_factor(spd(a.detach())), a],
    "ldl_solve": lambda a, x: (
        a * torch.linalg.ldl_solve(*torch.linalg.ldl_factor(spd(a.detach())), x)
    ),
    "lu": lambda a, x: torch.linalg.lu(a),
    "lu_factor": lambda a, x: torch.linalg.lu_factor(a),
    "lu_solve": lambda a, x: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), x),
    "matmul": lambda a, x: torch.linalg.matmul(a, x),
    "matrix_exp": lambda a, x: torch.linalg.matrix_exp(a),
    "matrix_norm": lambda a, x: [torch.linalg.matrix_norm(a, p) for p in ("fro", "nuc", 2, 1)],
    "matrix_power": lambda a, x: [torch.linalg.matrix_power(a, n) for n in (3, -2)],
    "matrix_rank": lambda a, x: torch.linalg.matrix_rank(a) * a,
    "multi_dot": lambda a, x: torch.linalg.multi_dot([a, x, a]),
    "norm": lambda a, x: torch.linalg.norm(a, 3, dim=1),
    "pinv": lambda a, x: torch.linalg.pinv(a[:, :4]),
    "qr": lambda a, x: torch.linalg.qr(a),
    "slogdet": lambda a, x: torch.linalg.slogdet(a),
    "solve": lambda a, x: torch.linalg.solve(a, x),
    "solve_triangular": lambda a, x: torch.linalg.solve_triangular(a.triu(), x, upper=True),
    "svd": lambda a, x: (lambda u, s, v: (u * s) @ v)(*torch.linalg.svd(a[:, :4], False)),
    "svdvals": lambda a, x: torch.linalg.svdvals(a),
    "tensorinv": lambda a, x: torch.linalg.tensorinv(a.reshape(2, 3, 6), ind=2),
    "tensorsolve": lambda a, x: torch.linalg.tensorsolve(a.reshape(2, 3, 6), x[0].reshape(2, 3)),
    "vander": lambda a, x: torch.linalg.vander(a[0]),
    "vecdot": lambda a, x: torch.linalg.vecdot(a, x),
    "vector_norm": lambda a, x: torch.linalg.vector_norm(a, 3),
}
NEWER = {  # than torch 2.11
    "matrix_sqrth": lambda a, x: torch.linalg.matrix_sqrth(spd(a)),
    "polar": lambda a, x: torch.linalg.polar(a),
}
LINALG |= {name: function for name, function in NEWER.items() if hasattr(torch.linalg, name)}


def trained_alike(net, plain, x):
    """Results and gradients with and without gradients, on what has no sign or phase to choose."""
    for training in (True, False):
        with torch.set_grad_enabled(training):
            found, wanted = net(x), plain(x)
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-9)
        if training:
            for result in (found, wanted):
                leaves = [t for t in torch.utils._pytree.tree_leaves(result) if t.requires_grad]
                sum((leaf * leaf.conj()).real.sum() for leaf in leaves).backward()
    for name, grad in net.full_grads().items():
        torch.testing.assert_close(grad, getattr(plain, name).grad, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("case", LINALG)
def test_linear_algebra(case, dtype):
    a = torch.eye(6, dtype=dtype) + 0.3 * torch.randn(6, 6, dtype=dtype)
    model = Calls(lambda self, x: LINALG[case](self.a, x), a=nn.Parameter(a))
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0)
    trained_alike(net, model, torch.randn(6, 6, dtype=dtype))


def test_all_of_linear_algebra_is_tested():
    public = {name for name in dir(torch.linalg) if name[0].islower()}
    public -= {name for name in public if not callable(getattr(torch.linalg, name))}
    assert public - {"common_notes", "lstsq"} <= {
        *LINALG, "ldl_factor_ex", "lu_factor_ex", "solve_ex"
    }  # fmt: skip


def test_least_squares_are_refused():
    net = smex.partition(Calls(lambda self, x: torch.linalg.lstsq(self.w, x)[0], w=weight()))
    with pytest.raises(smex.CaptureError, match=r"lstsq.* at test_calls.py:\d+: write .*pinv"):
        net(rows(WIDTH))


def test_what_has_no_derivative_is_refused():
    net, plain = pair(Calls(lambda self, x: torch.linalg.ldl_factor(spd(x @ self.w)), w=weight()))
    x = rows(WIDTH)
    with pytest.raises(smex.CaptureError, match=r"derivative for .*ldl.*; detach\(\)"):
        net(x)
    with torch.no_grad():
        close(net(x), plain(x))


TRANSFORMED = [
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2",
    "ihfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn",
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, torch.float64) for case in TRANSFORMED]
    + [(c, torch.complex128) for c in TRANSFORMED if not c.startswith(("rfft", "ihfft"))],
)
def test_fourier_transforms(case, dtype):
    function = getattr(torch.fft, case)
    sizes = [{}, {"s": (4, 7)}] if case[-1] in "2n" else [{}, {"n": 4, "dim": 0}, {"n": 9}]

    def step(self, x):
        return [
            function(self.a * x, norm=norm, **size) for norm in ("ortho", None) for size in sizes
        ]

    model = Calls(step, a=nn.Parameter(torch.randn(6, 6, dtype=dtype)))
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0)
    trained_alike(net, model, torch.randn(6, 6, dtype=dtype))


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


def test_parameters_that_forward_freezes_are_refused():
    net, _ = pair(Calls(lambda self, x: x @ self.w.requires_grad_(False), w=weight()))
    for mode in (torch.no_grad, torch.enable_grad):
        with mode(), pytest.raises(smex.CaptureError, match=r"freeze or thaw .* outside"):
            net(rows())
