"""Data sets by the name that a program is given on its command line."""

from __future__ import annotations

import argparse
from typing import Any

from smex.errors import SmexValueError
from smex.graph.data.planetoid import load_citeseer, load_cora, load_pubmed
from smex.graph.data.reddit import RedditDataset

__all__ = ["load_data", "register_data_args"]

_LOADERS = {"cora": load_cora, "citeseer": load_citeseer, "pubmed": load_pubmed}


def register_data_args(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the option ``--dataset``, a name that :func:`load_data` takes.

    Example:
        >>> import argparse
        >>> parser = argparse.ArgumentParser()
        >>> sg.data.register_data_args(parser)
        >>> parser.parse_args(["--dataset", "cora"]).dataset
        'cora'
    """
    parser.add_argument(
        "--dataset", type=str, help="cora, citeseer, pubmed, reddit or reddit-self-loop"
    )


def load_data(args: Any) -> Any:
    """Returns the data set that arguments name.

    Args:
        args: its attribute ``dataset`` is ``"cora"``, ``"citeseer"``, ``"pubmed"`` or begins with
            ``"reddit"``, with self loops where ``"self-loop"`` is in it.

    Raises:
        SmexValueError: another name.
        SmexRuntimeError: the files are nowhere and cannot be downloaded.

    Example:
        >>> import argparse
        >>> data = sg.data.load_data(argparse.Namespace(dataset="cora"))  # doctest: +SKIP
    """
    name = args.dataset
    if name in _LOADERS:
        return _LOADERS[name]()
    if isinstance(name, str) and name.startswith("reddit"):
        return RedditDataset(self_loop="self-loop" in name)
    raise SmexValueError(
        f'load_data: expected "cora", "citeseer", "pubmed", "reddit" or "reddit-self-loop" as '
        f"dataset, found {name!r}"
    )
