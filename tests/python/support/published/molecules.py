"""QM7b and QM9 in files of MATLAB and NumPy."""

from __future__ import annotations

import numpy as np

from support.published.drawn import made

QM9_KEYS = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv")


def _atoms(rng, least, most):
    """Atomic numbers and places of a molecule whose atoms are in a chain."""
    number = int(rng.integers(least, most + 1))
    steps = rng.standard_normal((number, 3))
    steps *= 1.4 / np.linalg.norm(steps, axis=1, keepdims=True)
    return rng.choice([1, 6, 7, 8, 9], size=number, p=[0.5, 0.3, 0.09, 0.1, 0.01]), steps.cumsum(0)


def write_qm7b(folder, rng, num_graphs=100, most=23):
    """``qm7b.mat``: Coulomb matrices in single precision, padded with zeros, and 14 properties."""
    import scipy.io

    matrices = np.zeros((num_graphs, most, most), np.float32)
    for matrix in matrices:
        charge, place = _atoms(rng, 4, most)
        apart = np.linalg.norm(place[:, None] - place[None], axis=-1)
        np.fill_diagonal(apart, 1)
        values = charge[:, None] * charge / apart
        np.fill_diagonal(values, 0.5 * charge**2.4)
        matrix[: len(charge), : len(charge)] = values
    sums = matrices.reshape(num_graphs, -1).sum(1, keepdims=True) / 100
    labels = sums + 0.1 * rng.standard_normal((num_graphs, 14))
    where = made(folder)
    names = np.array([f"p{n}" for n in range(14)], dtype=object)
    scipy.io.savemat(
        where / "qm7b.mat", {"X": matrices, "T": labels.astype(np.float32), "names": names}
    )
    return where


def write_qm9(folder, rng, num_graphs=100, most=29):
    """``qm9_eV.npz``: atoms of all molecules one after another, and 12 properties."""
    molecules = [_atoms(rng, 3, most) for _ in range(num_graphs)]
    sizes = np.array([len(charge) for charge, _ in molecules])
    parts = {key: sizes * 0.1 + rng.standard_normal(num_graphs) for key in QM9_KEYS}
    where = made(folder)
    np.savez(
        where / "qm9_eV.npz",
        N=sizes,
        R=np.concatenate([place for _, place in molecules]).astype(np.float32),
        Z=np.concatenate([charge for charge, _ in molecules]).astype(np.int32),
        id=np.arange(num_graphs),
        **parts,
    )
    return where


def write_qm9_edge(folder, rng, num_graphs=100, most=29):
    """``qm9_edge.npz``: bonds in both directions, and 19 properties."""
    molecules = [_atoms(rng, 3, most) for _ in range(num_graphs)]
    sizes = np.array([len(charge) for charge, _ in molecules])
    bonds = [np.stack([np.arange(n - 1), np.arange(1, n)]) for n in sizes.tolist()]
    src, dst = np.concatenate([np.concatenate([b, b[::-1]], 1) for b in bonds], 1)
    charges = np.concatenate([charge for charge, _ in molecules])
    kinds = np.eye(5)[np.searchsorted([1, 6, 7, 8, 9], charges)]
    extra = rng.integers(0, 2, (len(charges), 6))
    where = made(folder)
    np.savez_compressed(
        where / "qm9_edge.npz",
        n_node=sizes,
        n_edge=2 * (sizes - 1),
        node_attr=np.concatenate([kinds, extra], 1).astype(np.float32),
        node_pos=np.concatenate([place for _, place in molecules]).astype(np.float32),
        edge_attr=np.eye(4, dtype=np.float32)[rng.integers(4, size=len(src))],
        src=src,
        dst=dst,
        targets=sizes[:, None] * 0.1 + rng.standard_normal((num_graphs, 19)),
    )
    return where
