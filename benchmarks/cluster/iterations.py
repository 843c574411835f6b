"""What an iteration of distributed training takes, from tables of layers, links and sizes.

T = when the last of these tasks ends, each resource being one stage of one replica (a node):

    passes      sums of `profiles.json` over the stage's layers            -> `Predictor.stage`
    gathers     of a received hidden state among the node's tensor ranks   -> `Predictor.gather`
    sends       of it between nodes, which occupy both ends                -> `Predictor.send`
    barrier     of all devices, after the last backward pass               -> `Predictor.iteration`
    all-reduce  a ring over a stage's replicas, for all tensor ranks       -> `Predictor.reduce`
    step        the profile's AdamW step by parameters                     -> `Predictor.step`

Devices run their tasks in the order of DeepSpeed's pipeline engine (`pipelines.py`). Layer times,
curves of links and sizes are those of the data's files; what moves, when and between whom is from
its README, as are bytes per parameter and the constant of memory, which are those of Sailor's
simulator. No number is fitted to measured iterations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from pipelines import Stage, add_pipeline

from smex.cluster import Tasks

FLOAT_BYTES = 4  # all is in float32
BYTES_PER_PARAMETER = 24  # of Sailor's simulator, like the next one
FIXED_BYTES = 5.06e9
SLOW = "RTX-3090"  # a job with one of these has its slow network throughout

Replica = tuple[str, int]
"""The GPUs of a node, and how many of them are tensor ranks."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Seconds of an iteration and of the longest all-reduce in it, and bytes at the peak."""

    seconds: float
    reduce_seconds: float
    peak_bytes: float


def seconds_on(curve: dict[str, Any], flows: int, message_bytes: float) -> float:
    """Seconds of as many flows at once, of one message each, on a link's fitted curve."""
    x = math.log2(message_bytes / 1e6)
    a, b, c = curve["coefficients"]
    return flows * message_bytes / (1e9 * (a * x * x + b * x + c))


