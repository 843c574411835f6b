"""Checkpoints of a net in one process: any number of workers into any other, bit by bit."""

import itertools
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import safetensors
import torch
from torch import nn

import smex
from smex.checkpoint import saving
from smex.checkpoint.consolidated import runs
from support.checkpoints import adamw, assert_same, data, net_of, train, whole_state

WORKERS = [1, 2, 3, 4, 6, 8]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """By number of workers: the checkpoint after two steps, what it has, and the losses after it."""
    found = {}
    for workers in WORKERS:
        net, opt = net_of(workers)
        train(net, opt, 2)
        path = tmp_path_factory.mktemp("saved") / "step-2"
        smex.save(path, net, opt, extra={"step": 2})
        state = {k: v.clone() for k, v in whole_state(net, opt).items()}
        found[workers] = path, state, train(net, opt, 2), whole_state(net, opt)
    return found


@pytest.mark.parametrize(("before", "after"), [*itertools.product(WORKERS, WORKERS)])
def test_any_number_of_workers_into_any_other(saved, before, after):
    path, state, losses, end = saved[before]
    net, opt = net_of(after, seed=1)
    assert smex.load(path, net, opt) == {"step": 2}
    assert_same(whole_state(net, opt), state)
    continued = train(net, opt, 2)
    if before == after:  # the order of additions is the same
        assert continued == losses
        assert_same(whole_state(net, opt), end)
    else:
        assert continued == pytest.approx(losses, rel=1e-12)
        for name, value in whole_state(net, opt).items():
            torch.testing.assert_close(value, end[name], rtol=1e-9, atol=1e-12)


def test_optimisers_that_have_a_state_keep_their_tensors(saved):
    path, state, _, _ = saved[3]
    net, opt = net_of(4, seed=1)
    train(net, opt, 1)
    before = {id(t) for each in opt.state.values() for t in each.values() if t.dim()}
    smex.load(path, net, opt)
    assert {id(t) for each in opt.state.values() for t in each.values() if t.dim()} == before
    assert_same(whole_state(net, opt), state)


def half_frozen(params):
    params = list(params)
    for param in params[:1]:
        param.requires_grad_(False)
    return torch.optim.AdamW(params)


OPTIMISERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "foreach": lambda params: torch.optim.AdamW(params, foreach=True),
    "fused": lambda params: torch.optim.AdamW(params, fused=True),
    "amsgrad": lambda params: torch.optim.Adam(params, amsgrad=True),
    "tensor lr": lambda params: torch.optim.Adam(params, lr=torch.tensor(0.01), foreach=False),
    "rmsprop": lambda params: torch.optim.RMSprop(params, momentum=0.5, centered=True),
    "asgd": torch.optim.ASGD,
    "nadam": torch.optim.NAdam,
    "frozen": half_frozen,
}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_states_of_optimisers(tmp_path, kind):
    net, opt = net_of(4, make_opt=OPTIMISERS[kind])
    train(net, opt, 2)
    smex.save(tmp_path / "a", net, opt)
    other, other_opt = net_of(3, seed=1, make_opt=OPTIMISERS[kind])
    smex.load(tmp_path / "a", other, other_opt)
    assert_same(whole_state(other, other_opt), whole_state(net, opt))
    assert train(other, other_opt, 2) == pytest.approx(train(net, opt, 2), rel=1e-11)


@pytest.mark.parametrize("now", [{"fused": True}, {"foreach": True}, {"capturable": False}])
def test_how_an_optimiser_runs_stays_its_own(tmp_path, now):
    net, opt = net_of(2)
    train(net, opt, 1)
    opt.param_groups[0]["lr"] = 0.5
    smex.save(tmp_path / "a", net, opt)
    other, other_opt = net_of(2, make_opt=lambda p: torch.optim.AdamW(p, **now))
    smex.load(tmp_path / "a", other, other_opt)
    (group,) = other_opt.param_groups
    assert (group["lr"], group["betas"]) == (0.5, (0.8, 0.99))
    assert {key: group[key] for key in now} == now
    train(other, other_opt, 1)


