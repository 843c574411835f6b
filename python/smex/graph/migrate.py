"""What of DGL a program uses, and what of it is there: ``python -m smex.graph.migrate FILE ...``.

Programs and notebooks are parsed, not run. Names of DGL are followed through imports and their
aliases. Attributes, methods and keywords are looked for on what holds graphs, data sets, loaders,
samplers and layers of DGL, as far as assignments and annotations tell.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch

import smex.graph as sg
from smex.errors import SmexValueError
from smex.graph.migration.kinds import Kinds
from smex.graph.migration.members import has_member, takes_keyword
from smex.graph.migration.programs import programs_in, read
from smex.graph.words import counted
from smex.text import aligned

__all__ = ["Use", "main", "uses"]

GRAPH = "DGLGraph"

# What takes the place of names that are not there: the longest that a name starts with counts.
INSTEAD = {
    "dgl": "see docs/from_dgl.md",
    **{
        f"dgl.{name}": "nothing: DGL's own machinery"
        for name in (
            *("TypeCode", "extract_ext_funcs", "get_global_func", "list_global_func_names"),
            *("load_backend", "register_func", "dataloading.WorkerInitWrapper"),
            "dataloading.remove_parent_storage_columns",
            "dataloading.restore_parent_storage_columns",
        )
    },
    "dgl.DGLGraph": "see docs/from_dgl.md",
    "dgl.DGLGraph.to_cugraph": "g.edges(), tensors that cugraph reads",
    "dgl.backend_name": "torch, the only one",
    "dgl.cuda": "torch.cuda",
    "dgl.data": "data.DGLDataset with a process of one's own, or from_pyg of PyG's data set",
    "dgl.dataloading": "see docs/from_dgl.md",
    "dgl.dataloading.CollateWrapper": "dataloading.DataLoader",
    "dgl.dataloading.DDPTensorizedDataset": "ids as a tensor, dataloading.DataLoader(use_ddp=True)",
    "dgl.dataloading.TensorizedDataset": "ids as a tensor, dataloading.DataLoader",
    "dgl.dataloading.create_tensorized_dataset": "ids as a tensor, dataloading.DataLoader",
    **{
        f"dgl.distributed.{name}": "nothing: there are no servers, torchrun starts the ranks"
        for name in (
            "DistGraphServer",
            "KVClient",
            "KVServer",
            "ServerState",
            "connect_to_server",
            "start_server",
        )
    },
    "dgl.distributed.id_map": "distributed.GraphPartitionBook.map_to_per_ntype, map_to_per_etype",
    "dgl.distributed.EdgeCollator": "distributed.DistEdgeDataLoader",
    "dgl.distributed.NodeCollator": "distributed.DistNodeDataLoader",
    "dgl.distributed.dgl_partition_to_graphbolt": "nothing: parts have one format",
    "dgl.distributed.gb_convert_single_dgl_partition": "nothing: parts have one format",
    "dgl.enable_verbose_logging": "the environment variable SMEX_LOGS",
    "dgl.from_cugraph": "graph, of the tensors of its edges",
    "dgl.graphbolt.FetchInsubgraphData": "nothing: sampling reads the graph where it is",
    "dgl.graphbolt.OnDiskFeatureDataDomain": "its value as text",
    "dgl.graphbolt.OnDiskFeatureDataFormat": "its value as text",
    "dgl.graphbolt.OnDiskGraphTopologyType": "its value as text",
    "dgl.graphbolt.SamplePerLayer": "graphbolt.NeighborSampler(sampler=)",
    "dgl.graphbolt.SamplePerLayerFromFetchedSubgraph": "graphbolt.NeighborSampler(sampler=)",
    "dgl.graphbolt.SamplingGraph": "graphbolt.FusedCSCSamplingGraph",
    "dgl.graphbolt.load_from_shared_memory": "Tensor.share_memory_ of the graph's tensors",
    "dgl.heterograph_index": "nothing: DGL's own machinery, a graph has g.adj_tensors",
    "dgl.is_libxsmm_enabled": "nothing: leave it out",
    "dgl.nn": "message passing by update_all, or torch_geometric.nn and to_pyg",
    "dgl.nn.NodeEmbedding": "torch.nn.Embedding(sparse=True), torch.optim.SparseAdam",
    "dgl.nn.pairwise_squared_distance": "torch.cdist(x, x) ** 2",
    "dgl.optim": "torch.optim.SparseAdam, torch.optim.Adagrad",
    "dgl.sparse.load_dgl_sparse": "nothing: leave it out",
    "dgl.storages": "tensors of torch",
    "dgl.to_cugraph": "g.edges(), tensors that cugraph reads",
    "dgl.use_libxsmm": "nothing: leave it out",
}

# Where DGL has modules of its own for what stands in one here.
_MOVED = ("dgl", "dgl.data", "dgl.nn")

# Attributes and methods that objects do not have, by their own names.
_NOT_KEPT = "nothing: processed data is not kept, see docs/from_dgl.md"
_INSTEAD_OF_MEMBERS = {
    "attr_dict": "the features of the graphs",
    "g_path": _NOT_KEPT,
    "graph_list_path": _NOT_KEPT,
    "graph_path": _NOT_KEPT,
    "info_path": _NOT_KEPT,
    "line_graph_path": _NOT_KEPT,
    "save_name": _NOT_KEPT,
    "vocab_path": _NOT_KEPT,
}
# Names of DGL with an underscore that are here for programs that use them.
_PRIVATE = ("_ffi", "_get_dgl_url")
_KEYWORD = re.compile(r"^(?P<function>.*)\((?P<keyword>\w+)=\)$")
_MEMBER = object()  # what an object has, and its class does not


class Use(NamedTuple):
    """A name of DGL in a program, and what to use: its counterpart, or what takes its place."""

    file: str
    line: int
    name: str
    found: bool
    use: str


def uses(source: str, file: str = "<string>") -> list[Use]:
    """Returns the names of DGL that a program uses, by line.

    Args:
        source: the program.
        file: its name.

    Raises:
        SyntaxError: it is no Python.

    Example:
        >>> from smex.graph import migrate
        >>> [tuple(use) for use in migrate.uses("from dgl import graph")]
        [('<string>', 1, 'dgl.graph', True, 'smex.graph.graph')]
    """
    return _uses([(file, ast.parse(source, file))])


def _uses(parts: Sequence[tuple[str, ast.Module]]) -> list[Use]:
    """Returns the names in the parts of a program, which share their variables."""
    names = _Names([tree for _, tree in parts])
    found: list[Use] = []
    for file, tree in parts:
        own = sorted(set(names.of(tree)))
        found += [Use(file, line, name, *counterpart(name)) for line, name in own]
    return found


def counterpart(name: str) -> tuple[bool, str]:
    """Returns whether a name of DGL is there, and what to use for it.

    Example:
        >>> from smex.graph import migrate
        >>> migrate.counterpart("dgl.sparse.spmatrix")
        (True, 'smex.graph.sparse.spmatrix')
    """
    if name.endswith(".*"):
        return True, "import smex.graph, and each name by itself"
    keyword = _KEYWORD.match(name)
    if keyword is not None:
        return _of_keyword(name, keyword["function"], keyword["keyword"])
    if _resolved(name.split(".")[1:]) is not None:
        return True, "smex.graph" + name[len("dgl") :].replace(f".{GRAPH}", ".Graph")
    parts = name.split(".")
    if isinstance(_resolved(parts[1:-1]), type):
        text = _INSTEAD_OF_MEMBERS.get(parts[-1], "see docs/from_dgl.md")
        return False, INSTEAD.get(name, text)
    # A name of dgl.nn.pytorch.conv, say, is one of dgl.nn too.
    starts = [".".join([*parts[:2], parts[-1]])] if len(parts) > 3 else []
    starts += [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    start = next(start for start in starts if start in INSTEAD)
    return False, (_elsewhere(parts[1:]) if start in _MOVED else None) or INSTEAD[start]


def _of_keyword(name: str, function: str, keyword: str) -> tuple[bool, str]:
    found, use = counterpart(function)
    if found and takes_keyword(_resolved(function.split(".")[1:]), keyword):
        return True, f"{use}({keyword}=)"
    return False, "leave it out, or see docs/from_dgl.md"


def _elsewhere(path: Sequence[str]) -> str | None:
    """Where a name is that DGL has in a module of its own: ``nn.pytorch.conv.sageconv.SAGEConv``.

    It is looked for in the modules around it, so that a module stands for the class that it is
    named after.
    """
    for length in range(len(path) - 1, -1, -1):
        module = _resolved(path[:length])
        if not isinstance(module, ModuleType):
            continue
        for name in reversed(path[length:]):
            same = [n for n in getattr(module, "__all__", ()) if n.lower() == name.lower()]
            found = getattr(module, same[0]) if same else None
            if found is not None and not isinstance(found, ModuleType):
                around = (_resolved(path[:depth]) for depth in range(length + 1))
                first = next(m for m in around if getattr(m, same[0], None) is found)
                return f"{first.__name__}.{same[0]}"
    return None


def _resolved(path: Sequence[str]) -> Any:
    """Returns what an attribute of smex.graph is; None if it is not there."""
    found: Any = sg
    for number, part in enumerate(path):
        is_private = part.startswith("_") and not part.startswith("__")
        if is_private and part not in _PRIVATE and not isinstance(found, type):
            return None
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        if isinstance(found, type) and has_member(found, part):
            found = _MEMBER
            continue
        if not isinstance(found, ModuleType):  # dgl.merge is a function, and a module of that name
            found = sys.modules.get(".".join([sg.__name__, *path[:number]]))
            if not hasattr(found, part):
                return None
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(f"{found.__name__}.{part}")
        except ImportError:
            return None
    return found


def _named(name: str) -> Any:
    """Returns what of this package has a name of DGL; None if there is nothing."""
    return _resolved(name.split(".")[1:])


def _registered(tree: ast.Module) -> Iterator[str]:
    """Yields the stages of data pipes that a program adds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            if called in ("functional_datapipe", "register_datapipe_as_function"):
                yield str(node.args[0].value)


