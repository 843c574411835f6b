"""Recurrent layers, of which torch makes calls for each step, as one call each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import decompositions
from torch.nn import functional as F

from smex.capture.user_code import replaced


@contextlib.contextmanager
def library_layers() -> Iterator[None]:
    """Makes a layer of an LSTM, a GRU or an RNN one call where there is a kernel for it."""
    cell_of = decompositions.rnn_cell
    own: dict[str, Callable] = {
        "_rnn_helper": _stack,
        "one_layer_lstm": _Layer(_lstm_by_steps(decompositions.one_layer_lstm), _lstm_layer),
        "one_layer_rnn": _Layer(decompositions.one_layer_rnn, _rnn_layer),
        "rnn_cell": lambda nonlinearity: _RnnCell(cell_of(nonlinearity), nonlinearity),
        # Without gradients torch may call mkldnn_rnn_layer, which nothing is known of.
        "select_one_layer_lstm_function": lambda *_: decompositions.one_layer_lstm,
    }
    with contextlib.ExitStack() as stack:
        for name, function in own.items():
            stack.enter_context(replaced(decompositions, name, function))
        yield


def _stack(
    input, hidden, params, has_biases, layers, dropout, train, bidirectional, batch_first, layer
):
    """Torch's own leaves out the dropout between layers."""
    x = input.transpose(0, 1) if batch_first else input
    states = []
    for n in range(layers):
        ahead, ahead_hidden, back, back_hidden = decompositions.params_hiddens(
            params, hidden, n, bidirectional
        )
        out, state = layer(x, ahead_hidden, ahead, has_biases)
        states.append(state)
        if bidirectional:
            other, state = layer(x, back_hidden, back, has_biases, reverse=True)
            states.append(state)
            out = torch.cat([out, other], out.dim() - 1)
        x = torch.dropout(out, dropout, train=True) if dropout and train and n < layers - 1 else out
    return (x.transpose(0, 1) if batch_first else x), states


class _RnnCell:
    """torch's function of a step, of which one sees what it does to the gates."""

    def __init__(self, step: Callable, nonlinearity: Callable) -> None:
        self.step = step
        self.is_relu = nonlinearity is torch.relu

    def __call__(self, *args: Any) -> torch.Tensor:
        return self.step(*args)


class _Layer:
    """A layer by one call where there is a kernel for it, else by torch's steps."""

    def __init__(self, by_steps: Callable, fused: Callable) -> None:
        self.by_steps = by_steps
        self.fused = fused

    def __call__(self, inp, hidden, params, has_biases, reverse=False, **cell):
        states = hidden if isinstance(hidden, tuple) else (hidden,)
        if not _has_kernel(inp, states, params, has_biases):
            return self.by_steps(inp, hidden, params, has_biases, reverse=reverse, **cell)
        out, state = self.fused(
            lambda x: x.flip(0) if reverse else x, inp, states, params, has_biases, **cell
        )
        return (out.flip(0) if reverse else out), state


def _lstm_by_steps(original: Callable) -> Callable:
    """Torch 2.11 makes `[layers, 1, N, H]` of the states."""

    def one_layer_lstm(inp, hidden, params, has_biases, reverse=False):
        out, states = original(inp, hidden, params, has_biases, reverse=reverse)
        return out, tuple(s.view(h.shape) for s, h in zip(states, hidden, strict=True))

    return one_layer_lstm


def _has_kernel(inp, states, params, has_biases):
    tensors = (inp, *states, *params)
    has_projection = len(params) != (4 if has_biases else 2)
    lower = _autocast_type()
    types = {tensor.dtype for tensor in tensors}
    return (
        not has_projection
        and inp.dim() == 3
        and all(state.dim() == 2 for state in states)
        and hasattr(torch.ops.smex, "rnn_layer")
        and (types <= {torch.float32, lower} if lower else types in _KERNEL_TYPES)
        and all(tensor.numel() for tensor in tensors)
    )


_KERNEL_TYPES = ({torch.float32}, {torch.float64})


def _autocast_type() -> torch.dtype | None:
    """The type of products under autocast."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def _lowered(*tensors):
    """Tensors as products read them: rounded under autocast, which the kernel does not know."""
    lower = _autocast_type()
    return [x.to(lower).float() if lower else x for x in tensors]


def _result(*tensors):
    """What is made of gates alone has the type of products."""
    lower = _autocast_type()
    return [x.to(lower) if lower else x for x in tensors]


def _gates(inp, weight, bias):
    """What the input and a bias make of the gates in all steps, `[T, N, G H]`."""
    if _autocast_type():
        return F.linear(inp, weight, bias).float()
    product = torch.ops.smex.recurrent_product(inp.reshape(-1, inp.shape[2]), weight, bias)
    return product.view(*inp.shape[:2], -1)


def _lstm_layer(in_order, inp, states, params, has_biases):
    gates = in_order(_gates(inp, params[0], params[2] + params[3] if has_biases else None))
    h, c, weight = _lowered(*states, params[1])
    out, cells, _ = torch.ops.smex.lstm_layer(gates, h, c, weight)
    out, last = _result(out, cells[-1])
    return out, (out[-1], last)


def _rnn_layer(in_order, inp, states, params, has_biases, hidden_fn):
    if isinstance(hidden_fn, _RnnCell):
        gates = in_order(_gates(inp, params[0], params[2] + params[3] if has_biases else None))
        h, weight = _lowered(*states, params[1])
        (out,) = _result(torch.ops.smex.rnn_layer(gates, h, weight, hidden_fn.is_relu))
    else:  # a GRU, which adds its states in their own type
        gates = in_order(_gates(inp, params[0], params[2] if has_biases else None))
        weight, *biases = _lowered(params[1], *params[3:])
        h = states[0].float() if _autocast_type() else states[0]
        out, _ = torch.ops.smex.gru_layer(gates, h, weight, *biases)
        out = out.to(states[0].dtype)
    return out, out[-1]
