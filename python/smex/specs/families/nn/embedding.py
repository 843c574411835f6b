"""Look-ups in embedding tables."""

from __future__ import annotations

from smex.specs.common import all_of, specs
from smex.tdl import Opaque, Sum, and_, like, spec, where


@spec("aten::embedding")
def embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    return lambda *i: weight[indices[i[:-1]], i[-1]]


@spec("aten::embedding_dense_backward")
def embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        return lambda v, d: Opaque("scaled", grad[(*[slice(None)] * indices.ndim, d)],
                                   all_of(indices))  # fmt: skip
    extents = {f"k{dim}": size for dim, size in enumerate(indices.shape)}

    def body(v, d):
        def add(*k):
            hit = and_(indices[k] == v, indices[k] != padding_idx)
            return where(hit, grad[(*k, d)], 0)

        return Sum(add, **extents)

    return body


def _everything(*tensors):
    """Whole reads of the tensors that there are."""
    return [all_of(t) for t in tensors if t is not None]


def _bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx):
    """Returns the sum over a bag's look-ups; nothing for means and maxima."""
    if mode != 0:
        reads = _everything(indices, offsets, per_sample_weights)
        return lambda b, d: Opaque("bag", weight[:, d], *reads)

    def body(b, d):
        bags = offsets.shape[0] - (1 if include_last_offset else 0)
        last = where(b + 1 < offsets.shape[0], offsets.pad(0)[b + 1], indices.shape[0])
        if bags == 0 or indices.shape[0] == 0:
            return like(like(like(0, weight[0, d]), indices.pad(0)[0]), offsets.pad(0)[b])

        def add(k):
            value = weight[indices[k], d]
            value = value if per_sample_weights is None else value * per_sample_weights[k]
            inside = and_(k >= offsets[b], k < last)
            inside = and_(inside, indices[k] != padding_idx) if padding_idx >= 0 else inside
            return where(inside, value, 0)

        return Sum(add, k=indices.shape[0])

    return body


@specs("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def _embedding_bag(
    weight, indices, offsets, scale, mode, sparse, weights, include_last, padding_idx
):
    value = _bag(weight, indices, offsets, mode, weights, include_last, padding_idx)

    # The same for every column, unless they tell where a column's maximum is.
    def books(*i):
        return Opaque("bags", indices[:], offsets[:])

    def largest(b, d):
        return Opaque("argmax", weight[:, d], indices[:], offsets[:])

    return value, books, books, largest if mode == 2 else books


def _bag_gradient(
    grad, indices, offset2bag, bag_size, maximum_indices, by_frequency, mode, weights, padding_idx,
    unread,
):  # fmt: skip
    """Returns the table's gradient at [v, d].

    Of the tensors in `unread` the kernel needs the presence.
    """

    def kept(value):
        for read in _everything(*unread):
            value = like(value, Opaque("shape", read))
        return value

    if mode == 2:

        def largest(v, d):
            def add(b):
                hit = and_(bag_size[b] > 0, maximum_indices[b, d] == v)
                return where(hit, grad[b, d], 0)

            return kept(Sum(add, b=grad.shape[0]))

        return largest
    if by_frequency:
        reads = _everything(indices, offset2bag, bag_size, weights)
        return lambda v, d: kept(Opaque("bag", grad[:, d], *reads))

    def body(v, d):
        def add(k):
            bag = offset2bag[k]
            value = grad[bag, d] if weights is None else grad[bag, d] * weights[k]
            value = value / bag_size[bag] if mode == 1 else value
            return where(and_(indices[k] == v, indices[k] != padding_idx), value, 0)

        return kept(Sum(add, k=indices.shape[0]))

    return body


def _unmapped_bag_gradient(grad, others, maximum_indices, mode):
    """Returns the gradient at [v, d] where nothing tells which bag an index is in."""

    def body(v, d):
        maxima = [maximum_indices[:, d]] if mode == 2 else _everything(maximum_indices)
        return Opaque("bag", grad[:, d], *maxima, *_everything(*others))

    return body


@spec("aten::_embedding_bag_backward")
def _embedding_bag_backward(
    grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
    mode, sparse, per_sample_weights, padding_idx,
):  # fmt: skip
    if sparse:
        return None
    if offset2bag.shape != indices.shape:  # to be computed from the offsets
        return _unmapped_bag_gradient(
            grad,
            (indices, offsets, offset2bag, bag_size, per_sample_weights),
            maximum_indices,
            mode,
        )
    unread = [offsets]
    unread += [indices, offset2bag] if mode == 2 else [maximum_indices]
    unread += [bag_size] if mode == 0 else []
    return _bag_gradient(
        grad, indices, offset2bag, bag_size, maximum_indices, scale_grad_by_freq, mode,
        per_sample_weights, padding_idx, unread,
    )  # fmt: skip


@spec("aten::_embedding_bag_dense_backward")
def _embedding_bag_dense_backward(
    grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
    per_sample_weights, padding_idx,
):  # fmt: skip
    unread = [indices, offset2bag] if mode == 2 else [maximum_indices]
    unread += [bag_size] if mode == 0 else []
    return _bag_gradient(
        grad, indices, offset2bag, bag_size, maximum_indices, scale_grad_by_freq, mode,
        per_sample_weights, padding_idx, unread,
    )  # fmt: skip


@spec("aten::_embedding_bag_per_sample_weights_backward")
def _embedding_bag_per_sample_weights_backward(
    grad, weight, indices, offsets, offset2bag, mode, padding_idx
):
    def body(k):
        def product(d):
            if offset2bag.shape != indices.shape:  # to be computed from the offsets
                reads = _everything(indices, offsets)
                return Opaque("bag", grad[:, d], weight[:, d], *reads)
            value = grad[offset2bag[k], d] * weight[indices[k], d]
            value = where(indices[k] != padding_idx, value, 0)
            return like(value, Opaque("shape", offsets[:]))

        return Sum(product, d=weight.shape[1])

    return body
