"""Models of two layers that are trained and layers that are called, of any system."""

from __future__ import annotations

from collections.abc import Callable

import torch
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


def called(
    layer: nn.Module, names: dict[str, str], call: Callable[[nn.Module, Tensor], Tensor]
) -> Operator:
    """The call of one layer as a user has it; its parameters are inputs of the roles in `names`."""
    places = {role: name.rpartition(".") for role, name in names.items()}
    held = {
        role: (layer.get_submodule(module)._parameters, name)
        for role, (module, _, name) in places.items()
    }

    def function(x: Tensor, **values: Tensor) -> Tensor:
        for role, value in values.items():
            parameters, name = held[role]
            if parameters[name] is not value:  # in the first call only
                parameters[name] = value  # type: ignore[assignment]
        return call(layer, x)

    return Operator(function)


def small_net(width: int) -> nn.Module:
    """Two linear layers with a ReLU, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
