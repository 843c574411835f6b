"""Knowledge graphs, ratings, trust, and events in time, as lines of text."""

from __future__ import annotations

import pickle

import numpy as np

from support.published.drawn import made

KNOWLEDGE = {  # entities, relations, edges of the parts
    "FB15k": (14951, 1345, (483142, 50000, 59071)),
    "FB15k-237": (14541, 237, (272115, 17535, 20466)),
    "wn18": (40943, 18, (141442, 5000, 5000)),
}


def write_knowledge_graph(
    folder, rng, name="FB15k-237", num_entities=None, num_relations=None, sizes=None
):
    """Dictionaries and triples; a relation joins entities whose numbers differ by a fixed step."""
    entities, relations, published = KNOWLEDGE[name]
    entities, relations = num_entities or entities, num_relations or relations
    where = made(folder, name)
    names = [f"/m/{n:06x}" for n in range(entities)]
    kinds = [f"/kind/relation_{n}" for n in range(relations)]
    for file, words in (("entities", names), ("relations", kinds)):
        lines = (f"{n}\t{word}\n" for n, word in enumerate(words))
        (where / f"{file}.dict").write_text("".join(lines))
    steps = rng.integers(1, entities, size=relations)
    for part, size in zip(("train", "valid", "test"), sizes or published):
        head, kind = rng.integers(entities, size=size), rng.integers(relations, size=size)
        tail = (head + steps[kind] + rng.integers(3, size=size)) % entities
        rows = zip(head.tolist(), kind.tolist(), tail.tolist())
        lines = (f"{names[h]}\t{kinds[r]}\t{names[t]}\n" for h, r, t in rows)
        (where / f"{part}.txt").write_text("".join(lines))
    return where


def write_bitcoinotc(folder, rng, num_users=200, num_ratings=2000, days=420):
    """``bitcoinotc.csv``: source, target, rating, seconds, in the order of time."""
    pairs = rng.integers(1, num_users + 1, (num_ratings, 2))
    pairs[0] = (num_users, 1)
    rating = rng.choice([*range(-10, 0), *range(1, 11)], size=num_ratings)
    time = 1289241911 + np.sort(rng.random(num_ratings)) * days * 86400
    rows = zip(*pairs.T.tolist(), rating.tolist(), time.tolist())
    where = made(folder, "bitcoinotc")
    (where / "bitcoinotc.csv").write_text("".join(f"{u},{v},{r},{t:.5f}\n" for u, v, r, t in rows))
    return where


EVENTS = {"ICEWS18": (24, 256), "GDELT": (15, 240)}


def write_events(
    folder, rng, name="ICEWS18", num_actors=300, num_events=(2000, 200, 200), num_steps=(24, 3, 3)
):
    """``train.txt``, ``valid.txt`` and ``test.txt``: subject, relation, object, time and 0."""
    step, kinds = EVENTS[name]
    where, first = made(folder, name), 0
    for part, size, steps in zip(("train", "valid", "test"), num_events, num_steps):
        time = np.sort(rng.integers(steps, size=size))
        time[0] = 0
        columns = (
            rng.integers(num_actors, size=size),
            rng.integers(kinds, size=size),
            rng.integers(num_actors, size=size),
            (first + time) * step,
            np.zeros(size, int),
        )
        rows = zip(*(column.tolist() for column in columns))
        (where / f"{part}.txt").write_text("".join("\t".join(map(str, r)) + "\n" for r in rows))
        first += steps
    return where


OCCUPATIONS = ("artist", "doctor", "engineer", "student", "writer")


def write_movielens(
    folder, rng, name="ml-100k", num_users=100, num_films=200, num_ratings=2000, width=20
):
    """Ratings of tastes, users, films, and ``movie_feat.pkl``, a pickled tensor of torch."""
    import torch

    where, separator = made(folder, name), "|" if name == "ml-100k" else "::"
    user, film = (
        rng.integers(num_users, size=num_ratings),
        rng.integers(num_films, size=num_ratings),
    )
    user, film = np.unique(np.stack([user, film]), axis=1)
    order = rng.permutation(len(user))
    user, film = user[order], film[order]
    tastes = rng.integers(4, size=num_users)[user] == rng.integers(4, size=num_films)[film]
    stars = np.clip(3 + tastes + rng.integers(-1, 2, size=len(user)), 1, 5)
    between = "\t" if name == "ml-100k" else "::"
    rows = zip((user + 1).tolist(), (film + 1).tolist(), stars.tolist())
    lines = [between.join(map(str, (u, f, s, 880000000 + u))) + "\n" for u, f, s in rows]
    ages = rng.integers(15, 70, size=num_users).tolist()
    work = rng.integers(len(OCCUPATIONS), size=num_users).tolist()
    people, films = [], []
    for n, (age, job) in enumerate(zip(ages, work), 1):
        gender = "F" if age % 2 else "M"
        words = (n, age, gender, OCCUPATIONS[job], "10000")
        if name == "ml-1m":
            words = (n, gender, age, job, "10000")
        people.append(separator.join(map(str, words)) + "\n")
    for n in range(1, num_films + 1):
        words = (n, f"Film {n} (1990)", "Drama|Comedy")
        if name == "ml-100k":
            words = (n, f"Caf\u00e9 {n} (1990)", "01-Jan-1990", "", "http://x", *([0] * 18), 1)
        films.append(separator.join(map(str, words)) + "\n")
    if name == "ml-100k":
        cut = int(0.8 * len(lines))
        files = {"u1.base": lines[:cut], "u1.test": lines[cut:], "u.user": people, "u.item": films}
    else:
        files = {"ratings.dat": lines, "movies.dat": films}
        files |= {"users.dat": people} if name == "ml-1m" else {}
    for file, content in files.items():
        (where / file).write_text("".join(content), encoding="iso-8859-1")
    feat = torch.from_numpy(rng.random((len(np.unique(film)), width), dtype=np.float32))
    (where / "movie_feat.pkl").write_bytes(pickle.dumps(feat.double()))
    return where
