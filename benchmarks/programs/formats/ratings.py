"""What users rate, buy and hear."""

from __future__ import annotations

import datetime
import pickle

import numpy as np

from formats import Places, data, lines
from formats.networks import pairs

GENRES = 19  # of MovieLens 100K


def _times(rng: np.random.Generator, number: int) -> np.ndarray:
    return 890_000_000 + rng.permutation(number) * 60


@data("ml-100k")
def ml_100k(places: Places, rng: np.random.Generator) -> None:
    """MovieLens 100K."""
    users, movies = 60, 40
    folder = places.downloads / "ml-100k"
    jobs = ("writer", "student", "doctor")
    people = [(i, 20 + i % 40, "MF"[i % 2], jobs[i % 3], 10000 + i) for i in range(1, users + 1)]
    lines(folder / "u.user", people, "|")
    genres = rng.integers(2, size=(movies, GENRES))
    films = [
        (i, f"Film {i} (1995)", "01-Jan-1995", "", f"http://films.example/{i}", *genres[i - 1])
        for i in range(1, movies + 1)
    ]
    lines(folder / "u.item", films, "|")
    edges = rng.permutation(pairs(rng, users, movies, 900) + 1)
    times = _times(rng, len(edges))
    rows = [(*edge, 1 + i % 5, time) for i, (edge, time) in enumerate(zip(edges, times))]
    lines(folder / "u1.base", rows[: len(rows) * 4 // 5], "\t")
    lines(folder / "u1.test", rows[len(rows) * 4 // 5 :], "\t")
    places.archive(folder, "ml-100k.zip", named=True)


@data("ml-1m")
def ml_1m(places: Places, rng: np.random.Generator) -> None:
    """MovieLens 1M."""
    users, movies = 60, 80
    folder = places.work / "ml-1m"
    ages = (1, 18, 25, 35)
    people = [(i, "MF"[i % 2], ages[i % 4], i % 20, 10000 + i) for i in range(1, users + 1)]
    lines(folder / "users.dat", people, "::")
    kinds = ("Action", "Comedy", "Drama", "War")
    films = [
        (i, f"Film Number {i % 7} ({1990 + i % 9})", f"{kinds[i % 4]}|{kinds[(i + 1) % 4]}")
        for i in range(1, movies + 1)
    ]
    lines(folder / "movies.dat", films, "::")
    edges = rng.permutation(pairs(rng, users, movies, 1500) + 1)
    times = _times(rng, len(edges))
    rows = [(*edge, 1 + i % 5, time) for i, (edge, time) in enumerate(zip(edges, times))]
    lines(folder / "ratings.dat", rows, "::")


@data("tahin")
def tahin(places: Places, rng: np.random.Generator) -> None:
    """MovieLens as a network of users, films and what they share."""
    users, movies = 80, 60
    folder = places.work / "data" / "Movielens"
    rated = [(*edge, 1 + i % 5) for i, edge in enumerate(pairs(rng, users, movies, 1200))]
    lines(folder / "user_movie.dat", [*rated, (users - 1, movies - 1, 5)], "\t")
    lines(folder / "movie_genre.dat", pairs(rng, movies, 8, 60), "\t")
    lines(folder / "user_occupation.dat", [(i, i % 10) for i in range(users)], "\t")
    lines(folder / "user_age.dat", [(i, i % 5) for i in range(users)], "\t")


@data("nowplaying")
def nowplaying(places: Places, rng: np.random.Generator) -> None:
    """Songs that users heard, and how they sound: columns of #nowplaying-RS."""
    users, tracks = 30, 50
    numbers = [f"sound{i}" for i in range(9)]
    header = ["coordinates", *numbers, "mode", "key", "artist_id"]
    header += ["geo", "created_at", "track_id", "user_id", "id"]
    songs = rng.random((tracks, len(numbers))).round(4)
    rows = []
    for i, (user, track) in enumerate(rng.permutation(pairs(rng, users, tracks, 600))):
        time = datetime.datetime(2014, 1, 1) + datetime.timedelta(minutes=i)
        mode = (f"{track % 2}.0", f"{track % 12}.0", f"artist{track % 9}")
        rows.append(("", *songs[track], *mode, "", time, f"track{track}", user, i))
    lines(places.work / "nowplaying" / "context_content_features.csv", [header, *rows], ",")


@data("eges")
def eges(places: Places, rng: np.random.Generator) -> None:
    """Clicks of users on goods, of JD."""
    goods = 60
    start = datetime.datetime(2018, 3, 1)
    clicks = [("user_id", "sku_id", "action_time", "module_id", "type")]
    for user in range(80):
        for step, sku in enumerate(rng.permutation(goods)[:12]):
            time = start + datetime.timedelta(days=user, minutes=step)
            clicks.append((user, 1000 + sku, time, 1, 1))
    lines(places.work / "data" / "action_head.csv", clicks, ",")
    products = [("sku_id", "brand", "shop_id", "cate", "market_time")]
    products += [(1000 + i, i % 9, i % 7, i % 5, start) for i in range(goods)]
    lines(places.work / "data" / "jdata_product.csv", products, ",")


@data("pinsage-result")
def pinsage_result(places: Places, rng: np.random.Generator) -> None:
    """A data set and vectors of its films, as PinSAGE's evaluation reads them."""
    import scipy.sparse
    import torch

    import smex.graph as sg

    users, movies = 20, 30
    edges = torch.from_numpy(pairs(rng, users, movies, 100))
    types = {
        ("user", "watched", "movie"): tuple(edges.T),
        ("movie", "watched-by", "user"): tuple(edges.flip(1).T),
    }
    graph = sg.heterograph(types)
    graph.edges["watched"].data["timestamp"] = torch.from_numpy(_times(rng, len(edges)))
    held = pairs(rng, users, movies, 40)
    matrix = scipy.sparse.coo_matrix((np.ones(len(held)), held.T), (users, movies))
    content = {
        "train-graph": graph,
        "val-matrix": matrix,
        "test-matrix": matrix,
        "item-texts": {},
        "item-images": None,
        "user-type": "user",
        "item-type": "movie",
        "user-to-item-type": "watched",
        "item-to-user-type": "watched-by",
        "timestamp-edge-column": "timestamp",
    }
    (places.work / "data.pkl").write_bytes(pickle.dumps(content))
    vectors = rng.normal(size=(movies, 8)).astype(np.float32)
    (places.work / "h_item.pkl").write_bytes(pickle.dumps(vectors))


@data("words")
def words(places: Places, rng: np.random.Generator) -> None:
    """A module with the functions of torchtext that PinSAGE calls."""
    (places.work / "words.py").write_text(_WORDS)


_WORDS = '''\
"""The functions of torchtext that the programs of this folder call."""


class Vocab:
    def __init__(self, words):
        self.words = words
        self.ids = {word: i for i, word in enumerate(words)}

    def __getitem__(self, word):
        return self.ids[word]

    def get_itos(self):
        return self.words

    def get_stoi(self):
        return self.ids


def build_vocab_from_iterator(texts, specials):
    return Vocab([*specials, *sorted({word for text in texts for word in text})])


def get_tokenizer(name):
    assert name is None
    return str.split


def numericalize_tokens_from_iterator(vocab, texts):
    for text in texts:
        yield iter([vocab[word] for word in text])
'''
