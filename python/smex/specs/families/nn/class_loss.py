"""Losses of scores by class. The classes are whole: a target may name any of them."""

from __future__ import annotations

from smex.specs.common import made_of_all
from smex.specs.families.nn.loss import MEAN, NONE, SUM
from smex.tdl import Opaque, Sum, and_, like, relu, spec, where, whole


class _Samples:
    """Scores by sample and class, and targets by sample; without a dimension of samples, one."""

    def __init__(self, x, target):
        self.x = x
        self.target_tensor = target
        self.is_batch = x.ndim > 1
        self.count = x.shape[0] if self.is_batch else 1
        self.classes = x.shape[-1] if x.ndim else 1

    def score(self, n, c):
        return self.x[(n, c)[2 - self.x.ndim :]]

    def target(self, n):
        return self.target_tensor[(n if self.is_batch else 0,) * self.target_tensor.ndim]

    def outer(self, grad, n):
        """Returns the gradient of a sample's loss, or of the loss."""
        return grad[(n if self.is_batch else 0,) * grad.ndim]

    def reduced(self, value, reduction):
        """Returns one value for each sample, or their sum, or mean."""
        if not self.is_batch:
            return lambda *i: value(0)
        if reduction == NONE:
            return lambda n: value(n)
        if reduction == SUM:
            return lambda: Sum(lambda n: value(n), n=self.count)
        return lambda: Sum(lambda n: value(n), n=self.count) / self.count


def _margin_terms(s, p, margin, weight):
    """Returns what class `c` contributes to the loss of sample `n`, and its derivative."""

    def scaled(n, value):
        return (value if weight is None else weight[s.target(n)] * value) / s.classes

    def gap(n, c):
        return margin - s.score(n, s.target(n)) + s.score(n, c)

    def term(n, c):
        return where(s.target(n) == c, 0, scaled(n, relu(gap(n, c)) ** p))

    def slope(n, c):
        steepness = scaled(n, p * relu(gap(n, c)) ** (p - 1))
        return where(and_(s.target(n) != c, gap(n, c) > 0), steepness, 0)

    return term, slope


@spec("aten::multi_margin_loss")
def multi_margin_loss(x, target, p, margin, weight, reduction):
    s = _Samples(x, target)
    term, _ = _margin_terms(s, p, margin, weight)
    return s.reduced(lambda n: Sum(lambda c: term(n, c), c=s.classes), reduction)


@spec("aten::multi_margin_loss_backward")
def multi_margin_loss_backward(grad, x, target, p, margin, weight, reduction):
    s = _Samples(x, target)
    _, slope = _margin_terms(s, p, margin, weight)
    mean = reduction == MEAN and s.is_batch

    def body(*i):
        n, c = (0, 0, *i)[-2:]
        if mean:
            whole(n)
        others = Sum(lambda k: slope(n, k), k=s.classes)
        value = s.outer(grad, n) * where(s.target(n) == c, -others, slope(n, c))
        return value / s.count if mean else value

    return body


def _line(x, outer):
    return (*outer, slice(None)) if x.ndim else ()


@spec("aten::multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad, x, target, reduction, is_target):
    s = _Samples(x, target)

    def body(*i):
        for index in i if reduction == MEAN else ():
            whole(index)
        n, _ = (0, 0, *i)[-2:]
        at = _line(x, i[:-1])
        return Opaque("margin", s.outer(grad, n), x[at], target[at], is_target[at])

    return body


@spec("aten::multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(x, target, reduction):
    def loss(*n):
        at = _line(x, n)
        return Opaque("margin", x[at], target[at])

    def is_target(*i):
        return Opaque("named", target[_line(x, i[:-1])])

    if x.ndim < 2:
        return lambda: loss(), is_target
    if reduction == NONE:
        return lambda n: loss(n), lambda n, c: is_target(n, c)
    return _Samples(x, target).reduced(loss, reduction), is_target


def _picked_weight(weight, target, ignore_index):
    return where(target == ignore_index, 0, 1 if weight is None else weight[target])


def _picked(value, target, weight, ignore_index):
    """Returns a sample's loss; one to be ignored has a target that is no class."""
    one = value(target) if weight is None else weight[target] * value(target)
    return where(target == ignore_index, 0, -one)


def _nll(places, picked, weights, reduction):
    """Returns the losses at the places, or their sum or mean, and the sum of their weights."""
    if not places:
        return lambda: picked() / (weights() if reduction == MEAN else 1), weights
    if reduction == NONE:
        return picked, lambda: 0

    def total_weight():
        return Sum(weights, **places)

    def total():
        return Sum(picked, **places)

    def mean():
        return total() / total_weight()

    return mean if reduction == MEAN else total, total_weight


@spec("aten::nll_loss_backward")
def nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    s = _Samples(x, target)

    def body(*i):
        n, c = (0, *i)[-2:]
        value = -_picked_weight(weight, s.target(n), ignore_index) * s.outer(grad, n)
        if reduction == MEAN:
            value = value / total_weight[()]
        return like(where(s.target(n) == c, value, 0), x[i])

    return body


@spec("aten::nll_loss_forward")
def nll_loss_forward(x, target, weight, reduction, ignore_index):
    s = _Samples(x, target)

    def picked(*n):
        at = n[0] if n else 0
        return _picked(lambda c: s.score(at, c), s.target(at), weight, ignore_index)

    def weights(*n):
        return _picked_weight(weight, s.target(n[0] if n else 0), ignore_index)

    return _nll({"n": s.count} if s.is_batch else {}, picked, weights, reduction)


@spec("aten::nll_loss2d_backward")
def nll_loss2d_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    def body(n, c, h, w):
        outer = grad[(n, h, w)[3 - grad.ndim :]]
        value = -_picked_weight(weight, target[n, h, w], ignore_index) * outer
        if reduction == MEAN:
            value = value / total_weight[()]
        return like(where(target[n, h, w] == c, value, 0), x[n, c, h, w])

    return body


@spec("aten::nll_loss2d_forward")
def nll_loss2d_forward(x, target, weight, reduction, ignore_index):
    def picked(n, h, w):
        return _picked(lambda c: x[n, c, h, w], target[n, h, w], weight, ignore_index)

    def weights(n, h, w):
        return _picked_weight(weight, target[n, h, w], ignore_index)

    places = dict(zip("nhw", target.shape))
    return _nll(places, picked, weights, reduction)


# Connectionist temporal classification: scores [time, sample, class], targets [sample, place].


@spec("aten::_ctc_loss")
def _ctc_loss(scores, targets, score_lengths, target_lengths, blank, zero_infinity):
    # The longest target decides the shape of the second output.
    everything = made_of_all("ctc", scores, targets, score_lengths, target_lengths)
    return everything, everything


@spec("aten::_ctc_loss_backward")
def _ctc_loss_backward(
    grad, scores, targets, score_lengths, target_lengths, losses, alpha, blank, zero_infinity
):
    """Walks along the sequences of all of a batch with what the forward pass left."""
    return made_of_all("ctc", grad, scores, targets, losses, alpha)


@spec("aten::_ctc_loss_backward.Tensor")
def _ctc_loss_backward_tensor(
    grad, scores, targets, score_lengths, target_lengths, losses, alpha, blank, zero_infinity
):
    if targets.ndim == 1:
        return made_of_all(
            "ctc", grad, scores, targets, score_lengths, target_lengths, losses, alpha
        )

    def body(t, n, c):
        lengths = score_lengths[n], target_lengths[n]
        lines = scores[:, n, :], targets[n, :], alpha[n, :, :]
        return Opaque("ctc", grad[n], losses[n], *lengths, *lines)

    return body
