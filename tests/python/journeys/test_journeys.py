"""What users do in a row: each test is one sequence, beside the plain module.

| sequence | test |
| --- | --- |
| train → no_grad → eval → train, either first | test_training_and_evaluation_in_any_order |
| random: train, evaluate, modes, freeze, save, load with other workers, copy, new shapes, dtypes | test_random_journeys.py |
| a module used twice: train, save | test_a_module_used_twice_is_saved_under_all_names |
| names that differ in a dot | test_names_that_differ_in_a_dot_are_two_parameters |
| modes of parts before and after net.eval(), net.train() | test_modes_of_parts_are_the_model_s |
| train, then update_bn, then evaluate | test_update_bn_reaches_the_shards |
| several outputs, of which the loss reads some, with AdamW | test_outputs_that_nobody_reads_give_no_gradients |
| a loss with parameters: train, evaluate, save, load | test_a_loss_with_parameters_is_trained_and_saved |
| an object handed in, changed, handed back | test_objects_are_taken_apart_and_handed_back |
| a graph handed in, features set, another graph | test_graphs_are_arguments |
| what cannot be captured, then something that can | test_what_would_be_lost_is_refused |
| first calls from several threads | test_first_calls_from_threads |
| too many workers, then fewer | test_threads_that_cannot_be_started_are_an_error |
| torch.compile and functional_call of a net | test_compiled_nets_run_as_they_are, test_functional_call_is_refused |
| attributes of the model that change between calls | test_attributes_that_change_between_calls |
| train with checkpoints | test_checkpoints_warn |
"""

import copy
import dataclasses
import random
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
from pairs import WIDTH, Calls, close, pair, rows, same_grads, same_state, weight
from torch import nn
from torch.nn import functional as F

import smex
import smex.graph as sg

pytestmark = pytest.mark.costly

# ---- training, evaluation, modes ----


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("first", ["train", "no_grad", "eval"])
def test_training_and_evaluation_in_any_order(workers, first):
    layer = nn.TransformerEncoderLayer(24, 4, 40, dropout=0.0, batch_first=True)
    net, plain = pair(layer, workers=workers)
    stations = ["train", "no_grad", "eval"]
    route = [first, *(s for s in stations if s != first), *stations]
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    for station in route:
        for module in (net, plain):
            module.train(station != "eval")
        if station == "train":
            found, wanted = net(x), plain(x)
            found.square().sum().backward()
            wanted.square().sum().backward()
            same_grads(net, plain)
        else:
            with torch.no_grad():
                found, wanted = net(x), plain(x)
        close(found, wanted)
        stats = net.stats()
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


def test_a_recapture_keeps_the_tiles_of_the_shards():
    net, _ = pair(nn.TransformerEncoderLayer(24, 4, 40, dropout=0.0, batch_first=True), workers=3)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    net(x)
    before = {name: shard.shape for name, shard in net.named_parameters()}
    net.eval()
    with torch.no_grad():
        net(x)
        net(torch.randn(1, 7, 24, dtype=torch.float64))
    assert before == {name: shard.shape for name, shard in net.named_parameters()}


def test_pins_of_inputs_that_are_smaller_now_are_left_out():
    model = nn.Linear(WIDTH, WIDTH).double()
    net = smex.partition(model, workers=4, pins=[smex.pin("input", "S0")], args=(rows(8),))
    x = rows(2)
    close(net(x), model(x))


def test_modes_of_parts_are_the_model_s():
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)).double()
    plain[1].eval()
    model = copy.deepcopy(plain)
    net = smex.partition(model, workers=2, replicate_bytes=0)
    for _ in range(2):
        x = rows()
        close(net(x), plain(x))
        for module in (net, plain):
            module.eval()
            module.train()
        close(net(x), plain(x))
        model[1].eval()
        plain[1].eval()
        same_state(net, plain)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_update_bn_reaches_the_shards(momentum):
    net, plain = pair(
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH, momentum=momentum))
    )
    loader = [rows(), rows() + 1, rows() * 2]
    for module in (net, plain):
        for x in loader:
            module(x).sum().backward()
        torch.optim.swa_utils.update_bn(loader, module)
        module.eval()
    same_state(net, plain)
    close(net(loader[0]), plain(loader[0]))
    assert list(net.modules()) == [net]


