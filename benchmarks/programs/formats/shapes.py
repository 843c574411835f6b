"""Pictures and clouds of points."""

from __future__ import annotations

import json
import pickle
import struct

import numpy as np

from formats import Places, data, lines


@data("mnist")
def mnist(places: Places, rng: np.random.Generator) -> None:
    """Handwritten digits, in the folders of two programs."""
    for folder in (places.beside / "data", places.work):
        raw = folder / "MNIST" / "raw"
        raw.mkdir(parents=True)
        for part, number in (("train", 48), ("t10k", 16)):
            images = rng.integers(256, size=(number, 28, 28), dtype=np.uint8)
            labels = (np.arange(number) % 10).astype(np.uint8)
            header = struct.pack(">IIII", 2051, number, 28, 28)
            (raw / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
            header = struct.pack(">II", 2049, number)
            (raw / f"{part}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())


@data("faces")
def faces(places: Places, rng: np.random.Generator) -> None:
    """Features of faces and whose they are, pickled."""
    folder = places.work / "data"
    folder.mkdir()
    for part in ("train", "test"):
        labels = np.arange(120) // 6
        centres = rng.normal(size=(20, 16))
        features = abs(centres[labels] + 0.1 * rng.normal(size=(120, 16)))  # no wide angles
        content = (features.astype(np.float32), labels)
        (folder / f"{part}.pkl").write_bytes(pickle.dumps(content))


@data("modelnet-h5")
def modelnet_h5(places: Places, rng: np.random.Generator) -> None:
    """Clouds of ModelNet40 in one file."""
    import h5py

    with h5py.File(places.cache / "modelnet40-sampled-2048.h5", "w") as file:
        for part, number in (("train", 20), ("test", 4)):
            points = rng.normal(size=(number, 2048, 3)).astype(np.float32)
            file[f"{part}/data"] = points
            file[f"{part}/label"] = rng.integers(40, size=(number, 1), dtype=np.uint8)


@data("modelnet")
def modelnet(places: Places, rng: np.random.Generator) -> None:
    """Clouds of ModelNet40 with normals, a shape in a file."""
    folder = places.cache / "modelnet40_normal_resampled"
    names = [f"shape{i}" for i in range(40)]
    lines(folder / "modelnet40_shape_names.txt", [(name,) for name in names])
    for part, ids in (("train", range(1, 9)), ("test", range(9, 13))):
        shapes = [f"{names[i % 3]}_{i:04}" for i in ids]
        lines(folder / f"modelnet40_{part}.txt", [(shape,) for shape in shapes])
        for shape in shapes:
            points = rng.normal(size=(1100, 6)).round(4)
            lines(folder / shape.rpartition("_")[0] / f"{shape}.txt", points, ",")


@data("shapenet")
def shapenet(places: Places, rng: np.random.Generator) -> None:
    """Clouds of ShapeNet with normals and the part that each point is of."""
    folder = places.cache / "shapenetcore_partanno_segmentation_benchmark_v0_normal"
    kinds = {"Airplane": ("02691156", 0, 4), "Mug": ("03797390", 36, 2)}
    rows = [(name, kind[0]) for name, kind in kinds.items()]
    lines(folder / "synsetoffset2category.txt", rows, "\t")
    shape = 0
    for part, number in (("train", 4), ("val", 2), ("test", 2)):
        files = []
        for i in range(number):
            synset, first, parts = list(kinds.values())[i % 2]
            shape += 1
            points = rng.normal(size=(2100, 6)).round(4)
            labels = first + np.arange(len(points)) % parts
            cloud = [(*point, float(label)) for point, label in zip(points, labels)]
            lines(folder / synset / f"s{shape}.txt", cloud)
            files.append(f"shape_data/{synset}/s{shape}")
        path = folder / "train_test_split" / f"shuffled_{part}_file_list.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(files))
