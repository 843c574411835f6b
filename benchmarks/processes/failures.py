"""What the other ranks of a training are told when something happens to one, and how soon.

    python benchmarks/processes/failures.py kills [--trials 100] [--seed 0]
    python benchmarks/processes/failures.py stops | raises | interrupts | pairs | hosts
    python benchmarks/processes/failures.py restarts [--trials 20] [--family mlp]

An MLP, a GPT and a convolutional net train in turns over 2, 3 and 4 ranks, through shared memory
and with SMEX_SHARED_MEMORY=0: `smex.partition` of a model on the meta device, `smex.init`, then
forward, backward, clipping, AdamW, and `smex.save` in each tenth step, in the background in turns.
At a moment drawn evenly from when the last rank enters `smex.partition` to when an undisturbed
training would have ended, something happens to a rank, which is drawn too:

`kills`: SIGKILL; `stops`: SIGSTOP; `raises`: an exception in its own thread wherever it is;
`interrupts`: SIGINT; `pairs`: SIGKILL to two of 3 or 4 ranks, up to 50 ms apart; `hosts`: SIGKILL
to rank 0, which hosts torch's store.

Each other rank has to raise `smex.RankFailure` with the rank's number within 5 s (stops: 10 s), the
processes have to end by themselves, with the exit code of an exception, and nothing of theirs may
be left in /dev/shm. Rows count the trials by where the ranks were. Ends with an error where one of
this is missed, and with what the ranks have printed.

`restarts`: nodes of an elastic training under torchrun, of one rank each, are killed or join at
random steps (see `restarts`); the losses of all steps have to be those of an undisturbed training
in one process, in float64 to 1e-9: other numbers of workers add in another order.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator

import restarts
from disturbed import FAMILIES, Ranks, Starter, starting

STEPS = 60
END = 30.0  # seconds to the end of the interpreter, after the failure is known

EVENTS = {
    "kills": ({"gone"}, 5.0, signal.SIGKILL, 100),
    "stops": ({"silent"}, 10.0, signal.SIGSTOP, 20),
    "raises": ({"raised"}, 5.0, signal.SIGUSR1, 40),
    "interrupts": ({"raised"}, 5.0, signal.SIGINT, 20),
    "pairs": ({"gone"}, 5.0, signal.SIGKILL, 40),
    "hosts": ({"gone"}, 5.0, signal.SIGKILL, 20),
}
"""What is to be told, the bar in seconds, the signal, and how many trials."""


@dataclasses.dataclass(frozen=True)
class Setting:
    family: str
    size: int
    shared: bool

    def __str__(self) -> str:
        way = "shared memory" if self.shared else "Gloo"
        return f"{self.family}, {self.size} ranks, {way}"


@dataclasses.dataclass
class Outcome:
    """Where the ranks were, seconds until all knew and had ended, and what was wrong."""

    place: str
    known: float
    ended: float
    problems: list[str]


def settings(event: str) -> Iterator[Setting]:
    """All in turns, without end."""
    sizes = (3, 4) if event == "pairs" else (2, 3, 4)
    while True:
        for size in sizes:
            for family in FAMILIES:
                for shared in (True, False):
                    yield Setting(family, size, shared)


def span(starter: Starter, setting: Setting) -> float:
    """Seconds from the last rank's `smex.partition` to the end of an undisturbed training."""
    ranks = Ranks(starter, setting.family, setting.size, STEPS, setting.shared)
    everyone = list(range(setting.size))
    ended = ranks.await_ends(everyone, 120)
    codes = [ranks.code(rank) for rank in everyone]
    if not ended or any(codes):
        texts = "\n".join(ranks.output(rank)[-2000:] for rank in everyone)
        ranks.close()
        raise SystemExit(f"{setting}, undisturbed: exit codes {codes}\n{texts}")
    lines = [ranks.lines(rank) for rank in everyone]
    begin = max(line["at"] for found in lines for line in found if line["what"] == "partition")
    end = max(line["at"] for found in lines for line in found if line["what"] == "done")
    ranks.close()
    return end - begin


def progress(text: str) -> None:
    start = "\r\033[K" if sys.stderr.isatty() else "\n"
    print(start + text, end="", file=sys.stderr, flush=True)


def left_over() -> set[str]:
    return {path.name for path in pathlib.Path("/dev/shm").glob("smex-*")}