def test_groups_of_parameters_by_their_names(tmp_path):
    def two_groups(net):
        named = dict(net.named_parameters())
        first = [p for name, p in named.items() if "up" in name]
        rest = [p for name, p in named.items() if "up" not in name]
        return torch.optim.AdamW([{"params": rest}, {"params": first, "lr": 0.125}, {"params": []}])

    net, _ = net_of(4)
    opt = two_groups(net)
    torch.optim.lr_scheduler.StepLR(opt, 1)
    train(net, opt, 1)
    opt.param_groups[0]["weight_decay"] = 0.25
    smex.save(tmp_path / "a", net, opt)
    other, _ = net_of(6)
    other_opt = two_groups(other)
    smex.load(tmp_path / "a", other, other_opt)
    assert_same(whole_state(other, other_opt), whole_state(net, opt))
    for key in ("lr", "weight_decay", "initial_lr"):
        assert [g[key] for g in other_opt.param_groups] == [g[key] for g in opt.param_groups]
    with pytest.raises(smex.SmexValueError, match=r"groups \[0, 1\].*options differ"):
        smex.load(tmp_path / "a", *net_of(2))


def test_optimisers_of_other_parameters_are_refused(tmp_path):
    def of(net, *parts):
        named = list(net.named_parameters())
        return adamw([{"params": [p for name, p in named if part(name)]} for part in parts])

    def is_up(name):
        return "up." in name

    def is_rest(name):
        return not is_up(name)

    net, opt = net_of(2)
    train(net, opt, 1)
    smex.save(tmp_path / "one", net, opt)
    smex.save(tmp_path / "two", net, of(net, is_rest, is_up))
    other, _ = net_of(3)
    cases = [
        ("one", (is_rest,), '"up.weight" was in group 0 .* opt does not have it'),
        ("one", (is_rest, is_up), '"up.weight" was in group 0 .* opt has it in group 1'),
        ("one", (is_rest, is_up), "has 1 groups of parameters, opt has 2"),
        ("two", (lambda name: True,), '"up.weight" was in group 1 .* opt has it in group 0'),
    ]
    for path, parts, match in cases:
        own = of(other, *parts)
        refused(tmp_path / path, smex.SmexValueError, match, of=(other, own))
        smex.load(tmp_path / path, other, own, strict=False)


def test_several_optimisers(tmp_path):
    net, _ = net_of(2)
    parameters = list(net.parameters())
    both = {"a": adamw(parameters[:3]), "b": torch.optim.SGD(parameters[3:], momentum=0.5)}
    for _ in range(2):
        net(*data()).backward()
        for opt in both.values():
            opt.step()
    smex.save(tmp_path / "a", net, both)
    other, _ = net_of(2, seed=1)
    parameters = list(other.parameters())
    again = {"a": adamw(parameters[:3]), "b": torch.optim.SGD(parameters[3:], momentum=0.5)}
    smex.load(tmp_path / "a", other, again)
    for name, opt in both.items():
        assert len(opt.state) == len(again[name].state)
        for one, two in zip(opt.state.values(), again[name].state.values()):
            assert all(torch.equal(one[key], two[key]) for key in one)
    with pytest.raises(smex.SmexValueError, match="saved as 'a', 'b', opt has '0'"):
        smex.load(tmp_path / "a", other, again["a"])


@pytest.mark.filterwarnings("ignore:Adafactor takes each tile")
def test_states_of_another_shape_need_whole_parameters(tmp_path):
    net, opt = net_of(1, make_opt=torch.optim.Adafactor)
    train(net, opt, 1)
    smex.save(tmp_path / "a", net, opt)
    other, other_opt = net_of(1, seed=1, make_opt=torch.optim.Adafactor)
    smex.load(tmp_path / "a", other, other_opt)
    assert_same(whole_state(other, other_opt), whole_state(net, opt))
    cut, cut_opt = net_of(4, make_opt=torch.optim.Adafactor)
    with pytest.raises(smex.SmexValueError, match='"row_var" of .* does not follow'):
        smex.load(tmp_path / "a", cut, cut_opt)
    train(cut, cut_opt, 1)
    with pytest.raises(smex.SmexValueError, match='"row_var" of .* does not follow'):
        smex.save(tmp_path / "b", cut, cut_opt)


