"""Attention without dropout: queries (batch, head, i, e), keys and values (batch, head, j, e).

Several heads of the queries may share one of the keys and values.
"""

from __future__ import annotations

import math

from smex.specs.common import element, named
from smex.tdl import Max, Sum, exp, log, spec, where, whole


def _scale(query, scale):
    return 1 / math.sqrt(query.shape[3]) if scale is None else scale


def _scores(query, key, causal, mask, scale):
    """Returns the function of (n, h, i, j) that gives a query's score of a key."""
    group = query.shape[1] // key.shape[1]

    def score(n, h, i, j):
        value = scale * Sum(lambda e_: query[n, h, i, e_] * key[n, h // group, j, e_])
        if mask is not None:
            value = value + element(mask, (n, h, i, j))
        return where(j <= i, value, float("-inf")) if causal else value

    return score


@spec("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(query, key, value, dropout, causal, mask, scale):
    if dropout:
        return None
    score = _scores(query, key, causal, mask, _scale(query, scale))
    group, keys = query.shape[1] // key.shape[1], key.shape[2]

    def top(n, h, i):
        return Max(lambda m: score(n, h, i, m), m=keys)

    def total(n, h, i, top_):
        return Sum(lambda j: exp(score(n, h, i, j) - top_), j=keys)

    def output(n, h, i, e):
        top_ = top(n, h, i)
        weighted = Sum(
            lambda j: exp(score(n, h, i, j) - top_) * value[n, h // group, j, whole(e)], j=keys
        )
        return weighted / total(n, h, i, top_)

    def logsumexp(n, h, i):
        top_ = top(n, h, i)
        return top_ + log(total(n, h, i, top_))

    return output, logsumexp


@spec("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    grad, query, key, value, output, logsumexp, dropout, causal, mask, scale
):
    if dropout:
        return None
    factor = _scale(query, scale)
    score = _scores(query, key, causal, mask, factor)
    group, queries = query.shape[1] // key.shape[1], query.shape[2]

    def weight(n, h, i, j):
        return exp(score(n, h, i, j) - logsumexp[n, h, i])

    def grad_score(n, h, i, j):
        def change(d):
            return grad[n, h, i, d] * (value[n, h // group, j, d] - output[n, h, i, d])

        return factor * weight(n, h, i, j) * Sum(change)

    def grad_query(n, h, i, e):
        return Sum(lambda j_: grad_score(n, h, i, j_) * key[n, h // group, j_, whole(e)])

    def over_queries(term):
        """A function of (n, h, j, e): the sum of `term` over all queries of the key's heads."""

        def body(*index):
            n, h, j, e = index
            if group == 1:
                return Sum(lambda i_: term(n, h, i_, j, whole(e)))
            return Sum(lambda g, i_: term(n, h * group + g, i_, j, whole(e)), g=group, i_=queries)

        return named(body, ["n", "h" if group == 1 else "shared", "j", "e"])

    grad_key = over_queries(lambda n, h, i, j, e: grad_score(n, h, i, j) * query[n, h, i, e])
    grad_value = over_queries(lambda n, h, i, j, e: weight(n, h, i, j) * grad[n, h, i, e])
    return grad_query, grad_key, grad_value