# ---- parameters ----


def test_a_module_used_twice_is_saved_under_all_names():
    part = nn.Linear(WIDTH, WIDTH)
    net, plain = pair(nn.Sequential(part, nn.Tanh(), part), args=(rows(),))
    optimisers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (net, plain)]
    x = rows()
    for module, optimiser in zip((net, plain), optimisers, strict=True):
        module(x).sum().backward()
        optimiser.step()
    same_state(net, plain)
    grads = net.full_grads()
    close(grads["2.weight"], plain[0].weight.grad)
    other = smex.partition(copy.deepcopy(plain), workers=3, replicate_bytes=0)
    other.load_state_dict(net.state_dict())
    close(other(x), plain(x))


def test_names_that_differ_in_a_dot_are_two_parameters():
    model = Calls(lambda self, x: self.a(x) @ self.a__weight, a=nn.Linear(WIDTH, WIDTH))
    model.a__weight = weight()
    net, plain = pair(model)
    x = rows()
    net(x).sum().backward()
    plain(x).sum().backward()
    same_grads(net, plain)
    names = {name.partition(".")[2] for name, _ in net.named_parameters()}
    assert names == {"a.weight", "a.bias", "a__weight"}


def test_outputs_that_nobody_reads_give_no_gradients():
    model = Calls(lambda self, x: (self.a(x), self.b(x)), a=nn.Linear(WIDTH, 3))
    model.b = nn.Linear(WIDTH, 3)
    net, plain = pair(model, args=(rows(),))
    optimisers = [torch.optim.AdamW(m.parameters(), weight_decay=0.5) for m in (net, plain)]
    for read in (0, 1, 0):
        x = rows()
        for module, optimiser in zip((net, plain), optimisers, strict=True):
            optimiser.zero_grad()
            module(x)[read].sum().backward()
            optimiser.step()
        same_grads(net, plain)
        same_state(net, plain)


def test_parameters_that_forward_changes():
    def clamped(self, x):
        with torch.no_grad():
            self.w.clamp_(-0.1, 0.1)
        return x @ self.w

    net, plain = pair(Calls(clamped, w=weight()))
    for _ in range(2):
        x = rows()
        close(net(x), plain(x))
        net(x).sum().backward()
        plain(x).sum().backward()
        same_grads(net, plain)
        same_state(net, plain)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def forward(self, y, target):
        return ((y - target) ** 2).mean() * self.c.exp().sum() - self.c.sum()


def test_a_loss_with_parameters_is_trained_and_saved():
    model, loss = nn.Linear(WIDTH, WIDTH).double(), Scaled()
    net = smex.partition(
        copy.deepcopy(model), workers=2, loss_fn=copy.deepcopy(loss), args=(rows(), rows())
    )
    ours = torch.optim.SGD(net.parameters(), lr=0.1)
    theirs = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
    for _ in range(2):
        x, y = rows(), rows()
        net(x, y).backward()
        loss(model(x), y).backward()
        for optimiser in (ours, theirs):
            optimiser.step()
            optimiser.zero_grad()
        with torch.no_grad():
            close(net(x, y), loss(model(x), y))
    state = net.state_dict()
    assert list(state) == ["weight", "bias", "loss_fn.c"]
    close(state["loss_fn.c"], loss.c.detach())
    fresh = smex.partition(nn.Linear(WIDTH, WIDTH).double(), workers=3, loss_fn=Scaled())
    fresh.load_state_dict(state)
    close(fresh(x, y), loss(model(x), y))
    model.load_state_dict({name: state[name] for name in ("weight", "bias")})
    net.load_state_dict(model.state_dict())  # the loss keeps its own