def test_random_numbers_go_on(tmp_path):
    net, opt = net_of(2)
    torch.manual_seed(7)
    torch.rand(3)
    smex.save(tmp_path / "a", net, opt)
    expected = torch.rand(5)
    smex.load(tmp_path / "a", net, opt)
    assert torch.equal(torch.rand(5), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_files_are_those_of_safetensors(tmp_path, dtype):
    model = nn.Sequential(nn.Linear(10, 14), nn.Linear(14, 6)).to(dtype)
    net = smex.partition(
        model, workers=3, args=(torch.ones(4, 10, dtype=dtype),), replicate_bytes=0
    )
    smex.save(tmp_path / "a", net)
    whole = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
    (file,) = (tmp_path / "a").glob("*.safetensors")
    with safetensors.safe_open(file, "pt") as opened:
        for key in opened.keys():  # noqa: SIM118  (it is no dict)
            name, _, box = key.partition("#")
            place = tuple(slice(*map(int, each.split(":"))) for each in box.split(","))
            whole[name][place] = opened.get_tensor(key)
    assert_same(whole, net.state_dict())


# ---- whole tensors ----


@pytest.mark.parametrize("max_bytes", [10**9, 3000])
def test_whole_tensors(tmp_path, max_bytes):
    net, _ = net_of(4)
    path = tmp_path / "hf"
    smex.save(path, net, format="hf", names=lambda n: f"model.{n}", max_shard_bytes=max_bytes)
    read = {}
    for file in path.glob("*.safetensors"):
        with safetensors.safe_open(file, "pt") as opened:
            read |= {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    state = net.state_dict()
    assert read.keys() == {f"model.{name}" for name in state if name != "head.weight"}
    assert_same({n: read[f"model.{n}"] for n in state if n != "head.weight"},
                {n: v for n, v in state.items() if n != "head.weight"})  # fmt: skip
    if max_bytes == 3000:
        index = json.loads((path / "model.safetensors.index.json").read_text())
        assert set(index["weight_map"]) == set(read)
        assert index["metadata"]["total_size"] == sum(t.nbytes for t in read.values())
        assert len(set(index["weight_map"].values())) > 1
    other, _ = net_of(3, seed=1)
    assert smex.load(path, other, names=lambda n: f"model.{n}") == {}
    assert_same(other.state_dict(), state)
    with pytest.raises(smex.SmexValueError, match='"embed.weight" is missing'):
        smex.load(path, other)


def test_files_of_others(tmp_path):
    """Also those whose tensors begin at any byte, with a dict of some names, and other types."""
    model = nn.Sequential(nn.Linear(10, 14), nn.Linear(14, 6))
    net = smex.partition(model, workers=4, args=(torch.ones(4, 10),), replicate_bytes=0)
    given = {name: torch.randn_like(value) for name, value in net.state_dict().items()}
    given["first"] = given.pop("0.weight")
    header, place, body = {}, 0, b""
    for name, tensor in {"odd": torch.ones(3, dtype=torch.uint8), **given}.items():
        kind = "U8" if name == "odd" else "F32"
        end = place + tensor.nbytes
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [place, end]}
        place, body = end, body + tensor.numpy().tobytes()
    text = json.dumps(header).encode()
    path = tmp_path / "theirs.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    names = {"0.weight": "first"}
    with pytest.raises(smex.SmexValueError, match='"odd" is unexpected'):
        smex.load(path, net, names=names)
    smex.load(path, net, names=names, strict=False)
    given["0.weight"] = given.pop("first")
    assert_same(net.state_dict(), {name: given[name] for name in net.state_dict()})
    double = smex.partition(model.double(), workers=2, args=(torch.ones(4, 10).double(),))
    with pytest.raises(
        smex.SmexValueError, match=r"saved as torch.float32, the net has torch.f.*64"
    ):
        smex.load(path, double, names={**names})
    smex.load(path, double, names=names, strict=False)
    assert torch.equal(double.state_dict()["0.weight"], given["0.weight"].double())


def test_runs_of_a_box():
    for shape, box in [((4, 6), ((1, 3), (0, 6))), ((4, 6), ((1, 3), (2, 5))), ((), ()),
                       ((3, 4, 5), ((0, 3), (1, 2), (0, 5))), ((5,), ((2, 4),))]:  # fmt: skip
        numbers = torch.arange(int(torch.tensor(shape).prod())).view(shape)
        part = numbers[tuple(slice(*each) for each in box)].flatten().tolist()
        count, places = runs(shape, box)
        assert [p + i for p in places for i in range(count)] == part


# ---- saves ----


def test_the_last_complete_checkpoint(tmp_path):
    net, opt = net_of(1)
    assert smex.latest(tmp_path) is None and smex.latest(tmp_path / "none") is None
    for name, extra in [("step-9", None), ("step-10", None), ("a", {"step": 4}), ("b", None)]:
        smex.save(tmp_path / name, net, opt, extra)
    assert smex.latest(tmp_path) == str(tmp_path / "step-10")
    smex.save(tmp_path / "final", net, opt, {"step": 11})
    (tmp_path / "step-99").mkdir()
    (tmp_path / "step-98").write_text("")
    os.rename(tmp_path / "step-10", tmp_path / "step-97.tmp-0123456789ab")
    smex.save(tmp_path / "model-1000", net, format="hf")
    smex.save(tmp_path / "step-200", net, opt)
    (file,) = (tmp_path / "step-200").glob("*.safetensors")
    os.truncate(file, file.stat().st_size - 1)
    assert smex.latest(tmp_path) == str(tmp_path / "final")
    smex.save(tmp_path / "again", net, opt, {"step": 11})
    assert smex.latest(tmp_path) == str(tmp_path / "again")


def test_a_checkpoint_is_replaced(tmp_path):
    net, opt = net_of(2)
    smex.save(tmp_path / "a", net, opt, {"step": 1})
    (tmp_path / "a.tmp-0123456789ab").mkdir()  # of a save that was killed
    train(net, opt, 1)
    smex.save(tmp_path / "a", net, opt, {"step": 2})
    assert os.listdir(tmp_path) == ["a"] and len(os.listdir(tmp_path / "a")) == 2
    other, other_opt = net_of(3, seed=1)
    assert smex.load(tmp_path / "a", other, other_opt) == {"step": 2}
    assert_same(whole_state(other, other_opt), whole_state(net, opt))


def test_in_the_background(tmp_path):
    net, opt = net_of(2)
    train(net, opt, 1)
    before = {name: value.clone() for name, value in whole_state(net, opt).items()}
    told = []
    save = smex.save(
        tmp_path / "a", net, opt, background=True, progress=lambda *of: told.append(of)
    )
    train(net, opt, 1)  # what is saved is as it was
    save.wait()
    assert save.done() and told[-1][0] == told[-1][1] > 0
    other, other_opt = net_of(2, seed=1)
    smex.load(tmp_path / "a", other, other_opt)
    assert_same(whole_state(other, other_opt), before)
    smex.save(tmp_path / "b", net, format="hf", background=True).wait()
    smex.load(tmp_path / "b", other)
    assert_same(other.state_dict(), net.state_dict())


def test_an_error_in_the_background_is_raised_once(tmp_path, monkeypatch):
    net, opt = net_of(1)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("smex.checkpoint.files.os.fsync", full)
        save = smex.save(tmp_path / "a", net, opt, background=True)
        save._thread.join()
    with pytest.raises(smex.CheckpointError, match="No space left on device"):
        smex.save(tmp_path / "b", net, opt)
    save.wait()
    smex.save(tmp_path / "b", net, opt)
    assert os.listdir(tmp_path) == ["b"]


SCRIPT = """
import sys, torch, smex, smex.checkpoint.files as files
model = torch.nn.Linear(8, 8)
net = smex.partition(model, workers=2, args=(torch.ones(4, 8),), replicate_bytes=0)
real, go = files.write, __import__("threading").Event()

def late(*args):
    go.wait(10)
    if len(sys.argv) > 2:
        raise OSError(28, "No space left on device")
    return real(*args)

files.write = late
smex.save(sys.argv[1] + "/a", net, background=True)
go.set()
"""


@pytest.mark.parametrize("fails", [False, True])
def test_the_interpreter_waits_at_its_end(tmp_path, fails):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), *(["fail"] * fails)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if fails:
        (line,) = done.stderr.splitlines()
        assert "the save of" in line and "cannot be written: No space left" in line
    else:
        assert done.stderr == ""
    assert os.listdir(tmp_path) == ([] if fails else ["a"])
    assert (smex.latest(tmp_path) is None) == fails


