"""The Stanford Sentiment Treebank (Socher et al., EMNLP'13): sentences as trees of phrases.

A line of a file is a tree in brackets, ``(3 (2 It) (4 (2 works) (2 .)))``: the label of a phrase,
and its word or its parts.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, Transform, check_index
from smex.graph.graph import Graph

__all__ = ["SST", "SSTDataset"]

_MODES = ("train", "dev", "test")
_TINY = 5  # trees of the mode "tiny"
_TOKEN = re.compile(r"[()]|[^ \t()]+")  # words may have a no-break space
_EMBEDDING_RANGE = 0.05  # of words that the embeddings lack


class SSTDataset(DGLBuiltinDataset):
    """Trees whose edges lead from the parts to the phrase that they form; node 0 is the sentence.

    Node features, int64 ``[num_nodes]``: ``x``, the word's id, -1 for words that are not in the
    vocabulary and for phrases; ``y``, the sentiment from 0 to 4; ``mask``, 1 for words.

    Args:
        mode: ``"train"`` (8,544 trees), ``"dev"`` (1,101), ``"test"`` (2,210), or ``"tiny"``: the
            five trees of ``tiny.txt``, where it is there, and otherwise the first five to train.
        glove_embed_file: a text file of embeddings, a word and its numbers a line, for
            :attr:`pretrained_emb`.
        vocab_file: a text file with a word a line; by default ``vocab.txt`` beside the trees, and
            where that is not there the words of all trees in the order of appearance, those of
            training first. Words are compared in lower case.
        raw_dir: see :class:`DGLBuiltinDataset`; the files ``train.txt``, ``dev.txt`` and
            ``test.txt`` are in the folder ``sst``. Trees of ``dev.txt`` that stand again at the end
            of ``train.txt`` are left out there.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another mode, or a line that is no tree.
    """

    PAD_WORD = UNK_WORD = -1

    def __init__(
        self,
        mode: str = "train",
        glove_embed_file: Folder = None,
        vocab_file: Folder = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        if mode not in (*_MODES, "tiny"):
            raise SmexValueError(
                f"SSTDataset: expected mode 'train', 'dev', 'test' or 'tiny', found {mode!r}"
            )
        self.mode, self._glove_file, self._vocab_file = mode, glove_embed_file, vocab_file
        super().__init__(
            "sst",
            "https://data.dgl.ai/dataset/sst.zip",
            raw_dir=raw_dir,
            hash_key=(mode, str(vocab_file), str(glove_embed_file)),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> list[str]:
        return [f"{mode}.txt" for mode in _MODES]

    def process(self) -> None:
        """Reads the files."""
        train = self._lines("train")
        dev = self._lines("dev")
        if dev and train[-len(dev) :] == dev:
            train = train[: -len(dev)]
        self._vocab = self._read_vocab()
        lines = {"train": train, "dev": dev}.get(self.mode) or self._other_lines(train)
        self._trees = [self._tree(number, line) for number, line in enumerate(lines, 1)]
        self._embeddings = None if self._glove_file is None else self._read_embeddings()

    def _other_lines(self, train: list[str]) -> list[str]:
        if self.mode == "tiny" and not (Path(self.raw_path) / "tiny.txt").exists():
            return train[:_TINY]
        return self._lines(self.mode)

    def _lines(self, mode: str) -> list[str]:
        path = Path(self.raw_path) / f"{mode}.txt"
        lines = path.read_text(encoding="utf-8").split("\n")
        return [line.strip() for line in lines if line.strip()]

    def _read_vocab(self) -> dict[str, int]:
        path = Path(self._vocab_file or Path(self.raw_path) / "vocab.txt")
        if self._vocab_file is not None or path.exists():
            words = path.read_text(encoding="utf-8").splitlines()
        else:
            lines = [line for mode in _MODES for line in self._lines(mode)]
            words = re.findall(r"([^ \t()]+)\)", " ".join(lines))
        return {word: n for n, word in enumerate(dict.fromkeys(w.strip().lower() for w in words))}

    def _tree(self, number: int, line: str) -> Graph:
        parents, labels, words = parse_tree(f"SSTDataset: {self.mode}.txt, tree {number}", line)
        children = torch.arange(1, len(parents))
        tree = graph(
            (children, torch.tensor(parents[1:], dtype=torch.int64)), num_nodes=len(parents)
        )
        ids = [-1 if w is None else self._vocab.get(w.lower(), self.UNK_WORD) for w in words]
        tree.ndata["x"], tree.ndata["y"] = torch.tensor(ids), torch.tensor(labels)
        tree.ndata["mask"] = torch.tensor([int(word is not None) for word in words])
        return tree

    def _read_embeddings(self) -> Tensor:
        rows = {}
        with open(str(self._glove_file), encoding="utf-8") as file:
            for line in file:
                word, *numbers = line.rstrip().split(" ")
                if word.lower() in self._vocab and word.lower() not in rows:
                    rows[word.lower()] = np.array(numbers, dtype=np.float32)
        if not rows:
            raise SmexValueError(
                f"SSTDataset: {self._glove_file} has none of the vocabulary's words; expected "
                "lines of a word and its numbers"
            )
        width = len(next(iter(rows.values())))
        table = torch.empty(len(self._vocab), width).uniform_(-_EMBEDDING_RANGE, _EMBEDDING_RANGE)
        for word, row in rows.items():
            table[self._vocab[word]] = torch.from_numpy(row)
        return table

    @property
    def vocab(self) -> dict[str, int]:
        """The id of each word."""
        return self._vocab

    @property
    def vocab_size(self) -> int:
        """Number of words."""
        return len(self._vocab)

    @property
    def num_vocabs(self) -> int:
        """Former name of :attr:`vocab_size`."""
        return len(self._vocab)

    @property
    def pretrained_emb(self) -> Tensor | None:
        """Embeddings ``[vocab_size, width]`` if there is a file; drawn where it lacks a word."""
        return self._embeddings

    @property
    def num_classes(self) -> int:
        """5."""
        return 5

    def __getitem__(self, idx: int) -> Graph:
        """Returns the tree at a position.

        Raises:
            GraphIndexError: there is none.
        """
        check_index("SSTDataset", idx, len(self))
        return self._transformed(self._trees[idx])

    def __len__(self) -> int:
        """Number of trees."""
        return len(self._trees)


def parse_tree(where: str, text: str) -> tuple[list[int], list[int], list[str | None]]:
    """Returns the parent, label and word of each node, in preorder.

    -1 and None where there is none.

    Raises:
        SmexValueError: it is no tree in brackets.
    """
    parents: list[int] = []
    labels: list[int] = []
    words: list[str | None] = []
    path: list[int] = []
    tokens = _TOKEN.findall(text)
    for position, token in enumerate(tokens):
        before = tokens[position - 1] if position else ")"
        if token == "(" and (path or not parents):
            path.append(len(parents))
            parents.append(path[-2] if len(path) > 1 else -1)
            words.append(None)
        elif token == ")" and path and before != "(":
            path.pop()
        elif before == "(" and token.isdecimal():
            labels.append(int(token))
        elif path and len(labels) == len(parents) and words[path[-1]] is None:
            words[path[-1]] = token
        else:
            break
    else:
        if parents and not path and len(labels) == len(parents):
            return parents, labels, words
    raise SmexValueError(
        f"{where}: expected a tree such as (3 (2 It) (4 works)), found {text[:60]!r}"
    )


SST = SSTDataset
