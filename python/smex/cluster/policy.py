"""HeteroG's policy network: a GAT over the ops, and a Transformer-XL over their groups (§4.1).

    e_o = ‖_k σ(Σ_{j ∈ N(o)} α^k_oj W^k e_j)      -> `Policy.encoder`, layers of `GATConv`
    g_n = σ(Σ_{o ∈ group n} W e_o)                -> `Policy.embed`, over the root of their number
    logits of M + 4 actions for each group        -> `Policy.segments` and `Policy.head`

The paper's sizes are 12 GAT layers of 8 heads and 8 layers of Transformer-XL, for GPUs; `Sizes` are
smaller by default, for CPUs.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from smex.cluster.strategies import Strategies
from smex.errors import SmexTypeError, SmexValueError

if TYPE_CHECKING:  # what needs smex.graph imports it then: `import smex` is a second faster without
    from smex.graph import Graph

FORMAT = "smex-policy-1"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large the network is; `Sizes.of_the_paper()` for GPUs.

    Attributes:
        gat_layers: of graph attention.
        heads: of each layer, also of the Transformer-XL.
        width: of embeddings of ops and groups; a multiple of the heads.
        layers: of the Transformer-XL.
        segment: groups that attend to each other, and to the segment before.
    """

    gat_layers: int = 3
    heads: int = 4
    width: int = 64
    layers: int = 2
    segment: int = 64

    def __post_init__(self) -> None:
        numbers = dataclasses.asdict(self)
        if any(type(number) is not int or number < 1 for number in numbers.values()):
            raise SmexValueError(f"policy: expected sizes from 1 on, found {numbers}")
        if self.width % self.heads or self.width % 2:
            raise SmexValueError(
                f"policy: expected an even width that is a multiple of {self.heads} heads, found "
                f"{self.width}"
            )

    @staticmethod
    def of_the_paper() -> Sizes:
        """HeteroG's (§5); the width and the segment are not told."""
        return Sizes(gat_layers=12, heads=8, width=128, layers=8, segment=256)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What the policy reads of a graph on a cluster.

    Attributes:
        graph: of ops, edges in both directions and to themselves.
        features: ``[ops, kinds + 6]``, float32, each column of mean 0 and variance 1: logarithms of
            the seconds on each kind of device, of the bytes of results, operands and parameters and
            of the average transfer time of the results; whether it is backward; its place.
        group_of: ``[ops]``, int64.
        groups: how many there are.
    """

    graph: Graph
    features: Tensor
    group_of: Tensor
    groups: int

    @staticmethod
    def of(strategies: Strategies) -> Inputs:
        """Returns the inputs for what is to be searched."""
        from smex.graph import add_self_loop
        from smex.graph import graph as graph_of

        ops = len(strategies.group_of)
        makers = [a for a, _ in strategies.edges]
        readers = [b for _, b in strategies.edges]
        both = graph_of((torch.tensor(makers + readers), torch.tensor(readers + makers)),
                        num_nodes=ops)  # fmt: skip
        return Inputs(
            add_self_loop(both), _features(strategies), torch.tensor(strategies.group_of),
            strategies.groups,
        )  # fmt: skip


def _features(strategies: Strategies) -> Tensor:
    native, cluster = strategies.graph.native, strategies.cluster
    values = native.values
    parameters = {v.id for v in strategies.graph.captured.values if v.role == "parameter"}
    pairs = [(a, b) for a in range(cluster.workers) for b in range(cluster.workers) if a != b]
    links = [cluster.link(a, b) for a, b in pairs]
    of_byte = sum(1 / link.bandwidth for link in links) / max(1, len(links))
    of_message = sum(link.latency for link in links) / max(1, len(links))
    rows = []
    ops = list(native.ops)
    for op in ops:
        made = sum(values[value].nbytes for value in op.outputs if value >= 0)
        own = sum(values[value].nbytes for value in op.inputs if value in parameters)
        read = sum(values[value].nbytes for value in op.inputs if value >= 0)
        times = [own_seconds[op.id] for own_seconds in strategies.seconds_by_kind.values()]
        moves = of_message + made * of_byte
        rows.append(
            [*(math.log1p(seconds * 1e6) for seconds in times), math.log1p(made), math.log1p(read),
             math.log1p(own), math.log1p(moves * 1e6), float(op.backward), op.id / len(ops)]
        )  # fmt: skip
    features = torch.tensor(rows, dtype=torch.float32)
    return (features - features.mean(0)) / features.std(0, unbiased=False).clamp(min=1e-6)


class Segments(nn.Module):
    """A layer of Transformer-XL: attention to the segment and the one before it (Dai et al., 2019).

    Scores are (q_i + u)·k_j + (q_i + v)·r_{i-j}, r being sinusoids of distances; within a segment
    attention goes both ways, as all groups are known.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.distance = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.distance_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.out = nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inner = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, segment: Tensor, memory: Tensor) -> Tensor:
        """Returns ``[length, width]`` of a segment and the memory ``[before, width]``."""
        length, width = segment.shape
        seen = torch.cat([memory, segment])
        queries = self.query(segment).view(length, self.heads, -1)
        keys, values = self.key_value(seen).view(len(seen), 2, self.heads, -1).unbind(1)
        # From place i of the segment to place j of what is seen: len(memory) + i - j.
        steps = torch.arange(length).unsqueeze(1) + len(memory) - torch.arange(len(seen))
        table = self.distance(_sinusoids(steps.min(), steps.max(), width))
        table = table.view(len(table), self.heads, -1)
        by_content = torch.einsum("qhd,khd->hqk", queries + self.content_bias, keys)
        by_distance = torch.einsum("qhd,rhd->hqr", queries + self.distance_bias, table)
        places = (steps - steps.min()).expand(self.heads, -1, -1)
        scores = (by_content + by_distance.gather(2, places)) / math.sqrt(keys.shape[-1])
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).reshape(length, width)
        segment = self.norms[0](segment + self.out(mixed))
        return self.norms[1](segment + self.inner(segment))


