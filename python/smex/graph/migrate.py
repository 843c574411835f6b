"""What of DGL a program uses, and what of it is there: ``python -m smex.graph.migrate FILE ...``.

Programs are parsed, not run. Names of DGL are followed through imports and their aliases. Methods
are looked for on variables that hold graphs: those annotated so, assigned from functions of DGL
that make graphs, or from methods of such a graph that return one.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import smex.graph as sg
from smex.errors import SmexValueError
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
    "dgl.DGLGraph.sample_neighbors_fused": "sampling.sample_neighbors, then to_block",
    "dgl.DGLGraph.shared_memory": "save_graphs and load_graphs",
    "dgl.DGLGraph.to_cugraph": "g.edges(), tensors that cugraph reads",
    "dgl.LazyFeature": "prefetch_node_feats and prefetch_edge_feats of a sampler",
    "dgl.adj_product_graph": "torch.sparse.mm of g.adj(), then from_torch_sparse",
    "dgl.adj_sum_graph": "the sum of g.adj(), then from_torch_sparse",
    "dgl.backend": "torch",
    "dgl.backend_name": "torch, the only one",
    "dgl.cuda": "torch.cuda",
    "dgl.data": "data.DGLDataset with a process of one's own, or from_pyg of PyG's data set",
    "dgl.data.CSVDataset": "pandas.read_csv, then graph or heterograph",
    "dgl.data.load_data": "the data set by its name, such as data.CoraGraphDataset",
    "dgl.data.loadtxt": "numpy.loadtxt",
    "dgl.data.register_data_args": "argparse",
    "dgl.dataloading": "see docs/from_dgl.md",
    "dgl.dataloading.CollateWrapper": "dataloading.DataLoader",
    "dgl.dataloading.Collator": "dataloading.DataLoader",
    "dgl.dataloading.DDPTensorizedDataset": "ids as a tensor, dataloading.DataLoader(use_ddp=True)",
    "dgl.dataloading.DistEdgeDataLoader": "torch.distributed, partition_graph_with_halo",
    "dgl.dataloading.DistNodeDataLoader": "torch.distributed, partition_graph_with_halo",
    "dgl.dataloading.EdgeCollator": "dataloading.as_edge_prediction_sampler",
    "dgl.dataloading.GraphCollator": "dataloading.GraphDataLoader",
    "dgl.dataloading.NodeCollator": "dataloading.DataLoader",
    "dgl.dataloading.TensorizedDataset": "ids as a tensor, dataloading.DataLoader",
    "dgl.dataloading.create_tensorized_dataset": "ids as a tensor, dataloading.DataLoader",
    "dgl.distributed": "torch.distributed, partition_graph_with_halo",
    "dgl.enable_verbose_logging": "the environment variable SMEX_LOGS",
    "dgl.from_cugraph": "graph, of the tensors of its edges",
    "dgl.geometry": "torch_geometric.nn.fps, torch_geometric.nn.graclus",
    "dgl.graphbolt": "dataloading",
    "dgl.hetero_from_shared_memory": "save_graphs and load_graphs",
    "dgl.is_libxsmm_enabled": "nothing: leave it out",
    "dgl.multiprocessing": "torch.multiprocessing",
    "dgl.nn": "message passing by update_all, or torch_geometric.nn and to_pyg",
    "dgl.nn.CuGraphGATConv": "nn.GATConv",
    "dgl.nn.CuGraphRelGraphConv": "nn.RelGraphConv",
    "dgl.nn.CuGraphSAGEConv": "nn.SAGEConv",
    "dgl.nn.GroupRevRes": "torch.utils.checkpoint around the layers",
    "dgl.nn.HeteroSubgraphX": "nn.HeteroGNNExplainer, nn.HeteroPGExplainer",
    "dgl.nn.NodeEmbedding": "torch.nn.Embedding(sparse=True), torch.optim.SparseAdam",
    "dgl.nn.SubgraphX": "nn.GNNExplainer, nn.PGExplainer",
    "dgl.nn.WeightBasis": "nn.TypedLinear(regularizer='basis').get_weight()",
    "dgl.nn.pairwise_squared_distance": "torch.cdist(x, x) ** 2",
    "dgl.optim": "torch.optim.SparseAdam, torch.optim.Adagrad",
    "dgl.sampling.sample_neighbors_fused": "sampling.sample_neighbors, then to_block",
    **{
        f"{module}.set_{kind}_lazy_features": "prefetch_node_feats and prefetch_edge_feats"
        for module in ("dgl", "dgl.dataloading")
        for kind in ("dst", "edge", "node", "src")
    },
    "dgl.sparse": "torch.sparse; g.adj() and from_torch_sparse of graphs; ops.gspmm and ops.gsddmm",
    "dgl.sparse.bsddmm": "ops.u_dot_v of the graph",
    "dgl.sparse.bspmm": "ops.u_mul_e_sum of the graph",
    "dgl.sparse.from_coo": "torch.sparse_coo_tensor",
    "dgl.sparse.from_csc": "torch.sparse_csc_tensor",
    "dgl.sparse.from_csr": "torch.sparse_csr_tensor",
    "dgl.sparse.sddmm": "ops.u_dot_v of the graph, torch.sparse.sampled_addmm",
    "dgl.sparse.softmax": "ops.edge_softmax of the graph, torch.sparse.softmax",
    "dgl.sparse.spmatrix": "torch.sparse_coo_tensor",
    "dgl.sparse.spmm": "torch.sparse.mm, ops.u_mul_e_sum of the graph",
    "dgl.storages": "tensors of torch",
    "dgl.to_cugraph": "g.edges(), tensors that cugraph reads",
    "dgl.transforms.adj_product_graph": "torch.sparse.mm of g.adj(), then from_torch_sparse",
    "dgl.transforms.adj_sum_graph": "the sum of g.adj(), then from_torch_sparse",
    "dgl.use_libxsmm": "nothing: leave it out",
}

# Where DGL has modules of its own for what stands in one here.
_MOVED = ("dgl", "dgl.data", "dgl.nn")

_DATA_SUFFIX = "Dataset"
_MAKERS = (
    *("add_edges", "add_nodes", "add_reverse_edges", "add_self_loop", "batch", "block_to_graph"),
    *("create_block", "edge_subgraph", "edge_type_subgraph", "from_networkx", "from_scipy"),
    *("graph", "heterograph", "in_subgraph", "khop_graph", "knn_graph", "line_graph", "merge"),
    *("metapath_reachable_graph", "node_subgraph", "node_type_subgraph", "out_subgraph"),
    *("rand_bipartite", "rand_graph", "radius_graph", "remove_edges", "remove_nodes"),
    *("remove_self_loop", "reorder_graph", "reverse", "to_bidirected", "to_block"),
    *("to_heterogeneous", "to_homogeneous", "to_simple"),
)
_GRAPH_METHODS = {  # methods of a graph that return one
    *("add_self_loop", "astype", "clone", "cpu", "cuda", "edge_subgraph", "edge_type_subgraph"),
    *("formats", "in_subgraph", "int", "line_graph", "local_var", "long", "node_type_subgraph"),
    *("out_subgraph", "remove_self_loop", "reverse", "subgraph", "to", "to_simple"),
}


class Use(NamedTuple):
    """A name of DGL in a program, and what to use: its counterpart, or what takes its place."""

    file: str
    line: int
    name: str
    found: bool
    use: str


def uses(source: str, file: str = "<string>") -> list[Use]:
    """The names of DGL that a program uses, by line.

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
    visitor = _Visitor()
    tree = ast.parse(source, file)
    visitor.visit(tree)
    visitor.look_for_methods(tree)
    found = sorted(set(visitor.names))
    return [Use(file, line, name, *counterpart(name)) for line, name in found]


