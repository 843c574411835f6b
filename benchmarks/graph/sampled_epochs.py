"""Epochs of sampled GraphSAGE, beside DGL and another version of this package.

    python benchmarks/graph/sampled_epochs.py [--threads 1 2] [--rounds 7] [--other NAME=PATH]

An R-MAT graph with as many nodes, edges and features as ogbn-arxiv; a tenth of its nodes are seeds.
An epoch goes through them in batches of 1,024 with 15, 10 and 5 neighbours: the loader, which
samples and gathers features, three layers of 128 numbers with means and ReLU, cross entropy over 40
classes, backward and Adam. Systems take turns, an epoch each. ``sampling`` is the same epoch
without the model, ``products`` what all systems multiply, and nothing else. `--other` is a folder
with another build of ``smex``, which runs the same program (``v1=/checkout/python``). DGL needs its
environment (``benchmarks/peers/environments.py dgl``).
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

NODES, EDGES, FEATURES, CLASSES, HIDDEN = 169_343, 2_315_598, 128, 40, 128
FANOUTS, BATCH = [15, 10, 5], 1024


def serve(options):
    """Goes through an epoch for each line that is read, and tells its seconds."""
    import torch
    from torch import nn

    torch.set_num_threads(options.threads)
    if options.serve == "dgl":
        import dgl as library
        from dgl.nn import SAGEConv
    else:
        import smex.graph as library
        from smex.graph.nn import SAGEConv

    torch.manual_seed(0)
    arrays = {p.stem: np.load(p) for p in options.folder.glob("*.npy")}
    src, dst, seeds = (torch.from_numpy(arrays[n]).long() for n in ("src", "dst", "seeds"))
    g = library.graph((src, dst), num_nodes=NODES)
    g.ndata["x"], labels = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["labels"])
    g.create_formats_()
    sampler = library.dataloading.NeighborSampler(FANOUTS, prefetch_node_feats=["x"])
    loader = library.dataloading.DataLoader(g, seeds, sampler, batch_size=BATCH, shuffle=True)
    widths = [FEATURES, HIDDEN, HIDDEN, CLASSES]
    layers = nn.ModuleList(SAGEConv(a, b, "mean") for a, b in itertools.pairwise(widths))
    optimiser = torch.optim.Adam(layers.parameters(), 1e-3)

    def train():
        loss = None
        for _, targets, blocks in loader:
            h = blocks[0].srcdata["x"]
            for layer, block in zip(layers, blocks):
                h = layer(block, h if layer is layers[0] else h.relu())
            loss = nn.functional.cross_entropy(h, labels[targets])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return float(loss.detach())

    def multiply():
        """What every system multiplies: two products a layer, and their gradients."""
        for (number, (wide, narrow)), rows in zip(enumerate(itertools.pairwise(widths)), sizes):
            x, y, w = torch.empty(rows, wide), torch.empty(rows, narrow), torch.empty(wide, narrow)
            for _ in range(2):
                torch.mm(x, w, out=y)
                torch.mm(x.t(), y, out=w)
                if number:
                    torch.mm(y, w.t(), out=x)

    def sample():
        return float(sum(blocks[0].srcdata["x"].shape[0] for _, _, blocks in loader))

    for _ in range(2):
        train()
    sizes = [block.num_dst_nodes() for block in next(iter(loader))[2]]
    print("ready", flush=True)
    for _ in sys.stdin:
        told = {}
        for name, epoch in (("sampling", sample), ("epoch", train)):
            started, used = time.perf_counter(), time.process_time()
            told["loss"] = epoch()
            told[name] = time.perf_counter() - started
            told[f"{name}, processor"] = time.process_time() - used
        started = time.perf_counter()
        for _ in range(len(loader)):
            multiply()
        told["products"] = time.perf_counter() - started
        print(json.dumps(told), flush=True)


class System:
    """A process that waits for its next epoch."""

    def __init__(self, name, python, path, threads, folder):
        self.name, self.rounds = name, []
        kind = "dgl" if name == "dgl" else "smex"
        command = [python, __file__, "--serve", kind, "--folder", folder, "--threads", threads]
        variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **variables},
        )  # fmt: skip
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{name} does not run here; its message is above")

    def run(self):
        """An epoch."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rounds.append(json.loads(self.process.stdout.readline()))

    def end(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def write_graph(folder):
    """Writes the graph's arrays."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import rmat

    kinds = {"nodes": NODES, "edges": EDGES, "features": FEATURES}
    rmat.generate(argparse.Namespace(**kinds, train=0.1, seed=0), folder)
    np.save(folder / "seeds.npy", np.load(folder / "train.npy").nonzero()[0])
    labels = np.random.default_rng(0).integers(0, CLASSES, NODES)
    np.save(folder / "labels.npy", labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--other", metavar="NAME=PATH")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        options.threads = options.threads[0]
        serve(options)
        return
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
    import environments

    dgl_python = environments.interpreter("dgl")
    own = os.environ.get("PYTHONPATH", "")
    print(
        "| threads | system | epoch, ms | spread | processor ms | sampling, ms | products, ms "
        "| over smex |\n|---:|---|---:|---:|---:|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_graph(folder)
        for threads in options.threads:
            systems = [System("smex", sys.executable, own, threads, folder)]
            if options.other:
                title, _, path = options.other.partition("=")
                systems.append(System(title, sys.executable, path, threads, folder))
            if dgl_python is not None:
                systems.append(System("dgl", dgl_python, "", threads, folder))
            for _ in range(options.rounds):
                for system in systems:
                    system.run()
            for system in systems:
                tell(threads, system, systems[0])
                system.end()


def tell(threads, system, ours):
    """Prints a line of the table."""

    def of(key):
        return [1e3 * each[key] for each in system.rounds]

    epoch = of("epoch")
    ratio = statistics.median(a["epoch"] / b["epoch"] for a, b in zip(system.rounds, ours.rounds))
    cells = [
        threads, system.name, f"{statistics.median(epoch):.0f}",
        f"{min(epoch):.0f} to {max(epoch):.0f}",
        f"{statistics.median(of('epoch, processor')):.0f}",
        f"{statistics.median(of('sampling')):.0f}", f"{statistics.median(of('products')):.0f}",
        f"{ratio:.2f}",
    ]  # fmt: skip
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
