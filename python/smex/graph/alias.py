"""The name that programs written for DGL import: ``dgl`` is :mod:`smex.graph`, as they stand."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType

from smex.errors import SmexRuntimeError

__all__ = ["install"]

_THEIRS, _OURS = "dgl", "smex.graph"
FOLDER = pathlib.Path(__file__).parent / "as_dgl"
"""Has a package of that name, which processes find that import anew."""


def install(for_processes: bool = False) -> None:
    """Makes ``import dgl``, and of all its modules, import those of :mod:`smex.graph`.

    To be called before the first of these imports. The modules are the very same, whatever they are
    called: ``dgl.graph is smex.graph.graph``.

    Args:
        for_processes: whether processes that this one starts, and that import anew, as those of
            ``multiprocessing.spawn`` do, find the name too: by a folder in ``PYTHONPATH``
            and ``sys.path``.

    Raises:
        SmexRuntimeError: DGL itself has been imported already.

    Example:
        >>> import smex.graph.alias
        >>> smex.graph.alias.install()
        >>> import dgl
        >>> from dgl.nn.pytorch import GraphConv
        >>> dgl.graph(([0], [1])).num_nodes()
        2
    """
    ours = importlib.import_module(_OURS)
    known = sys.modules.get(_THEIRS)
    if known is not None and known is not ours and known.__spec__ is not None:
        origin = known.__spec__.origin or ""
        if not origin.startswith(str(FOLDER)):
            raise SmexRuntimeError(
                f"alias.install: dgl has been imported already, from {origin}; install the name "
                "before, or run the program with python -m smex.graph.run"
            )
    sys.modules[_THEIRS] = ours
    # An import of a module sets an attribute of its parent, where `sparse.matmul` is a function.
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{_OURS}."):
            sys.modules.setdefault(_THEIRS + name[len(_OURS) :], module)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if for_processes:
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if str(FOLDER) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *filter(None, paths)])
        if str(FOLDER) not in sys.path:  # which spawned ones take over
            sys.path.append(str(FOLDER))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of ours by their names there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _THEIRS and not fullname.startswith(f"{_THEIRS}."):
            return None
        name = _OURS + fullname[len(_THEIRS) :]
        module = sys.modules.get(name)
        try:
            module = module or importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # of a package that the module needs
            raise ModuleNotFoundError(
                f"smex.graph has nothing in place of the module {fullname}; python -m "
                "smex.graph.migrate PROGRAM tells what stands for what",
                name=fullname,
            ) from error
        spec = importlib.machinery.ModuleSpec(
            fullname, self, is_package=hasattr(module, "__path__")
        )
        spec.loader_state = module, module.__spec__
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: ModuleType = spec.loader_state[0]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module back what importing has changed of it."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state[1]
