"""Operations and models with their inputs, ready to be timed."""

from __future__ import annotations

import numpy as np
import torch
from edge_list import Edges
from systems.base import Case, Operator
from torch import Tensor
from torch.nn import functional


class Prepared:
    """An operation with its inputs: `step()` is what is timed."""

    def __init__(self, operator: Operator, case: Case, edges: Edges, inputs: dict) -> None:
        self.operator, self.case = operator, case
        dtype = getattr(torch, case.dtype)
        self.inputs, self.gradient = {}, None
        for role, tensor in inputs.items():
            if role == "out" and case.op.endswith(("_mean", "_max", "_min")):
                tensor[edges.in_degrees() == 0] = 0  # some peers give it to another node
            tensor = operator.enter.get(role, lambda t: t)(tensor.to(dtype))
            if role == "out":
                self.gradient = tensor
            else:
                self.inputs[role] = tensor.requires_grad_(case.backward)

    def move(self) -> None:
        """Copies the inputs: which memory they get decides about speed, by chance."""
        for role, tensor in self.inputs.items():
            self.inputs[role] = tensor.detach().clone().requires_grad_(tensor.requires_grad)

    def step(self):
        if not self.case.backward:
            with torch.no_grad():
                return self.operator.function(**self.inputs)
        self.forget_gradients()
        out = self.operator.function(**self.inputs)
        out.backward(self.gradient)
        return out

    def forget_gradients(self) -> None:
        for tensor in self.inputs.values():
            tensor.grad = None

    def run(self) -> dict[str, Tensor]:
        """The output and the gradients of one step."""
        out = self.step()
        if not isinstance(out, Tensor):
            return {}
        found = {role: t.grad for role, t in self.inputs.items() if t.grad is not None}
        self.forget_gradients()
        return {"out": out.detach(), **found}

    def in_common_layout(self, found: dict[str, Tensor]) -> dict[str, np.ndarray]:
        """Results as float32 arrays; what an extremum gives for a node without edges is 0."""
        arrays = {}
        for role, tensor in found.items():
            tensor = self.operator.leave.get(role, lambda t: t)(tensor)
            arrays[role] = torch.nan_to_num(tensor.float(), posinf=0, neginf=0).cpu().numpy()
        return arrays


class Training(Prepared):
    """A model with its features, labels and optimiser: a step is an epoch over the whole graph.

    Forward, cross entropy over all nodes, backward, and Adam with weight decay (Kipf and Welling,
    ICLR'17, §5.2).
    """

    def __init__(self, operator: Operator, inputs: dict[str, Tensor]) -> None:
        self.operator = operator
        self.labels = inputs.pop("labels").argmax(1)
        for role, parameter in operator.parameters.items():
            enter = operator.enter.get(role, lambda t: t)
            parameter.data = enter(inputs.pop(role)).contiguous()
        self.inputs = inputs
        parameters = operator.parameters.values()
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)

    def move(self) -> None:
        self.inputs = {role: tensor.clone() for role, tensor in self.inputs.items()}

    def step(self) -> Tensor:
        self.forget_gradients()
        out = self.operator.function(**self.inputs)
        functional.cross_entropy(out, self.labels).backward()
        self.optimizer.step()
        return out

    def forget_gradients(self) -> None:
        self.optimizer.zero_grad()

    def run(self) -> dict[str, Tensor]:
        """The output before a step and the gradients of its parameters."""
        out = self.step()
        found = {role: parameter.grad for role, parameter in self.operator.parameters.items()}
        self.forget_gradients()
        return {"out": out.detach(), **found}

    def in_common_layout(self, found: dict[str, Tensor]) -> dict[str, np.ndarray]:
        """All gradients are one array: what is large in it tells how exact a small one is."""
        arrays = super().in_common_layout(found)
        return {
            "out": arrays.pop("out"),
            "gradients": np.concatenate([*map(np.ravel, arrays.values())]),
        }
