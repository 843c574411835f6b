"""Trace files against the trace event format, and in Perfetto's own trace processor."""

import collections
import json
import pathlib
import re
import shutil

import pytest
import torch
from torch.nn import functional as F

import smex

MACHINE = smex.Machine("test", {"float32": 1e10}, 1e10, 1e-6, 1e9, (smex.Level(1024, 1e-5, 1e9),))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lower, self.upper = torch.nn.Linear(12, 20), torch.nn.Linear(20, 6)

    def forward(self, x):
        return self.upper(torch.tanh(self.lower(x)))


@pytest.fixture(scope="module", params=[1, 2, 3])
def traced(request, tmp_path_factory):
    """A net that has run once with its backward, and its file with what was predicted."""
    torch.manual_seed(0)
    net = smex.partition(
        Net(), workers=request.param, loss_fn=F.mse_loss, replicate_bytes=0, machine=MACHINE
    )
    folder = tmp_path_factory.mktemp("trace")
    net.trace(folder / "ran.json", torch.randn(8, 12), torch.randn(8, 6), backward=True)
    smex.simulate(net.plan).trace(folder / "both.json", beside=folder / "ran.json")
    return net, folder / "both.json"


def events_of(path):
    return json.loads(path.read_text())["traceEvents"]


def checked(events):
    """The events by phase; what the format asks for of each is checked."""
    phases = collections.defaultdict(list)
    for event in events:
        phases[event["ph"]].append(event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["name"], str) and event["name"]
        if event["ph"] != "M":
            assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0
    assert set(phases) <= set("XbeCsfM")
    for event in phases["X"]:
        assert event["dur"] >= 0
    for event in phases["C"]:
        assert event["args"] and all(isinstance(n, (int, float)) for n in event["args"].values())
    for begin, end in ("be", "sf"):
        starts, ends = ({e["id"]: e for e in phases[each]} for each in (begin, end))
        assert len(starts) == len(phases[begin]) and set(starts) == set(ends)
        assert all(ends[number]["ts"] >= event["ts"] for number, event in starts.items())
        assert all(ends[number]["cat"] == event["cat"] for number, event in starts.items())
    return phases


def by_thread(spans):
    found = collections.defaultdict(list)
    for span in spans:
        found[span["pid"], span["tid"]].append(span)
    return found


def test_the_format_is_kept(traced):
    phases = checked(events_of(traced[1]))
    assert phases["X"] and phases["C"] and phases["M"]


def test_spans_of_a_thread_lie_inside_each_other_or_apart(traced):
    spans = [e for e in events_of(traced[1]) if e["ph"] == "X" and e["pid"] in (0, 10)]
    for own in by_thread(spans).values():
        own.sort(key=lambda e: (e["ts"], -e["dur"]))
        open_ends = []
        for span in own:
            end = span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= span["ts"] + 1e-6:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-6
            open_ends.append(end)


@pytest.mark.parametrize("pid", [0, 10])
def test_forward_and_backward_lie_around_what_is_theirs(traced, pid):
    spans = [e for e in events_of(traced[1]) if e["ph"] == "X" and e["pid"] == pid]
    threads = by_thread(spans)
    assert len(threads) == traced[0].plan.workers
    for own in threads.values():
        passes = {e["name"]: e for e in own if e["cat"] == "pass"}
        assert set(passes) == {"forward", "backward"}
        assert passes["forward"]["ts"] < passes["backward"]["ts"]
        inner = [e for e in own if e["args"].get("pass")]
        assert {e["args"]["pass"] for e in inner} == {"forward", "backward"}
        for event in inner:
            around = passes[event["args"]["pass"]]
            assert around["ts"] <= event["ts"] + 1e-6
            assert event["ts"] + event["dur"] <= around["ts"] + around["dur"] + 1e-6


