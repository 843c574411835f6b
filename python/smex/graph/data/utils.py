"""Helpers of data sets: splits, subsets, masks, files."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.files import load_graphs, load_labels, save_graphs
from smex.graph.data.files import check_sha1, download, extract_archive, get_download_dir
from smex.graph.data.property_split import add_node_property_split, mask_nodes_by_property
from smex.graph.data.unpickle import load_pickle

__all__ = [
    "Subset",
    "add_node_property_split",
    "add_nodepred_split",
    "check_sha1",
    "download",
    "extract_archive",
    "generate_mask_tensor",
    "get_download_dir",
    "idx2mask",
    "load_graphs",
    "load_info",
    "load_labels",
    "load_tensors",
    "loadtxt",
    "makedirs",
    "mask_nodes_by_property",
    "save_graphs",
    "save_info",
    "save_tensors",
    "split_dataset",
]

_TOLERANCE = 1e-6
_FILES = "https://data.dgl.ai/"


def _get_dgl_url(file_url: str) -> str:
    """Returns the address of a file of DGL's, below ``$DGL_REPO`` where that is set."""
    return f"{os.environ.get('DGL_REPO', _FILES).rstrip('/')}/{file_url}"


def loadtxt(path: str | os.PathLike[str], delimiter: str, dtype: Any = None) -> np.ndarray:
    r"""Returns the numbers of a file of text, one row of the array for each line.

    Args:
        path: the file.
        delimiter: what stands between the numbers of a line.
        dtype: of the array; by default int64 where all numbers are integers, otherwise float64.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     _ = file.write("1,2\n3,4\n")
        ...     file.flush()
        ...     sg.data.utils.loadtxt(file.name, ",")
        array([[1, 2],
               [3, 4]])
    """
    if dtype is not None:
        return np.loadtxt(path, dtype, delimiter=delimiter, ndmin=2)
    try:
        return np.loadtxt(path, np.int64, delimiter=delimiter, ndmin=2)
    except ValueError:
        return np.loadtxt(path, delimiter=delimiter, ndmin=2)


class Subset:
    """Some elements of a data set.

    Args:
        dataset: anything with ``[]``.
        indices: positions in it.

    Example:
        >>> s = sg.data.utils.Subset("abcd", [3, 1])
        >>> len(s), s[0]
        (2, 'd')
    """

    def __init__(self, dataset: Any, indices: Sequence[int] | Tensor):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, item: int) -> Any:
        """Returns the element at a position of the subset."""
        return self.dataset[int(self.indices[item])]

    def __len__(self) -> int:
        """Number of elements."""
        return len(self.indices)


def split_sizes(what: str, size: int, fractions: Iterable[float]) -> list[int]:
    """Returns how many of `size` elements each part gets; the last one gets the rest.

    Raises:
        SmexValueError: the fractions are negative, or do not sum to 1.
    """
    shares = [float(share) for share in fractions]
    if any(share < 0 for share in shares) or abs(sum(shares) - 1) > _TOLERANCE:
        raise SmexValueError(f"{what}: expected fractions that sum to 1, found {shares}")
    sizes = [int(size * share + _TOLERANCE) for share in shares]
    sizes[-1] = size - sum(sizes[:-1])
    return sizes


def split_dataset(
    dataset: Any,
    frac_list: Sequence[float] | None = None,
    shuffle: bool = False,
    random_state: int | None = None,
) -> list[Subset]:
    """Returns a data set in parts.

    Args:
        dataset: anything with ``[]`` and ``len``.
        frac_list: each part's fraction; by default 0.8, 0.1 and 0.1.
        shuffle: whether elements are drawn; otherwise the first ones are the first part.
        random_state: seed of the draw; None: torch's generator.

    Raises:
        SmexValueError: the fractions are negative, or do not sum to 1.

    Example:
        >>> [list(part) for part in sg.data.utils.split_dataset("abcde", [0.6, 0.4])]
        [['a', 'b', 'c'], ['d', 'e']]
    """
    number = len(dataset)
    sizes = split_sizes("split_dataset", number, frac_list or (0.8, 0.1, 0.1))
    order = permutation(number, random_state) if shuffle else torch.arange(number)
    return [Subset(dataset, part) for part in order.split(sizes)]


