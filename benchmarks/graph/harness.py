"""What the scripts of this folder share: options, interleaved rounds, statistics, results.

Only ratios inside one round count, since the clock of a shared machine varies: each round asks
every system once, in an order that rotates. A ratio to the fastest peer is the smallest, over the
peers, of the median over the rounds of `peer / ours`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

import cases  # puts benchmarks/peers on the path
import environments
import graphs
import torch
from client import PeerError, Peers
from systems.base import Case

OURS = "smex"
SORTED = "smex sorted"  # edges numbered by destination, as the peers' best layouts have them
COPY = "memory copy"
NOT_PEERS = (OURS, SORTED, COPY)
GIB = 2**30
TOLERANCE = {"float32": 2e-4, "bfloat16": 5e-2, "float16": 1e-2}
TRAINED = 5e-2  # of a model's gradients, where rounding may put a number on either side of a ReLU
TIES = 1e-5  # share of the gradients of an extremum that may go to another of two equal edges

HOPELESS = 2  # times --drop: a first call so much slower makes a peer too slow to be timed,
STARTING = 0.2  # seconds aside, in which a library may start up


def parser(doc: str, **defaults: object) -> argparse.ArgumentParser:
    """The options that all scripts have; `defaults` replaces those of single options."""
    made = argparse.ArgumentParser(
        description=doc.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = made.add_argument
    add("--quick", action="store_true", help="graphs 50 times smaller, two rounds: no figures")
    add("--cuda", action="store_true", help="on the GPU; without one nothing is measured")
    add("--peers", nargs="*", default=["smex", "dgl", "torch", "pyg"], help="environments to run")
    add("--graphs", nargs="*", default=list(graphs.SYNTHETIC), help=", ".join(graphs.names()))
    add("--threads", nargs="*", type=int, default=[1, 2])
    add("--rounds", type=int, default=7)
    add("--repeats", type=int, default=3, help="timed blocks per system and round; the median")
    add("--drop", type=float, default=3.0, help="a peer so many times slower than the fastest one "
        "in the first round is asked no more")  # fmt: skip
    add("--cpu-time", action="store_true", help="processor seconds of 1 thread: what else runs "
        "disturbs them less than elapsed ones")  # fmt: skip
    add("--idtype", choices=["int32", "int64"], default="int32")
    add("--seed", type=int, default=0)
    add("--memory-limit", type=int, default=12, help="GiB per worker; a system above it fails")
    add("--all", action="store_true", help="a line per system, not the fastest peer alone")
    made.set_defaults(**defaults)
    return made


def prepared(options: argparse.Namespace) -> argparse.Namespace:
    """Checks the options against the machine.

    Raises:
        SystemExit: --cuda without a GPU.
    """
    if options.quick:
        options.rounds = min(options.rounds, 2)
    if options.cpu_time:
        options.threads = [1]
    if options.cuda:
        if not torch.cuda.is_available():
            raise SystemExit("--cuda: torch finds no GPU here, so nothing was measured")
        options.threads = [1]
        options.peers = [name for name in options.peers if name != "dgl"]  # its wheel is for CPUs
    return options


@contextlib.contextmanager
def started(options: argparse.Namespace, **environment: str) -> Iterator[Peers]:
    """The workers, with a folder under build/ for the files they read."""
    exchange = environments.ROOT / "build" / "peers" / "exchange"
    exchange.mkdir(parents=True, exist_ok=True)
    limit = 0 if options.cuda else options.memory_limit * GIB
    with (
        tempfile.TemporaryDirectory(dir=exchange) as folder,
        Peers(
            options.peers,
            pathlib.Path(folder),
            device="cuda" if options.cuda else "cpu",
            memory_limit=limit,
            seed=options.seed,
            **environment,
        ) as peers,
    ):
        yield peers


def load(peers: Peers, options: argparse.Namespace, name: str) -> graphs.EdgeList:
    edges = graphs.load(name, quick=options.quick, seed=options.seed)
    peers.load_graph(name, edges.src, edges.dst, edges.num_nodes, options.idtype)
    return edges


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing that each round measures."""

    system: str
    graph: str
    case: Case
    threads: int = 1
    label: str = ""

    @property
    def key(self) -> str:
        return f"{self.system}|{self.graph}|{self.case}"

    @property
    def worker(self) -> str:
        return "torch scatter" if self.system == COPY else self.system


