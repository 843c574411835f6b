"""Texts and puzzles."""

from __future__ import annotations

import json

import numpy as np

from formats import Places, data, lines

STORIES = 11000  # of a task of bAbI, as its reader wants


@data("babi")
def babi(places: Places, rng: np.random.Generator) -> None:
    """Three tasks of bAbI as graphs: facts, and a question about them."""
    folder = places.downloads / "babi"
    letters = "ABCDEFGH"
    tasks: dict[str, list[tuple[object, ...]]] = {"15": [], "18": [], "19": []}
    for _ in range(STORIES):
        a, b, c = (letters[i] for i in rng.permutation(8)[:3])
        tasks["15"] += [(1, a, "is", b), (2, b, "has_fear", c), (3, "eval", a, "has_fear", c)]
        answer = ("false", "true")[rng.integers(2)]
        tasks["18"] += [(1, a, ">", b), (2, b, ">", c), (3, "eval", a, ">", c, answer)]
        tasks["19"] += [(1, a, "n", b), (2, b, "e", c), (3, "eval", "path", a, c, "n,e")]
    for number, rows in tasks.items():
        lines(folder / number / "data.txt", rows)
    places.archive(folder, "ggnn_babi_data.zip")


@data("agenda")
def agenda(places: Places, rng: np.random.Generator) -> None:
    """Titles and abstracts of papers, and what they speak of: AGENDA."""
    folder = places.work / "data"
    folder.mkdir()
    words = [f"word{i}" for i in range(20)]
    for part, number in (("train", 24), ("val", 8), ("test", 8)):
        papers = []
        for _ in range(number):
            entities = [f"{words[i]} net" for i in rng.permutation(20)[:3]]
            text = list(rng.choice(words, 12))
            text[3], text[7] = "<method_0>", "<task_1>"
            paper = {
                "title": " ".join(rng.choice(words, 4)),
                "entities": entities,
                "types": "<method> <task> <method>",
                "relations": [
                    f"{entities[0]} -- USED-FOR -- {entities[1]}",
                    f"{entities[2]} -- PART-OF -- {entities[0]}",
                ],
                "abstract": " ".join(text),
            }
            papers.append(paper)
        (folder / f"unprocessed.{part}.json").write_text(json.dumps(papers))


@data("copy")
def copy(places: Places, rng: np.random.Generator) -> None:
    """Letters that are to be said again, and the folder of scripts that is looked for."""
    folder = places.work / "data" / "copy"
    (places.work / "scripts").mkdir()
    letters = [chr(ord("a") + i) for i in range(26)]
    for part, number in (("train", 48), ("valid", 16), ("test", 16)):
        rows = [rng.choice(letters, rng.integers(4, 9)) for _ in range(number)]
        lines(folder / f"{part}.in", rows)
        lines(folder / f"{part}.out", rows)
    lines(folder / "vocab.txt", [(letter,) for letter in letters])


@data("sudoku")
def sudoku(places: Places, rng: np.random.Generator) -> None:
    """Puzzles with their solutions, digits of a board in a row, 0 where one is asked for."""
    folder = places.downloads / "sudoku-hard"
    row, column = np.divmod(np.arange(81), 9)
    board = (row % 3 * 3 + row // 3 + column) % 9
    for part, number in (("train", 32), ("valid", 8), ("test", 8)):
        rows = []
        for _ in range(number):
            answer = 1 + rng.permutation(9)[board]
            question = np.where(rng.random(81) < 0.4, answer, 0)
            rows.append(("".join(map(str, question)), "".join(map(str, answer))))
        lines(folder / f"{part}.csv", rows, ",")
    places.archive(folder, "sudoku-hard.zip", named=True)
