"""Steps a second of loaders of mini-batches with their features, beside DGL's and PyG's.

    python benchmarks/graph/loaders.py [--graphs arxiv products] [--cores 1 2] [--rounds 5]

A step is a batch of 1,024 seeds with 15, 10 and 5 neighbours (the seeds' own last, as DGL counts)
and the features of all nodes that it needs, as the loader gives them or read as programs do. Every
process is bound to so many cores in all: one process, or one on each, of which each goes through
half of the seeds. Peers are given the worker processes that make them fastest, 0 or as many as
cores. Rounds alternate between the systems; a ratio is the median over rounds.

``smex dist kept`` is the loader on ranks in processes whose C library keeps memory that was freed
(``KEPT``), so that rows of the next batches are not written to fresh pages.

The graphs are R-MAT graphs (``rmat.py``) with as many nodes and edges and as wide features as
ogbn-arxiv and ogbn-products (with a fifth of its edges); a tenth of the nodes are seeds.
DGL needs its environment (``benchmarks/peers/environments.py dgl``), PyG pyg-lib or torch-sparse.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

GRAPHS = {
    "arxiv": (169_343, 2_315_598, 128),
    "products": (2_449_029, 24_743_777, 100),
}
FANOUTS = [15, 10, 5]
BATCH = 1024
OURS = "smex"
KEPT = {
    "MALLOC_ARENA_MAX": 1,
    "MALLOC_MMAP_THRESHOLD_": 1 << 32,
    "MALLOC_TRIM_THRESHOLD_": 1 << 32,
}
"""Variables by which glibc's malloc keeps what was freed, and lets all threads use it."""


def smex_plain(folder, options):
    """The loader of a graph in memory."""
    import torch

    import smex.graph as sg

    src, dst, x, seeds = arrays(folder, torch)
    g = sg.graph((src, dst), num_nodes=x.shape[0])
    g.ndata["x"] = x
    g.create_formats_()
    sampler = sg.dataloading.NeighborSampler(FANOUTS, prefetch_node_feats=["x"])
    loader = sg.dataloading.DataLoader(
        g, seeds, sampler, batch_size=BATCH, shuffle=True, use_ddp=options.ranks > 1
    )
    return batches_of_blocks(loader)


def smex_dist(folder, options):
    """The loader of a graph on ranks."""
    import torch

    import smex.graph as sg

    g = sg.distributed.DistGraph("g", part_config=folder / "parts" / "g.json")
    ids = g.ndata["seed"][:].nonzero().view(-1)
    sampler = sg.dataloading.NeighborSampler(FANOUTS, prefetch_node_feats=["x"])
    loader = sg.distributed.DistNodeDataLoader(g, ids, sampler, batch_size=BATCH, shuffle=True)
    del torch
    return batches_of_blocks(loader)


def dgl(folder, options):
    """DGL's loader."""
    import dgl
    import torch

    src, dst, x, seeds = arrays(folder, torch)
    g = dgl.graph((src, dst), num_nodes=x.shape[0])
    g.ndata["x"] = x
    g.create_formats_()
    sampler = dgl.dataloading.NeighborSampler(FANOUTS, prefetch_node_feats=["x"])
    loader = dgl.dataloading.DataLoader(
        g,
        seeds,
        sampler,
        batch_size=BATCH,
        shuffle=True,
        use_ddp=options.ranks > 1,
        num_workers=options.workers,
    )
    return batches_of_blocks(loader)


def pyg(folder, options):
    """PyG's loader."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    src, dst, x, seeds = arrays(folder, torch)
    data = Data(x=x, edge_index=torch.stack([src, dst]), num_nodes=x.shape[0])
    if options.ranks > 1:
        seeds = seeds[options.rank :: options.ranks]
    loader = NeighborLoader(
        data,
        FANOUTS[::-1],
        input_nodes=seeds,
        batch_size=BATCH,
        shuffle=True,
        num_workers=options.workers,
    )

    def epoch():
        steps = rows = edges = 0
        for batch in loader:
            steps, rows = steps + 1, rows + batch.x.shape[0]
            edges += batch.edge_index.shape[1]
        return steps, rows, edges

    return epoch


def arrays(folder, torch):
    """Sources, destinations, features and seeds; features are mapped, so that all share them."""
    src, dst, seed = (
        torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("src", "dst", "train")
    )
    x = torch.from_numpy(np.load(folder / "x.npy", mmap_mode="c"))
    return src.long(), dst.long(), x, seed.nonzero().view(-1)


def batches_of_blocks(loader):
    """What goes through an epoch and counts."""

    def epoch():
        steps = rows = edges = 0
        for _, _, blocks in loader:
            steps, rows = steps + 1, rows + blocks[0].srcdata["x"].shape[0]
            edges += sum(block.num_edges() for block in blocks)
        return steps, rows, edges

    return epoch


SYSTEMS = {
    "smex": smex_plain,
    "smex dist": smex_dist,
    "smex dist kept": smex_dist,
    "dgl": dgl,
    "pyg": pyg,
}


def serve(options):
    """Makes a loader, then goes through an epoch for each line that is read."""
    import torch

    torch.set_num_threads(options.threads)
    if options.ranks > 1 or options.serve.startswith("smex dist"):
        torch.distributed.init_process_group("gloo")
    epoch = SYSTEMS[options.serve](options.folder, options)
    epoch()
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        used = time.process_time()
        steps, rows, edges = epoch()
        told = {"steps": steps, "rows": rows, "edges": edges}
        told["seconds"] = time.perf_counter() - started
        told["used"] = time.process_time() - used
        told["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(told), flush=True)


def free_port():
    """A port that no one listens to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class System:
    """The processes of one system in one setting, each waiting for its next epoch."""

    def __init__(self, name, python, options, folder, cores, ranks, workers=0):
        self.name, self.ranks, self.workers = name, ranks, workers
        self.rounds = []
        self._processes = []
        port = free_port()
        for rank in range(ranks):
            own = list(range(cores)) if ranks == 1 else [rank]
            variables = {
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank,
                "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks,
                "OMP_NUM_THREADS": len(own), **(KEPT if name.endswith("kept") else {}),
            }  # fmt: skip
            command = [
                python, __file__, "--serve", name, "--folder", folder, "--ranks", ranks,
                "--rank", rank, "--workers", workers, "--threads", len(own),
            ]  # fmt: skip
            self._processes.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None if options.verbose else subprocess.DEVNULL,
                    text=True,
                    env={**os.environ, **{n: str(v) for n, v in variables.items()}},
                    preexec_fn=lambda own=own: os.sched_setaffinity(0, own),
                )
            )
        self.is_there = [self._line(rank) for rank in range(ranks)] == ["ready"] * ranks

    def _line(self, rank):
        return self._processes[rank].stdout.readline().strip()

    def run(self):
        """An epoch of all processes; keeps what they tell."""
        for process in self._processes:
            process.stdin.write("\n")
            process.stdin.flush()
        told = [json.loads(self._line(rank)) for rank in range(self.ranks)]
        seconds = max(each["seconds"] for each in told)
        total = {key: sum(each[key] for each in told) for key in ("steps", "rows", "edges", "used")}
        total["peak"] = max(each["peak"] for each in told)
        total["rate"] = total["steps"] / seconds
        total["rate_used"] = total["steps"] / total["used"]
        self.rounds.append(total)

    def end(self):
        """Ends the processes."""
        for process in self._processes:
            process.stdin.close()
            process.wait()

    @property
    def title(self):
        """What a table calls it."""
        words = f"{self.ranks} ranks" if self.ranks > 1 else "1 rank"
        return f"{self.name}, {words}" + (f", {self.workers} workers" if self.workers else "")