def test_saves_that_are_killed(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "processes" / "kills.py"), "--kills", "10",
               "--longest", "0.05", "--width", "128", "--folder", str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "the last complete checkpoint loaded 11 times" in done.stdout
    assert os.listdir(tmp_path) == []


KILLED = """
import os, sys, torch, smex, smex.checkpoint.files as files
net = smex.partition(torch.nn.Linear(8, 8), workers=2, args=(torch.ones(4, 8),))
files.write = lambda *args: os.kill(os.getpid(), 9)
smex.save(sys.argv[1], net)
"""


def test_the_next_save_removes_what_others_left(tmp_path):
    """Of any name in the folder, but what somebody writes to, or has just written to."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "step-1")], timeout=120)
    (left,) = os.listdir(tmp_path)
    held = tmp_path / "step-2.tmp-0123456789ab"
    new, other = tmp_path / "step-3.tmp-0123456789ab", tmp_path / "notes.tmp-mine"
    for folder in (held, new, other):
        folder.mkdir()
    saving._hold(str(held))
    for folder in (tmp_path / left, held, other):
        os.utime(folder, (0, 0))
    net, opt = net_of(2)
    smex.save(tmp_path / "step-4", net, opt)
    assert sorted(os.listdir(tmp_path)) == sorted([held.name, new.name, other.name, "step-4"])
    saving._let_go(str(held))
    smex.save(tmp_path / "step-5", net, opt)
    assert held.name not in os.listdir(tmp_path)


# ---- what is wrong ----


def checkpoint(tmp_path, workers=2):
    net, opt = net_of(workers)
    train(net, opt, 1)
    smex.save(tmp_path / "a", net, opt)
    (file,) = (tmp_path / "a").glob("*.safetensors")
    return tmp_path / "a", file


def refused(path, kind, match, **options):
    """A load fails, and nothing has changed."""
    net, opt = options.pop("of", None) or net_of(3, seed=1)
    train(net, opt, 1)
    before = {name: value.clone() for name, value in whole_state(net, opt).items()}
    random = torch.get_rng_state()
    with pytest.raises(kind, match=match):
        smex.load(path, net, opt, **options)
    assert_same(whole_state(net, opt), before)
    assert torch.equal(torch.get_rng_state(), random)


def test_a_file_cut_short(tmp_path):
    path, file = checkpoint(tmp_path)
    os.truncate(file, file.stat().st_size - 8)
    refused(path, smex.CheckpointError, "cut short or replaced; load another checkpoint")
    file.unlink()
    refused(path, smex.CheckpointError, "No such file")


@pytest.mark.parametrize("where", [0.3, 0.999])
def test_a_changed_byte(tmp_path, where):
    path, file = checkpoint(tmp_path)
    with open(file, "r+b") as opened:
        opened.seek(int(file.stat().st_size * where))
        byte = opened.read(1)[0]
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte ^ 16]))
    refused(path, smex.CheckpointError, "has other bytes between 0 and")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: text[:-100], "is not JSON"),
        (lambda text: text.replace('"workers":2', '"workers":3'), "its sum is another one"),
        (
            lambda text: text.replace('"version":1', '"version":7'),
            "version 7, this SMEX reads up to 1",
        ),
        (lambda text: "[]", "of something else"),
        (lambda text: text.replace("smex-checkpoint", "other"), "of something else"),
    ],
)
def test_a_changed_manifest(tmp_path, change, match):
    path, _ = checkpoint(tmp_path)
    text = (path / "manifest.json").read_text()
    assert change(text) != text
    (path / "manifest.json").write_text(change(text))
    refused(path, smex.CheckpointError, match)
    assert smex.latest(tmp_path) is None


def test_other_folders(tmp_path):
    refused(tmp_path / "none", smex.CheckpointError, "there is no .*smex.latest")
    refused(tmp_path, smex.CheckpointError, "neither manifest.json nor model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"nothing of the kind")
    refused(tmp_path / "model.safetensors", smex.CheckpointError, "no safetensors file")


def test_another_model(tmp_path):
    path, _ = checkpoint(tmp_path)

    def other(model, inputs, **more):
        net = smex.partition(model, workers=2, args=(inputs,), replicate_bytes=0)
        return net, adamw(net.parameters())

    class Other(nn.Module):
        def __init__(self, size=24, dtype=torch.float64):
            super().__init__()
            self.embed = nn.Linear(11, size, bias=False, dtype=dtype)

        def forward(self, x):
            return self.embed(x)

    for of, match in [
        (other(Other(), data()[0]), '"norm.weight" is unexpected'),
        (
            other(Other(26), data()[0]),
            r'"embed.weight" was saved as \[24, 11\], the net has \[26, 11\]',
        ),
        (
            other(Other(dtype=torch.float32), data()[0].float()),
            "torch.float64, the net has torch.f.*32",
        ),
    ]:
        net, opt = of
        before = {name: value.clone() for name, value in net.state_dict().items()}
        with pytest.raises(smex.SmexValueError, match=match):
            smex.load(path, net, opt)
        assert_same(net.state_dict(), before)
    net, _ = other(Other(), data()[0])
    smex.load(path, net, strict=False)
    refused(path, smex.SmexValueError, "saved is AdamW, opt is SGD",
            of=net_of(2, make_opt=lambda p: torch.optim.SGD(p, lr=0.1)))  # fmt: skip


def test_where_it_cannot_be_saved(tmp_path):
    net, opt = net_of(2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("full", "file"):
        with pytest.raises(smex.SmexValueError, match="exists and is no checkpoint"):
            smex.save(tmp_path / name, net, opt)
    with pytest.raises(smex.CheckpointError, match="cannot be written: File exists"):
        smex.save(tmp_path / "file" / "a", net, opt)
    with pytest.raises(smex.SmexTypeError, match=r"extra\['x'\] cannot be written as JSON"):
        smex.save(tmp_path / "a", net, opt, {"x": torch.ones(2)})
    with pytest.raises(smex.SmexTypeError, match="expected a torch.optim.Optimizer"):
        smex.save(tmp_path / "a", net, [1])
    with pytest.raises(smex.SmexValueError, match="not the net's"):
        smex.save(tmp_path / "a", net, adamw([nn.Parameter(torch.ones(2))]))
    with pytest.raises(smex.SmexValueError, match='format is "smex" or "hf"'):
        smex.save(tmp_path / "a", net, format="pt")
    with pytest.raises(smex.SmexValueError, match="holds the model alone"):
        smex.save(tmp_path / "a", net, opt, format="hf")
    with pytest.raises(smex.SmexRuntimeError, match="before its model is captured"):
        smex.save(tmp_path / "a", smex.partition(nn.Linear(2, 2), workers=2))
    assert sorted(os.listdir(tmp_path)) == ["file", "full"]


def test_a_full_disk(tmp_path):
    """As RLIMIT_FSIZE makes it: a write is refused in the middle of a file."""
    import resource

    net, opt = net_of(2)
    smex.save(tmp_path / "a", net, opt, {"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        for path, options in [("a", {}), ("b", {}), ("c", {"format": "hf"})]:
            with pytest.raises(smex.CheckpointError, match=r"cannot be written: File too large"):
                smex.save(tmp_path / path, net, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["a"]
    assert smex.load(tmp_path / "a", net, opt) == {"step": 1}


def test_a_loss_with_parameters_and_a_conv(tmp_path):
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(5))

        def forward(self, output, target):
            return ((output.mean((2, 3)) - target) * self.weight).square().sum()

    def make(workers):
        model = nn.Sequential(nn.Conv2d(3, 5, 3)).to(memory_format=torch.channels_last)
        inputs = torch.ones(4, 3, 8, 8), torch.ones(4, 5)
        net = smex.partition(model, workers=workers, args=inputs, loss_fn=Loss(), replicate_bytes=0)
        opt = adamw(net.parameters())
        net(*inputs).backward()
        opt.step()
        return net, opt

    net, opt = make(4)
    smex.save(tmp_path / "a", net, opt)
    other, other_opt = make(3)
    smex.load(tmp_path / "a", other, other_opt)
    assert "loss_fn.weight" in net.state_dict()
    assert_same(whole_state(other, other_opt), whole_state(net, opt))


def test_a_tied_weight_into_two_that_are_not(tmp_path):
    class Two(nn.Module):
        def __init__(self, tied):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
            if tied:
                self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    x = torch.ones(4, 6)
    tied, apart = (smex.partition(Two(t), workers=2, args=(x,), replicate_bytes=0) for t in (1, 0))
    for options in ({}, {"format": "hf"}):
        path = tmp_path / str(len(options))
        smex.save(path, tied, **options)
        smex.load(path, apart)
        assert_same(apart.state_dict(), tied.state_dict())


def test_nothing_warns(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net, opt = net_of(2)
        smex.save(tmp_path / "a", net, opt)
        smex.load(tmp_path / "a", net, opt)


def test_a_manifest_stands_for_its_checkpoint_and_a_folder_of_them_names_the_last(tmp_path):
    net = smex.partition(torch.nn.Linear(3, 2), workers=2, replicate_bytes=0)
    net(torch.ones(1, 3))
    saved = net.state_dict()["weight"].clone()
    for step in (1, 2):
        smex.save(tmp_path / f"step-{step}", net, extra={"step": step})
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert smex.load(tmp_path / "step-1" / "manifest.json", net)["step"] == 1
    assert torch.equal(net.state_dict()["weight"], saved)
    with pytest.raises(
        smex.errors.CheckpointError, match=r"it has checkpoints, smex.latest of it is .*step-2"
    ):
        smex.load(tmp_path, net)
