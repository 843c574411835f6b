"""Input graphs to measure with, as plain lists that any system can read."""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

DATA = pathlib.Path(
    os.environ.get("SMEX_DATA") or pathlib.Path(__file__).parents[3] / "shared" / "data"
)

Tree = dict[str, Any]  # children: lists by vertex, leaves first; words, labels: one per vertex


def sst(split: str, limit: int | None = None) -> list[Tree]:
    """Trees of the Stanford Sentiment Treebank; words are numbers, -1 at inner vertices."""
    path = DATA / "sst" / f"{split}.txt"
    if not path.exists():
        raise SystemExit(f"there is no {path}: set SMEX_DATA to the folder that has sst/")
    words: dict[str, int] = {}
    lines = path.read_text().splitlines()
    return [_parsed(line, words) for line in lines[:limit]]


def _parsed(line: str, words: dict[str, int]) -> Tree:
    tokens = line.replace("(", " ( ").replace(")", " ) ").split()
    tree: Tree = {"children": [], "words": [], "labels": []}
    stack: list[list[Any]] = []
    for i, token in enumerate(tokens):
        if token == "(":
            stack.append([int(tokens[i + 1]), [], -1])
        elif token == ")":
            label, children, word = stack.pop()
            tree["children"].append(children)
            tree["labels"].append(label)
            tree["words"].append(word)
            if stack:
                stack[-1][1].append(len(tree["labels"]) - 1)
        elif tokens[i - 1] != "(":
            stack[-1][2] = words.setdefault(token, len(words))
    return tree


def complete(leaves: int, seed: int = 0) -> Tree:
    """The complete binary tree of Tree-FC."""
    children: list[list[int]] = [[] for _ in range(leaves)]
    level = list(range(leaves))
    while len(level) > 1:
        upper = []
        for left, right in zip(level[::2], level[1::2]):
            upper.append(len(children))
            children.append([left, right])
        level = upper
    return _labelled(children, seed)


def sentence(length: int, seed: int = 0) -> Tree:
    """A chain."""
    return _labelled([[v - 1] if v else [] for v in range(length)], seed)


def sentences(count: int, seed: int = 0) -> list[Tree]:
    """Chains as long as the sentences of SST's training set, or of 2 to 50 words without it."""
    generator = random.Random(seed)
    if (DATA / "sst" / "train.txt").exists():
        lengths = [sum(w >= 0 for w in t["words"]) for t in sst("train", 2000)]
    else:
        lengths = [generator.randint(2, 50) for _ in range(2000)]
    return [sentence(generator.choice(lengths), seed + i) for i in range(count)]


def _labelled(children: list[list[int]], seed: int) -> Tree:
    """Words are drawn: systems that share equal subtrees shall find none."""
    generator = random.Random(seed)
    words = [generator.randrange(5000) for _ in children]
    return {"children": children, "words": words, "labels": [0] * len(children)}
