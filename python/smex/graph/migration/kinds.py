"""What the variables of a program hold, as far as one can tell without running it.

A variable is what the last assignment before it says: an object of a class of DGL that is made
there, a graph that a function of DGL returns, an element of a data set or of a loader. Functions
have variables of their own; what is assigned to attributes of ``self`` holds for all of a program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

import torch

from smex.graph.data.dataset import LabelledGraphsMixin
from smex.graph.migration.members import has_member

__all__ = ["GRAPH", "Kinds"]

GRAPH = "dgl.DGLGraph"
GRAPHS = ("list", GRAPH)
Kind = Any
"""The name of a class of DGL, ``("list", kind)``, ``("tuple", kinds)`` or None."""

_MAKERS = {
    *("add_edges", "add_nodes", "add_reverse_edges", "add_self_loop", "batch", "block_to_graph"),
    *("create_block", "edge_subgraph", "edge_type_subgraph", "from_networkx", "from_scipy"),
    *("graph", "heterograph", "in_subgraph", "khop_graph", "knn_graph", "line_graph", "merge"),
    *("metapath_reachable_graph", "node_subgraph", "node_type_subgraph", "out_subgraph"),
    *("rand_bipartite", "rand_graph", "radius_graph", "remove_edges", "remove_nodes"),
    *("remove_self_loop", "reorder_graph", "reverse", "to_bidirected", "to_block"),
    *("to_heterogeneous", "to_homogeneous", "to_simple", "DGLGraph", "DGLHeteroGraph"),
}
_OTHER_MAKERS = {"load_graphs": ("tuple", (GRAPHS, None)), "unbatch": GRAPHS}
_GRAPH_METHODS = {  # methods of a graph that return one
    *("add_self_loop", "astype", "clone", "cpu", "cuda", "edge_subgraph", "edge_type_subgraph"),
    *("formats", "in_subgraph", "int", "line_graph", "local_var", "long", "node_type_subgraph"),
    *("out_subgraph", "remove_self_loop", "reverse", "subgraph", "to", "to_simple"),
}
_MODULE_METHODS = {"cpu", "cuda", "double", "eval", "float", "half", "to", "train"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_MAX_STEPS = 40
Position = tuple[int, int, int]


class _Scope:
    """The variables of a module, a function or a comprehension, with each of their assignments."""

    def __init__(self, parent: _Scope | None):
        self.parent = parent
        self.bindings: dict[str, list[tuple[Position, ast.AST | None, tuple]]] = {}

    def bind(self, name: str, at: Position, value: ast.AST | None, path: tuple = ()) -> None:
        self.bindings.setdefault(name, []).append((at, value, path))


class Kinds:
    """The kinds of the expressions of a program.

    Args:
        trees: its parts, which follow one another.
        full_name: the name of DGL that a name or attribute is, if it is one.
        resolved: what of this package has a name of DGL.
    """

    def __init__(
        self,
        trees: Iterable[ast.Module],
        full_name: Callable[[ast.AST], str | None],
        resolved: Callable[[str], Any],
    ):
        self._full_name, self._resolved = full_name, resolved
        self._scopes: dict[ast.AST, _Scope] = {}
        self._parts: dict[ast.AST, int] = {}
        self._module = _Scope(None)
        self._steps = 0
        for part, tree in enumerate(trees):
            self._part = part
            self._enter(tree, self._module)

    def name_of(self, node: ast.AST) -> str | None:
        """The name of DGL that an expression is, unless a variable of a function hides it."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        scope: _Scope | None = self._scopes.get(node)
        while isinstance(root, ast.Name) and scope is not None and scope is not self._module:
            if root.id in scope.bindings:
                return None
            scope = scope.parent
        return self._full_name(node)

    def of(self, node: ast.AST) -> Kind:
        """Returns what an expression holds."""
        self._steps = 0
        return self._kind(node)

    def is_bound(self, name: str) -> bool:
        """Returns whether a program assigns a variable anywhere."""
        return any(name in scope.bindings for scope in {*self._scopes.values(), self._module})

    # ---- assignments ----

    def _enter(self, node: ast.AST, scope: _Scope) -> None:
        self._scopes[node], self._parts[node] = scope, self._part
        inner = scope
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope.bind(node.name, self._end(node), None)
        if isinstance(node, _FUNCTIONS):
            inner = _Scope(scope)
            self._bind_arguments(node.args, inner)
        elif isinstance(node, _COMPREHENSIONS):
            inner = _Scope(scope)
            for generator in node.generators:
                self._bind(inner, generator.target, (0, 0, 0), generator.iter, ("iter",))
        else:
            self._bind_statement(node, scope)
        for child in ast.iter_child_nodes(node):
            self._enter(child, inner)

    def _bind_arguments(self, arguments: ast.arguments, scope: _Scope) -> None:
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in [*listed, *filter(None, (arguments.vararg, arguments.kwarg))]:
            note = argument.annotation if argument in listed else None
            scope.bind(argument.arg, (0, 0, 0), note, ("annotation",))

    def _bind_statement(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(scope, target, self._end(node), node.value)
        elif isinstance(node, ast.AnnAssign):
            self._bind(scope, node.target, self._end(node), node.annotation, ("annotation",))
        elif isinstance(node, (ast.NamedExpr, ast.AugAssign)):
            value = node.value if isinstance(node, ast.NamedExpr) else None
            self._bind(scope, node.target, self._end(node), value)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._bind(scope, node.target, self._end(node.iter), node.iter, ("iter",))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(scope, node.optional_vars, self._end(node.optional_vars), None)

    def _bind(
        self, scope: _Scope, target: ast.AST, at: Position, value: ast.AST | None, path: tuple = ()
    ) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for part, one in zip(target.elts, value.elts):
                    self._bind(scope, part, at, one, path)
                return
            for n, part in enumerate(target.elts):
                self._bind(scope, part, at, value, (*path, (n, len(target.elts))))
        elif isinstance(target, ast.Starred):
            self._bind(scope, target.value, at, None)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            text = ast.unparse(target)
            (self._module if text.startswith("self.") else scope).bind(text, at, value, path)

    def _end(self, node: Any) -> Position:
        return (self._part, node.end_lineno, node.end_col_offset)

    # ---- expressions ----

    def _kind(self, node: ast.AST) -> Kind:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            return None
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self._of_variable(node)
            if found is None and isinstance(node, ast.Attribute):
                return self._of_attribute(node)
            return found
        if isinstance(node, ast.NamedExpr):
            return self._kind(node.value)
        if isinstance(node, ast.Subscript):
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return self._item(self._kind(node.value), index)
        return self._of_call(node) if isinstance(node, ast.Call) else None

    def _of_variable(self, node: Any) -> Kind:
        text, at = ast.unparse(node), (self._parts[node], node.lineno, node.col_offset)
        scope: _Scope | None = self._scopes[node]
        if text.startswith("self."):
            assigned = self._module.bindings.get(text, [])
            kinds = [self._bound(b) for b in assigned if not _is_none(b[1])]
            return kinds[0] if kinds and kinds.count(kinds[0]) == len(kinds) else None
        own = scope
        while scope is not None:
            bindings = scope.bindings.get(text)
            if bindings:
                # A function runs after the module has; a name is what it was assigned last.
                before = [b for b in bindings if b[0] <= at] if scope is own else bindings
                return self._bound((before or bindings)[-1])
            scope = scope.parent
        return None

    def _bound(self, binding: tuple[Position, ast.AST | None, tuple]) -> Kind:
        _, value, path = binding
        if value is None:
            return None
        if path and path[0] == "annotation":
            name = self.name_of(value) or ""
            return GRAPH if name.rpartition(".")[2] in ("DGLGraph", "DGLHeteroGraph") else None
        kind = self._kind(value)
        for step in path:
            kind = self._element(kind) if step == "iter" else self._item(kind, *step)
        return kind

    def _class(self, kind: Kind) -> Any:
        return self._resolved(kind) if isinstance(kind, str) else None

    def _element(self, kind: Kind) -> Kind:
        """Returns what one finds going through something."""
        if isinstance(kind, tuple):
            return kind[1] if kind[0] == "list" else None
        name = (kind or "").rpartition(".")[2]
        if name in ("DataLoader", "GraphDataLoader"):
            return (name,)
        return self._item(kind, 0) if name.endswith("Dataset") else None

    def _item(self, kind: Kind, index: Any, number: int = 0) -> Kind:
        """Returns the element at a position, of `number` that are unpacked."""
        if isinstance(kind, tuple):
            if kind[0] == "list":
                return kind[1]
            if kind[0] == "tuple" and isinstance(index, int) and index < len(kind[1]):
                return kind[1][index]
            if kind[0] == "DataLoader" and number in (3, 4):  # ids, graphs of pairs, blocks
                if index == number - 1:
                    return GRAPHS
                return GRAPH if number == 4 and index > 0 else None
            return GRAPH if kind[0] == "GraphDataLoader" and index == 0 else None
        found = self._class(kind)
        if not isinstance(found, type) or not (kind or "").endswith("Dataset"):
            return GRAPH if "GraphDataset" in (kind or "") else None
        if issubclass(found, LabelledGraphsMixin):
            return ("tuple", (GRAPH, None))
        is_list = found.__name__ in ("PPIDataset", "SSTDataset")
        return GRAPH if is_list or has_member(found, "_g") else None

    def _of_attribute(self, node: ast.Attribute) -> Kind:
        kind = self._kind(node.value)
        if not isinstance(kind, str) or kind == GRAPH or not kind.endswith("Dataset"):
            return None
        if node.attr in ("graphs", "graph_lists"):
            return GRAPHS
        return GRAPH if node.attr in ("g", "train_graph", "_g") else None

    def _of_call(self, node: ast.Call) -> Kind:
        full = self.name_of(node.func)
        if full is not None:
            name = full.rpartition(".")[2]
            if name in _MAKERS:
                return GRAPH
            if name in _OTHER_MAKERS:
                return _OTHER_MAKERS[name]
            return (
                full if isinstance(self._resolved(full), type) or "GraphDataset" in name else None
            )
        if not isinstance(node.func, ast.Attribute):
            return None
        kind, method = self._kind(node.func.value), node.func.attr
        if kind == GRAPH:
            return GRAPH if method in _GRAPH_METHODS else None
        found = self._class(kind)
        is_module = isinstance(found, type) and issubclass(found, torch.nn.Module)
        return kind if is_module and method in _MODULE_METHODS else None


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
