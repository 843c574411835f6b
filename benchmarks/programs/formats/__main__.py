"""Writes the data of a name below a folder."""

import importlib
import pathlib
import pkgutil
import sys

import numpy as np

import formats

name, root = sys.argv[1:]
for module in pkgutil.iter_modules(formats.__path__):
    if module.name != "__main__":
        importlib.import_module(f"formats.{module.name}")
if name not in formats.WRITERS:
    raise SystemExit(f'lists: there is no data "{name}"')
places = formats.Places(pathlib.Path(root))
formats.WRITERS[name](places, np.random.default_rng(sum(name.encode())))