def _sinusoids(first: Tensor, last: Tensor, width: int) -> Tensor:
    """``[last - first + 1, width]``."""
    places = torch.arange(int(first), int(last) + 1, dtype=torch.float32).unsqueeze(1)
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    return torch.cat([(places * rates).sin(), (places * rates).cos()], dim=1)


class Policy(nn.Module):
    """The probabilities of M + 4 actions for each group of ops.

    Args:
        workers: M.
        kinds: names of the kinds of devices, in the order of the features.
        sizes: of the network.
    """

    def __init__(self, workers: int, kinds: Sequence[str], sizes: Sizes | None = None):
        from smex.graph.nn import GATConv

        super().__init__()
        sizes = sizes or Sizes()
        self.workers, self.kinds, self.sizes = workers, tuple(kinds), sizes
        width, each = sizes.width, sizes.width // sizes.heads
        features = len(self.kinds) + 6
        self.encoder = nn.ModuleList(
            GATConv(features if layer == 0 else width, each, sizes.heads, residual=True)
            for layer in range(sizes.gat_layers)
        )
        self.embed = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.segments = nn.ModuleList(Segments(width, sizes.heads) for _ in range(sizes.layers))
        self.head = nn.Linear(width, workers + 4)

    @staticmethod
    def for_strategies(strategies: Strategies, sizes: Sizes | None = None) -> Policy:
        """Returns a new one."""
        return Policy(strategies.workers, tuple(strategies.seconds_by_kind), sizes)

    def forward(self, inputs: Inputs) -> Tensor:
        """Returns logits ``[groups, M + 4]``."""
        ops = inputs.features
        for layer in self.encoder:
            ops = torch.nn.functional.elu(layer(inputs.graph, ops).flatten(1))
        members = torch.bincount(inputs.group_of, minlength=inputs.groups).clamp(min=1)
        sums = torch.zeros(inputs.groups, ops.shape[1]).index_add(
            0, inputs.group_of, self.embed(ops)
        )
        groups = self.norm(torch.relu(sums / members.sqrt().unsqueeze(1)))
        return self.head(self._decoded(groups))

    def _decoded(self, groups: Tensor) -> Tensor:
        memories = [groups.new_zeros(0, groups.shape[1]) for _ in self.segments]
        decoded = []
        for part in groups.split(self.sizes.segment):
            for number, layer in enumerate(self.segments):
                read, part = part, layer(part, memories[number])
                memories[number] = read.detach()
            decoded.append(part)
        return torch.cat(decoded)

    # ---- files ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes weights and sizes."""
        torch.save(
            {
                "format": FORMAT,
                "workers": self.workers,
                "kinds": list(self.kinds),
                "sizes": dataclasses.asdict(self.sizes),
                "weights": self.state_dict(),
            },
            path,
        )

    @staticmethod
    def load(path: str | os.PathLike[str], strategies: Strategies) -> Policy:
        """Reads what `save` wrote, to go on with it for other strategies.

        Raises:
            SmexTypeError: it is no such file.
            SmexValueError: it is of other workers or kinds of devices.
            OSError: it cannot be read.
        """
        try:
            content: Any = torch.load(path, weights_only=True)
        except OSError:
            raise
        except Exception as error:
            raise SmexTypeError(f"policy: {path} is no file of a policy: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise SmexTypeError(
                f"policy: {path} is no file of a policy, expected format {FORMAT!r}"
            )
        found = content["workers"], tuple(content["kinds"])
        expected = strategies.workers, tuple(strategies.seconds_by_kind)
        if found != expected:
            raise SmexValueError(
                f"policy: {path} is for {found[0]} workers of {', '.join(found[1])}, expected "
                f"{expected[0]} of {', '.join(expected[1])}"
            )
        policy = Policy(*found, Sizes(**content["sizes"]))
        policy.load_state_dict(content["weights"])
        return policy
