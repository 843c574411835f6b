"""Megatron-LM's placements of a transformer, as pins of a search."""

from __future__ import annotations

from collections.abc import Sequence

from smex.errors import SmexValueError
from smex.planning.semantic import SemanticGraph

COLUMN_PARALLEL = (
    *("query", "key", "value", "qkv", "q_proj", "k_proj", "v_proj"),
    *("up", "gate", "up_proj", "gate_proj", "fc1"),
)
"""Modules whose outputs Megatron divides."""


ROW_PARALLEL = ("proj", "o_proj", "out_proj", "down", "down_proj", "fc2")
"""Modules whose inputs Megatron divides."""


VOCABULARY_PARALLEL = ("tokens", "embed_tokens", "wte", "head", "lm_head")
"""Embeddings and output layers whose vocabulary Megatron divides."""


def megatron(
    graph: SemanticGraph,
    mesh: Sequence[int],
    *,
    data_parallel_steps: int = 0,
    column: Sequence[str] = COLUMN_PARALLEL,
    row: Sequence[str] = ROW_PARALLEL,
    vocabulary: Sequence[str] = VOCABULARY_PARALLEL,
) -> dict[str, list[int]]:
    """The placements that Megatron-LM gives a transformer (Shoeybi et al., 2019, §3), as pins.

    Matrices that begin a block are cut by outputs, their biases too; those that end it by inputs,
    and each worker has their biases; the vocabulary is cut; all other parameters are replicated.
    Inputs are cut along the batch in the data-parallel steps and replicated in the others.

    Args:
        graph: of a transformer, each matrix the `weight` of a module, outputs by inputs.
        mesh: the workers of the steps, as `smex.search` takes them.
        data_parallel_steps: how many of the first steps divide the batch.
        column: last parts of the paths of modules that are cut by outputs.
        row: of those that are cut by inputs.
        vocabulary: of those that are cut along the vocabulary.

    Returns:
        Pins by name, for `smex.search(graph, workers, mesh=mesh, pinned=...)`. Intermediate results
        are left to the search; with `replicate_bytes` above the activations' size it may hold them
        whole as Megatron does.

    Raises:
        SmexValueError: no module has one of the names, or more data-parallel steps than steps.
    """
    if not 0 <= data_parallel_steps <= len(mesh):
        raise SmexValueError(
            f"megatron: expected 0 to {len(mesh)} data_parallel_steps, found {data_parallel_steps}"
        )
    tensor_steps = len(mesh) - data_parallel_steps
    pins = {}
    divided = 0
    for name, value_id in graph.value_by_name.items():
        value = graph.captured.values[value_id]
        replicas = [-1] * data_parallel_steps
        module, _, kind = name.rpartition(".")
        module = module.rpartition(".")[2]
        cut = -1
        if value.role == "input":
            replicas = [0 if value.shape else -1] * data_parallel_steps
        elif value.role == "parameter" and module in (*column, *vocabulary):
            cut = 0
        elif value.role == "parameter" and module in row and kind == "weight":
            cut = 1
        divided += cut >= 0
        pins[name] = replicas + [cut] * tensor_steps
    if tensor_steps and not divided:
        known = ", ".join((*column, *row, *vocabulary))
        raise SmexValueError(f"megatron: no module of the model is called one of {known}")
    return pins
