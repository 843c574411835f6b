"""Look-ups in embedding tables."""

from __future__ import annotations

from smex.tdl import Opaque, Sum, and_, like, spec, where, whole


@spec("aten::embedding")
def embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    return lambda *i: weight[indices[i[:-1]], i[-1]]


@spec("aten::embedding_dense_backward")
def embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        return lambda v, d: Opaque("scaled", grad[(*[slice(None)] * indices.ndim, d)],
                                   indices[(slice(None),) * indices.ndim])  # fmt: skip
    extents = {f"k{dim}": size for dim, size in enumerate(indices.shape)}

    def body(v, d):
        def add(*k):
            hit = and_(indices[k] == v, indices[k] != padding_idx)
            return where(hit, grad[(*k, d)], 0)

        return Sum(add, **extents)

    return body


def _bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset):
    """The sum over a bag's look-ups; nothing for means and maxima."""
    if mode != 0:
        return lambda b, d: Opaque(
            "bag", weight[:, d], indices[:], offsets[:],
            *([] if per_sample_weights is None else [per_sample_weights[:]]),
        )  # fmt: skip

    def body(b, d):
        bags = offsets.shape[0] - (1 if include_last_offset else 0)
        last = where(b + 1 < offsets.shape[0], offsets.pad(0)[b + 1], indices.shape[0])
        if bags == 0 or indices.shape[0] == 0:
            return like(like(like(0, weight[0, d]), indices.pad(0)[0]), offsets.pad(0)[b])

        def add(k):
            value = weight[indices[k], d]
            value = value if per_sample_weights is None else value * per_sample_weights[k]
            return where(and_(k >= offsets[b], k < last), value, 0)

        return Sum(add, k=indices.shape[0])

    return body


def _embedding_bag(
    weight, indices, offsets, scale, mode, sparse, weights, include_last, padding_idx
):
    if padding_idx >= 0:
        return (None,) * 4
    value = _bag(weight, indices, offsets, mode, weights, include_last)

    # The same for every column, unless they tell where a column's maximum is.
    def books(*i):
        return Opaque("bags", indices[:], offsets[:])

    def largest(b, d):
        return Opaque("argmax", weight[:, d], indices[:], offsets[:])

    return value, books, books, largest if mode == 2 else books


spec("aten::_embedding_bag")(_embedding_bag)
spec("aten::_embedding_bag_forward_only")(_embedding_bag)


@spec("aten::_embedding_bag_dense_backward")
def _embedding_bag_dense_backward(
    grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
    per_sample_weights, padding_idx,
):  # fmt: skip
    def body(v, d):
        whole(v)
        tensors = [t for t in (indices, offset2bag, bag_size, per_sample_weights) if t is not None]
        reads = [t[(slice(None),) * t.ndim] for t in tensors]
        if mode == 2:
            return Opaque("bag", grad[:, d], maximum_indices[:, d], *reads)
        if maximum_indices is not None:
            reads.append(maximum_indices[(slice(None),) * maximum_indices.ndim])
        return Opaque("bag", grad[:, d], *reads)

    return body


@spec("aten::_embedding_bag_backward")
def _embedding_bag_backward(
    grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
    mode, sparse, per_sample_weights, padding_idx,
):  # fmt: skip
    if sparse:
        return None

    def body(v, d):
        tensors = [indices, offsets, offset2bag, bag_size, per_sample_weights]
        if mode != 2:
            tensors.append(maximum_indices)
        reads = [t[(slice(None),) * t.ndim] for t in tensors if t is not None]
        if mode == 2:
            reads.append(maximum_indices[:, d])
        return Opaque("bag", grad[:, d], *reads)

    return body
