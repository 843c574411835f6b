"""Threads beside a capture: each test is one sequence.

| sequence | test |
| --- | --- |
| another thread runs torch while one captures | test_other_threads_run_plain_torch |
| several threads capture | test_captures_in_threads |
"""

import threading

import pytest
import torch
from pairs import WIDTH, Calls, rows, weight
from torch import nn

import smex


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