def counterpart(name: str) -> tuple[bool, str]:
    """Whether a name of DGL is there, and what to use for it.

    Example:
        >>> from smex.graph import migrate
        >>> migrate.counterpart("dgl.sparse.spmatrix")[0]
        False
    """
    if name.endswith(".*"):
        return True, "import smex.graph, and each name by itself"
    if _resolved(name.split(".")[1:]) is not None:
        return True, "smex.graph" + name[len("dgl") :].replace(f".{GRAPH}", ".Graph")
    parts = name.split(".")
    # A name of dgl.nn.pytorch.conv, say, is one of dgl.nn too.
    starts = [".".join([*parts[:2], parts[-1]])] if len(parts) > 3 else []
    starts += [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    start = next(start for start in starts if start in INSTEAD)
    return False, (_elsewhere(parts[1:]) if start in _MOVED else None) or INSTEAD[start]


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
    """What an attribute of smex.graph is; None if it is not there."""
    found: Any = sg
    for part in path:
        if part.startswith("_") and not part.startswith("__"):
            return None
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        if not isinstance(found, ModuleType):
            return None
        try:
            found = importlib.import_module(f"{found.__name__}.{part}")
        except ImportError:
            return None
    return found


class _Visitor(ast.NodeVisitor):
    """Names of DGL, by the names that they are imported as."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self.names: list[tuple[int, str]] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "dgl":
                self.aliases[alias.asname or "dgl"] = alias.name if alias.asname else "dgl"
                if alias.name != "dgl":
                    self.names.append((node.lineno, alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.partition(".")[0] != "dgl":
            return
        for alias in node.names:
            self.aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
            self.names.append((node.lineno, f"{module}.{alias.name}"))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.full_name(node)
        if name is None:
            self.generic_visit(node)
        else:
            self.names.append((node.lineno, name))

    def full_name(self, node: ast.AST) -> str | None:
        """The name of DGL that an expression is."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            start = self.full_name(node.value)
            return None if start is None else f"{start}.{node.attr}"
        return None

    # ---- methods ----

    def look_for_methods(self, tree: ast.AST) -> None:
        """Attributes of what is known to be a graph."""
        kinds = self._kinds(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and self._kind(node.value, kinds) == GRAPH:
                self.names.append((node.lineno, f"dgl.{GRAPH}.{node.attr}"))

    def _kinds(self, tree: ast.AST) -> dict[str, str]:
        """Which variables and attributes are graphs or data sets."""
        kinds: dict[str, str] = {}
        nodes = list(ast.walk(tree))
        for _ in range(3):  # an assignment may stand before that of what it uses
            for node in nodes:
                for target, kind in self._told(node, kinds):
                    if kind is not None:
                        kinds[target] = kind
        return kinds

    def _told(self, node: ast.AST, kinds: dict[str, str]) -> Iterable[tuple[str, str | None]]:
        if isinstance(node, ast.Assign):
            kind = self._kind(node.value, kinds)
            yield from ((ast.unparse(target), kind) for target in node.targets)
        elif isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            target = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
            name = self.full_name(node.annotation) or ""
            is_graph = name.rpartition(".")[2] in (GRAPH, "DGLHeteroGraph")
            yield target, GRAPH if is_graph else None

    def _kind(self, node: ast.AST, kinds: dict[str, str]) -> str | None:
        """``DGLGraph``, ``data`` for a data set, or None."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            return kinds.get(ast.unparse(node))
        if isinstance(node, ast.Subscript):
            return GRAPH if self._kind(node.value, kinds) == "data" else None
        if not isinstance(node, ast.Call):
            return None
        name = (self.full_name(node.func) or "").rpartition(".")[2]
        if name in (*_MAKERS, GRAPH):
            return GRAPH
        if name.endswith(_DATA_SUFFIX):
            found = _resolved(["data", name])
            one = (found is not None and hasattr(found, "_g")) or "GraphDataset" in name
            return "data" if one else None
        if isinstance(node.func, ast.Attribute) and node.func.attr in _GRAPH_METHODS:
            return self._kind(node.func.value, kinds)
        return None


def _programs(paths: Iterable[str]) -> list[Path]:
    """The files, and those in the folders."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def _read(path: Path) -> list[Use]:
    try:
        return uses(path.read_text(encoding="utf-8"), str(path))
    except (OSError, SyntaxError, ValueError) as error:
        raise SmexValueError(
            f"migrate: {path} cannot be read as Python: {error}; pass programs or folders of them"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table of the names.

    A file that cannot be read is reported, and the others are listed nevertheless. Returns 2 if
    there is such a file, otherwise 1 if a name is not there.
    """
    parser = argparse.ArgumentParser(
        prog="python -m smex.graph.migrate",
        description="Lists the names of DGL that programs use, and what of smex.graph to use.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a program, or a folder of them")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--missing", action="store_true", help="only what is not there")
    options = parser.parse_args(arguments)
    found: list[Use] = []
    unread = 0
    for path in _programs(options.files):
        try:
            found += _read(path)
        except SmexValueError as error:
            print(error, file=sys.stderr)
            unread += 1
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
        print(f"{len(found)} uses of DGL, {len(missing)} of names that are not there")
    if unread:
        return 2
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
