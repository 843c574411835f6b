"""Mini-batches of GraphBolt's pipelines: smex.graph.graphbolt beside DGL's own.

    python benchmarks/graph/pipelines.py [--rounds 3] [--threads 1]

The same program runs in both, in turns: 1,024 seeds, three layers of 10 neighbours, 64 float32
features of the nodes, blocks. 500,000 nodes and 8 million edges, sources drawn by squares,
so that some have many. Seconds are processor time of the process, so that others on the machine
count less. The nodes of a batch are as many, which is checked.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

METHODS = ("sample_neighbor", "sample_layer_neighbor")
CLOSE = 0.01  # share by which the nodes of a batch may differ, by chance


def worker(system: str, threads: int, batches: int) -> None:
    """Measures one system in this process, and prints by method seconds and nodes of a batch."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    if system == "dgl":
        import dgl.graphbolt as gb
    else:
        import smex.graph.graphbolt as gb
    rng = np.random.default_rng(0)
    n, m = 500_000, 8_000_000
    dst, src = rng.integers(n, size=m), (rng.random(m) ** 2 * n).astype(np.int32)
    indptr = np.r_[0, np.bincount(dst, minlength=n).cumsum()].astype(np.int32)
    sources = torch.from_numpy(src[np.argsort(dst, kind="stable")])
    graph = gb.fused_csc_sampling_graph(torch.from_numpy(indptr), sources)
    feature = gb.TorchBasedFeature(torch.rand(n, 64))
    store = gb.BasicFeatureStore({("node", None, "feat"): feature})
    items = gb.ItemSet(torch.arange(60_000, dtype=torch.int32), names="seed_nodes")
    found = {}
    for method in METHODS:
        pipe = gb.ItemSampler(items, 1024, shuffle=True)
        pipe = getattr(pipe, method)(graph, [10, 10, 10]).fetch_feature(store, ["feat"])
        loader = iter(gb.DataLoader(pipe))
        next(loader)
        started, nodes = time.process_time(), 0
        for _ in range(batches):
            batch = next(loader)
            assert len(batch.blocks) == 3
            nodes += len(batch.node_features["feat"])
        found[method] = ((time.process_time() - started) / batches, nodes / batches)
    print(json.dumps(found))


def measured(python: pathlib.Path, system: str, options: argparse.Namespace) -> dict:
    """Runs a worker in an environment."""
    command = [python, __file__, "--worker", system, "--threads", str(options.threads),
               "--batches", str(options.batches)]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--worker", choices=("dgl", "smex"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker, options.threads, options.batches)
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
    import environments

    pythons = {name: environments.interpreter(name) for name in ("smex", "dgl")}
    if pythons["dgl"] is None:
        sys.exit("DGL has no environment: python benchmarks/peers/environments.py dgl")
    rounds = [
        {name: measured(python, name, options) for name, python in pythons.items()}
        for _ in range(options.rounds)
    ]
    print("| stage | system | ms a batch | nodes | DGL's time over ours |")
    print("| --- | --- | --- | --- | --- |")
    for method in METHODS:
        ratios = [each["dgl"][method][0] / each["smex"][method][0] for each in rounds]
        nodes = {name: statistics.mean(e[name][method][1] for e in rounds) for name in pythons}
        assert abs(nodes["smex"] / nodes["dgl"] - 1) < CLOSE, nodes
        for name in pythons:
            seconds = statistics.median(each[name][method][0] for each in rounds)
            ratio = f"**{statistics.median(ratios):.2f}**" if name == "smex" else ""
            print(f"| {method} | {name} | {seconds * 1e3:.0f} | {nodes[name]:.0f} | {ratio} |")


if __name__ == "__main__":
    main()
