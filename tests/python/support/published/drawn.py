"""Labels, edges and features that tell of each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def made(*parts) -> Path:
    """The folder of these parts, which is made."""
    folder = Path(*map(str, parts))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def drawn_labels(rng, number, num_classes):
    """Labels int64 ``[number]``, in a drawn order; each class has about as many, and at least one."""
    return rng.permutation(np.arange(number) % num_classes).astype(np.int64)


def drawn_edges(rng, labels, number, alike=0.8):
    """Distinct pairs int64 ``[about number, 2]``, ascending ends, of which a share has one label."""
    if len(labels) < 2:
        return np.zeros((0, 2), np.int64)
    by_label = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    starts = np.cumsum(counts) - counts
    first = rng.integers(len(labels), size=number)
    within = starts[labels[first]] + rng.integers(counts[labels[first]])
    second = np.where(
        rng.random(number) < alike, by_label[within], rng.integers(len(labels), size=number)
    )
    pairs = np.stack([first, second], 1)
    pairs = np.sort(pairs[first != second], axis=1)
    return np.unique(pairs, axis=0) if len(pairs) else np.array([[0, 1]])


def both_ways(pairs):
    """Each pair in both directions, ordered by source."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return both[np.lexsort((both[:, 1], both[:, 0]))]


def drawn_features(rng, labels, width, noise=1.0):
    """Float32 ``[number, width]``: a row of the label, and noise."""
    centres = rng.standard_normal((int(labels.max()) + 1, width), dtype=np.float32)
    return centres[labels] + noise * rng.standard_normal((len(labels), width), dtype=np.float32)


def drawn_words(rng, labels, width, per_node=18):
    """Zeros and ones, float32 ``[number, width]``: half of the words are those of the label."""
    number, num_classes = len(labels), int(labels.max()) + 1
    own = max(width // num_classes, 1)
    columns = rng.integers(width, size=(number, per_node))
    half = per_node // 2
    columns[:, :half] = (labels[:, None] * own + rng.integers(own, size=(number, half))) % width
    words = np.zeros((number, width), np.float32)
    words[np.arange(number)[:, None], columns] = 1
    return words


def drawn_parts(rng, number, shares=(0.6, 0.2, 0.2)):
    """Ids of training, validation and test, in a drawn order."""
    ends = (np.cumsum(shares)[:-1] * number).astype(int)
    return np.split(rng.permutation(number), ends)


def masks_of(parts, number, dtype=bool):
    """A mask for each part."""
    masks = [np.zeros(number, dtype) for _ in parts]
    for mask, ids in zip(masks, parts):
        mask[ids] = True
    return masks
