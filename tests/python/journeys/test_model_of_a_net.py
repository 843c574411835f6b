"""The model that a net was made of: what it reads as, and what it costs, if it is not kept.

| journey | test |
|---|---|
| cut, train, call the model | test_the_model_has_the_net_s_values |
| cut, count memory | test_each_value_is_kept_once |
| cut, change the model in place, call the net | test_changes_in_place_count |
| cut, train, copy model and net, change one | test_copies_are_apart |
| cut, train, drop the net, use the model | test_the_model_outlives_the_net |
| cut, train, save the model, load it | test_the_model_can_be_saved |
| cut, train with every kernel of AdamW | test_optimisers_kernels |
| cut, ask for memory that is not there | test_memory_that_is_not_there |
| cut, convert the model, call the net | test_a_converted_model_is_told |
| cut, train, cut again, train both | test_two_nets_of_one_model, test_nets_of_one_worker_train_one_model |
| cut with the model kept, train, look at the model | test_a_model_is_kept_beside_several_workers |
| freeze, wrap, call, thaw, make an optimiser | test_what_is_frozen_stays_frozen_when_it_is_wrapped |
| cut, replace a part, make an optimiser | test_a_new_part_is_named_before_it_is_cut |
| cut with a loss, forget the target | test_a_target_is_asked_for |
| cut, initialise the model, call the net | test_initialisations_of_the_model |
| cut, ask for gradients of the model's loss | test_graphs_of_the_model_itself |
| cut, train the model itself | test_optimisers_of_the_model_itself |
| cut, differentiate the model itself | test_gradients_of_the_model_itself |
| cut, train, drop the net | test_a_net_is_freed_when_it_is_dropped |
| cut a script | test_scripts_keep_their_values |
"""

import copy
import gc
import io
import weakref

import pytest
import torch
import torch.nn.functional as F

import smex

WORKERS = [1, 2, 3]


