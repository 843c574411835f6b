"""Random data in the formats that single programs read.

`data` of an entry of lists/*.toml names one of the functions marked `data("NAME")`, which writes
files of the sizes that a short run needs, for the places that `Places` has. They run in the
programs' environment, as `python -m formats NAME FOLDER`, whose packages they write with.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable

import environments
import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]


class Places:
    """Folders of what is written, by where programs look for it."""

    NAMES = ("work", "beside", "cache", "downloads")

    def __init__(self, root: pathlib.Path) -> None:
        self.work = root / "work"  # the copy of the program's folder
        self.beside = root / "beside"  # the folder that it is in
        self.cache = root / "cache"  # the download folder of smex.graph
        self.downloads = root / "downloads"  # what an address that ends in a file's name gives
        for name in self.NAMES:
            (root / name).mkdir(parents=True)

    def archive(self, folder: pathlib.Path, name: str, named: bool = False) -> None:
        """Makes a zip file to download of a folder, with the folder's own name or without."""
        root = folder.parent if named else folder
        with zipfile.ZipFile(self.downloads / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(root))


Writer = Callable[[Places, np.random.Generator], None]
WRITERS: dict[str, Writer] = {}


def data(name: str) -> Callable[[Writer], Writer]:
    """Marks the function that writes the data of a name."""

    def add(writer: Writer) -> Writer:
        WRITERS[name] = writer
        return writer

    return add


def lines(path: pathlib.Path, rows: Iterable[Iterable[object]], separator: str = " ") -> None:
    """Writes a file of text, a row in a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(separator.join(map(str, row)) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def write(name: str, root: pathlib.Path) -> None:
    """Writes the data of a name below a folder."""
    python = str(environments.interpreter("programs"))
    path = os.pathsep.join(
        map(str, (HERE.parent, ROOT / "python", pathlib.Path(environments.__file__).parent))
    )
    command = [python, "-m", "formats", name, str(root)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=True)


def place(written: pathlib.Path, work: pathlib.Path, home: pathlib.Path) -> None:
    """Copies what was written to where a program looks for it."""
    targets = {
        "work": work,
        "beside": work.parent,
        "cache": home / ".cache" / "smex",
        "downloads": home / "downloads",
    }
    for name, target in targets.items():
        shutil.copytree(written / name, target, dirs_exist_ok=True)
