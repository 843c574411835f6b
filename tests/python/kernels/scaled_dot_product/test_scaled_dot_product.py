"""Tiles of attention against the softmax that they are rows of, in float64."""

import itertools
import math

import pytest
import torch

import smex

pytestmark = pytest.mark.skipif(
    not smex.show_config().native, reason=f"native library: {smex.show_config().native_reason}"
)

op = torch.ops.smex.scaled_dot_product
op_backward = torch.ops.smex.scaled_dot_product_backward
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def reference(query, key, value, mask, causal, scale):
    """Output and log-sum-exp of all queries, whose heads may have a dimension of their own."""
    wide = key if query.dim() == 4 else key.unsqueeze(2)
    read = value if query.dim() == 4 else value.unsqueeze(2)
    score = query @ wide.transpose(-1, -2) * (scale or 1 / math.sqrt(query.shape[-1]))
    if mask is not None:
        score = score + mask
    if causal:
        seen = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).tril()
        score = score.masked_fill(~seen, -math.inf)
    return score.softmax(-1) @ read, score.logsumexp(-1)


def inputs(heads, queries, keys, device, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).to(device, dtype)

    return (
        draw(2, *heads, queries, 8),
        draw(2, heads[0], keys, 8),
        draw(2, heads[0], keys, 8),
        draw(2, *heads, queries, 8),
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("heads", [(3,), (2, 3), (1, 2)])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (9, 4), (4, 9), (1, 1), (33, 65)])
@pytest.mark.parametrize("kind", ["plain", "causal", "mask"])
def test_tiles_of_queries(device, heads, queries, keys, kind):
    query, key, value, grad = inputs(heads, queries, keys, device)
    mask = torch.randn(queries, keys, device=device).double() if kind == "mask" else None
    causal, scale = kind == "causal", 0.4
    leaves = [t.clone().requires_grad_() for t in (query, key, value)]
    whole, whole_sum = reference(*leaves, mask, causal, scale)
    wanted = torch.autograd.grad(whole, leaves, grad)
    total = [torch.zeros_like(t) for t in (query, key, value)]
    for parts in (1, 2, 3):
        for t in total:
            t.zero_()
        cuts = [queries * p // parts for p in range(parts + 1)]
        for low, high in itertools.pairwise(cuts):
            if low == high:
                continue
            rows = (..., slice(low, high), slice(None))
            tile, part = query[rows], None if mask is None else mask[low:high]
            told = [part, causal, scale, [0] * (query.dim() - 2) + [low, 0]]
            output, logsumexp = op(tile, key, value, *told)
            torch.testing.assert_close(output, whole[rows].detach())
            torch.testing.assert_close(logsumexp, whole_sum[..., low:high].detach())
            found = op_backward(grad[rows], tile, key, value, output, logsumexp, *told)
            total[0][rows] += found[0]
            total[1] += found[1]
            total[2] += found[2]
        for mine, theirs in zip(total, wanted, strict=True):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision(device, dtype):
    query, key, value, grad = inputs((4,), 40, 40, device, dtype)
    wide = [t.double() for t in (query, key, value)]
    told = [None, True, None, [0, 0, 20, 0]]
    output, logsumexp = op(query[:, :, 20:], key, value, *told)
    assert output.dtype == dtype and logsumexp.dtype == torch.float32
    whole, whole_sum = reference(*wide, None, True, None)
    near = {"rtol": 20 * torch.finfo(dtype).eps, "atol": 4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(output.double(), whole[:, :, 20:], **near)
    torch.testing.assert_close(logsumexp.double(), whole_sum[:, :, 20:], rtol=1e-2, atol=1e-2)
    found = op_backward(grad[:, :, 20:], query[:, :, 20:], key, value, output, logsumexp, *told)
    assert [g.dtype for g in found[:3]] == [dtype] * 3 and found[3] is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("size", "value_size"), [(5, 5), (12, 12), (6, 20), (64, 64), (24, 8)])
@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "column"])
def test_heads_of_any_size(kind, size, value_size, dtype, device):
    """Also rows that lie in wider ones, and begin where wide loads do not."""
    generator = torch.Generator().manual_seed(1)

    def draw(width, rows=21):
        wide = torch.randn(2, 3, rows, width + 3, generator=generator).to(device, dtype)
        return wide[..., 1 : width + 1]

    query, key, value = draw(size), draw(size), draw(value_size)
    grad = draw(value_size)
    masks = {"mask": draw(21), "column": draw(1)}
    mask = masks.get(kind)
    leaves = [t.double().requires_grad_() for t in (query, key, value)]
    wide_mask = None if mask is None else mask.double()
    whole, whole_sum = reference(*leaves, wide_mask, kind == "causal", None)
    wanted = torch.autograd.grad(whole, leaves, grad.double())
    told = [mask, kind == "causal", None, []]
    output, logsumexp = op(query, key, value, *told)
    found = op_backward(grad, query, key, value, output, logsumexp, *told)
    eps = torch.finfo(dtype).eps
    for mine, theirs in zip([output, *found[:3]], [whole.detach(), *wanted], strict=True):
        assert mine.shape == theirs.shape and mine.dtype == dtype
        scale = float(theirs.abs().max())
        torch.testing.assert_close(mine.double(), theirs, rtol=30 * eps, atol=8 * eps * scale)
    torch.testing.assert_close(logsumexp.double(), whole_sum.detach(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("heads", [(3,), (2, 3)])
def test_shapes_and_types_on_meta(heads):
    query, key, value, grad = inputs(heads, 6, 5, "cpu", torch.bfloat16)
    told = [None, False, None, []]
    made = op(query, key, value, *told)
    found = op_backward(grad, query, key, value, *made, *told)
    on_meta = [t.to("meta") for t in (query, key, value)]
    meta_made = op(*on_meta, *told)
    meta_found = op_backward(grad.to("meta"), *on_meta, *meta_made, *told)
    for real, meta in zip([*made, *found[:3]], [*meta_made, *meta_found[:3]], strict=True):
        assert (real.shape, real.dtype) == (meta.shape, meta.dtype)
    assert found[3] is None and meta_found[3] is None


def refused(message, kind, query, key, value, *told):
    with pytest.raises(kind, match=message):
        op(query, key, value, *told)


def test_bad_input_is_named():
    query, key, value, _ = inputs((4,), 6, 5, "cpu")
    plain = [None, False, None, []]
    refused("expected queries .*found \\[6, 8\\]", ValueError, query[0, 0], key, value, *plain)
    refused(
        "keys and values of one shape but for the last",
        ValueError,
        query,
        key,
        value[:, :, :4],
        *plain,
    )
    refused("the heads and the last size", ValueError, query, key[:, :2], value[:, :2], *plain)
    refused("one floating type", TypeError, query.float(), key, value, *plain)
    refused("takes no mask", ValueError, query, key, value, torch.zeros(6, 5), True, None, [])
    refused("of which there are 4, found", ValueError, query, key, value, None, True, None, [2])
    dropped = [None, False, None, [], []]
    refused("p must be in", ValueError, query, key, value, *dropped, 1.5)
    refused("global_shape is .* with 4 sizes", ValueError, query, key, value, *dropped, 0.5)
    for device in ("cpu", "meta"):
        given = [t.to(device) for t in (query, query, key, value, query, query[..., 0])]
        with pytest.raises(ValueError, match="there is no mask to have a gradient"):
            op_backward(*given, *plain, mask_gradient=True)
    refused("of the first key, found", ValueError, query, key, value, None, True, None, [], [1, 2])


def merged(parts):
    """Output and log-sum-exp over all keys, from those over some."""
    outputs, sums = zip(*parts, strict=True)
    total = torch.stack(sums).logsumexp(0)
    weighed = torch.ops.smex.weigh_part
    return sum(weighed(o, s, total) for o, s in zip(outputs, sums, strict=True)), total


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("heads", [(3,), (2, 3)])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (9, 4), (4, 9), (33, 65)])
@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "hidden"])
def test_tiles_of_keys(device, heads, queries, keys, kind):
    query, key, value, grad = inputs(heads, queries, keys, device)
    mask = None
    if kind in ("mask", "hidden"):
        mask = torch.randn(queries, keys, device=device).double()
    if kind == "hidden":  # the first half of the keys from query 1
        mask[1, : (keys + 1) // 2] = -math.inf
    causal, scale = kind == "causal", 0.4
    leaves = [t.clone().requires_grad_() for t in (query, key, value)]
    whole, whole_sum = reference(*leaves, mask, causal, scale)
    wanted = torch.autograd.grad(whole, leaves, grad)
    corner = [0] * query.dim()
    for parts in (2, 3, 4):
        cuts = [keys * p // parts for p in range(parts + 1)]
        tiles = [(low, high) for low, high in itertools.pairwise(cuts) if low < high]

        def told(low, high):
            return [None if mask is None else mask[:, low:high], causal, scale, corner, [low]]

        def part(low, high):
            return key[:, :, low:high], value[:, :, low:high]

        output, total = merged([op(query, *part(*t), *told(*t)) for t in tiles])
        torch.testing.assert_close(output, whole.detach())
        torch.testing.assert_close(total, whole_sum.detach())
        found = [op_backward(grad, query, *part(*t), output, total, *told(*t)) for t in tiles]
        torch.testing.assert_close(sum(f[0] for f in found), wanted[0])
        torch.testing.assert_close(torch.cat([f[1] for f in found], 2), wanted[1])
        torch.testing.assert_close(torch.cat([f[2] for f in found], 2), wanted[2])


@pytest.mark.parametrize("device", DEVICES)
def test_boxes_of_queries_and_keys(device):
    query, key, value, grad = inputs((3,), 12, 12, device)
    leaves = [t.clone().requires_grad_() for t in (query, key, value)]
    whole, _ = reference(*leaves, None, True, None)
    wanted = torch.autograd.grad(whole, leaves, grad)
    total = [torch.zeros_like(t) for t in leaves]
    for low, high in [(0, 5), (5, 12)]:
        rows = (..., slice(low, high), slice(None))
        boxes = [(0, 3), (3, 8), (8, 12)]
        made = [
            op(query[rows], key[:, :, a:b], value[:, :, a:b], None, True, None, [0, 0, low, 0], [a])
            for a, b in boxes
        ]
        output, logsumexp = merged(made)
        torch.testing.assert_close(output, whole[rows].detach())
        for a, b in boxes:
            columns = (slice(None), slice(None), slice(a, b))
            found = op_backward(
                grad[rows], query[rows], key[columns], value[columns], output, logsumexp, None, True,
                None, [0, 0, low, 0], [a],
            )  # fmt: skip
            total[0][rows] += found[0]
            total[1][columns] += found[1]
            total[2][columns] += found[2]
    for mine, theirs in zip(total, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("device", DEVICES)
def test_queries_that_see_nothing(device):
    query, key, value, grad = inputs((3,), 6, 5, device)
    mask = torch.zeros(6, 5, device=device).double()
    mask[2] = -math.inf
    parts = [
        op(query, key[:, :, a:b], value[:, :, a:b], mask[:, a:b], False, None, [0] * 4, [a])
        for a, b in [(0, 2), (2, 5)]
    ]
    output, total = merged(parts)
    assert (output[:, :, 2] == 0).all() and (total[:, :, 2] == -math.inf).all()
    for tile in ((0, 2), (2, 5)):
        keys = slice(*tile)
        found = op_backward(
            grad, query, key[:, :, keys], value[:, :, keys], output, total, mask[:, keys], False,
            None, [0] * 4, [tile[0]],
        )  # fmt: skip
        assert all(torch.isfinite(g).all() for g in found[:3])
        assert (found[0][:, :, 2] == 0).all()


def test_parts_are_weighed_in_their_type():
    part = torch.randn(2, 3, 4).bfloat16()
    sums = torch.randn(2, 3)
    weighed = torch.ops.smex.weigh_part(part, sums, torch.zeros(2, 3))
    assert weighed.dtype == torch.bfloat16
    torch.testing.assert_close(weighed, (part * sums.exp().unsqueeze(-1)).bfloat16())
    with pytest.raises(ValueError, match="sums of the first dimensions of the part"):
        torch.ops.smex.weigh_part(part, sums.t(), sums.t())


class Blocks:
    """One call of which weights are dropped or whose mask is trained, beside plain arithmetic."""

    seed, stream = 11, 3

    def __init__(self, heads, queries, keys, values, mask, causal, p, device="cpu"):
        generator = torch.Generator().manual_seed(5)

        def draw(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)

        self.queries, self.keys, self.causal, self.p = queries, keys, causal, p
        self.query, self.key = draw(2, *heads, queries, 8), draw(2, heads[0], keys, 8)
        self.value, self.grad = draw(2, heads[0], keys, values), draw(2, *heads, queries, values)
        self.mask = None if mask is None else draw(*mask)
        self.shape = [2, *heads, queries, keys]
        self.grouped = len(heads) == 2

    def expected(self):
        """Output and log-sum-exp, and the gradients of all operands."""
        leaves = [t.clone().requires_grad_() for t in (self.query, self.key, self.value)]
        if self.mask is not None:
            leaves.append(self.mask.clone().requires_grad_())
        wide = [t.unsqueeze(2) if self.grouped else t for t in leaves[1:3]]
        score = leaves[0] @ wide[0].transpose(-1, -2) * 0.3
        if self.mask is not None:
            score = score + leaves[3]
        if self.causal:
            seen = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).tril()
            score = score.masked_fill(~seen, -math.inf)
        weight = score.softmax(-1)
        if self.p:
            weight = weight * torch.ops.smex.dropout_mask(
                weight, self.p, self.seed, self.stream, [0] * weight.dim(), self.shape
            )
        output = weight @ wide[1]
        return output, score.logsumexp(-1), torch.autograd.grad(output, leaves, self.grad)

    def told(self, corner, columns):
        low, high = columns
        mask = self.mask
        if mask is not None and mask.shape[-1] > 1:
            mask = mask[..., low:high]
        return mask, self.causal, 0.3, corner, [low], self.p, self.seed, self.stream, self.shape

    def found(self, call, call_backward, parts=1):
        """The same, with the keys in parts whose results merge."""
        corner = [0] * self.query.dim()
        cuts = [self.keys * part // parts for part in range(parts + 1)]
        tiles = [pair for pair in itertools.pairwise(cuts) if pair[0] < pair[1]] or [(0, 0)]
        keys = [(self.key[:, :, a:b], self.value[:, :, a:b]) for a, b in tiles]
        made = [
            call(self.query, *pair, *self.told(corner, tile))
            for tile, pair in zip(tiles, keys, strict=True)
        ]
        output, total = made[0] if parts == 1 else merged(made)
        gradients = [
            call_backward(
                self.grad, self.query, *pair, output, total, *self.told(corner, tile),
                self.mask is not None,
            )
            for tile, pair in zip(tiles, keys, strict=True)
        ]  # fmt: skip
        whole = [
            sum(g[0] for g in gradients),
            torch.cat([g[1] for g in gradients], 2),
            torch.cat([g[2] for g in gradients], 2),
        ]
        if self.mask is not None:
            masks = [g[3] for g in gradients]
            whole.append(torch.cat(masks, -1) if self.mask.shape[-1] > 1 else sum(masks))
        return output, total, whole

    def check(self, call, call_backward, parts=1):
        output, total, gradients = self.found(call, call_backward, parts)
        wanted, wanted_total, wanted_gradients = self.expected()
        torch.testing.assert_close(output, wanted, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(total, wanted_total, rtol=1e-10, atol=1e-12)
        for mine, theirs in zip(gradients, wanted_gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def by_calls(operator):
    """The kernel of a device that has none of its own, on the CPU's tensors."""
    overload = operator.default
    arguments = overload._schema.arguments

    def call(*given):
        rest = [a.default_value for a in arguments[len(given) :]]
        other = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
        return overload.redispatch(other, *given, *rest)

    return call


WAYS = {"blocks": (op, op_backward), "calls": (by_calls(op), by_calls(op_backward))}
SIZES = [(7, 7), (1, 1), (1, 300), (150, 3), (0, 5)]
MASKS = {
    "none": lambda heads, q, k: None,
    "of all": lambda heads, q, k: (2, *heads, q, k),
    "of queries and keys": lambda heads, q, k: (q, k),
    "of heads": lambda heads, q, k: (1, *heads, q, k),
    "of the batch": lambda heads, q, k: (2, *[1] * len(heads), q, k),
    "of keys": lambda heads, q, k: (2, *[1] * len(heads), 1, k),
    "of queries": lambda heads, q, k: (q, 1),
    "one number": lambda heads, q, k: (1,),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heads", [(3,), (2, 3)])
@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("kind", ["causal", *MASKS])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_dropout_and_trained_masks(way, heads, queries, keys, kind, p):
    mask = None if kind == "causal" else MASKS[kind](heads, queries, keys)
    if mask and 0 in mask:
        pytest.skip("an empty mask is of no query")
    blocks = Blocks(heads, queries, keys, 5, mask, kind == "causal", p)
    blocks.check(*WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["causal", *MASKS])
@pytest.mark.parametrize("parts", [2, 3])
def test_dropout_and_trained_masks_of_tiles_of_keys(way, kind, parts):
    mask = None if kind == "causal" else MASKS[kind]((2, 2), 9, 14)
    Blocks((2, 2), 9, 14, 8, mask, kind == "causal", 0.3).check(*WAYS[way], parts=parts)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", ["causal", *MASKS])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_dropout_and_trained_masks_on_a_gpu(kind, p):
    mask = None if kind == "causal" else MASKS[kind]((2, 3), 33, 65)
    Blocks((2, 3), 33, 65, 8, mask, kind == "causal", p, "cuda").check(op, op_backward)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("p", [0.0, 0.2, 1.0])
def test_no_query_sees_what_a_mask_hides(way, p):
    blocks = Blocks((3,), 6, 5, 8, (6, 5), False, p)
    blocks.mask[2] = -math.inf
    blocks.mask[4, 1:] = -math.inf
    output, total, gradients = blocks.found(*WAYS[way])
    assert (output[:, :, 2] == 0).all() and (total[:, :, 2] == -math.inf).all()
    assert all(torch.isfinite(g).all() for g in gradients)
    assert (gradients[0][:, :, 2] == 0).all() and (gradients[3][2] == 0).all()
    if p == 1:
        assert (output == 0).all()


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_dropout_does_not_depend_on_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        Blocks((1,), 700, 300, 8, (700, 300), False, 0.4).check(op, op_backward)
        Blocks((1,), 700, 300, 8, (1, 300), False, 0.4).check(op, op_backward)
        Blocks((2, 2), 300, 300, 8, None, True, 0.4).check(op, op_backward)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("cut", ["batch", "heads", "shared heads", "queries"])
def test_weights_are_drawn_by_place(cut):
    blocks = Blocks((2, 4), 6, 9, 8, None, False, 0.5)
    whole, _ = op(blocks.query, blocks.key, blocks.value, *blocks.told([0] * 5, (0, 9)))
    dim = {"batch": 0, "heads": 1, "shared heads": 2, "queries": 3}[cut]
    half = blocks.query.shape[dim] // 2
    for low in (0, half):
        corner = [low if d == dim else 0 for d in range(5)]
        tile = [
            t.narrow(dim, low, half) if dim < 2 or t is blocks.query else t
            for t in (blocks.query, blocks.key, blocks.value)
        ]
        part, _ = op(*tile, *blocks.told(corner, (0, 9)))
        torch.testing.assert_close(part, whole.narrow(dim, low, half))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dropout_in_lower_precision(way, dtype):
    blocks = Blocks((2, 3), 40, 50, 8, (40, 50), False, 0.25)
    wanted, _, wanted_gradients = blocks.expected()
    for name in ("query", "key", "value", "grad", "mask"):
        setattr(blocks, name, getattr(blocks, name).to(dtype))
    output, total, gradients = blocks.found(*WAYS[way])
    assert output.dtype == dtype and total.dtype == torch.float32
    near = 8 * torch.finfo(dtype).eps
    for mine, theirs in zip([output, *gradients], [wanted, *wanted_gradients], strict=True):
        assert mine.dtype == dtype
        assert (mine.double() - theirs).abs().max() <= near * theirs.abs().max()
