"""What users do with a net as with any module: each test beside the plain module.

| sequence | test |
| --- | --- |
| call, freeze the shards, partition the model again | test_freezing_shards_leaves_the_model |
| train, load with hooks, versions and extra state, save | test_loading_is_the_model_s_own, ... |
| train, deepcopy, change a plain tensor, call both | test_a_copy_reads_its_own_plain_tensors |
| average weights, then update_bn of the average | test_update_bn_of_a_wrapped_net |
| net.apply, net.requires_grad_ and net.zero_grad, before the first call and after | test_functions_for_all_modules, test_a_function_that_gives_another_shape_changes_nothing, test_freezing_before_the_first_call |
| generate with the model's own method, train, generate, change a setting, copy | test_settings_and_methods_of_the_model_answer_for_the_net, test_modules_of_the_model_are_not_the_nets |
| a first call that is interrupted, or of a model without values, then a good one | test_an_interrupted_cut_leaves_nothing, test_a_model_that_gets_its_values_later |
"""

import copy
import types

import pytest
import torch
from pairs import WIDTH, Calls, both, close, heads, pair, rows, same_state, trained, weight
from torch import nn

import smex
from smex.errors import CaptureWarning, SmexRuntimeError, SmexTypeError


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


# ---- the first call ----


def test_a_partitioned_model_is_refused():
    net = smex.partition(nn.Linear(2, 2), workers=2)
    for model in (net, nn.Sequential(net)):
        with pytest.raises(SmexTypeError, match="partitioned already"):
            smex.partition(model, workers=2)


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
    with pytest.raises(SmexRuntimeError, match=r'"1.weight", "1.bias" of a model on the meta dev'):
        net(rows())
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)).double()
    net.to_empty(device="cpu")
    net.load_state_dict(plain.state_dict())
    both(net, plain, rows())
    trained(net, plain, rows())


# ---- methods of modules ----


def test_functions_for_all_modules():
    def fill(module):
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)
            module.bias.data.add_(1.0)

    net, plain = pair(heads())
    x = rows()
    for _ in range(2):
        assert net.apply(fill) is net
        plain.apply(fill)
        both(net, plain, x)
        trained(net, plain, x)


def test_a_function_that_gives_another_shape_changes_nothing():
    def grow(module):
        if isinstance(module, nn.Linear):
            module.weight.data.fill_(2.0)
            module.bias = nn.Parameter(module.bias.new_zeros(1))

    net, plain = pair(heads())
    x = rows()
    both(net, plain, x)
    with pytest.raises(SmexRuntimeError, match=r"gives \".*\" the shape \[1\], its shards have"):
        net.apply(grow)
    both(net, plain, x)
    trained(net, plain, x)


def test_freezing_before_the_first_call():
    net, plain = pair(heads())
    for each in (net, plain):
        each.zero_grad()
        assert each.requires_grad_(False) is each
    assert not net(rows()).requires_grad
    net.requires_grad_(True)
    plain.requires_grad_(True)
    trained(net, plain, rows())


def test_what_a_net_says_of_its_model():
    net = smex.partition(nn.Linear(4, 4), workers=2)
    with pytest.raises(AttributeError, match="no attribute 'weight': the model's is a Parameter"):
        _ = net.weight
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


class Talking(nn.Module):
    """A model that generates, with settings."""

    longest = 4

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(scale=1.0, words=11)
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.heads = [self.head]

    def forward(self, tokens):
        return self.head(self.embedding(tokens)) * self.config.scale

    @property
    def twice(self):
        return 2 * self.config.words

    @staticmethod
    def hello():
        return "hello"

    @torch.no_grad()
    def generate(self, tokens, count):
        for _ in range(count):
            tokens = torch.cat([tokens, self(tokens)[:, -1:].argmax(-1)], 1)
        return tokens


def test_settings_and_methods_of_the_model_answer_for_the_net():
    torch.manual_seed(0)
    model = Talking().double()
    tokens = torch.randint(11, (2, 3))
    net, plain = smex.partition(copy.deepcopy(model), workers=2, args=(tokens,)), model
    assert (net.longest, net.twice, net.hello()) == (4, 22, "hello")
    opts = [torch.optim.SGD(each.parameters(), lr=5.0) for each in (net, plain)]
    for _ in range(2):  # generates with what has been trained
        assert torch.equal(net.generate(tokens, 3), plain.generate(tokens, 3))
        for each, opt in zip((net, plain), opts, strict=True):
            opt.zero_grad()
            each(tokens).logsumexp(-1).sum().backward()
            opt.step()
    assert torch.equal(net.generate(tokens, 3), plain.generate(tokens, 3))
    net.config.scale = plain.config.scale = 3.0
    torch.testing.assert_close(net(tokens), plain(tokens))
    twin = copy.deepcopy(net)
    assert twin.config.words == 11 and torch.equal(
        twin.generate(tokens, 2), plain.generate(tokens, 2)
    )


@pytest.mark.parametrize("name", ["embedding", "heads"])
def test_modules_of_the_model_are_not_the_nets(name):
    net = smex.partition(Talking(), workers=2)
    with pytest.raises(AttributeError, match=f"no attribute '{name}': the model's is a"):
        getattr(net, name)
