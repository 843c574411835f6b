"""Residual layers whose inputs are computed from their outputs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph

__all__ = ["GroupRevRes"]


class GroupRevRes(nn.Module):
    r"""Grouped reversible residual connections (Li et al., ICML'21, §4.1).

    The features are cut into groups :math:`X_1 \ldots X_C`, each with a layer of its own:

    .. math:: X_0' = \sum_{i=2}^C X_i, \qquad X_i' = f_i(g, X_{i-1}') + X_i

    The backward pass computes each :math:`X_i` and what the layers do from the results, so that
    memory does not grow with the number of layers; a layer runs once more than without. Random
    numbers of a layer (dropout) are the same in both runs.

    Args:
        gnn_module: called as ``gnn_module(g, x, *args)``, with results of the shape of ``x``; it is
            the first layer, the others are copies.
        groups: the number of groups C.

    Raises:
        SmexValueError: less than two groups; in :meth:`forward` a width that they do not divide.

    Example:
        >>> g = sg.add_self_loop(sg.rand_graph(5, 20))
        >>> layer = sg.nn.GroupRevRes(sg.nn.GraphConv(4, 4), groups=2)
        >>> layer(g, torch.rand(5, 8)).shape
        torch.Size([5, 8])
    """

    def __init__(self, gnn_module: nn.Module, groups: int = 2):
        super().__init__()
        if groups < 2:
            raise SmexValueError(f"GroupRevRes: expected groups of at least 2, found {groups}")
        copies = [copy.deepcopy(gnn_module) for _ in range(groups - 1)]
        self.gnn_modules = nn.ModuleList([gnn_module, *copies])
        self.groups = groups

    def forward(self, g: Graph, x: Tensor, *args: Tensor) -> Tensor:
        """Returns the new features ``[num_nodes, width]``.

        Args:
            g: the graph.
            x: ``[num_nodes, width]``.
            args: more of what layers are called with, each cut into groups too.
        """
        for part in (x, *args):
            if part.shape[-1] % self.groups:
                raise SmexValueError(
                    f"GroupRevRes: expected features whose number {self.groups} groups divide, "
                    f"found shape {list(part.shape)}"
                )
        weights = [p for p in self.parameters() if p.requires_grad]
        return _Reversible.apply(self, g, len(args), x, *args, *weights)

    def _parts(self, args: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
        """The arguments of each group's layer."""
        if not args:
            return [()] * self.groups
        return list(zip(*(arg.chunk(self.groups, -1) for arg in args)))


class _Reversible(torch.autograd.Function):
    """The layers, of which nothing is kept but the results."""

    @staticmethod
    def forward(ctx: Any, layer: GroupRevRes, g: Graph, count: int, x: Tensor, *rest: Tensor):
        args = rest[:count]
        parts, ys = x.chunk(layer.groups, -1), []
        y = torch.stack(parts[1:]).sum(0)
        states = []
        for module, own, more in zip(layer.gnn_modules, parts, layer._parts(args)):
            states.append(_random_state(x))
            y = own + module(g, y, *more)
            ys.append(y)
        result = torch.cat(ys, -1)
        ctx.layer, ctx.g, ctx.count, ctx.states = layer, g, count, states
        ctx.save_for_backward(result, *rest)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        (grad,) = grads
        layer, g = ctx.layer, ctx.g
        result, *rest = ctx.saved_tensors
        args, weights = tuple(rest[: ctx.count]), rest[ctx.count :]
        ys = list(result.chunk(layer.groups, -1))
        of_y = [part.clone() for part in grad.chunk(layer.groups, -1)]
        more = layer._parts(args)
        of_weights = [torch.zeros_like(w) for w in weights]
        of_more: list[tuple[Tensor, ...]] = [()] * layer.groups
        xs: list[Tensor] = [ys[0]] * layer.groups
        of_first = torch.zeros_like(of_y[0])
        for i in reversed(range(layer.groups)):
            given = ys[i - 1] if i else torch.stack(xs[1:]).sum(0)
            given = given.detach().requires_grad_()
            inputs = [arg.detach().requires_grad_(arg.is_floating_point()) for arg in more[i]]
            with torch.random.fork_rng(_devices(result)), torch.enable_grad():
                _set_random_state(ctx.states[i])
                made = layer.gnn_modules[i](g, given, *inputs)
            xs[i] = (ys[i] - made).detach()
            wanted = [given, *(arg for arg in inputs if arg.requires_grad), *weights]
            found = torch.autograd.grad(made, wanted, of_y[i], allow_unused=True)
            found = tuple(torch.zeros_like(w) if f is None else f for w, f in zip(wanted, found))
            if i:
                of_y[i - 1] = of_y[i - 1] + found[0]
            else:
                of_first = found[0]
            floating = iter(found[1 : len(found) - len(weights)])
            of_more[i] = tuple(
                next(floating) if arg.requires_grad else torch.zeros(()) for arg in inputs
            )
            for total, part in zip(of_weights, found[len(found) - len(weights) :]):
                total += part
        of_x = torch.cat([of_y[0], *(part + of_first for part in of_y[1:])], -1)
        of_args = [
            torch.cat(parts, -1) if arg.is_floating_point() else None
            for arg, parts in zip(args, zip(*of_more))
        ]
        return None, None, None, of_x, *of_args, *of_weights


def _devices(x: Tensor) -> list[int]:
    return [x.get_device()] if x.is_cuda else []


def _random_state(x: Tensor) -> tuple[Tensor, Tensor | None, int]:
    on_device = torch.cuda.get_rng_state(x.device) if x.is_cuda else None
    return torch.get_rng_state(), on_device, x.get_device()


def _set_random_state(state: tuple[Tensor, Tensor | None, int]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], state[2])
