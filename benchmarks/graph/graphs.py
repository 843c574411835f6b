"""The graphs that every system is measured on: edges in random order, as NumPy arrays.

    python benchmarks/graph/graphs.py

prints their sizes and largest in-degrees. Cora and the SuiteSparse matrices are read from
../shared/data or $SMEX_DATA.
"""

from __future__ import annotations

import os
import pathlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
NUM_NODES, NUM_EDGES = 100_000, 2_000_000
TOP_SHARE = 0.01  # of the edges, into the first node of the power law: 2 * 10^4
HUB_SHARE = 0.125  # of the edges, into the hub: 2.5 * 10^5
SYNTHETIC = ("uniform", "power-law", "hub")
POWER_LAWS = {"power-law-1e6": (100_000, 1_000_000), "power-law-1e7": (1_000_000, 10_000_000)}
QUICK = 50


@dataclass(frozen=True)
class EdgeList:
    name: str
    src: np.ndarray
    dst: np.ndarray
    num_nodes: int

    @property
    def num_edges(self) -> int:
        return len(self.src)


def data_folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data")


def uniform(generator: np.random.Generator, nodes: int, edges: int) -> tuple:
    return generator.integers(nodes, size=edges), generator.integers(nodes, size=edges)


def power_law(generator: np.random.Generator, nodes: int, edges: int) -> tuple:
    """Both ends follow `rank ** -exponent`, the exponent chosen for the largest in-degree."""
    ranks = np.arange(1, nodes + 1, dtype=np.float64)
    low, high = 0.0, 2.0
    for _ in range(60):
        exponent = (low + high) / 2
        weights = ranks**-exponent
        low, high = (exponent, high) if weights[0] < TOP_SHARE * weights.sum() else (low, exponent)
    cumulative = np.cumsum(weights / weights.sum())
    node_of_rank = generator.permutation(nodes)
    ends = np.searchsorted(cumulative, generator.random((2, edges)), side="right")
    return tuple(node_of_rank[np.minimum(ends, nodes - 1)])


def hub(generator: np.random.Generator, nodes: int, edges: int) -> tuple:
    src, dst = uniform(generator, nodes, edges)
    dst[generator.permutation(edges)[: int(HUB_SHARE * edges)]] = nodes // 2
    return src, dst


def cora(name: str = "cora") -> tuple[np.ndarray, np.ndarray, int]:
    """Undirected without self loops and duplicates, both directions: 10,556 edges."""
    path = data_folder() / "planetoid" / f"ind.{name}.graph"
    neighbours = pickle.loads(path.read_bytes(), encoding="latin1")
    pairs = {(u, v) for u, found in neighbours.items() for v in found if u != v}
    pairs |= {(v, u) for u, v in pairs}
    src, dst = np.array(sorted(pairs), dtype=np.int64).T
    return src, dst, len(neighbours)


def matrix_market(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray, int]:
    import scipy.io

    matrix = scipy.io.mmread(path).tocoo()
    return matrix.col.astype(np.int64), matrix.row.astype(np.int64), max(matrix.shape)


def ten_nodes() -> tuple[np.ndarray, np.ndarray, int]:
    ends = np.arange(10)
    return np.repeat(ends, 2), (np.repeat(ends, 2) + np.tile([1, 3], 10)) % 10, 10


def names() -> list[str]:
    """All graphs; those from files only where the files are."""
    found = [*SYNTHETIC, *POWER_LAWS]
    if (data_folder() / "planetoid" / "ind.cora.graph").exists():
        found.append("cora")
    return found + sorted(path.stem for path in (data_folder() / "mtx").glob("*.mtx"))


def load(name: str, *, quick: bool = False, seed: int = 0) -> EdgeList:
    """A graph by name; `quick` makes the synthetic ones QUICK times smaller.

    Raises:
        FileNotFoundError: the file of a graph that is read is not in the data folder.
    """
    generator = np.random.default_rng(seed)
    synthetic: dict[str, Callable] = {"uniform": uniform, "power-law": power_law, "hub": hub}
    if name in synthetic or name in POWER_LAWS:
        sizes = POWER_LAWS.get(name, (NUM_NODES, NUM_EDGES))
        num_nodes, num_edges = (size // (QUICK if quick else 1) for size in sizes)
        src, dst = synthetic.get(name, power_law)(generator, num_nodes, num_edges)
        return EdgeList(name, src, dst, num_nodes)
    if name == "ten":
        return EdgeList(name, *ten_nodes())
    if name == "cora":
        src, dst, num_nodes = cora()
    else:
        src, dst, num_nodes = matrix_market(data_folder() / "mtx" / f"{name}.mtx")
    order = generator.permutation(len(src))
    return EdgeList(name, src[order], dst[order], num_nodes)


if __name__ == "__main__":
    for name in names():
        edges = load(name)
        largest = np.bincount(edges.dst).max()
        print(
            f"{name}: {edges.num_nodes} nodes, {edges.num_edges} edges, in-degree up to {largest}"
        )