def started(options, folder, cores):
    """The systems that are there, in each setting of so many cores."""
    pythons = {"dgl": options.dgl_python, "pyg": options.pyg_python}
    settings = [(name, 1, 0) for name in SYSTEMS]
    if cores > 1:
        settings += [(name, cores, 0) for name in SYSTEMS]
        settings += [("dgl", 1, cores), ("pyg", 1, cores)]
    systems = []
    for name, ranks, workers in settings:
        python = pythons.get(name, sys.executable)
        if name in options.systems and python is not None:
            system = System(name, python, options, folder, cores, ranks, workers)
            if system.is_there:
                systems.append(system)
            else:
                print(f"{system.title} does not run here; --verbose tells why")
                system.end()
    return systems


def make(options, folder, name):
    """Writes the graph's files and its parts."""
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import rmat

    import smex.graph as sg

    nodes, edges, features = GRAPHS[name]
    shrunk = 50 if options.quick else 1
    kinds = {"nodes": nodes // shrunk, "edges": edges // shrunk, "features": features}
    rmat.generate(argparse.Namespace(**kinds, train=0.1, seed=0), folder)
    sg.distributed.partition_files(
        (folder / "src.npy", folder / "dst.npy"),
        "g",
        2,
        folder / "parts",
        ndata={"x": folder / "x.npy", "seed": folder / "train.npy"},
    )
    return f"{kinds['nodes']:,} nodes, {kinds['edges']:,} edges, {features} features", torch


def tell(graph, cores, systems):
    """Prints a line for each system: rates, and the median ratio to each of ours."""
    ours = [system for system in systems if system.name.startswith(OURS)]
    for system in systems:
        rate = statistics.median(each["rate"] for each in system.rounds)
        used = statistics.median(1e3 / each["rate_used"] for each in system.rounds)
        last = system.rounds[-1]
        cells = [graph, cores, system.title, f"{rate:.1f}", f"{used:.1f}"]
        cells += [f"{last[key] / last['steps']:.0f}" for key in ("rows", "edges")]
        cells.append(f"{last['peak']:.0f}")
        if system not in ours:
            for mine in ours:
                if (mine.name, mine.ranks) in (("smex", 1), ("smex dist", cores)):
                    pairs = zip(mine.rounds, system.rounds)
                    cells.append(
                        f"{statistics.median(a['rate'] / b['rate'] for a, b in pairs):.2f}"
                    )
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    by_name = {(system.name, system.ranks): system.rounds for system in systems}
    for (name, ranks), rounds in by_name.items():
        plain = by_name.get((name.removesuffix(" kept"), ranks))
        if name.endswith(" kept") and plain:
            for key, word in (("rate", "steps/s"), ("rate_used", "steps a processor second")):
                ratio = statistics.median(a[key] / b[key] for a, b in zip(rounds, plain))
                print(f"{graph}, {ranks} ranks: {word} of {name} over without: {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--cores", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="graphs 50 times smaller: no figures")
    parser.add_argument("--verbose", action="store_true", help="what the processes write")
    for name in ("--ranks", "--rank", "--workers", "--threads"):
        parser.add_argument(name, type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
    import environments

    options.dgl_python = environments.interpreter("dgl")
    options.pyg_python = environments.interpreter("pyg") or sys.executable
    print("| graph | cores | system | steps/s | processor ms a step | rows a step | edges a step "
          "| peak MB of a process | ours over it: plain | on ranks |")  # fmt: skip
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for graph in options.graphs:
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            make(options, folder, graph)
            for cores in options.cores:
                systems = started(options, folder, cores)
                for number in range(options.rounds):
                    turn = number % len(systems)
                    for system in systems[turn:] + systems[:turn]:
                        system.run()
                for system in systems:
                    system.end()
                tell(graph, cores, systems)


if __name__ == "__main__":
    main()
