"""Attention as one call that stores no scores, whatever its shapes, mask and dropout are.

ATen has such calls for some cases, and makes matrix products and a softmax of the others. Here all
become ``smex::scaled_dot_product`` in four dimensions, which can be cut along each of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smex.errors import CaptureError

aten = torch.ops.aten

_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """As torch's function of that name, which judges what it cannot compute."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value, attn_mask = map(_autocast, (query, key, value, attn_mask))
    operands = _Operands(query, key, value, attn_mask, enable_gqa)
    if not operands.fit(dropout_p, is_causal):
        given = (query, key, value, attn_mask, dropout_p, is_causal)
        return torch._C._nn.scaled_dot_product_attention(*given, scale=scale, enable_gqa=enable_gqa)
    result = _Attention.apply(*operands.in_four_dimensions(), is_causal, scale, float(dropout_p))
    return result.reshape(*operands.lead, query.shape[-2], value.shape[-1])


def _autocast(x: Any) -> Any:
    """Returns what autocast makes of an operand."""
    casts = isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64
    return x.to(torch.get_autocast_dtype("cpu")) if casts else x


class _Operands:
    """Queries [*lead, L, E], keys [*lead, S, E], values [*lead, S, F] and a mask, as given."""

    def __init__(self, query, key, value, mask, shared_heads) -> None:
        self.query, self.key, self.value, self.mask = query, key, value, mask
        self.shared_heads = shared_heads
        self.lead: tuple[int, ...] = ()

    def fit(self, p: float, causal: bool) -> bool:
        """Returns whether they are what the call takes; sets the first sizes of the result."""
        query, key, value, mask = self.query, self.key, self.value, self.mask
        known = (
            hasattr(torch.ops.smex, "scaled_dot_product")
            and query.dtype in _TYPES
            and query.dtype == key.dtype == value.dtype
            and min(t.dim() for t in (query, key, value)) >= 2
            and query.shape[-1] == key.shape[-1] != 0
            and key.shape[-2] == value.shape[-2]
            and 0 <= p <= 1
            and not torch._C._functorch.maybe_current_level()
        )
        return known and self._lead() and self._fits_mask(mask, causal)

    def _lead(self) -> bool:
        if self.shared_heads and not self._repeat_heads():
            return False
        shapes = [t.shape[:-2] for t in (self.query, self.key, self.value)]
        if self.groups > 1:
            shapes = [shapes[0], *([*shape[:-1], shapes[0][-1]] for shape in shapes[1:])]
        try:
            self.lead = tuple(torch.broadcast_shapes(*shapes))
        except RuntimeError:
            return False
        return True

    def _repeat_heads(self) -> bool:
        """Gives keys and values as many heads as each other, if the queries' are a multiple."""
        if min(t.dim() for t in (self.query, self.key, self.value)) < 3:
            return False
        heads, *shared = (t.shape[-3] for t in (self.query, self.key, self.value))
        if any(count == 0 or heads % count for count in shared):
            return False
        if shared[0] != shared[1]:
            self.key, self.value = (
                t.repeat_interleave(heads // t.shape[-3], -3) for t in (self.key, self.value)
            )
        return True

    @property
    def groups(self) -> int:
        """How many heads of queries share one of keys."""
        return self.query.shape[-3] // self.key.shape[-3] if self.shared_heads else 1

    def _fits_mask(self, mask: Tensor | None, causal: bool) -> bool:
        if mask is None:
            return True
        target = (*self.lead, self.query.shape[-2], self.key.shape[-2])
        last = target[len(target) - mask.dim() :]
        typed = mask.dtype in (torch.bool, torch.float32, self.query.dtype)
        fits = len(last) == mask.dim() and all(
            size in (1, wanted) for size, wanted in zip(mask.shape, last, strict=True)
        )
        return not causal and typed and fits

    def in_four_dimensions(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Returns them with one dimension for the batch and one for heads.

        Where heads share keys, the queries' have one for those that share as well.
        """
        batch, heads = self._flat()
        groups = self.groups
        query = self.query.expand(*self.lead, *self.query.shape[-2:])
        query = query.reshape(batch, heads, *query.shape[-2:])
        if groups > 1:
            query = query.unflatten(1, (heads // groups, groups))
        lead = self.lead if groups == 1 else (*self.lead[:-1], heads // groups)
        key, value = (
            t.expand(*lead, *t.shape[-2:]).reshape(batch, heads // groups, *t.shape[-2:])
            for t in (self.key, self.value)
        )
        return query, key, value, self._flat_mask(groups)

    def _flat(self) -> tuple[int, int]:
        """Returns the sizes of the batch and the heads; a single dimension is that of the batch."""
        if len(self.lead) == 1 and self.groups > 1:
            return 1, self.lead[0]
        return math.prod(self.lead[:-1] or self.lead), math.prod(self.lead[1:] and self.lead[-1:])

    def _flat_mask(self, groups: int) -> Tensor | None:
        if self.mask is None:
            return None
        mask = self.mask
        if mask.dtype == torch.bool:
            hidden = torch.zeros_like(mask, dtype=self.query.dtype)
            mask = hidden.masked_fill(mask.logical_not(), -math.inf)
        while mask.dim() < len(self.lead) + 2:
            mask = mask.unsqueeze(0)
        if len(self.lead) < 2:
            mask = mask.unsqueeze(-3) if self.lead and groups == 1 else mask.unsqueeze(0)
            mask = mask if self.lead else mask.unsqueeze(0)
        elif len(self.lead) > 2:
            if any(size != 1 for size in mask.shape[:-3]):
                mask = mask.expand(*self.lead[:-1], *mask.shape[-3:])
            mask = mask.reshape(math.prod(mask.shape[:-3]), *mask.shape[-3:])
        if groups == 1:
            return mask
        return mask.unsqueeze(1) if mask.shape[1] == 1 else mask.unflatten(1, (-1, groups))


class _Attention(torch.autograd.Function):
    """The call and its gradient; second derivatives are those of matrix products."""

    @staticmethod
    def forward(ctx, query, key, value, mask, causal, scale, p):
        shape = [*query.shape[:-1], key.shape[-2]]
        told: tuple[Any, ...] = (mask, causal, scale, [], [], p, 0, 0, shape if p else [])
        output, logsumexp = torch.ops.smex.scaled_dot_product(query, key, value, *told)
        ctx.save_for_backward(query, key, value, mask, output, logsumexp)
        ctx.told = told[1:]
        return output

    @staticmethod
    def backward(ctx, grad):
        query, key, value, mask, output, logsumexp = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled():
            gradients = _dense_gradients(grad, (query, key, value, mask), wanted, ctx.told)
        else:
            gradients = torch.ops.smex.scaled_dot_product_backward(
                grad, query, key, value, output, logsumexp, mask, *ctx.told, wanted[3]
            )
        kept = [g if want else None for g, want in zip(gradients, wanted, strict=True)]
        return (*kept, None, None, None)


def _dense_gradients(grad, operands, wanted, told) -> list[Tensor | None]:
    """Gradients that have gradients themselves."""
    causal, scale, _, _, p, *_ = told
    if p:
        raise CaptureError(
            "capture: a gradient of attention with dropout is differentiated again, which needs "
            "what was drawn as a tensor: write the softmax and F.dropout instead, or dropout_p=0"
        )
    leaves = [t.view_as(t) for t in operands if t is not None]
    query, key, value, *rest = leaves
    if query.dim() == 5:
        key, value = key.unsqueeze(2), value.unsqueeze(2)
    score = query @ key.transpose(-1, -2) * (scale or 1 / math.sqrt(query.shape[-1]))
    for mask in rest:
        score = score + mask
    if causal:
        seen = torch.ones(score.shape[-2:], dtype=torch.bool).tril()
        score = score.masked_fill(seen.logical_not(), -math.inf)
    output = torch._safe_softmax(score, -1).to(value.dtype) @ value
    asked = [leaf for leaf, want in zip(leaves, wanted, strict=False) if want]
    found = iter(torch.autograd.grad(output, asked, grad, create_graph=True))
    return [next(found) if want else None for want in wanted]


_BLOCK_SCORES = 1 << 22
_MOST_BLOCKS = 16  # so that graphs stay small


def flex_attention(region: Callable[[], contextlib.AbstractContextManager[None]]) -> Callable:
    """Returns what runs in the place of the operator of `torch.nn.attention.flex_attention`.

    Scores that a function of the user's changes are computed for some queries at a time, each time
    in a region that runs again for the backward pass instead of keeping them.

    Args:
        region: what an activation checkpoint runs in.
    """

    def flex(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Callable,
        block_mask: tuple,
        scale: float,
        kernel_options: dict[str, Any],
        *_: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        groups = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (key, value))
        key, value = (t.expand(query.shape[0], *t.shape[1:]) for t in (key, value))
        rows = query.shape[2]
        scores = query.shape[0] * query.shape[1] * rows * key.shape[2]
        count = max(1, min(_MOST_BLOCKS, rows, -(-scores // _BLOCK_SCORES)))
        step = max(1, -(-rows // count))
        parts = []
        for first in range(0, max(rows, 1), step):
            block = query[:, :, first : first + step]
            with region() if count > 1 else contextlib.nullcontext():
                parts.append(
                    _flex_block(block, first, key, value, score_mod, block_mask[-1], scale)
                )
        out, logsumexp, largest = (torch.cat(of, 2) for of in zip(*parts, strict=True))
        return out, logsumexp / math.log(2), largest / math.log(2)

    return flex


def _flex_block(query, first, key, value, score_mod, mask_mod, scale) -> tuple[Tensor, ...]:
    """Output, log-sum-exp and largest score of some queries, as torch computes all of them."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    score = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    places = [torch.arange(size) for size in score.shape]
    places[2] = places[2] + first
    with TransformGetItemToIndex():
        score = torch.where(
            _vmap_for_bhqkv(mask_mod, prefix=(), suffix=())(*places),
            _vmap_for_bhqkv(score_mod, prefix=(0,), suffix=())(score, *places),
            -math.inf,
        )
    weight = torch._safe_softmax(score, -1).to(query.dtype)
    return weight @ value, score.logsumexp(-1), score.detach().amax(-1)
