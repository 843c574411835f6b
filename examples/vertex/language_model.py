"""Predicts the next word of sentences by an LSTM, of any length (Var-LSTM) or of one (Fixed-LSTM).

    python examples/vertex/language_model.py [--data DATA] [--steps 200] [--length 0]

Each sentence is a chain; a batch of them takes as many tasks as its longest has words, and no
padding. Sentences are those of the Stanford Sentiment Treebank in DATA/sst, or drawn from a small
grammar without it. With ``--length n`` all are cut or repeated to n words.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import random

import torch
import torch.nn.functional as F
from torch import nn

import smex.vertex as sv


class LSTM(sv.VertexFunction):
    """A layer of ``torch.nn.LSTM`` over a chain."""

    arity = 1

    def __init__(self, inputs: int, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 4 * hidden)
        self.u = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self):
        before = self.gather(0)
        h, c = sv.lstm(self.w(self.pull()) + self.u(before.h), before.c)
        self.scatter(h, c)
        self.push(h)


def treebank(folder: pathlib.Path) -> list[list[str]]:
    """The sentences of the treebank's training set."""
    lines = (folder / "sst" / "train.txt").read_text().lower().splitlines()
    return [[w.rstrip(")") for w in line.split() if not w.startswith("(")] for line in lines]


def grammar(count: int) -> list[list[str]]:
    """Sentences of a small grammar."""
    generator = random.Random(0)
    sentences = []
    for _ in range(count):
        words = []
        for _ in range(generator.randint(1, 6)):
            words += ["the", generator.choice(["cat", "dog"]), generator.choice(["saw", "met"])]
            words += ["the", generator.choice(["bird", "mouse"]), "and"]
        sentences.append([*words[:-1], "."])
    return sentences


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--length", type=int, default=0, help="words of each sentence; 0: its own")
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    sentences = treebank(chosen.data) if chosen.data else grammar(2000)
    if chosen.length:
        repeated = [s * math.ceil((chosen.length + 1) / len(s)) for s in sentences]
        sentences = [s[: chosen.length + 1] for s in repeated]
    vocabulary = {w: i for i, w in enumerate(sorted({w for s in sentences for w in s}))}
    numbered = [torch.tensor([vocabulary[w] for w in s]) for s in sentences if len(s) > 1]
    words = nn.Embedding(len(vocabulary), chosen.hidden)
    lstm, predict = LSTM(chosen.hidden, chosen.hidden), nn.Linear(chosen.hidden, len(vocabulary))
    model = nn.ModuleList([words, lstm, predict])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator, perplexity = random.Random(1), math.inf
    for step in range(chosen.steps):
        batch = generator.sample(numbered, chosen.batch)
        graphs = [sv.chain(len(s) - 1) for s in batch]
        result = sv.run(lstm, graphs, words(torch.cat([s[:-1] for s in batch])))
        loss = F.cross_entropy(predict(result.outputs["out"]), torch.cat([s[1:] for s in batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        perplexity = math.exp(float(loss.detach()))
        if step % 20 == 0 or step == chosen.steps - 1:
            print(f"step {step}: perplexity {perplexity:.1f} in {result.num_tasks} tasks")
    return perplexity


if __name__ == "__main__":
    main()