def test_spans_have_the_names_of_the_user(traced):
    net, path = traced
    lines = pathlib.Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "self.upper(torch" in text)
    captured = net.plan.graph.captured
    names = {value.name for value in captured.values}
    for pid in (0, 10):
        calls = [e for e in events_of(path)
                 if e["ph"] == "X" and e["pid"] == pid and e["cat"] == "compute"]  # fmt: skip
        assert {"lower", "upper"} <= {e["args"]["module"] for e in calls}
        assert f"test_trace_file.py:{line}" in {e["args"]["line"] for e in calls}
        for event in calls:
            assert set(event["args"]["value"].split(", ")) <= names
            assert event["args"]["shape"].startswith("float32[")


def test_memory_has_the_predicted_peak(traced):
    net, path = traced
    for pid in (0, 10):
        counters = [e for e in events_of(path) if e["ph"] == "C" and e["pid"] == pid]
        peaks = collections.defaultdict(int)
        for event in counters:
            assert set(event["args"]) == {
                "parameters", "activations", "gradients", "communication"
            }  # fmt: skip
            assert event["name"] == f"memory of worker {event['tid']}, predicted"
            peaks[event["tid"]] = max(peaks[event["tid"]], sum(event["args"].values()))
        assert [peaks[worker] for worker in range(net.plan.workers)] == net.plan.peak_bytes()


def test_arrows_go_from_who_makes_a_tile_to_who_fetches_it(traced):
    net, path = traced
    events = events_of(path)
    spans = [e for e in events if e["ph"] == "X"]
    threads = by_thread(spans)
    for pid in (0, 10):
        ends = collections.defaultdict(dict)
        for event in events:
            if event["ph"] in "sf" and event["pid"] == pid:
                ends[event["id"]][event["ph"]] = event
        assert bool(ends) == (net.plan.workers > 1)
        pairs = set()
        for pair in ends.values():
            assert pair["s"]["tid"] != pair["f"]["tid"]
            pairs.add((pair["s"]["tid"], pair["f"]["tid"]))
            inside = [
                [e for e in threads[pid, end["tid"]]
                 if e["cat"] != "pass" and e["ts"] <= end["ts"] <= e["ts"] + e["dur"]]
                for end in (pair["s"], pair["f"])
            ]  # fmt: skip
            assert inside[0] and any(e["cat"] != "compute" for e in inside[1]), (
                "the receiver's end is not in a fetch"
            )
        names = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1]
        links = {tuple(map(int, re.findall(r"\d+", name))) for name in names}
        assert pairs <= links


def test_what_was_predicted_lies_below_what_ran_and_begins_with_it(traced):
    events = events_of(traced[1])
    place = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert sorted(place, key=place.get) == [0, 10, 1, 11]
    begins = [min(e["ts"] for e in events if e["ph"] == "X" and e["pid"] == p) for p in (0, 10)]
    assert begins[0] == pytest.approx(begins[1], abs=50)


def test_perfetto_reads_the_file(traced):
    processor = pytest.importorskip(
        "perfetto.trace_processor", reason="needs PyPI's perfetto, which is not installed"
    )
    platform = pytest.importorskip("perfetto.trace_processor.platform")
    try:
        shell = shutil.which("trace_processor_shell") or platform.PlatformDelegate().get_shell_path(
            None
        )
    except Exception as error:  # whatever a download raises
        pytest.skip(f"Perfetto's trace_processor_shell is neither here nor reachable: {error}")
    net, path = traced
    config = processor.TraceProcessorConfig(bin_path=shell)
    opened = processor.TraceProcessor(trace=str(path), config=config)
    events = events_of(path)
    with opened as trace:

        def count(query):
            return next(iter(trace.query(f"select count(*) as n from {query}"))).n

        wrong = list(trace.query("select name, value from stats where severity = 'error'"))
        assert {row.name: row.value for row in wrong if row.value} == {}
        assert count("slice") == sum(e["ph"] in "Xb" for e in events)
        arrows = count("flow")
        assert arrows <= sum(e["ph"] == "s" for e in events)
        assert (arrows > 0) == (net.plan.workers > 1)
        assert count("counter") == sum(len(e["args"]) for e in events if e["ph"] == "C")
        names = {row.name for row in trace.query("select name from process where name != ''")}
        assert {"workers", "links", "workers, simulated", "links, simulated"} >= names
        modules = "slice join args using (arg_set_id) where args.key = 'args.module'"
        assert count(modules) > 0
