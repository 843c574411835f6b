"""What the other processes are told when one fails."""

import os
import signal
import time
import warnings

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import smex
from smex.distributed import world
from smex.distributed.relayout import Move, Relayout, whole_at

pytestmark = pytest.mark.costly

GROUP = {"SMEX_SHARED_MEMORY": "0"}


class Layers(nn.Module):
    def __init__(self, width=32, dropout=0.0):
        super().__init__()
        self.first, self.second = nn.Linear(width, 64), nn.Linear(64, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.second(self.drop(torch.tanh(self.first(x)))).square().mean()


def fail_in_step(rank, how, culprit, seconds, dropout=0.0):
    """Trains; one rank fails before its third step. Returns what this one was told, and when."""
    torch.manual_seed(0)
    net = smex.partition(Layers(dropout=dropout), args=torch.randn(16, 32), replicate_bytes=0)
    started = time.monotonic()
    try:
        for step in range(20):
            if rank == culprit and step == 2:
                started = time.monotonic()
                if how == "raises":
                    raise ValueError("no more data")
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "stops":
                    os.kill(os.getpid(), signal.SIGSTOP)
                if how == "leaves":
                    return "left"
            net(torch.randn(16, 32)).backward()
            if rank != culprit:
                started = time.monotonic()
    except smex.RankFailure as failure:
        return failure.kind, failure.rank, str(failure), time.monotonic() - started < seconds
    return "nothing"


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_a_killed_rank_is_named(processes, variables, dropout):
    found = processes.outcomes(fail_in_step, 3, "killed", 1, 10, dropout, variables=variables)
    assert not found[1][0]
    for rank in (0, 2):
        good, what = found[rank]
        assert good, what
        assert what[:2] == ("gone", 1) and what[3], what


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_a_stopped_rank_is_named(processes, variables):
    found = processes.outcomes(fail_in_step, 2, "stops", 1, 10, timeout=12, variables=variables)
    good, what = found[0]
    assert good, what
    assert what[:2] == ("silent", 1) and what[3], what


def evaluates_alone(rank, dropout):
    """Rank 0 makes a call that the others do not make."""
    torch.manual_seed(0)
    net = smex.partition(Layers(dropout=dropout), args=torch.randn(16, 32), replicate_bytes=0)
    try:
        for _ in range(3):
            net(torch.randn(16, 32)).backward()
            if rank == 0:
                with torch.no_grad():
                    net(torch.randn(16, 32))
    except smex.RankFailure as failure:
        return str(failure)
    return "nothing"


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_a_call_of_one_rank_alone_is_an_error(processes, dropout, variables):
    for text in processes.run(evaluates_alone, 2, dropout, timeout=20, variables=variables):
        assert "every rank must" in text


class Named(nn.Module):
    """Layers that ranks make from other settings."""

    def __init__(self, width=32, dropout=0.0, dtype=torch.float32):
        super().__init__()
        self.layers = Layers(width, dropout)
        self.scale = nn.Parameter(torch.ones(width, dtype=dtype))

    def forward(self, x, factor=1.0):
        return self.layers(x * self.scale) * factor


def differing(rank, model, rows, options):
    """Rank 1 of three has something else."""
    own = rank == 1
    made = Named(**(model if own else {}))
    args = torch.randn(rows if own else 16, made.scale.numel())
    try:
        smex.partition(made, args=args, **(options if own else {}))
    except smex.SmexRuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("model", "rows", "options", "text"),
    [
        ({"width": 48}, 16, {}, 'argument "x": float32[16, 32] and float32[16, 48]'),
        ({"dtype": torch.float64}, 16, {}, 'parameter "scale": float32[32] and float64[32]'),
        ({"dropout": 0.5}, 16, {}, '"p" of module "layers.drop": 0.0 and 0.5'),
        ({}, 8, {}, 'argument "x": float32[16, 32] and float32[8, 32]'),
        ({}, 16, {"replicate_bytes": 0}, "replicate_bytes: None and 0"),
        ({}, 16, {"deterministic": False}, "deterministic: True and False"),
        ({}, 16, {"objective": "time"}, "objective: 'communication' and 'time'"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_ranks_have_otherwise_is_named(processes, model, rows, options, text):
    for found in processes.run(differing, 3, model, rows, options):
        assert f"rank 0 and rank 1 differ in {text}; every rank must" in found


def of_other_seeds(rank):
    with torch.device("meta"):
        model = Layers()
    net = smex.partition(model, args=torch.randn(16, 32), replicate_bytes=0)
    try:
        smex.init(net, seed=7 + rank)
    except smex.SmexRuntimeError as error:
        return str(error)
    return ""


def test_other_seeds_are_an_error(processes):
    for text in processes.run(of_other_seeds, 2):
        assert "init: rank 0 and rank 1 differ in seed: 7 and 8; every rank must" in text


CALLS = {
    "save": lambda net, folder: smex.save(folder, net),
    "load": lambda net, folder: smex.load(folder, net),
    "stats": lambda net, folder: net.stats(),
    "state_dict": lambda net, folder: net.state_dict(),
    "net": lambda net, folder: net(torch.ones(16, 32)),
    "new rows": lambda net, folder: net(torch.ones(12, 32)),
    "dtensors": lambda net, folder: net.dtensors(),
    "clip": lambda net, folder: smex.clip_grad_norm_(net, 1.0),
    "evaluation": lambda net, folder: net.eval()(torch.ones(16, 32)),
}


def in_other_calls(rank, first, second, folder):
    torch.manual_seed(0)
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    net(torch.ones(16, 32)).backward()
    try:
        CALLS[first if rank == 0 else second](net, folder)
    except smex.SmexError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("save", "stats", ("rank 0 smex.save, rank 1 net.stats()",)),
        ("load", "stats", ("rank 0 smex.load, rank 1 net.stats()",)),
        ("save", "net", ("it is in smex.save, while rank 1", "rank 1 net(...)")),
        ("dtensors", "net", ("it is in net.dtensors(), while rank 1", "rank 1 net(...)")),
        ("state_dict", "net", ("rank 0 net.state_dict(), rank 1 net(...)",)),
        ("clip", "state_dict", ("rank 0 smex.clip_grad_norm_, rank 1 net.state_dict()",)),
        ("save", "net", ("must make this call at the same place, not one of them alone",)),
        (
            "evaluation",
            "net",
            (
                '"x" float32[16, 32] in evaluation mode, after calls with argument "x" '
                "float32[16, 32] in training mode",
                "and under the same modes (net.train(), net.eval(), torch.no_grad())",
            ),
        ),
        (
            "new rows",
            "net",
            ('"x" float32[12, 32], after calls with argument "x" float32[16, 32]',),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_ranks_in_other_calls_are_told_which(processes, tmp_path, first, second, names):
    run = processes.run(in_other_calls, 2, first, second, str(tmp_path / "step"), timeout=20)
    for text in run:
        assert all(name in text for name in names), text
        assert "every rank must" in text


def waits_long(rank, seconds):
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    before, world._VERY_LONG_WAIT = world._VERY_LONG_WAIT, seconds
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        if rank == 1:
            time.sleep(4 * seconds)
        net.dtensors()
    world._VERY_LONG_WAIT = before
    return [str(each.message) for each in found]


def test_who_waits_long_is_told_for_whom(processes):
    first, second = processes.run(waits_long, 2, 0.5)
    (text,) = [text for text in first if "has waited" in text]
    assert text.startswith("rank 0 has waited for rank 1 for 1 s in net.dtensors()")
    assert not any("has waited" in text for text in second)


def other_rows_of_one(rank):
    """One rank's last batch is smaller."""
    net = smex.partition(Layers(), args=torch.ones(8, 32), inputs="local", replicate_bytes=0)
    started = time.monotonic()
    try:
        net(torch.ones(8 if rank == 0 else 5, 32))
    except smex.SmexRuntimeError as error:
        return str(error), time.monotonic() - started
    return "", 0.0


def test_a_smaller_last_batch_of_local_inputs_is_named_on_all_ranks(processes):
    for text, seconds in processes.run(other_rows_of_one, 2, timeout=20):
        assert 'rank 1 failed: it is in net(...), for the first time with argument "x"' in text
        assert 'float32[5, 32], after calls with argument "x" float32[8, 32]' in text
        assert "drop_last=True" in text
        assert seconds < 5


class Refusing(Layers):
    fails = False

    def forward(self, x):
        if self.fails:
            raise ValueError("not here")
        return super().forward(x)


def one_cannot_be_captured(rank):
    model = Refusing()
    model.fails = rank == 1
    try:
        smex.partition(model, args=torch.randn(4, 32))
    except Exception as error:
        return str(error)
    return ""


def test_who_cannot_capture_is_named_to_the_others(processes):
    first, second = processes.run(one_cannot_be_captured, 2)
    assert "rank 1 failed" in first
    assert "rank 1 failed" not in second and second


def other_shapes_in_a_step(rank):
    torch.manual_seed(0)
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    try:
        for step in range(3):
            rows = 8 if rank == 1 and step == 1 else 16
            net(torch.randn(rows, 32)).backward()
    except smex.SmexRuntimeError as error:
        return type(error).__name__, str(error)
    return "", ""


@pytest.mark.parametrize("variables", [{}, GROUP], ids=["shared memory", "group"])
def test_other_shapes_on_a_rank_end_in_an_error(processes, variables):
    for kind, text in processes.run(other_shapes_in_a_step, 2, variables=variables):
        assert kind and text


def after_a_failure(rank):
    """An error of the caller's on one rank, which it catches: the group is of no use any more."""
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    texts = []
    for _ in range(2):
        try:
            net(torch.ones(16, 32))
        except smex.RankFailure as failure:
            texts.append(str(failure))
        else:
            texts.append("ran")
        if rank == 1:
            net._world.links.watcher.report("gave up", "forward instruction 3")
            time.sleep(0.2)
    return texts


def test_every_later_call_names_the_first_failure(processes):
    first, second = processes.run(after_a_failure, 2)
    assert first[0] == "ran"
    assert "rank 1 failed in forward instruction 3: gave up" in second[1]


def again_after_a_failure(rank):
    """Both catch the error of ranks that do different things, and try to go on."""
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    texts = []
    for attempt in (
        lambda: net(torch.ones(12 if rank else 16, 32)),
        lambda: net(torch.ones(16, 32)),
        lambda: smex.partition(Layers(width=48), args=torch.randn(16, 48)),
        lambda: smex.save("unwritten", net),
    ):
        try:
            attempt()
        except smex.RankFailure as failure:
            texts.append(str(failure))
        else:
            texts.append("ran")
    return texts


def test_calls_after_a_failure_name_it_and_tell_nothing_else(processes):
    for first, *others in processes.run(again_after_a_failure, 2):
        assert "for the first time with" in first and "calls: rank 0 net(...)" in first
        for text in others:
            assert text.split(" (calls")[0] == first.split(" (calls")[0]
            assert "save" not in text


def makes_other_options(rank, folder):
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3 * (1 + rank), foreach=rank == 0)
    net(torch.ones(16, 32)).sum().backward()
    opt.step()
    try:
        smex.save(folder, net, opt)
    except smex.SmexValueError as error:
        text = str(error)
    opt.param_groups[0]["lr"] = 1e-3
    smex.save(folder, net, opt)  # how a step runs may differ
    return text


def test_optimisers_with_other_options_are_refused_when_saved(processes, tmp_path):
    for text in processes.run(makes_other_options, 2, str(tmp_path / "step")):
        assert 'group 0 of "0" has lr=0.001 on rank 0 and 0.002 on rank 1' in text


def left_out_by_a_mesh(rank):
    mesh = init_device_mesh("cpu", (1,))
    texts = []
    for make in (
        lambda: smex.partition(Layers(), mesh=mesh, args=torch.randn(16, 32)),
        lambda: smex.Machine.calibrate(mesh=mesh),
    ):
        try:
            make()
        except smex.SmexValueError as error:
            texts.append(str(error))
    own = smex.partition(Layers(), args=torch.randn(16, 32), processes=1)
    return texts, own.workers


def test_a_rank_that_the_mesh_leaves_out_is_told(processes):
    (kept, own), (left_out, other) = processes.run(left_out_by_a_mesh, 2)
    assert (kept, own, other) == ([], 1, 1)
    assert len(left_out) == 2
    assert all("rank 1 calls it, whose mesh is of ranks [0]" in text for text in left_out)


def sends_to_one_who_has_left(rank):
    """More than there is space for on its way, to a rank that has ended in good order."""
    net = smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    rows = 2 << 20
    here, there = whole_at([rows], [0], 2), whole_at([rows], [1], 2)
    relayout = Relayout(net._world, net.devices, [Move(here, there, torch.float64)])
    if rank == 1:
        return "left"
    try:
        relayout.run([[torch.zeros(rows, dtype=torch.float64), None]])
    except smex.RankFailure as failure:
        return failure.kind, failure.rank
    return "sent"


def test_who_has_left_is_missed_by_who_sends(processes):
    found = processes.run(sends_to_one_who_has_left, 2, timeout=30)
    assert found == [("left", 1), "left"]


def dies_while_connecting(rank):
    """One rank is killed between making its memory and mapping that of the others."""
    names = []
    make = world._made_segment

    def made(name, *others):
        names.append(name)
        return make(name, *others)

    def die(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)

    world._made_segment = made
    if rank == 1:
        world._shared_memory = die
    try:
        smex.partition(Layers(), args=torch.randn(16, 32), replicate_bytes=0)
    except smex.RankFailure as failure:
        left = [path.name for path in world._shared_folder().glob(f"{names[0]}-*")]
        return failure.kind, failure.rank, left
    finally:
        world._made_segment = make
    return "nothing"


def test_who_dies_while_the_ranks_connect_is_named_and_leaves_nothing(processes):
    found = processes.outcomes(dies_while_connecting, 3, timeout=30)
    assert not found[1][0]
    for rank in (0, 2):
        assert found[rank] == (True, ("gone", 1, [])), found[rank]
