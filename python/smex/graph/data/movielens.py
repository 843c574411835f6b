"""Ratings of films by the users of MovieLens (Harper and Konstan, TiiS 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.data.dataset import DGLBuiltinDataset, Folder, OneGraphMixin, Transform, other_name
from smex.graph.data.unpickle import load_pickle

__all__ = ["MovieLensDataset"]

_GENRES = [
    *("unknown", "Action", "Adventure", "Animation", "Children", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance"),
    *("Sci-Fi", "Thriller", "War", "Western"),
]
_OLDEST = 50.0  # years by which ages are divided


class _Source(NamedTuple):
    ratings: tuple[str, ...]
    films: str
    users: str | None
    separator: str  # of films and users
    age: int  # columns of the users' file
    gender: int
    occupation: int
    genres: list[str]


_SOURCES = {
    "ml-100k": _Source(("u1.base", "u1.test"), "u.item", "u.user", "|", 1, 2, 3, _GENRES),
    "ml-1m": _Source(("ratings.dat",), "movies.dat", "users.dat", "::", 2, 1, 3, _GENRES[1:]),
    "ml-10m": _Source(("ratings.dat",), "movies.dat", None, "::", 0, 0, 0, [*_GENRES, "IMAX"]),
}


class MovieLensDataset(OneGraphMixin, DGLBuiltinDataset):
    """One graph of users and films, with an edge in both directions for each rating.

    Edge types are ``user-movie`` and ``movie-user``, with edge features ``rate``, float32, and
    ``train_mask``, ``valid_mask`` and ``test_mask``, bool ``[num_edges]``. Node feature ``feat`` of
    films, float32, is that of the file ``movie_feat.pkl``; of users it is the age divided by 50, 1
    for women, and the occupation one-hot (in the order of its names), or 0 in ``ml-10m``. Users and
    films without ratings are left out; ratings are in the order of the file, in ``ml-100k`` those
    for training first, then those for validation and the test.

    Args:
        name: ``"ml-100k"``, whose test ratings are given, ``"ml-1m"`` or ``"ml-10m"``.
        valid_ratio: fraction of the ratings (in ``ml-100k``, of the others) for validation.
        test_ratio: fraction for the test; without effect in ``ml-100k``.
        raw_dir: see :class:`DGLBuiltinDataset`; the files are in the folder of the data's name:
            ``u1.base``, ``u1.test``, ``u.user``, ``u.item`` in ``ml-100k``, ``ratings.dat``,
            ``movies.dat`` and, but for ``ml-10m``, ``users.dat`` in the others, and
            ``movie_feat.pkl``, a tensor with a row for each film that is rated.
        force_reload: without effect, nothing is kept.
        verbose: whether to show progress.
        transform: applied to the graph each time it is asked for.
        random_state: seed of the draw, which is DGL's.

    Raises:
        SmexRuntimeError: the files are nowhere and cannot be downloaded.
        SmexValueError: another name, or fractions that are none.
    """

    def __init__(
        self,
        name: str,
        valid_ratio: float,
        test_ratio: float | None = None,
        raw_dir: Folder = None,
        force_reload: bool | None = None,
        verbose: bool | None = None,
        transform: Transform = None,
        random_state: int = 0,
    ):
        if name not in _SOURCES:
            raise SmexValueError(
                f"MovieLensDataset: expected a name among {', '.join(_SOURCES)}, found {name!r}"
            )
        shares = [valid_ratio] if name == "ml-100k" else [valid_ratio, test_ratio or 0.0]
        if min(shares) <= 0 or sum(shares) >= 1:
            raise SmexValueError(
                "MovieLensDataset: expected valid_ratio and, but for ml-100k, test_ratio above 0 "
                f"that sum to less than 1, found {valid_ratio} and {test_ratio}"
            )
        self.valid_ratio, self.test_ratio, self.random_state = valid_ratio, test_ratio, random_state
        self._source, self._shares = _SOURCES[name], shares
        self.genres = list(self._source.genres)
        super().__init__(
            name,
            f"https://data.dgl.ai/dataset/{name}.zip",
            raw_dir=raw_dir,
            hash_key=(name, valid_ratio, test_ratio, random_state),
            force_reload=bool(force_reload),
            verbose=bool(verbose),
            transform=transform,
        )

    def _files(self) -> list[str]:
        users = [self._source.users] if self._source.users else []
        return [*self._source.ratings, self._source.films, *users, "movie_feat.pkl"]

    def _folders(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}/{self.name}")

    def process(self) -> None:
        """Reads the files."""
        folder, source = Path(self.raw_path), self._source
        tables = [_ratings(folder / file) for file in source.ratings]
        parts = self._parts(len(tables[0]))
        if len(tables) > 1:  # the given test ratings are behind those that were drawn
            order, drawn = np.concatenate(parts[:2]), tables[0]
            table = np.concatenate([drawn[order], tables[1]])
            bounds = np.cumsum([len(part) for part in parts[:2]])
            parts = np.split(np.arange(len(table)), bounds)
        else:
            table = tables[0]
        users, people = self._seen(source.users, table[:, 0])
        films, _ = self._seen(source.films, table[:, 1])
        ends = [
            torch.tensor([ids[each] for each in column.tolist()])
            for ids, column in ((users, table[:, 0]), (films, table[:, 1]))
        ]
        kinds = ("user", "user-movie", "movie"), ("movie", "movie-user", "user")
        self._g = heterograph(
            {kinds[0]: tuple(ends), kinds[1]: tuple(ends[::-1])},
            {"user": len(users), "movie": len(films)},
        )
        self._g.nodes["user"].data["feat"] = self._people(people, len(users))
        feat = load_pickle(folder / "movie_feat.pkl")
        self._g.nodes["movie"].data["feat"] = torch.as_tensor(feat).float()
        for _, kind, _ in kinds:
            data = self._g.edges[kind].data
            data["rate"] = torch.from_numpy(table[:, 2].astype(np.float32))
            for mask, rows in zip(("train_mask", "valid_mask", "test_mask"), parts):
                empty = torch.zeros(len(table), dtype=torch.bool)
                data[mask] = empty.index_fill(0, torch.from_numpy(rows), True)

    def _parts(self, number: int) -> list[np.ndarray]:
        """Returns drawn rows for training, validation and, of what is left, the test."""
        state = np.random.RandomState(self.random_state)
        order = state.permutation(number)
        rest = 1.0
        for share in self._shares:  # in DGL's order, as roundings tell
            rest -= share
        train = int(number * rest)
        return np.split(order, [train, train + int(number * self._shares[0])])

    def _seen(self, file: str | None, ids: np.ndarray) -> tuple[dict[int, int], list[list[str]]]:
        """Returns the numbers of a file's ids that have ratings, and their lines."""
        seen = set(ids.tolist())
        if file is None:
            return {each: n for n, each in enumerate(sorted(seen))}, []
        text = (Path(self.raw_path) / file).read_text(encoding="iso-8859-1")
        lines = [line.split(self._source.separator) for line in text.split("\n") if line.strip()]
        kept = [line for line in lines if int(line[0]) in seen]
        return {int(line[0]): n for n, line in enumerate(kept)}, kept

    def _people(self, lines: Sequence[Sequence[str]], number: int) -> Tensor:
        source = self._source
        if source.users is None:
            return torch.zeros(number, 1)
        age = torch.tensor([float(line[source.age]) for line in lines]) / _OLDEST
        women = torch.tensor([float(line[source.gender] == "F") for line in lines])
        names = [line[source.occupation] for line in lines]
        order = sorted(
            set(names), key=lambda name: (int(name), "") if name.isdigit() else (0, name)
        )
        column = {name: n for n, name in enumerate(order)}
        one_hot = torch.eye(len(column))[[column[name] for name in names]]
        return torch.cat([age[:, None], women[:, None], one_hot], 1)

    graph = other_name("_g", "The graph, which is the element of the data set.")


def _ratings(path: Path) -> np.ndarray:
    """Returns user, film and rating of each line, float64 ``[num_ratings, 3]``."""
    text = path.read_text().replace("::", "\t")
    rows = [line.split("\t")[:3] for line in text.split("\n") if line.strip()]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)
