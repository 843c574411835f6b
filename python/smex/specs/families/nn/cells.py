"""Specs of LSTM cells, and of recurrent layers, whose steps follow from each other."""

from __future__ import annotations

from smex import tdl
from smex.specs.common import all_of
from smex.tdl import Opaque, Sum, spec


def _sigmoid(x):
    return 1 / (1 + tdl.exp(-x))


@spec("smex::tree_lstm")
def tree_lstm(gates, cells, places):
    width = gates.shape[1] // len(places)

    def cell(i, j):
        gate = [gates[i, place * width + j] for place in places]
        total = _sigmoid(gate[0]) * tdl.tanh(gate[2])
        for forget, child in zip(gate[3:], cells):
            total = total + _sigmoid(forget) * child[i, j]
        return total

    def hidden(i, j):
        return _sigmoid(gates[i, places[1] * width + j]) * tdl.tanh(cell(i, j))

    return hidden, cell


@spec("smex::tree_lstm_backward")
def tree_lstm_backward(grad_h, grad_c, gates, cells, c, places):
    tensors = (grad_h, grad_c, gates, *cells, c)

    def grad(i):
        return Opaque("tree_lstm_backward", *(all_of(x, i) for x in tensors))

    return lambda i, g: grad(i), lambda i, k, j: grad(i)


@spec("smex::gru_layer")
def gru_layer(x, h, weight, bias=None):
    biases = [] if bias is None else [bias[:]]

    def steps(n):
        return Opaque("gru_layer", x[:, n, :], h[n, :], weight[:, :], *biases)

    return lambda t, n, j: steps(n), lambda t, n, g: steps(n)


@spec("smex::gru_layer_backward")
def gru_layer_backward(grad, weight, gates, out, h):
    def steps(n):
        samples = [x[:, n, :] for x in (grad, gates, out)]
        return Opaque("gru_layer_backward", *samples, weight[:, :], h[n, :])

    return lambda t, n, g: steps(n), lambda t, n, j: steps(n), lambda n, j: steps(n)


@spec("smex::lstm_layer")
def lstm_layer(x, h, c, weight):
    def steps(n):
        return Opaque("lstm_layer", x[:, n, :], h[n, :], c[n, :], weight[:, :])

    return lambda t, n, j: steps(n), lambda t, n, j: steps(n), lambda t, n, g: steps(n)


@spec("smex::lstm_layer_backward")
def lstm_layer_backward(grad, grad_cells, weight, gates, cells, c):
    along_time = [x for x in (grad, grad_cells, gates, cells) if x is not None]

    def steps(n):
        samples = [x[:, n, :] for x in along_time]
        return Opaque("lstm_layer_backward", *samples, weight[:, :], c[n, :])

    return lambda t, n, g: steps(n), lambda n, j: steps(n), lambda n, j: steps(n)


@spec("smex::recurrent_gradient")
def recurrent_gradient(grads, a):
    rows = a.shape[0]
    return (
        lambda j, k: Sum(lambda i: grads[i, j] * a[i, k], i=rows),
        lambda j: Sum(lambda i: grads[i, j], i=rows),
    )


@spec("smex::recurrent_product")
def recurrent_product(a, b, bias=None):
    def product(i, j):
        return Sum(lambda k: a[i, k] * b[j, k], k=a.shape[1])

    if bias is None:
        return product
    return lambda i, j: bias[j] + product(i, j)


@spec("smex::rnn_layer")
def rnn_layer(x, h, weight, relu=False):
    return lambda t, n, j: Opaque("rnn_layer", x[:, n, :], h[n, :], weight[:, :])


@spec("smex::rnn_layer_backward")
def rnn_layer_backward(grad, weight, out, relu=False):
    def steps(n):
        return Opaque("rnn_layer_backward", grad[:, n, :], out[:, n, :], weight[:, :])

    return lambda t, n, j: steps(n), lambda n, j: steps(n)