def permutation(size: int, seed: int | None) -> Tensor:
    """Returns the numbers below `size` in a drawn order; with a seed the same one each time."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return torch.randperm(size, generator=generator)


def add_nodepred_split(
    dataset: Any, ratio: Sequence[float], ntype: str | None = None, seed: int | None = None
) -> None:
    """Draws nodes for training, validation and test, as masks of these names, in each graph.

    Args:
        dataset: graphs; they get node features ``train_mask``, ``val_mask`` and ``test_mask``,
            bool ``[num_nodes]``.
        ratio: the three fractions.
        ntype: the node type, of several.
        seed: seed of the draw; None: torch's generator.

    Raises:
        SmexValueError: the fractions are negative, or do not sum to 1.

    Example:
        >>> graphs = [sg.graph(([], []), num_nodes=10)]
        >>> sg.data.utils.add_nodepred_split(graphs, [0.8, 0.1, 0.1])
        >>> graphs[0].ndata["train_mask"].sum()
        tensor(8)
    """
    if len(ratio) != 3:
        raise SmexValueError(f"add_nodepred_split: expected 3 fractions, found {len(ratio)}")
    for index in range(len(dataset)):
        set_masks(dataset[index], ratio, ntype, seed)


def set_masks(g: Any, ratio: Sequence[float], ntype: str | None, seed: int | None) -> None:
    """Node features ``train_mask``, ``val_mask`` and ``test_mask`` of drawn nodes."""
    number = g.num_nodes(ntype)
    sizes = split_sizes("add_nodepred_split", number, ratio)
    parts = permutation(number, seed).split(sizes)
    data = g.ndata if ntype is None else g.nodes[ntype].data
    for name, part in zip(("train_mask", "val_mask", "test_mask"), parts):
        mask = torch.zeros(number, dtype=torch.bool)
        mask[part] = True
        data[name] = mask.to(g.device)


def generate_mask_tensor(mask: Any) -> Tensor:
    """Returns a mask as a bool tensor.

    Example:
        >>> sg.data.utils.generate_mask_tensor([1, 0])
        tensor([ True, False])
    """
    return torch.as_tensor(mask).bool()


def idx2mask(idx: Any, len: int) -> np.ndarray:
    """Zeros ``[len]`` with ones at some positions.

    Example:
        >>> sg.data.utils.idx2mask([0, 2], 4).tolist()
        [1.0, 0.0, 1.0, 0.0]
    """
    mask = np.zeros(len)
    mask[idx] = 1
    return mask


def makedirs(path: str | os.PathLike[str]) -> None:
    """Makes a folder and those above it, if they are not there."""
    os.makedirs(os.path.expanduser(path), exist_ok=True)


def save_info(path: str | os.PathLike[str], info: dict[str, Any]) -> None:
    """Writes a dict of plain values, for :func:`load_info`, as a pickle; so does DGL.

    Plain are numbers, also NumPy's, strings, tuples, lists, sets, dicts, arrays and tensors.

    Raises:
        SmexTypeError: it holds anything else; no file is written.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "info.pkl")
        ...     sg.data.utils.save_info(path, {"names": {0: "cat", 1: "dog"}})
        ...     sg.data.utils.load_info(path)
        {'names': {0: 'cat', 1: 'dog'}}
    """
    try:
        content = pickle.dumps(info, protocol=4)
        load_pickle(io.BytesIO(content))
    except Exception as error:  # what cannot be pickled fails in any way
        raise SmexTypeError(
            f"save_info: expected numbers, strings, tuples, lists, sets, dicts, arrays and tensors "
            f"in {path}, which are read without running anything, found more: {error}"
        ) from error
    Path(path).write_bytes(content)


def load_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what :func:`save_info`, that of DGL too, wrote; nothing that the file names is run.

    Raises:
        SmexValueError: the file is damaged, or names anything but plain values.
    """
    content = Path(path).read_bytes()
    if content.startswith(b"{"):  # as earlier versions wrote it
        return json.loads(content)
    file = io.BytesIO(content)
    file.name = str(path)
    return load_pickle(file)


def save_tensors(filename: str | os.PathLike[str], tensor_dict: Mapping[str, Tensor]) -> bool:
    """Writes tensors by name, for :func:`load_tensors`; a file of ``torch.save``.

    Returns:
        True.

    Raises:
        SmexTypeError: a name is no string, or a value no tensor.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "tensors.bin")
        >>> sg.data.utils.save_tensors(path, {"x": torch.ones(2)})
        True
        >>> sg.data.utils.load_tensors(path)
        {'x': tensor([1., 1.])}
    """
    for name, tensor in tensor_dict.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise SmexTypeError(
                f"save_tensors: expected tensors by name, found {name!r} with "
                f"{type(tensor).__name__}"
            )
    torch.save({name: tensor.detach() for name, tensor in tensor_dict.items()}, filename)
    return True


def load_tensors(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Returns what :func:`save_tensors` wrote, on the CPU."""
    return torch.load(filename, map_location="cpu", weights_only=True)