@dataclasses.dataclass
class Measured:
    """Seconds per entry and round (None where it was not asked), and what went wrong."""

    seconds: dict[Entry, list[float | None]]
    notes: dict[str, str] = dataclasses.field(default_factory=dict)
    checks: dict[str, dict] = dataclasses.field(default_factory=dict)

    def ratios(self, over: Entry, under: Entry) -> list[float]:
        pairs = zip(self.seconds[over], self.seconds[under])
        return [a / b for a, b in pairs if a is not None and b is not None]

    def ratio(self, over: Entry, under: Entry) -> float:
        return statistics.median(self.ratios(over, under))

    def median(self, entry: Entry) -> float:
        return statistics.median(s for s in self.seconds[entry] if s is not None)

    def spread(self, entry: Entry, unit: float = 1e3) -> str:
        found = [s * unit for s in self.seconds[entry] if s is not None]
        return f"{statistics.median(found):.3g} [{min(found):.3g}, {max(found):.3g}]"

    def fastest(self, entries: list[Entry], ours: Entry | None) -> tuple[Entry, float] | None:
        """The entry with the smallest ratio to ours, or the smallest median without ours."""
        entries = [entry for entry in entries if entry in self.seconds]
        if not entries:
            return None
        if ours is None or ours not in self.seconds:
            return min(((e, math.nan) for e in entries), key=lambda found: self.median(found[0]))
        return min(((e, self.ratio(e, ours)) for e in entries), key=lambda found: found[1])


def measure(
    peers: Peers,
    entries: list[Entry],
    edges: dict[str, graphs.EdgeList],
    options: argparse.Namespace,
    *,
    check: bool = True,
) -> Measured:
    """Prepares the entries, compares their results, and measures them round by round."""
    result = Measured({})
    alive = prepare_all(peers, entries, edges, result)
    if check:
        alive = _not_hopeless(_compare(peers, alive, result), result, HOPELESS * options.drop)
    result.seconds = {entry: [] for entry in alive}
    dropped: set[Entry] = set()
    for turn in range(options.rounds):
        shift = turn % max(1, len(alive))
        for entry in alive[shift:] + alive[:shift]:
            asked = entry not in dropped
            result.seconds[entry].append(_ask(peers, entry, options, result) if asked else None)
        if turn == 0:
            dropped = _too_slow(result, options.drop)
    result.seconds = {e: s for e, s in result.seconds.items() if any(x is not None for x in s)}
    peers.tell_all("release")
    return result


def prepare_all(
    peers: Peers, entries: list[Entry], edges: dict[str, graphs.EdgeList], result: Measured
) -> list[Entry]:
    """Those entries that their system has; the others' reasons go to the notes."""
    done: dict[str, bool] = {}
    for entry in entries:
        if entry.worker not in peers.of_system or entry.key in done:
            continue
        wanted = cases.shapes(entry.case, edges[entry.graph])
        if not entry.case.backward:
            wanted.pop("out", None)
        try:
            inputs = peers.features(wanted)
            peers.prepare(entry.key, entry.worker, entry.graph, entry.case, inputs)
            done[entry.key] = True
        except PeerError as error:
            done[entry.key] = False
            if not error.unsupported:
                result.notes[entry.key] = str(error)
    return [entry for entry in entries if done.get(entry.key)]