# ---- objects ----


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    count: int = 1
    more: dict = dataclasses.field(default_factory=dict)


def test_objects_are_taken_apart_and_handed_back():
    def step(self, box):
        box.more["seen"] = box.value @ self.w
        return Box(box.more["seen"] * 2, box.count + 1), box

    net, plain = pair(Calls(step, w=weight()))
    results = []
    for module in (net, plain):
        torch.manual_seed(1)
        box = Box(rows())
        for _ in range(3):
            made, given = module(box)
            assert given is box
            made.value.sum().backward()
            box = Box(made.value.detach(), made.count)
        results.append(made)
    close(results[0].value, results[1].value)
    assert results[0].count == results[1].count == 4
    same_grads(net, plain)


@pytest.mark.parametrize(
    "layer",
    [
        sg.nn.GraphConv(WIDTH, 5),
        sg.nn.SAGEConv(WIDTH, 5, "mean"),
        sg.nn.GATConv(WIDTH, 5, 2),
        sg.nn.GINConv(nn.Linear(WIDTH, 5), "sum"),
    ],
    ids=lambda layer: type(layer).__name__,
)
@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
def test_graphs_are_arguments(layer):
    def step(self, g):
        g.ndata["h"] = self.layer(g, g.ndata["x"])
        return g.ndata["h"].square().sum()

    net, plain = pair(Calls(step, layer=layer))
    for nodes in (10, 10, 13):
        g = sg.add_self_loop(sg.rand_graph(nodes, 3 * nodes))
        g.ndata["x"] = rows(nodes)
        graphs = [g.clone(), g.clone()]
        losses = [module(each) for module, each in zip((net, plain), graphs, strict=True)]
        close(*losses)
        close(*[each.ndata["h"] for each in graphs])
        for loss in losses:
            loss.backward()
        same_grads(net, plain)
        with torch.no_grad():
            close(net(g.clone()), plain(g.clone()))
        degrees = g.in_degrees()  # what the graph keeps is still its own
        assert type(degrees) is torch.Tensor
        assert int(degrees.sum()) == g.num_edges()


# ---- settings ----


def test_attributes_that_change_between_calls():
    def scaled(self, x):
        return F.dropout(x @ self.w, self.p, training=True) * self.scale + self.shift

    plain = Calls(scaled, w=weight(), p=0.0, scale=2.0)
    plain.shift = torch.ones((), dtype=torch.float64)
    model = copy.deepcopy(plain)
    net = smex.partition(model, workers=2, replicate_bytes=0)
    x = rows()
    for name, value in [
        ("scale", 2.0), ("scale", 3.0), ("shift", torch.tensor(5.0)), ("scale", 2.0), ("p", 1.0),
        ("shift", torch.arange(12.0)), ("more", 1),
    ]:  # fmt: skip
        setattr(plain, name, value)
        setattr(model, name, value)
        close(net(x), plain(x))
    model.shift.add_(1)
    plain.shift.add_(1)
    close(net(x), plain(x))


# ---- what is refused ----


class Opaque:
    def __init__(self, value):
        self.value = value


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = [weight()]

    def forward(self, x):
        return x @ self.weights[0]


OUTSIDE = weight()


def _keeps(self, x):
    self.last = x @ self.w
    return self.last


def _keeps_in_list(self, x):
    KEPT.append(x @ self.w)
    return x


def _seeds(self, x):
    torch.manual_seed(0)
    return F.dropout(x @ self.w)


def _changes_dict(self, x, d):
    d["y"] = x @ self.w
    return x


def _keeps_in_variable():
    kept = None

    def step(self, x):
        nonlocal kept
        kept = x @ self.w
        return kept * 2

    return step


