"""Training steps of recursive networks beside other systems, and beside their matrix products.

    python benchmarks/vertex/training.py [--model tree-lstm] [--batch 256] [--hidden 256]
        [--threads 2] [--cpu-time] [--rounds 7] [--systems smex loop dgl ...]

Systems run in their own environments (benchmarks/peers/environments.py dgl dynet trees) and in
turn, a step each round; told are the medians of a step's seconds, samples per second, and how many
times longer it is than ours. `bound` is the time of the bare matrix products, forward and
backward, each once for all vertices; the loop over vertices is measured on a part of the batch.
`smex without NAME` is ours with that option off. `smex prop_nodes_topo` is the program of DGL with
another import; without trace it runs level by level.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import samples

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import environments  # noqa: E402

ENVIRONMENTS = {
    "dgl": "dgl", "dynet": "dynet", "pytorch-tree-lstm": "trees", "torchfold": "trees",
}  # fmt: skip
OFF = [f"smex without {name}" for name in ("hoist", "lazy", "fuse", "trace")]
SYSTEMS = {
    "tree-lstm": ["smex", "bound", *OFF, "loop", "dgl", "dynet", "torchfold"],
    "child-sum": ["smex", "bound", "pytorch-tree-lstm"],
    "tree-fc": ["smex", "bound", "loop", "dgl", "dynet", "torchfold"],
    "var-lstm": ["smex", "bound", "loop", "dgl", "dynet", "torchfold"],
    "fixed-lstm": ["smex", "bound", "unrolled", "nn.LSTM"],
}
TOPO = ["smex prop_nodes_topo", "smex prop_nodes_topo without trace"]
for recursive in ("tree-lstm", "tree-fc", "var-lstm"):
    SYSTEMS[recursive] += TOPO
LOOP_PART = 8


def trees_of(model: str, batch: int) -> list[samples.Tree]:
    """The batch of a model."""
    if model in ("tree-lstm", "child-sum"):
        return samples.sst("train", batch)
    if model == "tree-fc":
        return [samples.complete(256, seed) for seed in range(batch)]
    if model == "var-lstm":
        return samples.sentences(batch)
    return [samples.sentence(64, seed) for seed in range(batch)]


class Peer:
    """A system in its own process."""

    def __init__(self, system: str, options: argparse.Namespace, folder: pathlib.Path):
        self.part = min(1.0, LOOP_PART / options.batch) if system == "loop" else 1.0
        trees = trees_of(options.model, round(options.batch * self.part))
        path = folder / f"{system.replace(' ', '_')}.json"
        path.write_text(json.dumps(trees))
        python = environments.interpreter(ENVIRONMENTS.get(system, "smex"))
        if python is None:
            raise FileNotFoundError(f"no environment {ENVIRONMENTS[system]}")
        model = options.model.removeprefix("var-").removeprefix("fixed-")
        clock = "process_time" if options.cpu_time else "perf_counter"
        command = [
            python,
            HERE / "worker.py",
            system,
            model,
            options.hidden,
            options.threads,
            clock,
        ]
        self.process = subprocess.Popen(
            [*map(str, command), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._expect_ready()

    def _expect_ready(self) -> None:
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise RuntimeError(self.process.stderr.read().strip().splitlines()[-1:])

    def step(self) -> float:
        """The seconds of one step."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / self.part

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=list(SYSTEMS), default="tree-lstm")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="processor time, on busy machines")
    parser.add_argument("--systems", nargs="*")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peers = {}
        for system in options.systems or SYSTEMS[options.model]:
            try:
                peers[system] = Peer(system, options, folder)
            except (FileNotFoundError, RuntimeError) as error:
                print(f"{system}: {error}")
                continue
            stack.callback(peers[system].close)
        for _ in range(options.rounds):
            for system, peer in peers.items():
                seconds.setdefault(system, []).append(peer.step())
    ours = statistics.median(seconds["smex"])
    print(f"{options.model}, batch {options.batch}, hidden {options.hidden}, ", end="")
    clock = "processor" if options.cpu_time else "wall"
    print(f"{options.threads} threads, {clock} time\n")
    print("| system | ms a step | spread | samples/s | of ours |\n|---|---:|---:|---:|---:|")
    for system, times in seconds.items():
        median = statistics.median(times)
        spread = f"{min(times) * 1e3:.0f} to {max(times) * 1e3:.0f}"
        rate = options.batch / median
        print(f"| {system} | {median * 1e3:.0f} | {spread} | {rate:.0f} | {median / ours:.2f} × |")


if __name__ == "__main__":
    main()