def _compare(peers: Peers, entries: list[Entry], result: Measured) -> list[Entry]:
    """Compares with ours, or with the first system where ours is absent.

    What fails is dropped, and so are peers whose results differ.
    """
    keys = {e.key: e for e in entries if e.system != COPY}
    references: dict[tuple, pathlib.Path] = {}
    failed = set()
    for key, entry in sorted(keys.items(), key=lambda item: item[1].case.dtype != "float32"):
        what = (entry.graph, dataclasses.replace(entry.case, dtype="float32"))
        worker = peers.of_system[entry.worker]
        try:
            if what not in references:
                folder = pathlib.Path(tempfile.mkdtemp(dir=peers.folder))
                found = worker.ask("save", key=key, folder=str(folder))
                references[what] = folder
            else:
                is_model = entry.case.op.startswith("train_")
                tolerance = TRAINED if is_model else TOLERANCE[entry.case.dtype]
                folder = str(references[what])
                found = worker.ask("compare", key=key, folder=folder, tolerance=tolerance)
                if not _agrees(entry, found["results"], result) and entry.system not in (
                    OURS,
                    SORTED,
                ):
                    failed.add(key)
            result.checks[key] = found
        except PeerError as error:
            failed.add(key)
            if not error.unsupported:
                result.notes[key] = str(error)
    for folder in references.values():
        for path in folder.glob("*.npy"):
            path.unlink()
    return [entry for entry in entries if entry.key not in failed]


def _not_hopeless(entries: list[Entry], result: Measured, drop: float) -> list[Entry]:
    """Without the peers whose first call took `drop` times that of the fastest, and STARTING."""
    first = {
        e.key: (e.graph, e.case, result.checks[e.key]["seconds"])
        for e in entries
        if e.key in result.checks and e.system not in NOT_PEERS
    }
    best: dict[tuple, float] = {}
    for graph, case, seconds in first.values():
        best[graph, case] = min(best.get((graph, case), math.inf), seconds)
    hopeless = {
        key for key, (*place, s) in first.items() if s > STARTING + drop * best[tuple(place)]
    }
    for key in hopeless:
        result.notes[key] = f"not timed: the first call took {result.checks[key]['seconds']:.2g} s"
    return [entry for entry in entries if entry.key not in hopeless]


def _agrees(entry: Entry, found: dict[str, dict], result: Measured) -> bool:
    extremum = entry.case.op.endswith(("_max", "_min")) and entry.case.backward
    for role, numbers in found.items():
        if extremum and entry.case.dtype != "float32" and role != "out":
            continue  # rounded inputs have other winners
        if numbers["share"] > (TIES if extremum else 0):
            result.notes[entry.key] = (
                f"DIFFERS: {role} by up to {numbers['difference']:.3g} of {numbers['scale']:.3g}"
            )
            return False
    return True


def _ask(peers: Peers, entry: Entry, options, result: Measured) -> float | None:
    worker, arguments = peers.of_system[entry.worker], {"repeats": options.repeats}
    arguments["clock"] = "process_time" if options.cpu_time else "perf_counter"
    try:
        return worker.ask("measure", key=entry.key, threads=entry.threads, **arguments)["seconds"]
    except PeerError as error:
        result.notes[entry.key] = str(error)
        return None


def _too_slow(result: Measured, drop: float) -> set[Entry]:
    """Peers that cannot be the fastest of those with the same case and threads."""
    first = {}
    for entry, seconds in result.seconds.items():
        if entry.system not in NOT_PEERS:
            first[entry] = min((s for s in seconds if s is not None), default=None)
    best: dict[tuple, float] = {}
    for entry, seconds in first.items():
        if seconds is not None:
            place = (entry.graph, entry.case, entry.threads)
            best[place] = min(best.get(place, math.inf), seconds)
    return {
        e
        for e, s in first.items()
        if s is None or s > drop * best.get((e.graph, e.case, e.threads), math.inf)
    }


def write_json(script: str, options: argparse.Namespace, peers: Peers, records: list) -> None:
    """build/benchmarks/graph/SCRIPT.json: the options, the versions and every second measured."""
    path = environments.ROOT / "build" / "benchmarks" / "graph" / f"{script}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"options": vars(options), "versions": peers.versions(), "records": records}
    path.write_text(json.dumps(content, indent=1))
    print(f"\nall measurements: {path.relative_to(environments.ROOT)}")