KEPT: list = []
REFUSED = {
    "opaque argument": (lambda self, o: o.value @ self.w, (Opaque(rows()),), r"args\[0\].*\.value"),
    "opaque result": (lambda self, x: Opaque(x @ self.w), (rows(),), "the result is a Opaque"),
    "attribute": (_keeps, (rows(),), 'attribute "last"'),
    "list": (_keeps_in_list, (rows(),), "made at test_journeys.py.* in a list"),
    "variable": (_keeps_in_variable(), (rows(),), 'in the variable "kept" of an enclosing'),
    "changed dict": (_changes_dict, (rows(), {}), "changes a dict or list"),
    "global parameter": (lambda self, x: x @ self.w @ OUTSIDE, (rows(),), "would get no gradient"),
    "module argument": (
        lambda self, x, m: m(x @ self.w), (rows(), nn.Linear(WIDTH, 2).double()),
        r'"weight" of the module passed as args\[1\]',
    ),
    "python's chance": (
        lambda self, x: x @ self.w * random.random(), (rows(),),
        "draws a number with Python or NumPy at test_journeys.py",
    ),
    "numpy's chance": (
        lambda self, x: x @ self.w * np.random.rand(),  # noqa: NPY002
        (rows(),), "draws a number with Python or NumPy",
    ),
    "seed": (_seeds, (rows(),), "sets the seed at test_journeys.py"),
    "sparse gradient": (
        lambda self, i: nn.functional.embedding(i, self.w, sparse=True),
        (torch.tensor([1, 2]),), "sparse=False",
    ),
    "sparse argument": (lambda self, x: x @ self.w, (rows().to_sparse(),), "to_dense"),
    "nested argument": (
        lambda self, x: x @ self.w,
        (torch.nested.nested_tensor([rows(2), rows(3)], layout=torch.jagged),), "nested tensor",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_lost_is_refused(case):
    """By a message that says what and where; afterwards the model and the net are as before."""
    function, args, message = REFUSED[case]
    KEPT.clear()
    model = Calls(function, w=weight())
    net = smex.partition(model, workers=2, replicate_bytes=0)
    before = set(vars(model))
    with pytest.raises(smex.SmexError, match=message):
        net(*args)
    assert set(vars(model)) == before
    assert not KEPT
    model.function = lambda self, x: x @ self.w
    x = rows()
    close(net(x), model(x))


def test_parameters_in_a_list_are_refused():
    net = smex.partition(Listed(), workers=2)
    with pytest.raises(smex.CaptureError, match=r'"weights\[0\]".*ParameterList'):
        net(rows())


def test_lazy_modules_are_called_first():
    net = smex.partition(nn.LazyLinear(3), workers=2)
    with pytest.raises(smex.SmexTypeError, match="call the model once"):
        net(torch.randn(2, 4))


def test_counters_in_python_warn():
    def counting(self, x):
        self.calls += 1
        return x @ self.w

    model = Calls(counting, w=weight(), calls=0)
    net = smex.partition(model, workers=2)
    with pytest.warns(smex.CaptureWarning, match='"calls" from 0 to 1') as caught:
        net(rows())
    assert len([w for w in caught if w.category is smex.CaptureWarning]) == 1
    assert model.calls == 0


# ---- operators ----

OPERATORS = {
    "inv": lambda self, x: torch.linalg.inv(self.w @ self.w.T + torch.eye(WIDTH)) @ x.T,
    "cholesky": lambda self, x: torch.linalg.cholesky(self.w @ self.w.T + torch.eye(WIDTH)) @ x.T,
    "solve": lambda self, x: torch.linalg.solve(self.w @ self.w.T + torch.eye(WIDTH), x.T),
    "batch of inverses": lambda self, x: torch.linalg.inv(
        torch.stack([self.w @ self.w.T + n * torch.eye(WIDTH) for n in (1, 2, 3)])
    ),
    "complex scalar": lambda self, x: ((x @ self.w) * (1 + 2j)).abs(),
    "complex product": lambda self, x: torch.fft.fft(x @ self.w).mul(2j).real,
    "normal": lambda self, x: torch.distributions.Normal(x @ self.w, 1.0).log_prob(x),
    "categorical": lambda self, x: torch.distributions.Categorical(
        logits=x @ self.w
    ).log_prob(torch.zeros(6, dtype=torch.long)),
    "record_function": lambda self, x: torch.autograd.profiler.record_function("a").__enter__()
    and x @ self.w,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("case", OPERATORS)
def test_operators_equal_eager(case, workers):
    net, plain = pair(Calls(OPERATORS[case], w=weight()), workers=workers)
    x = rows()
    found, wanted = net(x), plain(x)
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    wanted.sum().backward()
    torch.testing.assert_close(net.full_grads()["w"], plain.w.grad)
    with torch.no_grad():
        torch.testing.assert_close(net(x), wanted.detach())


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
def test_a_singular_matrix_is_an_error():
    net = smex.partition(Calls(lambda self, x: torch.linalg.inv(x) @ self.w, w=weight()), workers=2)
    with pytest.raises(RuntimeError, match="linalg.inv: a matrix is singular"):
        net(torch.zeros(WIDTH, WIDTH, dtype=torch.float64))
    net(torch.eye(WIDTH, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
def test_embeddings_of_bounded_norm():
    net, plain = pair(nn.Embedding(9, WIDTH, max_norm=1.0))
    for _ in range(2):
        words = torch.randint(9, (7,))
        close(net(words), plain(words))
        same_state(net, plain)


# ---- threads, processes, torch.compile ----


def test_first_calls_from_threads():
    net, plain = pair(nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(6)]))
    x, found, failed = rows(), [], []

    def call():
        try:
            found.append(net(x))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(found) == 4
    for result in found:
        close(result, plain(x))


def test_threads_that_cannot_be_started_are_an_error():
    """In a process of its own, whose address space has no room for so many stacks."""
    script = """
import resource, torch, smex
torch.set_num_threads(1)
net = smex.partition(torch.nn.Linear(4, 4), workers=2, args=(torch.randn(2, 4),))
for line in open("/proc/self/status"):
    if line.startswith("VmSize"):
        size = int(line.split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, resource.RLIM_INFINITY))
try:
    smex.partition(torch.nn.Linear(4, 4), workers=256, args=(torch.randn(2, 4),))
except RuntimeError as error:
    assert isinstance(error, smex.SmexError), repr(error)
    print(error)
except ValueError as error:
    assert isinstance(error, smex.SmexError), repr(error)
    print(error)
print(net(torch.randn(2, 4)).shape)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the system started only" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("torch.Size([2, 4])\n")


def test_more_workers_than_threads_are_refused():
    with pytest.raises(smex.SmexValueError, match="at most 1024"):
        smex.partition(nn.Linear(2, 2), workers=10**6)


@pytest.mark.parametrize("captured", [True, False])
def test_compiled_nets_run_as_they_are(captured):
    net, plain = pair(nn.Linear(WIDTH, WIDTH))
    x = rows()
    if captured:
        net(x)
    compiled = torch.compile(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compiled(x)
    close(found, plain(x))
    found.sum().backward()
    plain(x).sum().backward()
    same_grads(net, plain)


def test_functional_call_is_refused():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH)))
    for _ in range(2):
        with pytest.raises(smex.SmexRuntimeError, match=r"functional_call.*load_state_dict"):
            torch.func.functional_call(net, dict(plain.named_parameters()), (rows(),))
        net(rows())
    with pytest.raises(smex.SmexRuntimeError, match='"weight" cannot be set'):
        net.weight = torch.zeros(2)


def test_data_parallel_over_devices_is_refused():
    model = nn.DataParallel(nn.Linear(WIDTH, WIDTH))
    model.device_ids = [0]  # as on a machine with a GPU
    with pytest.raises(smex.SmexTypeError, match=r"pass model\.module"):
        smex.partition(model, workers=2)


def test_a_model_inside_data_parallel():
    net, plain = pair(nn.DataParallel(nn.Linear(WIDTH, WIDTH)))
    x = rows()
    close(net(x), plain(x))
    same_state(net, plain)
