"""QM7b and QM9 in files of MATLAB and NumPy, peptides in tables."""

from __future__ import annotations

import csv
import gzip
import pickle

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


def write_peptides(folder, rng, kind="func", num_graphs=20):
    """A table of chains of carbon as SMILES with labels, and the positions of each part."""
    names = ["peptide_id", "smiles", "labels"]
    table, split = "peptide_multi_class_dataset", "splits_random_stratified_peptide"
    if kind == "struc":
        axes = (f"{word}_{axis}" for word in ("Inertia_mass", "Inertia_valence") for axis in "abc")
        lengths = (f"length_{axis}" for axis in "abc")
        names = ["peptide_id", "smiles", *axes, *lengths, "Spherocity", "Plane_best_fit"]
        table, split = "peptide_structure_dataset", "splits_random_stratified_peptide_structure"
    rows = []
    for number in range(num_graphs):
        labels = [str(rng.integers(2, size=10).tolist())]
        if kind == "struc":
            labels = rng.random(11).round(6).tolist()
        rows.append([f"p{number}", "C" * int(rng.integers(1, 9)), *labels])
    where = made(folder, f"Peptides-{kind}")
    with gzip.open(where / f"{table}.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    parts = np.split(rng.permutation(num_graphs), [num_graphs // 2, 3 * num_graphs // 4])
    found = dict(zip(("train", "val", "test"), parts, strict=True))
    (where / f"{split}.pickle").write_bytes(pickle.dumps(found))
    return where


def chain_of_smiles(smiles):
    """In place of `ogb.utils.smiles2graph`: a chain of as many atoms as letters."""
    number = len(smiles)
    ends = np.stack([np.arange(number - 1), np.arange(1, number)])
    edges = np.concatenate([ends, ends[::-1]], 1)
    feat = np.arange(number)[:, None] * np.arange(1, 10)
    return {
        "edge_index": edges,
        "edge_feat": edges.sum(0)[:, None] * np.arange(1, 4),
        "node_feat": feat,
        "num_nodes": number,
    }
