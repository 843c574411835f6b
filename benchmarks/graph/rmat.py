"""A graph larger than one would hold: made, partitioned and trained on, with the memory it takes.

    python benchmarks/graph/rmat.py [--nodes 100000] [--edges 1000000] [--parts 4] [--folder DIR]

R-MAT edges (Chakrabarti, Zhan and Faloutsos 2004; a, b, c = 0.57, 0.19, 0.19) are written to files
block by block, each a function of the seed and its place. A process of its own partitions them
(``partition_files``), and as many ranks as parts, started by torchrun, train GraphSAGE for an
epoch: batches of 1,024 training nodes, 10 and 10 neighbours. The features tell the class of a node
and noise.

Printed are the seconds of each step, the greatest resident memory of the process that partitions
(``ru_maxrss``; pages of files that it maps would count), and of each rank, from
``/proc/PID/smaps_rollup`` four times a second, the greatest proportional share (PSS, where a page
that n processes share counts 1/n): private memory, that shared between processes, and pages of
files, which the kernel takes back when it needs them. What is predicted is an upper bound of
private memory: what a process has after its imports, and `ahead` batches three times (made, handed
out, and their messages) if no two seeds had a neighbour in common.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional

import smex.graph as sg

QUADRANTS = (0.57, 0.19, 0.19, 0.05)
BLOCK = 1 << 22  # edges that are drawn at a time
CLASSES = 16
HIDDEN = 64
FANOUTS = (10, 10)
BATCH = 1024
AHEAD = 4
GIB = 1 << 30


def pair_table():
    """Of 16 random bits the bits of source and destination that two levels of R-MAT choose."""
    joint = torch.tensor([p * q for p in QUADRANTS for q in QUADRANTS], dtype=torch.float64)
    pairs = torch.arange(16)
    first, second = pairs // 4, pairs % 4
    src = (first // 2) * 2 + second // 2
    dst = (first % 2) * 2 + second % 2
    ends = (joint.cumsum(0) * 65536).round().long()
    chosen = torch.searchsorted(ends, torch.arange(65536), right=True).clamp(max=15)
    return src[chosen].int(), dst[chosen].int()


def rmat_block(number, size, num_nodes, seed, table):
    """The block's edges, from a generator that its number and the seed start."""
    draw = torch.Generator().manual_seed(seed * 1_000_003 + number)
    levels = max(1, (num_nodes - 1).bit_length())
    src, dst = (torch.zeros(size, dtype=torch.int32) for _ in range(2))
    for level in range(0, levels, 2):
        if level % 8 == 0:
            bits = torch.empty(size, dtype=torch.int64).random_(generator=draw)
        chosen = (bits >> 15 * (level % 8 // 2)).bitwise_and_(0x7FFF).bitwise_left_shift_(1)
        src = src.bitwise_left_shift_(2).bitwise_or_(table[0][chosen])
        dst = dst.bitwise_left_shift_(2).bitwise_or_(table[1][chosen])
    span = 1 << (levels + levels % 2)
    # Names that say nothing of the degree, below the number of nodes.
    return [
        ((ids.long() * 0x9E3779B1 + 12345) % span * num_nodes // span).int() for ids in (src, dst)
    ]


class NpyWriter:
    """Writes rows of a .npy file block by block."""

    def __init__(self, path, dtype, shape):
        self._file = open(path, "wb")  # noqa: SIM115
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def add(self, rows):
        """Writes rows."""
        self._file.write(np.ascontiguousarray(rows).data)

    def close(self):
        """Ends the file."""
        self._file.close()


def generate(options, folder):
    """Writes src.npy, dst.npy, x.npy, label.npy and train.npy."""
    table = pair_table()
    ends = [NpyWriter(folder / f"{n}.npy", np.int32, (options.edges,)) for n in ("src", "dst")]
    for number, begin in enumerate(range(0, options.edges, BLOCK)):
        size = min(BLOCK, options.edges - begin)
        for file, ids in zip(ends, rmat_block(number, size, options.nodes, options.seed, table)):
            file.add(ids.numpy())
    shapes = {"x": (np.float32, options.features), "label": (np.int64,), "train": (np.bool_,)}
    files = {
        n: NpyWriter(folder / f"{n}.npy", kind[0], (options.nodes, *kind[1:]))
        for n, kind in shapes.items()
    }
    centres = torch.randn(
        CLASSES, options.features, generator=torch.Generator().manual_seed(options.seed)
    )
    rows = 1 << 20
    for number, begin in enumerate(range(0, options.nodes, rows)):
        draw = torch.Generator().manual_seed(options.seed * 999_983 + number)
        size = min(rows, options.nodes - begin)
        label = torch.randint(CLASSES, (size,), generator=draw)
        x = torch.randn(size, options.features, generator=draw).add_(centres[label])
        files["x"].add(x.numpy())
        files["label"].add(label.numpy())
        files["train"].add((torch.rand(size, generator=draw) < options.train).numpy())
    for file in [*ends, *files.values()]:
        file.close()


def partition(options, folder):
    """Writes the parts; tells the greatest resident memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sg.distributed.partition_files(
        (folder / "src.npy", folder / "dst.npy"),
        "rmat",
        options.parts,
        folder / "parts",
        part_method=options.method,
        ndata={name: folder / f"{name}.npy" for name in ("x", "label", "train")},
        memory_limit=options.memory * GIB,
        verbose=sys.stderr.isatty(),
    )
    own, children = (
        resource.getrusage(who).ru_maxrss / (1 << 20)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"greatest resident memory: {own:.2f} GiB, of its children {children:.2f}; "
        f"{before / (1 << 20):.2f} after the imports"
    )


class SAGE(torch.nn.Module):
    """Two layers."""

    def __init__(self, inputs):
        super().__init__()
        self.first = sg.nn.SAGEConv(inputs, HIDDEN, "mean")
        self.second = sg.nn.SAGEConv(HIDDEN, CLASSES, "mean")

    def forward(self, blocks, x):
        """Scores of the classes of the last block's destinations."""
        return self.second(blocks[1], torch.relu(self.first(blocks[0], x)))


def predicted_bytes(num_features):
    """Of a batch, if no two seeds had a neighbour in common: features, edges, activations."""
    rows, total = BATCH, 0
    for fanout in reversed(FANOUTS):
        # Of an edge: its source, its id, row pointers and the numbers of both ends.
        total += rows * fanout * 40 + rows * HIDDEN * 4 * 3
        rows *= 1 + fanout
    return total + rows * (num_features * 4 + 16)


def private_bytes():
    """Of this process, now."""
    fields = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0][:-1]: int(line.split()[1]) << 10 for line in fields[1:]}
    return sizes["Pss_Anon"]


def train(options, folder):
    """An epoch, on each rank; rank 0 writes what it was like."""
    torch.set_num_threads(1)
    sg.distributed.initialize()
    rank, size = dist.get_rank(), dist.get_world_size()
    base = private_bytes()
    (folder / f"rank{rank}.pid").write_text(str(os.getpid()))
    started = time.perf_counter()
    g = sg.distributed.DistGraph("rmat", part_config=folder / "parts" / "rmat.json")
    opened = time.perf_counter() - started
    share = sg.distributed.node_split(g.ndata["train"], g.get_partition_book(), force_even=True)
    sampler = sg.dataloading.NeighborSampler(list(FANOUTS), prefetch_node_feats=["x"])
    loader = sg.distributed.DistNodeDataLoader(
        g, share, sampler, batch_size=BATCH, shuffle=True, ahead=AHEAD
    )
    torch.manual_seed(0)
    net = torch.nn.parallel.DistributedDataParallel(SAGE(g.ndata["x"].shape[1]))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    g.barrier()
    started, losses, edges = time.perf_counter(), [], 0
    for _, seeds, blocks in loader:
        scores = net(blocks, blocks[0].srcdata["x"])
        loss = functional.cross_entropy(scores, g.ndata["label"][seeds])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        edges += sum(block.num_edges() for block in blocks)
    g.barrier()
    seconds = time.perf_counter() - started
    told = torch.tensor([edges, base, len(losses)], dtype=torch.int64)
    every = [torch.empty_like(told) for _ in range(size)]
    dist.all_gather(every, told)
    if rank == 0:
        window = 3 * AHEAD * predicted_bytes(g.ndata["x"].shape[1])
        told = {
            "opened": opened,
            "seconds": seconds,
            "steps": len(losses),
            "losses": (losses[0], losses[-1]),
            "edges": sum(int(numbers[0]) for numbers in every),
            "base": [int(numbers[1]) for numbers in every],
            "predicted": [int(numbers[1]) + window for numbers in every],
        }
        (folder / "told.json").write_text(json.dumps(told))
    sg.distributed.exit_client()


class Watch:
    """The greatest memory of the ranks, looked at four times a second."""

    FIELDS = ("Pss", "Pss_Anon", "Pss_Shmem", "Pss_File")

    def __init__(self, folder, ranks):
        self._folder, self._ranks = folder, ranks
        self.peaks = [dict.fromkeys(self.FIELDS, 0) for _ in range(ranks)]
        self.sums = dict.fromkeys(self.FIELDS, 0)  # of all ranks at one moment
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self):
        while not self._ends.wait(0.25):
            now = [self._sizes(rank) for rank in range(self._ranks)]
            for field in self.FIELDS:
                for rank, sizes in enumerate(now):
                    self.peaks[rank][field] = max(self.peaks[rank][field], sizes[field])
                self.sums[field] = max(self.sums[field], sum(sizes[field] for sizes in now))

    def _sizes(self, rank):
        sizes = dict.fromkeys(self.FIELDS, 0)
        try:
            pid = (self._folder / f"rank{rank}.pid").read_text()
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            return sizes
        for line in lines:
            name, *rest = line.split()
            if name[:-1] in sizes:
                sizes[name[:-1]] = int(rest[0]) << 10
        return sizes

    def end(self):
        """Looks no longer."""
        self._ends.set()
        self._thread.join()


