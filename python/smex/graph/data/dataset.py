"""Data sets: how one is downloaded, processed, kept and indexed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from smex.errors import SmexError, SmexRuntimeError
from smex.graph.data.files import (
    Source,
    find_folder,
    get_download_dir,
    logger,
    obtain,
    search_folders,
)
from smex.graph.graph import Graph

__all__ = ["DGLBuiltinDataset", "DGLDataset", "GraphIndexError"]

Folder = str | os.PathLike[str] | None
Transform = Callable[[Any], Any] | None


class GraphIndexError(SmexError, IndexError):
    """A data set has no graph at this position."""


def check_index(what: str, idx: int, size: int) -> None:
    """Raise unless there is a graph at this position."""
    if not -size <= idx < size:
        raise GraphIndexError(f"{what}: expected a position from 0 to {size - 1}, found {idx}")


class DGLDataset:
    """A list of graphs, or of graphs with labels.

    A subclass has ``__getitem__`` and ``__len__``, and mostly :meth:`process`. Creating it loads
    what :meth:`save` wrote if :meth:`has_cache` says that it is there, and otherwise downloads
    what is missing (:meth:`download`), processes and saves it.

    Args:
        name: its name, also that of its folders.
        url: where it is downloaded from.
        raw_dir: the folder with the data's own folder; by default :func:`utils.get_download_dir`.
        save_dir: the folder for what :meth:`save` writes; by default `raw_dir`.
        hash_key: what the processed data depends on, see :attr:`hash`.
        force_reload: process the data even if it is kept.
        verbose: whether to show progress.
        transform: applied to a graph each time it is asked for.

    Example:
        >>> class Pairs(sg.data.DGLDataset):
        ...     def process(self):
        ...         self.graphs = [sg.graph(([0], [1])) for _ in range(3)]
        ...     def __getitem__(self, index):
        ...         return self.graphs[index]
        ...     def __len__(self):
        ...         return len(self.graphs)
        >>> len(Pairs("pairs"))
        3
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        raw_dir: Folder = None,
        save_dir: Folder = None,
        hash_key: Sequence[Any] = (),
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self._name = name
        self._url = url
        self._given_raw_dir = None if raw_dir is None else os.path.expanduser(raw_dir)
        self._raw_dir = self._given_raw_dir or get_download_dir()
        self._save_dir = self._raw_dir if save_dir is None else os.path.expanduser(save_dir)
        self._hash_key = tuple(hash_key)
        self._hash = hashlib.sha1(str(self._hash_key).encode()).hexdigest()[:8]
        self._force_reload = force_reload
        self._verbose = verbose
        self._transform = transform
        self._load()

    def download(self) -> None:
        """Puts the raw data into :attr:`raw_path`; by default there is nothing to do."""

    def save(self) -> None:
        """Keeps the processed data; by default not."""

    def load(self) -> None:
        """Reads what :meth:`save` wrote."""

    def has_cache(self) -> bool:
        """Returns whether there is something to :meth:`load`; by default not."""
        return False

    def process(self) -> None:
        """Makes the graphs of the raw data; by default there is nothing to do."""

    def __getitem__(self, idx: Any) -> Any:
        """Returns the graph at a position, perhaps with labels."""
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__(idx)")

    def __len__(self) -> int:
        """Number of graphs."""
        raise NotImplementedError(f"{type(self).__name__} has no __len__()")

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def _download(self) -> None:
        has_download = type(self).download is not DGLDataset.download
        if has_download and not os.path.exists(self.raw_path):
            os.makedirs(self.raw_dir, exist_ok=True)
            self.download()

    def _load(self) -> None:
        if self._force_reload or not self._is_kept():
            self._download()
            self.process()
            self.save()
        if self._verbose:
            logger.info("%r", self)

    def _is_kept(self) -> bool:
        """Whether there was something to load; what cannot be read any more is made anew."""
        if not self.has_cache():
            return False
        try:
            self.load()
        except Exception as error:  # a subclass reads what it likes
            logger.warning(
                "%s: what was kept in %s is not read, and made anew: %s: %s",
                type(self).__name__, self.save_path, type(error).__name__, error,
            )  # fmt: skip
            return False
        return True

    def _transformed(self, graph: Any) -> Any:
        return graph if self._transform is None else self._transform(graph)

    @property
    def url(self) -> str | None:
        """Where the data is downloaded from."""
        return self._url

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def raw_dir(self) -> str:
        """The folder with the raw data's own folder."""
        return str(self._raw_dir)

    @property
    def raw_path(self) -> str:
        """The raw data's own folder."""
        return os.path.join(self.raw_dir, self.name)

    @property
    def save_dir(self) -> str:
        """The folder with the processed data's own folder."""
        return str(self._save_dir)

    @property
    def save_path(self) -> str:
        """The processed data's own folder."""
        return os.path.join(self.save_dir, self.name)

    @property
    def verbose(self) -> bool:
        """Whether progress is shown."""
        return self._verbose

    @property
    def hash(self) -> str:
        """Eight digits that tell settings (`hash_key`) apart, for names of files."""
        return self._hash

    def __repr__(self) -> str:
        return f'Dataset("{self.name}", num_graphs={len(self)}, save_path={self.save_path})'


