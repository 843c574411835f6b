"""Random draws.

Each element is drawn by itself. ATen's kernels draw one after another, so a worker that is given a
part of a tensor draws something else: captured graphs draw by place, see
:mod:`smex.capture.random_ops`.
"""

from __future__ import annotations

from smex.specs.common import element, specs
from smex.tdl import Opaque, like, spec, told, whole


def _drawn(i, *reads):
    return Opaque("random", *(told(index) for index in i), *reads)


@specs("aten::bernoulli", "aten::_standard_gamma", "aten::poisson")
def bernoulli(x, *_):
    return lambda *i: _drawn(i, x[i])


@spec("aten::_sample_dirichlet")
def _sample_dirichlet(x, generator):
    return lambda *i: _drawn(i[:-1], x[(*i[:-1], slice(None))], whole(i[-1]))


@specs("aten::bernoulli.Tensor", "aten::bernoulli_.Tensor")
def bernoulli_tensor(x, p, generator):
    return lambda *i: like(_drawn(i, element(p, i)), x[i])


@spec("aten::binomial")
def binomial(count, p, generator):
    return lambda *i: _drawn(i, element(count, i), element(p, i))


@spec("aten::native_dropout")
def native_dropout(x, p, train):
    return lambda *i: _drawn(i, x[i]), lambda *i: like(_drawn(i), x[i])


def _by_place(like, offset):
    """Of a whole tensor; a part of one is what a worker calls."""
    return None if any(offset) else lambda *i: Opaque("random", like[i])


@spec("smex::bounded")
def bounded(x, low, high, otherwise):
    return lambda *i: x[i]


@spec("smex::dropout_mask", local={"offset": "offset"})
def dropout_mask(like, p, seed, stream, offset, global_shape, dtype):
    return _by_place(like, offset)


@spec("smex::uniform", local={"offset": "offset"})
def uniform(like, seed, stream, offset, global_shape, dtype):
    return _by_place(like, offset)


@specs(
    "aten::bernoulli.p", "aten::bernoulli_.float", "aten::cauchy", "aten::exponential",
    "aten::geometric", "aten::log_normal", "aten::normal_", "aten::rand_like", "aten::randint_like",
    "aten::randn_like", "aten::random", "aten::uniform",
)  # fmt: skip
def drawn_like(x, *_):
    return lambda *i: like(_drawn(i), x[i])


@spec("aten::normal")
def normal(mean, std, *_):
    return lambda *i: _drawn(i, element(mean, i), element(std, i))


@specs("aten::rand", "aten::randint", "aten::randn")
def rand(*_):
    return lambda *i: _drawn(i)


@spec("aten::randperm")
def randperm(*_):
    return lambda i: Opaque("random", whole(i))
