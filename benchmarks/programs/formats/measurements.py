"""Measurements: traffic, brains, molecules, tables."""

from __future__ import annotations

import gzip
import json

import numpy as np

from formats import Places, data, lines
from formats.networks import pairs


@data("metr-la")
def metr_la(places: Places, rng: np.random.Generator) -> None:
    """Speeds at 12 sensors of Los Angeles, and how near these are."""
    import torch

    import smex.graph as sg

    sensors = 12
    folder = places.work / "data"
    folder.mkdir()
    edges = torch.from_numpy(pairs(rng, sensors, sensors, 40))
    graph = sg.graph(tuple(edges.T))
    graph.edata["weight"] = torch.rand(graph.num_edges(), dtype=torch.float64) + 0.1
    sg.save_graphs(str(folder / "graph_la.bin"), graph)
    for part, number in (("train", 24), ("valid", 8), ("test", 8)):
        values = rng.random((2, number, 12, sensors, 2)) * 60 + 1
        np.savez(folder / f"metr_la_{part}.npz", x=values[0], y=values[1])


@data("metr-la-h5")
def metr_la_h5(places: Places, rng: np.random.Generator) -> None:
    """The same, in the files of its authors."""
    import pandas

    sensors = [str(767541 + i) for i in range(12)]
    folder = places.work / "data" / "sensor_graph"
    lines(folder / "graph_sensor_ids.txt", [sensors], ",")
    rows = [(sensors[a], sensors[b], 100 * (1 + abs(a - b))) for a, b in pairs(rng, 12, 12, 60)]
    own = [(sensor, sensor, 0.0) for sensor in sensors]
    lines(folder / "distances_la_2012.csv", [("from", "to", "cost"), *rows, *own], ",")
    times = pandas.date_range("2012-03-01", periods=400, freq="5min")
    table = pandas.DataFrame(rng.random((400, 12)) * 60 + 1, times, sensors)
    table.to_hdf(places.work / "data" / "metr-la.h5", key="df")


@data("eeg")
def eeg(places: Places, rng: np.random.Generator) -> None:
    """Windows of electroencephalograms of EEG-GCNN."""
    import joblib

    windows = 120
    people = [("", "patient_ID"), *((i, f"p{i // 6}") for i in range(windows))]
    lines(places.work / "master_metadata_index.csv", people, ",")
    joblib.dump(rng.random((windows, 48)), places.work / "psd_features_data_X")
    labels = np.array(["diseased", "healthy"])[np.arange(windows) % 2]
    joblib.dump(labels, places.work / "labels_y")
    np.save(places.work / "spec_coh_values.npy", rng.random((windows, 64)))
    names = ("F5", "F6", "C5", "C6", "P5", "P6", "O1", "O2")
    spots = rng.normal(size=(len(names), 3))
    spots /= np.linalg.norm(spots, axis=1, keepdims=True)
    rows = [("label", "x", "y", "z"), *((n, *s.round(4)) for n, s in zip(names, spots))]
    lines(places.work / "standard_1010.tsv.txt", rows, "\t")


@data("bgnn")
def bgnn(places: Places, rng: np.random.Generator) -> None:
    """Avazu: a table with categories, values to predict, and a graph of its rows."""
    import torch

    import smex.graph as sg

    rows = 200
    folder = places.work / "datasets" / "avazu"
    numbers = rng.random((rows, 3)).round(4)
    table = [(*row, f"c{i % 5}", f"d{i % 3}") for i, row in enumerate(numbers)]
    lines(folder / "X.csv", [("a", "b", "c", "kind", "sort"), *table], ",")
    lines(folder / "y.csv", [("y",), *((value,) for value in rng.random(rows).round(4))], ",")
    lines(folder / "cat_features.txt", [("kind",), ("sort",)])
    ids = rng.permutation(rows).tolist()
    masks = {"0": {"train": ids[:120], "val": ids[120:160], "test": ids[160:]}}
    (folder / "masks.json").write_text(json.dumps(masks))
    edges = pairs(rng, rows, rows, 600)
    both = torch.from_numpy(np.r_[edges, edges[:, ::-1]])
    sg.save_graphs(str(folder / "graph.dgl"), sg.graph(tuple(both.T)))


@data("qm9-angles")
def qm9(places: Places, rng: np.random.Generator) -> None:
    """Places of atoms and energies: QM9 as SchNetPack gives it, and a small model."""
    import yaml

    molecules = 24
    sizes = rng.integers(4, 8, molecules)
    atoms = rng.choice([1, 6, 7, 8], sizes.sum())
    keys = ["mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv"]
    energies = {key: rng.normal(size=molecules) for key in keys}
    content = {"N": sizes, "R": rng.normal(size=(sizes.sum(), 3)) * 1.5, "Z": atoms}
    np.savez(places.downloads / "qm9_eV.npz", **content, **energies, id=np.arange(molecules))
    settings = {
        "name": "dimenet",
        "model": {
            "emb_size": 16,
            "num_blocks": 1,
            "num_bilinear": 4,
            "num_spherical": 3,
            "num_radial": 3,
            "envelope_exponent": 5,
            "cutoff": 5.0,
            "num_before_skip": 1,
            "num_after_skip": 1,
            "num_dense_output": 1,
            "targets": ["U0"],
        },
        "train": {
            "num_train": 16,
            "num_valid": 4,
            "data_seed": 42,
            "lr": 0.001,
            "weight_decay": 0.0001,
            "ema_decay": 0,
            "batch_size": 8,
            "epochs": 2,
            "early_stopping": 20,
            "num_workers": 0,
            "gpu": -1,
            "interval": 1,
            "step_size": 100,
            "gamma": 0.3,
        },
        "pretrain": {"flag": False, "path": ""},
    }
    (places.work / "small.yaml").write_text(yaml.safe_dump(settings))


SMILES = (
    "CCO", "CCN", "CC=O", "c1ccccc1C", "c1ccccc1O", "CCCO", "CCCN", "CC(=O)C", "c1ccccc1CC",
    "c1ccccc1CN", "OCC", "CCCC", "CCCCO", "NCCO", "c1ccccc1CO", "CC(C)C", "CC(C)O", "CCCl",
)  # fmt: skip


@data("jtnn")
def jtnn(places: Places, rng: np.random.Generator) -> None:
    """Molecules, and the rings and bonds that they are made of."""
    folder = places.downloads / "jtnn"
    lines(folder / "train.txt", [(smiles,) for smiles in SMILES])
    parts = ("C", "CC", "CO", "CN", "C=O", "CCl", "C1=CC=CC=C1", "N", "O")
    lines(folder / "vocab.txt", [(part,) for part in parts])
    places.archive(folder, "jtnn.zip")


@data("pcqm4m")
def pcqm4m(places: Places, rng: np.random.Generator) -> None:
    """Molecules with gaps of energy, in the files of OGB-LSC."""
    import torch

    folder = places.work / "dataset" / "pcqm4m_kddcup2021"
    (folder / "raw").mkdir(parents=True)
    (folder / "processed").mkdir()
    (folder / "RELEASE_v1.txt").write_text("")
    number = 3 * len(SMILES)
    parts = np.split(np.arange(number), (number // 2, number * 3 // 4))
    split = dict(zip(("train", "valid", "test"), parts))
    torch.save(split, folder / "split_dict.pt")
    rows = [("idx", "smiles", "homolumogap")]
    for i in range(number):
        gap = "" if i >= number * 3 // 4 else round(rng.random() * 9, 3)
        rows.append((i, SMILES[i % len(SMILES)], gap))
    with gzip.open(folder / "raw" / "data.csv.gz", "wt") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)
