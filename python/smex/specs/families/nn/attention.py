"""Attention: queries (batch, head, i, e), keys (batch, head, j, e), values (batch, head, j, d).

Several heads of the queries may share one of the keys and values: in ATen's calls head h has that
of h // group, in ours they are a dimension of their own. Ours drop weights by place; ATen's have a
Spec without dropout only.
"""

from __future__ import annotations

import math

from smex.specs.common import element, named
from smex.tdl import LogSumExp, Max, Opaque, SoftmaxMean, Sum, exp, log, spec, told, where, whole


class _Attention:
    """One attention, of an index in the queries' first dimensions, a query and a key.

    `number` is a query's, or a key's, index as a number.
    """

    def __init__(self, query, key, value, causal, mask, scale, number=lambda i: i, drops=False):
        self.query, self.key, self.value = query, key, value
        self.scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        self.causal, self.mask, self.number, self.drops = causal, mask, number, drops
        self.own_dimension = len(query.shape) == 5
        self.group = 1 if self.own_dimension else query.shape[1] // key.shape[1]
        self.heads = ["n", "h", "g"] if self.own_dimension else ["n", "h"]
        self.queries, self.keys = query.shape[-2], key.shape[2]

    def of_key(self, head):
        """Returns the head of keys that a head of queries has."""
        n, h = head[:2]
        return n, h if self.group == 1 else h // self.group

    def score(self, head, i, j):
        read = self.of_key(head)
        value = self.scale * Sum(lambda e_: self.query[(*head, i, e_)] * self.key[(*read, j, e_)])
        if self.mask is not None:
            value = value + element(self.mask, (*head, i, j))
        if not self.causal:
            return value
        return where(self.number(j) <= self.number(i), value, float("-inf"))

    def kept(self, head, i, j, value):
        """Returns what is kept of a value that a weight multiplies."""
        if not self.drops:
            return value
        return value * Opaque("random", *(self.number(index) for index in (*head, i, j)))

    def outputs(self):
        """Returns the output and the logarithm of the sum of a query's exponentials.

        Over some of the keys they merge with those over others.
        """

        def output(*index):
            *head, i, e = index

            def of_key(j):
                value = self.value[(*self.of_key(head), j, whole(e))]
                return self.kept(head, i, j, value), self.score(head, i, j)

            return SoftmaxMean(of_key, j=self.keys)

        def logsumexp(*index):
            *head, i = index
            return LogSumExp(lambda j: self.score(head, i, j), j=self.keys)

        return named(output, [*self.heads, "i", "e"]), named(logsumexp, [*self.heads, "i"])

    def whole_outputs(self):
        """Returns the same of a call that cannot be told which keys it is given."""

        def top(head, i):
            return Max(lambda m: self.score(head, i, m), m=self.keys)

        def total(head, i, top_):
            return Sum(lambda j: exp(self.score(head, i, j) - top_), j=self.keys)

        def output(*index):
            *head, i, e = index
            top_ = top(head, i)
            weighted = Sum(
                lambda j: (
                    exp(self.score(head, i, j) - top_)
                    * self.value[(*self.of_key(head), j, whole(e))]
                ),
                j=self.keys,
            )
            return weighted / total(head, i, top_)

        def logsumexp(*index):
            *head, i = index
            top_ = top(head, i)
            return top_ + log(total(head, i, top_))

        return named(output, [*self.heads, "i", "e"]), named(logsumexp, [*self.heads, "i"])

    def gradients(self, grad, output, logsumexp, mask_gradient=False):
        """Returns those of queries, keys, values and mask, by the log-sum-exp of each query."""

        def weight(head, i, j):
            return exp(self.score(head, i, j) - logsumexp[(*head, i)])

        def grad_sum(head, i, j):
            """Returns the gradient of the sum of product and mask."""
            read = self.of_key(head)

            def change(d):
                return grad[(*head, i, d)] * (self.value[(*read, j, d)] - output[(*head, i, d)])

            if not self.drops:
                return weight(head, i, j) * Sum(change)
            of_weight = Sum(lambda d: grad[(*head, i, d)] * self.value[(*read, j, d)])
            of_total = Sum(lambda d: grad[(*head, i, d)] * output[(*head, i, d)])
            return weight(head, i, j) * (self.kept(head, i, j, of_weight) - of_total)

        def grad_score(head, i, j):
            return self.scale * grad_sum(head, i, j)

        def grad_query(*index):
            *head, i, e = index
            return Sum(
                lambda j: grad_score(head, i, j) * self.key[(*self.of_key(head), j, whole(e))],
                j=self.keys,
            )

        def over_queries(term):
            """Returns the sum of `term` over all queries of the key's heads."""

            def body(*index):
                n, h, j, e = index
                if self.own_dimension:
                    return Sum(
                        lambda g, i: term((n, h, g), i, j, whole(e)),
                        g=self.query.shape[2],
                        i=self.queries,
                    )
                if self.group == 1:
                    return Sum(lambda i: term((n, h), i, j, whole(e)), i=self.queries)
                return Sum(
                    lambda g, i: term((n, h * self.group + g), i, j, whole(e)),
                    g=self.group,
                    i=self.queries,
                )

            return named(body, ["n", "h" if self.group == 1 else "shared", "j", "e"])

        return (
            named(grad_query, [*self.heads, "i", "e"]),
            over_queries(lambda head, i, j, e: grad_score(head, i, j) * self.query[(*head, i, e)]),
            over_queries(
                lambda head, i, j, e: (
                    self.kept(head, i, j, weight(head, i, j)) * grad[(*head, i, e)]
                )
            ),
            self._grad_mask(grad_sum) if mask_gradient else None,
        )

    def _grad_mask(self, grad_sum):
        """Returns the sum of `grad_sum` over what the mask is repeated along."""
        names = [*self.heads, "i", "j"]
        sizes = dict(zip(names, [*self.query.shape[:-1], self.keys], strict=True))
        own = names[len(names) - self.mask.ndim :]
        repeated = [
            name
            for name in names
            if name not in own or self.mask.shape[own.index(name)] != sizes[name]
        ]

        def body(*index):
            of = {name: i for name, i in zip(own, index) if name not in repeated}

            def term(*rest):
                at = of | dict(zip(repeated, rest))
                *head, i, j = (at[name] for name in names)
                return grad_sum(tuple(head), i, j)

            return Sum(term, **{name: sizes[name] for name in repeated}) if repeated else term()

        return named(body, [f"one_{name}" if name in repeated else name for name in own])


@spec("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(query, key, value, dropout, causal, mask, scale):
    if dropout:
        return None
    return _Attention(query, key, value, causal, mask, scale).whole_outputs()


@spec("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    grad, query, key, value, output, logsumexp, dropout, causal, mask, scale
):
    if dropout:
        return None
    attention = _Attention(query, key, value, causal, mask, scale)
    return attention.gradients(grad, output, logsumexp)[:3]


_TOLD = {"offset": "offset", "key_offset": "begin:j"}


@spec("smex::scaled_dot_product", local=_TOLD)
def scaled_dot_product(
    query, key, value, mask, causal, scale, offset, key_offset, p, seed, stream, global_shape
):
    return _Attention(query, key, value, causal, mask, scale, told, drops=p > 0).outputs()


@spec("smex::scaled_dot_product_backward", local=_TOLD)
def scaled_dot_product_backward(
    grad, query, key, value, output, logsumexp, mask, causal, scale, offset, key_offset, p, seed,
    stream, global_shape, mask_gradient,
):  # fmt: skip
    attention = _Attention(query, key, value, causal, mask, scale, told, drops=p > 0)
    return attention.gradients(grad, output, logsumexp, mask_gradient)