class DGLBuiltinDataset(DGLDataset):
    """A data set whose files are looked for, and downloaded where they are not found.

    They are looked for in the data's own folder in `raw_dir`, in ``$SMEX_DATA`` and in
    :func:`utils.get_download_dir`, in this order. They are downloaded to `raw_dir`, by default the
    last of these.

    Args:
        name: as for :class:`DGLDataset`.
        url: where it is downloaded from: an archive, or a file.
        raw_dir: as for :class:`DGLDataset`.
        hash_key: as for :class:`DGLDataset`.
        force_reload: as for :class:`DGLDataset`.
        verbose: as for :class:`DGLDataset`.
        transform: as for :class:`DGLDataset`.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
    """

    def __init__(
        self,
        name: str,
        url: str | None,
        raw_dir: Folder = None,
        hash_key: Sequence[Any] = (),
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ):
        self._found: Path | None = None
        super().__init__(
            name,
            url,
            raw_dir=raw_dir,
            hash_key=hash_key,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _files(self) -> Sequence[str]:
        """Files by which the data's folder is known; none: by its name."""
        return ()

    def _folders(self) -> Sequence[str]:
        """Names that the data's folder may have."""
        return (self.name,)

    def _sources(self) -> Sequence[Source]:
        if self.url is None:
            return ()
        return (Source(self.url, re.sub(r"[?#].*", "", self.url).rpartition("/")[2]),)

    @property
    def raw_path(self) -> str:
        """The folder that the files were found in, or are downloaded to."""
        return str(self._found or Path(self.raw_dir) / self._folders()[0])

    def download(self) -> None:
        """Downloads and unpacks the files into :attr:`raw_path`."""
        what = type(self).__name__
        obtain(what, Path(self.raw_path), self._sources(), self._files(), self.verbose)

    def _find(self) -> Path | None:
        return find_folder(search_folders(self._given_raw_dir), self._folders(), self._files())

    def _download(self) -> None:
        self._found = self._find()
        if self._found is None:
            self.download()
            self._found = self._find()
        if self._found is None:
            files = ", ".join(self._files())
            raise SmexRuntimeError(
                f"{type(self).__name__}: expected {files} in {self.raw_path} after "
                f"the download of {self.url}, found other files; put the right ones there"
            )
        if self._given_raw_dir is not None and self._files():
            os.makedirs(self.save_path, exist_ok=True)  # programs put there what they make of it


def other_name(attribute: str, doc: str) -> Any:
    """Returns a second name of an attribute, to read and to assign it."""

    def get(self: Any) -> Any:
        return getattr(self, attribute)

    def set_to(self: Any, value: Any) -> None:
        setattr(self, attribute, value)

    return property(get, set_to, doc=doc)


class OneGraphMixin:
    """A data set of one graph, which :meth:`process` stores as ``_g``."""

    _g: Graph

    def __getitem__(self, idx: int) -> Graph:
        """Returns the graph; `idx` must be 0.

        Raises:
            GraphIndexError: it is not.
        """
        check_index(type(self).__name__, idx, 1)
        return self._transformed(self._g)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        """1."""
        return 1


class GraphsMixin:
    """A data set of graphs, which :meth:`process` stores as its attribute."""

    graphs: Sequence[Graph]

    def __getitem__(self, idx: Any) -> Any:
        """What there is at a position, or for a tensor of positions a :class:`Subset`.

        Raises:
            GraphIndexError: there is none.
        """
        if isinstance(idx, Tensor) and idx.dim() == 1:
            from smex.graph.data.utils import Subset

            return Subset(self, idx.cpu())
        check_index(type(self).__name__, idx, len(self))
        return self._element(idx)

    def _element(self, idx: int) -> Any:
        """What there is at a position that exists: the graph."""
        return self._transformed(self.graphs[idx])  # type: ignore[attr-defined]

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.graphs)


class LabelledGraphsMixin(GraphsMixin):
    """A data set of graphs with a label each; an element is the graph and its label."""

    labels: Tensor

    def _element(self, idx: int) -> Any:
        return super()._element(idx), self.labels[idx]