class Predictor:
    """Predicts an iteration of one case.

    Args:
        files: the contents of profiles.json, memory.json and links.json, by name.
        case: one of the cases.
        is_replay: leaves receivers free during sends, and gathers out.
    """

    def __init__(self, files: dict[str, Any], case: dict[str, Any], is_replay: bool = False):
        self.plan = case["plan"]
        self.links = files["links"]
        self.profiles = files["profiles"]["models"][case["model"]]
        self.sizes = files["memory"]["models"][case["model"]]
        self.is_slow = SLOW in case["devices"]
        self.is_replay = is_replay
        hidden = files["memory"]["hidden_size"][case["model"]]
        length = files["memory"]["sequence_length"]
        self.hidden_bytes = self.plan["micro_batch"] * length * hidden * FLOAT_BYTES

    def kinds(self, stage: int) -> list[str]:
        """Of each of a stage's layers, what the files call it."""
        first, last = self.plan["stages"][stage]["layers"]
        named = {0: "embedding", 1: "first_block", self.profiles["layers"] - 1: "last"}
        return [named.get(layer, "block") for layer in range(first, last + 1)]

    def replicas(self, stage: int) -> list[Replica]:
        return [(gpu, ranks) for gpu, ranks in self.plan["stages"][stage]["replicas"]]

    def total(self, kinds: Iterable[str], ranks: int, what: str) -> int:
        """The sum of an entry of memory.json over layers."""
        return sum(self.sizes[str(ranks)][kind][what] for kind in kinds)

    def profile(self, replica: Replica) -> dict[str, Any]:
        gpu, ranks = replica
        return self.profiles["gpus"][gpu][str(self.plan["micro_batch"])][str(ranks)]

    def between(self, sender: Replica, receiver: Replica, flows: int) -> dict[str, Any]:
        """The curve of the link between two nodes."""
        ends = f"{SLOW}>{SLOW}" if self.is_slow else f"{sender[0]}>{receiver[0]}"
        return self.links["inter_node"][ends][str(flows)]

    def send(self, sender: Replica, receiver: Replica) -> float:
        """Seconds until all tensor ranks have sent their part of a hidden state, at once."""
        flows = min(sender[1], receiver[1])
        curve = self.between(sender, receiver, flows)
        return seconds_on(curve, flows, self.hidden_bytes / flows)

    def gather(self, replica: Replica) -> float:
        """Seconds of a ring over the node, in which each rank gets the parts of all others."""
        gpu, ranks = replica
        if self.is_replay or ranks == 1:
            return 0.0
        curve = self.links["intra_node"][gpu][str(ranks)]
        return (ranks - 1) * seconds_on(curve, ranks, self.hidden_bytes / ranks)

    def stage(self, stage: int, number: int) -> Stage:
        """What one replica's micro-batch takes; what was received is gathered first."""
        nodes = [self.replicas(s)[number] for s in range(self.plan["pipeline"])]
        node, times = nodes[stage], self.profile(nodes[stage])
        forward, backward = (sum(times[k][way] for k in self.kinds(stage)) for way in (0, 1))
        is_first, is_last = stage == 0, stage == len(nodes) - 1
        return Stage(
            forward=forward + (0.0 if is_first else self.gather(node)),
            backward=backward + (0.0 if is_last else self.gather(node)),
            activation=0.0 if is_last else self.send(node, nodes[stage + 1]),
            gradient=0.0 if is_first else self.send(node, nodes[stage - 1]),
        )

    def reduce(self, stage: int) -> float:
        """Seconds of a ring over the replicas: 2 (d - 1) steps, as long as the slowest link.

        All tensor ranks do it at once; where their number differs, shards are of the fewest.
        """
        nodes = self.replicas(stage)
        flows = min(ranks for _, ranks in nodes)
        shard = FLOAT_BYTES * self.total(self.kinds(stage), flows, "params_floats") / len(nodes)
        ring = list(zip(nodes, nodes[1:] + nodes[:1]))
        slowest = max(seconds_on(self.between(a, b, flows), flows, shard) for a, b in ring)
        return 2 * (len(nodes) - 1) * slowest

    def step(self, stage: int, replica: Replica) -> float:
        """Seconds of AdamW, which the profile has of a model of four layers."""
        profiled = ("embedding", "first_block", "block", "last")
        ranks = replica[1]
        own = self.total(self.kinds(stage), ranks, "params_floats")
        step_seconds = self.profile(replica)["optimizer_step"]
        return step_seconds * own / self.total(profiled, ranks, "params_floats")

    def peak_bytes(self) -> float:
        """The most bytes on any GPU, with min(S - i, m) micro-batches alive on stage i."""
        plan, peak = self.plan, 0.0
        for stage in range(plan["pipeline"]):
            alive = plan["micro_batch"] * min(plan["pipeline"] - stage, plan["micro_batches"])
            kinds = self.kinds(stage)
            for _, ranks in self.replicas(stage):
                parameters = self.total(kinds, ranks, "params_floats")
                kept = FLOAT_BYTES * alive * self.total(kinds, ranks, "act_mem_floats")
                peak = max(peak, BYTES_PER_PARAMETER * parameters + kept + FIXED_BYTES)
        return peak

    def iteration(self) -> Prediction:
        plan, tasks, order = self.plan, Tasks(), []
        stages, replicas = range(plan["pipeline"]), range(plan["data"])
        for j in replicas:
            of_replica = [self.stage(s, j) for s in stages]
            blocks = not self.is_replay
            order += add_pipeline(
                tasks, of_replica, plan["micro_batches"], j, blocks_receivers=blocks
            )
        tasks.add("barrier", 0.0, [(j, s) for j in replicas for s in stages])
        order.append("barrier")
        reduces = [self.reduce(s) for s in stages]
        for s in stages:
            tasks.add(("reduce", s), reduces[s], [(j, s) for j in replicas], "barrier")
            order.append(("reduce", s))
            for j, node in enumerate(self.replicas(s)):
                tasks.add(("step", j, s), self.step(s, node), (j, s), ("reduce", s))
                order.append(("step", j, s))
        return Prediction(tasks.schedule(order).makespan, max(reduces), self.peak_bytes())