class Net(torch.nn.Module):
    """Has weights that are cut along rows, along columns and not at all, and buffers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(24, 48)
        self.norm = torch.nn.BatchNorm1d(48)
        self.last = torch.nn.Linear(48, 7)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu())


def columns():
    """Pins one weight to be cut along columns, which no view of its memory in one piece is."""
    return [smex.pin("first.weight", "S1"), smex.pin("last.weight", "S0")]


def made(workers, **options):
    torch.manual_seed(0)
    model = Net().double()
    options = {"keep_model": False, "replicate_bytes": 0, **options}
    if workers > 1:
        options.setdefault("pins", columns())
    x, y = torch.randn(12, 24, dtype=torch.double), torch.randint(7, (12,))
    return smex.partition(model, workers=workers, args=(x,), **options), model, x, y


def step(net, opt, x, y):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()


def trained(workers, **options):
    net, model, x, y = made(workers, **options)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        step(net, opt, x, y)
    return net, model, x, y


def in_shards(model):
    return {n for n, p in model.named_parameters() if type(p) is not torch.nn.Parameter}


@pytest.mark.parametrize("workers", WORKERS)
def test_the_model_has_the_net_s_values(workers):
    torch.manual_seed(0)
    plain = Net().double()
    net, model, x, y = trained(workers)
    opt = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        step(plain, opt, x, y)
    assert in_shards(model) == ({"first.weight"} if workers > 1 else set())
    for values in (model.state_dict(), net.state_dict()):
        for name, wanted in plain.state_dict().items():
            torch.testing.assert_close(values[name], wanted, rtol=1e-10, atol=1e-10)
    for mode in (True, False):
        net.train(mode)
        plain.train(mode)
        torch.testing.assert_close(
            copy.deepcopy(model)(x), copy.deepcopy(plain)(x), rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize("workers", WORKERS)
def test_each_value_is_kept_once(workers):
    net, model, x, y = trained(workers)
    del x, y
    gc.collect()
    wanted = sum(p.numel() * p.element_size() for p in (*model.parameters(), *model.buffers()))
    held = {}
    for tensor in (*net.parameters(), *net.buffers(), *model.parameters(), *model.buffers()):
        with torch._C.DisableTorchFunctionSubclass():
            storage = tensor.untyped_storage()
            held[storage._cdata] = storage.nbytes()
    given_up = len(in_shards(model))
    replicas = 0 if workers == 1 else (workers - 1) * 8  # the count of batches, of each worker
    assert sum(held.values()) <= wanted + 8 * given_up + replicas


@pytest.mark.parametrize("workers", WORKERS)
def test_changes_in_place_count(workers):
    net, model, x, _ = trained(workers)
    with torch.no_grad():
        model.first.weight.mul_(2)
        model.last.weight.data.copy_(torch.ones(7, 48))
        torch.nn.init.constant_(model.first.bias, 3.0)
        torch._foreach_add_(list(model.norm.parameters()), 1.0)
        torch.mul(model.last.bias, 0.5, out=model.last.bias)
    assert (model.last.weight == 1).all()
    assert (net.state_dict()["first.bias"] == 3).all()
    net.eval()
    torch.testing.assert_close(net(x), model(x), rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        model.first.weight.data.zero_()
    assert not net.state_dict()["first.weight"].any()
    torch.testing.assert_close(net(x), model(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("workers", WORKERS)
def test_copies_are_apart(workers):
    net, model, x, y = trained(workers)
    plain, twin = copy.deepcopy(model), copy.deepcopy(net)
    assert not in_shards(plain)
    assert in_shards(twin._model[0]) == in_shards(model)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    step(twin, torch.optim.SGD(twin.parameters(), lr=1.0), x, y)
    with torch.no_grad():
        twin._model[0].last.bias.add_(1)
    for name, value in before.items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=0, atol=0)
        torch.testing.assert_close(plain.state_dict()[name], value, rtol=0, atol=0)
    twin.eval()
    torch.testing.assert_close(twin(x), twin._model[0](x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("workers", WORKERS)
def test_the_model_outlives_the_net(workers):
    net, model, x, _ = trained(workers)
    net.eval()
    wanted = net(x).detach()
    del net
    gc.collect()
    torch.testing.assert_close(model(x), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("workers", WORKERS)
def test_the_model_can_be_saved(workers):
    net, model, x, _ = trained(workers)
    net.eval()
    file = io.BytesIO()
    torch.save((model, model.state_dict()), file)
    file.seek(0)
    loaded, state = torch.load(file, weights_only=False)
    assert not in_shards(loaded)
    torch.testing.assert_close(loaded(x), net(x), rtol=1e-10, atol=1e-10)
    loaded.load_state_dict(state)
    torch.testing.assert_close(loaded(x), net(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernels", [{}, {"fused": True}, {"foreach": True}])
def test_optimisers_kernels(kernels):
    torch.manual_seed(0)
    plain = Net().double()
    net, _, x, y = made(2)
    ours = torch.optim.AdamW(net.parameters(), lr=0.1, **kernels)
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.1, **kernels)
    for _ in range(3):
        step(net, ours, x, y)
        step(plain, theirs, x, y)
    for name, wanted in plain.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], wanted, rtol=1e-9, atol=1e-9)


def test_memory_that_is_not_there():
    _, model, _, _ = made(2)
    with pytest.raises(smex.SmexRuntimeError, match=r"\[48, 24\].*no memory of its own.*detach"):
        model.first.weight.data_ptr()
    with pytest.raises(smex.SmexRuntimeError, match="untyped_storage"):
        model.first.weight.untyped_storage()
    assert model.first.weight.detach().data_ptr()
    assert model.first.weight.shape == (48, 24)
    assert "Parameter" in repr(model.first.weight)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_converted_model_is_told(workers):
    net, model, x, _ = made(workers)
    model.float()
    assert model.first.weight.dtype == torch.float32
    with pytest.raises(smex.SmexRuntimeError, match="cannot become torch.float32"):
        net(x.clone()[:5])


@pytest.mark.parametrize("workers", [(2, 3), (2, 1)])
def test_two_nets_of_one_model(workers):
    """A model that gives up its memory goes with the last one; the first keeps what it learned."""
    first, model, x, y = trained(
        workers[0], pins=[smex.pin(n, "S1") for n in ("first.weight", "last.weight")]
    )
    learned = first.state_dict()
    second = smex.partition(
        model, workers=workers[1], args=(x,), replicate_bytes=0, keep_model=False
    )
    for _ in range(2):
        step(second, torch.optim.SGD(second.parameters(), lr=0.1), x, y)
    for name in ("first.weight", "last.weight"):
        torch.testing.assert_close(first.state_dict()[name], learned[name], rtol=0, atol=0)
    for name, value in second.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=0, atol=0)
    step(first, torch.optim.SGD(first.parameters(), lr=0.1), x, y)
    assert not torch.equal(first.state_dict()["last.weight"], learned["last.weight"])


def test_nets_of_one_worker_train_one_model():
    first, model, x, y = trained(1)
    second = smex.partition(model, workers=1, args=(x,))
    step(second, torch.optim.SGD(second.parameters(), lr=0.1), x, y)
    for net in (first, second):
        for name, value in net.state_dict().items():
            torch.testing.assert_close(value, model.state_dict()[name], rtol=0, atol=0)


@pytest.mark.parametrize("workers", [2, 3])
def test_a_model_is_kept_beside_several_workers(workers):
    torch.manual_seed(0)
    before = Net().double().state_dict()
    net, model, _, _ = trained(workers, keep_model=True)
    assert not in_shards(model)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert not torch.equal(net.state_dict()["last.weight"], before["last.weight"])


@pytest.mark.parametrize("workers", WORKERS)
def test_what_is_frozen_stays_frozen_when_it_is_wrapped(workers):
    net, model, x, _ = made(workers, pins=())
    model.first.requires_grad_(False)
    model.first = torch.nn.Sequential(model.first)
    net(x)
    assert {n for n, p in net.named_parameters() if not p.requires_grad} == {
        n for n, _ in net.named_parameters() if ".first.0." in n
    }
    model.first.requires_grad_(True)
    assert all(p.requires_grad for p in net.parameters())


def test_a_new_part_is_named_before_it_is_cut():
    net, model, x, _ = made(2)
    model.last = torch.nn.Linear(48, 5).double()
    with pytest.raises(smex.SmexRuntimeError, match="were not there when it was captured"):
        net.parameters().__next__()
    assert next(net.prepare(x).parameters()) is not None
    assert net(x).shape == (12, 5)


def test_a_target_is_asked_for():
    torch.manual_seed(0)
    net = smex.partition(torch.nn.Linear(6, 4), workers=2, loss_fn=F.cross_entropy)
    with pytest.raises(smex.SmexTypeError, match=r"net\(\*inputs, target\).*got 1"):
        net(torch.randn(3, 6))
    assert net(torch.randn(3, 6), torch.randint(4, (3,))).ndim == 0


@pytest.mark.parametrize("init", ["normal_", "kaiming_uniform_", "zeros_"])
def test_initialisations_of_the_model(init):
    net, model, x, _ = made(2)
    plain = copy.deepcopy(model)
    for each in (model, plain):
        torch.manual_seed(1)
        getattr(torch.nn.init, init)(each.first.weight)
    torch.testing.assert_close(net(x), plain(x), rtol=1e-10, atol=1e-10)


def test_graphs_of_the_model_itself():
    _, model, x, y = made(2)
    plain = copy.deepcopy(model)
    grads = [
        torch.autograd.grad(F.cross_entropy(each(x), y), list(each.parameters()))
        for each in (model, plain)
    ]
    for found, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for each in (model, plain):
        F.cross_entropy(each(x), y).backward(inputs=list(each.parameters()))
    torch.testing.assert_close(model.first.weight.grad, plain.first.weight.grad)
    with torch.inference_mode():
        torch.testing.assert_close(model.eval()(x), plain.eval()(x))


def test_optimisers_of_the_model_itself():
    _, model, x, y = made(2)
    plain = copy.deepcopy(model)
    for each in (model, plain):
        step(each, torch.optim.AdamW(each.parameters(), lr=0.1, fused=True), x, y)
    torch.testing.assert_close(model.first.weight.detach(), plain.first.weight.detach())


def test_scripts_keep_their_values():
    torch.manual_seed(0)
    model = torch.jit.script(torch.nn.Linear(6, 4))
    x = torch.randn(3, 6)
    wanted = model(x)
    net = smex.partition(
        model,
        workers=2,
        args=(x,),
        replicate_bytes=0,
        pins=[smex.pin("weight", "S1")],
        keep_model=False,
    )
    torch.testing.assert_close(net(x), wanted)
    torch.testing.assert_close(model(x), wanted)


@pytest.mark.parametrize("workers", WORKERS)
def test_gradients_of_the_model_itself(workers):
    net, model, x, y = made(workers)
    F.cross_entropy(net(x), y).backward()
    F.cross_entropy(model(x), y).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(net.full_grads()[name], parameter.grad, rtol=1e-10, atol=1e-10)
    with pytest.raises(RuntimeError, match="leaf"):
        model.first.weight.add_(1)


def test_a_net_is_freed_when_it_is_dropped():
    net, model, x, y = made(2)
    F.cross_entropy(net(x), y).backward()
    gone = weakref.ref(net)
    gc.disable()  # nothing waits for it
    try:
        del net
        assert gone() is None
    finally:
        gc.enable()
    assert torch.isfinite(model(x)).all()