class _Names:
    """The names of DGL in a program, by the names that they are imported as."""

    def __init__(self, trees: Sequence[ast.Module]):
        self.aliases: dict[str, str] = {}
        self.all_of: list[str] = []  # modules of which everything is imported
        self.imported: dict[int, list[tuple[int, str]]] = {}
        for tree in trees:
            self.imported[id(tree)] = [
                name for node in ast.walk(tree) for name in self._imported(node)
            ]
        self.stages = {name for tree in trees for name in _registered(tree)}
        self.kinds = Kinds(trees, self.full_name, _named)

    def _imported(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "dgl":
                    self.aliases[alias.asname or "dgl"] = alias.name if alias.asname else "dgl"
                    if alias.name != "dgl":
                        yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level or module.partition(".")[0] != "dgl":
                return
            for alias in node.names:
                if alias.name == "*":
                    self.all_of.append(module)
                else:
                    self.aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
                yield node.lineno, f"{module}.{alias.name}"

    def full_name(self, node: ast.AST) -> str | None:
        """Returns the name of DGL that an expression is."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id) or self._of_all(node.id)
        if isinstance(node, ast.Attribute):
            start = self.full_name(node.value)
            return None if start is None else f"{start}.{node.attr}"
        return None

    def _of_all(self, name: str) -> str | None:
        """Returns a name that came with all of a module."""
        if hasattr(builtins, name):
            return None
        names = (f"{module}.{name}" for module in self.all_of)
        return next((n for n in names if n in INSTEAD or _named(n) is not None), None)

    def of(self, tree: ast.Module) -> Iterator[tuple[int, str]]:
        """Line and name of each use in a part of the program."""
        yield from self.imported[id(tree)]
        inner: set[int] = set()  # parts of names that were seen already
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and id(node) not in inner:
                yield from self._of_attribute(node, inner)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id not in self.aliases and not self.kinds.is_bound(node.id):
                    name = self._of_all(node.id)
                    if name is not None:
                        yield node.lineno, name
            elif isinstance(node, ast.Call):
                yield from self._of_keywords(node)

    def _of_attribute(self, node: ast.Attribute, inner: set[int]) -> Iterator[tuple[int, str]]:
        name = self.kinds.name_of(node)
        if name is not None:
            yield node.lineno, name
            part: ast.AST = node
            while isinstance(part, ast.Attribute):
                part = part.value
                inner.add(id(part))
            return
        kind = self.kinds.of(node.value)
        if not isinstance(kind, str) or node.attr.startswith("__"):
            return
        found = _named(kind)
        is_there = isinstance(found, type) and has_member(found, node.attr)
        if not isinstance(found, type) and kind != f"dgl.{GRAPH}":
            return
        is_own = not is_there and (
            self.kinds.is_bound(ast.unparse(node)) or node.attr in self.stages
        )
        is_torchs = is_there and issubclass(found, torch.nn.Module)
        if not is_own and not is_torchs:
            yield node.lineno, f"{kind}.{node.attr}"

    def _of_keywords(self, node: ast.Call) -> Iterator[tuple[int, str]]:
        function = self.kinds.name_of(node.func)
        if function is None:
            kind = self.kinds.of(node.func)
            if isinstance(kind, str) and isinstance(_named(kind), type):
                function = f"{kind}.forward"
            elif isinstance(node.func, ast.Attribute):
                kind = self.kinds.of(node.func.value)
                function = f"{kind}.{node.func.attr}" if isinstance(kind, str) else None
        if function is None or _named(function) in (None, _MEMBER):
            return
        for keyword in node.keywords:
            if keyword.arg is not None and not takes_keyword(_named(function), keyword.arg):
                yield keyword.value.lineno, f"{function}({keyword.arg}=)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table of the names.

    What cannot be read is reported, and the rest is listed nevertheless. Returns 2 if there is
    such a thing, also a folder without programs, otherwise 1 if a name is not there.
    """
    parser = argparse.ArgumentParser(
        prog="python -m smex.graph.migrate",
        description="Lists the names of DGL that programs use, and what of smex.graph to use.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a program, a notebook, or a folder of them"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--missing", action="store_true", help="only what is not there")
    options = parser.parse_args(arguments)
    found: list[Use] = []
    unread: list[str] = []
    number = 0
    for path in programs_in(options.files):
        if isinstance(path, str):
            unread.append(f"migrate: {path}")
            continue
        try:
            program = read(path)
        except SmexValueError as error:
            unread.append(str(error))
            continue
        number += 1
        unread += program.unread
        found += _uses(program.parts)
    for text in unread:
        print(text, file=sys.stderr)
    missing = [use for use in found if not use.found]
    shown = missing if options.missing else found
    if options.json:
        print(json.dumps([use._asdict() for use in shown], indent=2))
    else:
        rows = [
            (f"{u.file}:{u.line}", u.name, "there" if u.found else "MISSING", u.use) for u in shown
        ]
        for line in aligned(rows, indent=""):
            print(line)
        print(
            f"{counted(number, 'program')}: {counted(len(found), 'use')} of DGL, {len(missing)} of "
            "names that are not there"
        )
        if unread:
            print(f"not read, and not counted: {counted(len(unread), 'part')}; see above")
    if unread:
        return 2
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