def lasting(before: set[str]) -> set[str]:
    """What is there beside `before`, and stays: other programs of this machine make some too."""
    end = time.monotonic() + 3
    while (left := left_over() - before) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def trial(starter: Starter, event: str, setting: Setting, longest: float, draw: random.Random):
    """One training to which something happens."""
    kinds, bar, number, _ = EVENTS[event]
    before = left_over()
    victims = draw.sample(range(setting.size), 2 if event == "pairs" else 1)
    if event == "hosts":
        victims = [0]
    delay, apart = draw.uniform(0, longest), draw.uniform(0, 0.05)
    everyone = list(range(setting.size))
    others = [rank for rank in everyone if rank not in victims]
    problems: list[str] = []
    ranks = Ranks(starter, setting.family, setting.size, 1_000_000, setting.shared)
    try:
        if not ranks.await_all(everyone, "partition", 120):
            raise SystemExit(f"{setting}: the ranks do not come to smex.partition")
        time.sleep(delay)
        place = "/".join(sorted({ranks.lines(rank)[-1]["what"] for rank in everyone}))
        start = time.monotonic()
        for n, rank in enumerate(victims):
            if n:
                time.sleep(apart)
            ranks.signal(rank, number)
        ranks.await_all(others, "failed", bar + 20)
        known = 0.0
        for rank in others:
            told = next((x for x in ranks.lines(rank) if x["what"] == "failed"), None)
            if told is None:
                problems.append(f"rank {rank} was told nothing")
                continue
            known = max(known, told["at"] - start)
            if told["error"] != "RankFailure":
                problems.append(f"rank {rank} has raised {told['error']}: {told['text']}")
            elif told["rank"] not in victims or told["kind"] not in kinds:
                problems.append(f"rank {rank} was told: {told['text']} ({told['kind']})")
        if known > bar:
            problems.append(f"{known:.1f} s")
        stopped = victims if event == "stops" else []
        ending = [rank for rank in everyone if rank not in stopped]
        if not ranks.await_ends(ending, END):
            hung = [rank for rank in ending if ranks.code(rank) is None]
            problems.append(f"ranks {hung} have not ended")
            for rank in hung:
                ranks.signal(rank, signal.SIGUSR2)  # prints where its threads are
            time.sleep(0.5)
        ended = time.monotonic() - start
        for rank in others:
            if ranks.code(rank) not in (1, None):
                problems.append(f"rank {rank} has ended with {ranks.code(rank)}")
        for rank in stopped:
            ranks.signal(rank, signal.SIGKILL)
        if left := lasting(before):
            problems.append(f"left in /dev/shm: {', '.join(sorted(left))}")
        if problems:
            problems.append(f"after {delay:.3f} s, victims {victims}; see {ranks.folder}")
    finally:
        ranks.close(keep=bool(problems))
    return Outcome(place, known, ended, problems)


def run(event: str, trials: int, seed: int, within: float | None) -> int:
    draw = random.Random(seed)
    _, bar, _, _ = EVENTS[event]
    found: list[tuple[Setting, Outcome]] = []
    spans: dict[Setting, float] = {}
    with starting() as starter:
        for n, setting in zip(range(trials), settings(event)):
            if setting not in spans:
                spans[setting] = within or span(starter, setting)
            outcome = trial(starter, event, setting, spans[setting], draw)
            found.append((setting, outcome))
            progress(f"{n + 1}/{trials} {setting}, {outcome.place}: {outcome.known:.3f} s")
            for problem in outcome.problems:
                print(f"\n    {problem}", end="", file=sys.stderr, flush=True)
    print(f"\n| {event} | trials | known, median | known, most | ended, most | bar | missed |")
    print("| --- |" + " ---: |" * 6)
    groups: dict[str, list[Outcome]] = collections.defaultdict(list)
    for setting, outcome in found:
        way = "shared memory" if setting.shared else "Gloo"
        groups[f"{setting.size} ranks, {way}"].append(outcome)
    groups["all"] = [outcome for _, outcome in found]
    for name, those in groups.items():
        known = [outcome.known for outcome in those]
        print(
            f"| {name} | {len(those)} | {statistics.median(known):.2f} s | {max(known):.2f} s | "
            f"{max(outcome.ended for outcome in those):.2f} s | {bar:.0f} s | "
            f"{sum(bool(outcome.problems) for outcome in those)} |"
        )
    places = collections.Counter(outcome.place for _, outcome in found)
    print("\nlast said by ranks: " + ", ".join(f"{k} {v}" for k, v in places.most_common()))
    return int(any(outcome.problems for _, outcome in found))


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="event", required=True)
    for event, (_, bar, _, trials) in EVENTS.items():
        command = commands.add_parser(event, help=f"{trials} trials, {bar:.0f} s")
        command.add_argument("--trials", type=int, default=trials)
        command.add_argument("--seed", type=int, default=0)
        command.add_argument(
            "--within", type=float, help="seconds in which it happens, in place of all the training"
        )
    command = commands.add_parser("restarts", help="20 restarts with other numbers of ranks")
    command.add_argument("--trials", type=int, default=20)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--family", default="mlp", choices=restarts.FAMILIES)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.event == "restarts":
        return restarts.run(options.family, options.trials, options.seed)
    return run(options.event, options.trials, options.seed, options.within)


if __name__ == "__main__":
    sys.exit(main())
