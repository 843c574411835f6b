"""The trace files that `net.trace` writes."""

import json

import pytest
import torch
from torch.nn import functional as F

import smex


def make(workers, loss_fn=None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Tanh(), torch.nn.Linear(20, 6))
    x = torch.randn(8, 12)
    net = smex.partition(model, workers=workers, loss_fn=loss_fn, replicate_bytes=0)
    return model, net, x


def read(path):
    events = json.loads(path.read_text())["traceEvents"]
    process = {
        e["args"]["name"]: e["pid"]
        for e in events
        if e["ph"] == "M" and e["name"] == "process_name"
    }
    tracks = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    return process, tracks, spans_of(events)


def spans_of(events):
    """Those of workers, and of links also what they carried while workers computed."""
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    spans = [e for e in events if e["ph"] == "X"]
    begun = [{**e, "dur": ends.pop(e["id"]) - e["ts"]} for e in events if e["ph"] == "b"]
    assert not ends
    return spans + begun


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_tracks_and_bytes(tmp_path, workers, backward):
    _, net, x = make(workers)
    net.trace(tmp_path / "trace.json", x, backward=backward)
    process, tracks, spans = read(tmp_path / "trace.json")
    of_workers = [s for s in spans if s["pid"] == process["workers"]]
    of_links = [s for s in spans if s["pid"] == process["links"]]
    assert len(of_workers) + len(of_links) == len(spans)
    for worker in range(workers):
        assert tracks[process["workers"], worker] == f"worker {worker}"
        assert any(s["tid"] == worker and s["cat"] == "compute" for s in of_workers)
    links = {name for (pid, _), name in tracks.items() if pid == process["links"]}
    named = {f"worker {a} -> worker {b}" for a in range(workers) for b in range(workers) if a != b}
    assert links <= named
    assert {tracks[s["pid"], s["tid"]] for s in of_links} == links
    moved = net.stats()["bytes_moved"]
    assert sum(s["args"]["bytes"] for s in of_links) == moved
    assert sum(s["args"]["bytes"] for s in of_workers) == moved
    assert (moved > 0) == (workers > 1)
    assert all(s["dur"] >= 0 and s["ts"] >= 0 for s in spans)


def test_a_link_carries_what_its_destination_received(tmp_path):
    _, net, x = make(4)
    net.trace(tmp_path / "trace.json", x, backward=True)
    process, tracks, spans = read(tmp_path / "trace.json")
    received = [0] * 4
    for span in spans:
        if span["pid"] == process["links"]:
            received[int(tracks[span["pid"], span["tid"]][-1])] += span["args"]["bytes"]
    assert received == net.stats()["received_bytes"]
    assert min(received) > 0


def test_backward_adds_the_backward_operators(tmp_path):
    _, net, x = make(2)
    counts = []
    for backward in (False, True):
        net.trace(tmp_path / "trace.json", x, backward=backward)
        spans = read(tmp_path / "trace.json")[2]
        counts.append(sum(s["cat"] == "compute" for s in spans))
    assert counts[1] > counts[0] > 0


def test_the_result_is_the_models_and_gradients_stay(tmp_path):
    model, net, x = make(2, F.mse_loss)
    target = torch.randn(8, 6)
    loss = net.trace(tmp_path / "trace.json", x, target, backward=True)
    torch.testing.assert_close(loss, F.mse_loss(model(x), target))
    assert not loss.requires_grad
    assert all(parameter.grad is None for parameter in net.parameters())


def test_a_later_call_is_not_traced(tmp_path):
    _, net, x = make(2)
    net.trace(tmp_path / "trace.json", x, backward=True)
    net(x).sum().backward()
    assert net._last.session.trace_events() == []


def test_nothing_to_differentiate(tmp_path):
    net = smex.partition(torch.nn.ReLU(), workers=2)
    with pytest.raises(smex.SmexValueError, match="no output or parameter has a gradient"):
        net.trace(tmp_path / "trace.json", torch.ones(4, 4), backward=True)
