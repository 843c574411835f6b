"""Models of two layers that are trained, of any system's layers."""

from __future__ import annotations

from collections.abc import Callable

from systems.base import Case, Operator
from torch import Tensor, nn


def sizes(case: Case) -> list[tuple[int, int]]:
    """Sizes of the input and output rows of both layers."""
    return [(case.features, case.width), (case.width, case.classes)]


def trained(
    layers: list[nn.Module],
    names: dict[str, str],
    call: Callable[[nn.Module, Tensor], Tensor],
    between: Callable[[Tensor], Tensor],
) -> Operator:
    """The model `x -> call(second, between(call(first, x)))`.

    `names` has the name of the layers' parameter for each role; roles get the layer's number.
    """
    first, second = layers
    parameters = {
        f"{role}{number}": layer.get_parameter(name)
        for number, layer in enumerate(layers, 1)
        for role, name in names.items()
    }
    return Operator(lambda x: call(second, between(call(first, x))), parameters=parameters)
