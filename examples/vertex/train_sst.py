"""Sentiment of phrases by a Tree-LSTM on the Stanford Sentiment Treebank (Tai et al. 2015).

    python examples/vertex/train_sst.py --data DATA [--model nary] [--epochs 8]

DATA holds ``sst/train.txt``, ``dev.txt`` and ``test.txt``, one bracketed tree a line. Words start
from random vectors. Every phrase of the training set is a sample of its label; what is told is the
share of sentences, the roots, that are labelled right in five classes.
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import smex.vertex as sv

UNKNOWN = 0  # the word that stands for all that the training set does not have
TRAIN_TREES = 8544  # what follows them in train.txt are the trees of dev.txt


class Word(sv.VertexFunction):
    """A leaf of the N-ary Tree-LSTM."""

    arity = (0, 0)

    def __init__(self, inputs: int, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.gates = nn.Linear(inputs, 3 * hidden)

    def forward(self):
        h, c = sv.tree_lstm(self.gates(self.pull()))
        self.scatter(h, c)
        self.push(h)


class Phrase(sv.VertexFunction):
    """Two phrases put together."""

    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.gates = nn.Linear(2 * hidden, 5 * hidden)

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        h, c = sv.tree_lstm(self.gates(torch.cat([left.h, right.h], 1)), [left.c, right.c])
        self.scatter(h, c)
        self.push(h)


class ChildSum(sv.VertexFunction):
    """The child-sum Tree-LSTM, for words and phrases alike; phrases have no word of their own."""

    def __init__(self, inputs: int, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.word = nn.Linear(inputs, 4 * hidden)
        self.gates = nn.Linear(hidden, 3 * hidden, bias=False)
        self.forget = nn.Linear(hidden, hidden, bias=False)
        self.hidden = hidden

    def forward(self):
        word = self.word(self.pull())
        children = self.gather_each()
        forget = torch.sigmoid(self.spread(word[:, : self.hidden]) + self.forget(children.h))
        gates = word[:, self.hidden :] + self.gates(self.sum_children(children.h))
        i, o, u = gates.chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + self.sum_children(forget * children.c)
        h = torch.sigmoid(o) * torch.tanh(c)
        self.scatter(h, c)
        self.push(h)


class Classifier(nn.Module):
    """Scores of five classes for each vertex of each tree."""

    def __init__(
        self, model: str, words: int, inputs: int, hidden: int, dropout: float, unknown: float
    ):
        super().__init__()
        self.words = nn.Embedding(words + 1, inputs, padding_idx=words)
        nn.init.normal_(self.words.weight, std=0.1)
        self.dropout = nn.Dropout(dropout)
        self.unknown = unknown
        self.padding = words
        self.by_type = model == "nary"
        if self.by_type:
            self.tree = nn.ModuleDict({"word": Word(inputs, hidden), "phrase": Phrase(hidden)})
        else:
            self.tree = ChildSum(inputs, hidden)
        self.classify = nn.Linear(hidden, 5)

    def forward(self, batch: Samples) -> tuple[Tensor, Tensor]:
        ids = batch.words if self.by_type else batch.all_words
        if self.training:  # the vector of words that are not in the vocabulary learns from some
            hidden = (torch.rand(ids.shape) < self.unknown) & (ids != self.padding)
            ids = ids.masked_fill(hidden, UNKNOWN)
        words = self.dropout(self.words(ids))
        result = sv.run(self.tree, batch.graphs, {"word": words} if self.by_type else words)
        return self.classify(self.dropout(result.outputs["out"])), result.root_vertices


class Samples:
    """Trees put together: their graphs, words and labels."""

    def __init__(self, trees: list[tuple], padding: int):
        self.graphs = sv.batch([graph for graph, _, _ in trees])
        self.all_words = torch.tensor([w for _, words, _ in trees for w in words])
        self.words = self.all_words[self.all_words != padding]
        self.labels = torch.tensor([y for _, _, labels in trees for y in labels])


def parsed(line: str, vocabulary: dict[str, int], grows: bool, typed: bool) -> tuple:
    """The graph, words (None at phrases) and labels of a bracketed tree, leaves first."""
    tokens = line.replace("(", " ( ").replace(")", " ) ").split()
    children: list[list[int]] = []
    words: list[int | None] = []
    labels: list[int] = []
    stack: list[tuple[int, list[int], list[str]]] = []
    for before, token in zip(["", *tokens], tokens):
        if token == "(":
            stack.append((0, [], []))
        elif token == ")":
            label, own, word = stack.pop()
            children.append(own)
            labels.append(label)
            text = word[0].lower() if word else None
            if grows and text is not None:
                vocabulary.setdefault(text, len(vocabulary))
            words.append(None if text is None else vocabulary.get(text, UNKNOWN))
            if stack:
                stack[-1][1].append(len(children) - 1)
        elif before == "(":
            stack[-1] = (int(token), *stack[-1][1:])
        else:
            stack[-1][2].append(token)
    types = ["phrase" if own else "word" for own in children] if typed else None
    return sv.from_children(children, types), words, labels


def read(folder: pathlib.Path, typed: bool, limit: int | None) -> tuple[dict[str, list], int]:
    """The trees of each part, with numbers for words, and how many words there are."""
    vocabulary = {"<unknown>": UNKNOWN}
    parts = {}
    for part in ("train", "dev", "test"):
        lines = (folder / "sst" / f"{part}.txt").read_text().splitlines()
        lines = lines[: TRAIN_TREES if part == "train" else None][:limit]
        parts[part] = [parsed(line, vocabulary, part == "train", typed) for line in lines]
    size = len(vocabulary)
    for part, trees in parts.items():
        parts[part] = [(g, [size if w is None else w for w in ws], ys) for g, ws, ys in trees]
    return parts, size


@torch.no_grad()
def accuracy(model: Classifier, batches: list[Samples]) -> float:
    """The share of roots that are labelled right, in percent."""
    model.eval()
    right = total = 0
    for batch in batches:
        scores, roots = model(batch)
        right += int((scores[roots].argmax(1) == batch.labels[roots]).sum())
        total += len(roots)
    return 100 * right / total


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--model", choices=["nary", "childsum"], default="nary")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=150)
    parser.add_argument("--words", type=int, default=200, help="size of the words' vectors")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--unknown", type=float, default=0.05, help="share of words hidden")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=3e-5)
    parser.add_argument("--limit", type=int, help="trees of each part")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(chosen.seed)
    parts, size = read(chosen.data, chosen.model == "nary", chosen.limit)
    sizes = (size, chosen.words, chosen.hidden)
    model = Classifier(chosen.model, *sizes, chosen.dropout, chosen.unknown)
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate, weight_decay=chosen.decay)
    held = {
        part: [Samples(parts[part][i : i + 256], size) for i in range(0, len(parts[part]), 256)]
        for part in ("dev", "test")
    }
    best, kept = -1.0, None
    for epoch in range(chosen.epochs):
        start = time.perf_counter()
        model.train()
        order = torch.randperm(len(parts["train"])).tolist()
        for i in range(0, len(order), chosen.batch):
            batch = Samples([parts["train"][j] for j in order[i : i + chosen.batch]], size)
            optimizer.zero_grad()
            scores, roots = model(batch)
            weights = torch.ones(len(batch.labels))
            weights[roots] = 4.0  # what is measured
            losses = F.cross_entropy(scores, batch.labels, reduction="none")
            (losses * weights).sum().div(len(roots)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
        seconds = time.perf_counter() - start
        dev = accuracy(model, held["dev"])
        if dev > best:
            best, kept = dev, copy.deepcopy(model.state_dict())
        print(f"epoch {epoch}: {seconds:.1f} s, {dev:.1f} % of dev's roots", flush=True)
    model.load_state_dict(kept)
    test = accuracy(model, held["test"])
    print(f"{chosen.model}: {test:.1f} % of test's roots at the best epoch for dev")
    return test


if __name__ == "__main__":
    main()