def step(name, command):
    """Runs a command and prints its seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True)
    print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)


def tell(told, watch):
    """Prints what the ranks were like."""
    print(
        f"files opened and compared in {told['opened']:.1f} s; epoch: {told['seconds']:.1f} s, "
        f"{told['steps']} steps of each rank, {told['edges'] / told['seconds'] / 1e6:.2f} million "
        f"edges a second; loss {told['losses'][0]:.3f} to {told['losses'][1]:.3f}\n"
    )
    print(
        "| GiB | private after imports | predicted | private | shared | pages of files | together |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for rank, peak in enumerate(watch.peaks):
        columns = [peak[f] / GIB for f in ("Pss_Anon", "Pss_Shmem", "Pss_File", "Pss")]
        known = [told[name][rank] / GIB for name in ("base", "predicted")]
        numbers = " | ".join(f"{n:.2f}" for n in [*known, *columns])
        print(f"| rank {rank} | {numbers} |")
    columns = [watch.sums[f] / GIB for f in ("Pss_Anon", "Pss_Shmem", "Pss_File", "Pss")]
    known = [sum(told[name]) / GIB for name in ("base", "predicted")]
    numbers = " | ".join(f"{n:.2f}" for n in [*known, *columns])
    print(f"| all, at one moment | {numbers} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--train", type=float, default=0.1, help="share of the nodes")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--method", default="fennel")
    parser.add_argument("--memory", type=float, default=4, help="GiB for partition_files")
    parser.add_argument("--folder", type=pathlib.Path, help="kept; by default a temporary one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", choices=("generate", "partition", "train"))
    options = parser.parse_args()
    if options.step:
        globals()[options.step](options, options.folder)
        return
    folder = options.folder or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    names = ("nodes", "edges", "features", "train", "parts", "method", "memory", "seed")
    own = [__file__, "--folder", str(folder)]
    own += [f"--{name}={getattr(options, name)}" for name in names]
    print(f"torch {torch.__version__}; {options.nodes:,} nodes, {options.edges:,} edges")
    try:
        step("generated", [sys.executable, *own, "--step=generate"])
        step(f"partitioned by {options.method}", [sys.executable, *own, "--step=partition"])
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        watch = Watch(folder, options.parts)
        try:
            ranks = f"--nproc-per-node={options.parts}"
            step("trained", [*torchrun, ranks, *own, "--step=train"])
        finally:
            watch.end()
        tell(json.loads((folder / "told.json").read_text()), watch)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
