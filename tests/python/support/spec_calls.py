"""Small calls of every operator that has a spec: odd sizes, size 1, broadcasting, negative numbers."""

from __future__ import annotations

import torch

_generator = torch.Generator().manual_seed(7)


def r(*shape):
    return torch.randn(shape, generator=_generator, dtype=torch.float64)


def pos(*shape):
    return torch.rand(shape, generator=_generator, dtype=torch.float64) + 0.5


def ints(high, *shape):
    return torch.randint(high, shape, generator=_generator)


def bools(*shape):
    return torch.rand(shape, generator=_generator) > 0.5


def samples():
    """(target, args, which outputs are used or None for all)."""
    f64 = torch.float64
    for name in [
        "abs",
        "alias",
        "clone",
        "cos",
        "detach",
        "erf",
        "exp",
        "expm1",
        "floor",
        "isnan",
        "neg",
        "reciprocal",
        "relu",
        "sigmoid",
        "sign",
        "silu",
        "sin",
        "tanh",
    ]:
        yield f"aten::{name}", [r(3, 5)], None
    for name in ["log", "log1p", "rsqrt", "sqrt"]:
        yield f"aten::{name}", [pos(3, 5)], None
    for name in ["bitwise_not", "logical_not"]:
        yield f"aten::{name}", [bools(3, 5)], None
    for name in ["add", "sub", "mul", "div"]:
        yield f"aten::{name}.Tensor", [r(3, 5), r(3, 5)], None
        yield f"aten::{name}.Tensor", [r(2, 1, 5), r(3, 1)], None
        yield f"aten::{name}.Scalar", [r(3, 5), 2.5], None
    yield "aten::add.Tensor", [r(7), r(7), 3], None
    yield "aten::sub.Tensor", [r(7), r(7), 0.5], None
    yield "aten::rsub.Scalar", [r(7), 1, 2], None
    same = r(5, 5)
    yield "aten::mul.Tensor", [same, same], None
    yield "aten::mm", [same, same], None
    yield "aten::div.Tensor_mode", [r(3, 5), pos(5)], None
    yield "aten::div.Tensor_mode", [r(3, 5), pos(5)], None
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        yield f"aten::{name}.Tensor", [ints(3, 3, 5), ints(3, 5)], None
        yield f"aten::{name}.Scalar", [ints(3, 3, 5), 1], None
    for name in ["and", "or", "xor"]:
        yield f"aten::logical_{name}", [bools(3, 5), bools(5)], None
        yield f"aten::bitwise_{name}.Tensor", [bools(3, 5), bools(5)], None
    yield "aten::maximum", [r(3, 5), r(5)], None
    yield "aten::minimum", [r(3, 5), r(5)], None
    yield "aten::pow.Tensor_Scalar", [r(3, 5), 2], None
    yield "aten::pow.Tensor_Tensor", [pos(3, 5), r(5)], None
    yield "aten::pow.Scalar", [2.0, r(5)], None
    yield "aten::fill.Scalar", [r(3, 5), 2.0], None
    yield "aten::copy", [r(3, 5), r(5)], None
    yield "aten::_to_copy", [r(3, 5), torch.int64], None
    yield "aten::_to_copy", [ints(3, 3, 5), f64], None
    yield "aten::_to_copy", [ints(2, 3, 5), torch.bool], None
    yield "aten::addcmul", [r(3, 5), r(5), r(3, 1), 2.0], None
    yield "aten::addcdiv", [r(3, 5), r(5), pos(3, 1), 2.0], None
    yield "aten::clamp", [r(3, 5), -0.5, None], None
    yield "aten::clamp", [r(3, 5), -0.5, 0.5], None
    yield "aten::clamp_min", [r(3, 5), -0.5], None
    yield "aten::clamp_max", [r(3, 5), 0.5], None
    yield "aten::elu", [r(3, 5)], None
    yield "aten::zeros_like", [r(3, 5)], None
    yield "aten::ones_like", [r(3, 5)], None
    yield "aten::full_like", [r(3, 5), 3], None
    for approximate in ("none", "tanh"):
        yield "aten::gelu", [r(3, 5), approximate], None
        yield "aten::gelu_backward", [r(3, 5), r(3, 5), approximate], None
    yield "aten::hardtanh", [r(3, 5)], None
    yield "aten::leaky_relu", [r(3, 5)], None
    yield "aten::leaky_relu_backward", [r(3, 5), r(3, 5), 0.1, False], None
    yield "aten::log_sigmoid_forward", [r(3, 5)], [True, False]
    yield "aten::masked_fill.Scalar", [r(2, 3, 5), bools(3, 5), 2.0], None
    yield "aten::masked_fill.Tensor", [r(2, 3, 5), bools(3, 1), r()], None
    yield "aten::sigmoid_backward", [r(3, 5), r(3, 5)], None
    yield "aten::silu_backward", [r(3, 5), r(3, 5)], None
    yield "aten::tanh_backward", [r(3, 5), r(3, 5)], None
    yield "aten::threshold_backward", [r(3, 5), r(3, 5), 0], None
    yield "aten::where.self", [bools(3, 5), r(3, 5), r()], None
    yield "aten::mm", [r(3, 5), r(5, 7)], None
    yield "aten::mm", [r(1, 5), r(5, 1)], None
    yield "aten::bmm", [r(3, 5, 2), r(3, 2, 7)], None
    yield "aten::addmm", [r(7), r(3, 5), r(5, 7)], None
    yield "aten::addmm", [r(3, 7), r(3, 5), r(5, 7), 0.5, 2], None
    yield "aten::baddbmm", [r(3, 5, 7), r(3, 5, 2), r(3, 2, 7)], None
    yield "aten::mv", [r(3, 5), r(5)], None
    yield "aten::dot", [r(5), r(5)], None
    for name in ("amax", "amin"):
        yield f"aten::{name}", [r(3, 5, 2), [-1], True], None
        yield f"aten::{name}", [r(3, 5, 2), [0, 2], False], None
    for name in ("max", "min", "sum", "prod", "mean"):
        yield f"aten::{name}", [r(3, 5)], None
    yield "aten::any", [bools(3, 5)], None
    yield "aten::sum.dim_IntList", [r(3, 5, 2), [0, -1], False], None
    yield "aten::sum.dim_IntList", [r(3, 5, 2), [1], True], None
    yield "aten::sum.dim_IntList", [r(3, 5), None, True], None
    yield "aten::sum.dim_IntList", [r(3, 0), [1], True], None
    yield "aten::mean.dim", [r(3, 5, 2), [1], False], None
    yield "aten::prod.dim_int", [r(3, 5, 2), 1], None
    for dim in (0, 1, -1):
        yield "aten::_softmax", [r(3, 5, 2), dim, False], None
        yield "aten::_log_softmax", [r(3, 5, 2), dim, False], None
        yield "aten::_safe_softmax", [r(3, 5, 2), dim, None], None
        yield "aten::_softmax_backward_data", [r(3, 5, 2), r(3, 5, 2), dim, f64], None
        yield "aten::_log_softmax_backward_data", [r(3, 5, 2), r(3, 5, 2), dim, f64], None
    for source, size in [((6, 5), [30]), ((6, 5), [2, 3, 5]), ((2, 3, 5), [6, 5]), ((30,), [5, -1]),
                         ((4, 6), [8, 3]), ((6, 4), [4, 6]), ((1, 6, 1), [3, 1, 2]), ((3, 4, 5), [12, 5]),
                         ((3, 4, 5, 2), [3, 20, 2]), ((12,), [3, 2, 2]), ((1,), []), ((0, 3), [3, 0])]:  # fmt: skip
        yield "aten::view", [r(*source), size], None
        yield "aten::reshape", [r(*source), size], None
        yield "aten::_unsafe_view", [r(*source), size], None
    yield "aten::cat", [[r(3, 2), r(3, 5), r(3, 1)], -1], None
    yield "aten::cat", [[r(3, 2)], 0], None
    yield "aten::stack", [[r(3, 2), r(3, 2), r(3, 2)], 1], None
    yield "aten::constant_pad_nd", [r(3, 5), [1, 2], 0.5], None
    yield "aten::constant_pad_nd", [r(3, 5), [1, -1, -1, 2]], None
    yield "aten::expand", [r(3, 1), [2, 3, 5]], None
    yield "aten::expand", [r(3, 1), [-1, 5]], None
    yield "aten::flip", [r(3, 5), [1]], None
    yield "aten::permute", [r(3, 5, 2), [2, 0, -2]], None
    yield "aten::select.int", [r(3, 5, 2), 1, -2], None
    yield "aten::select_backward", [r(3, 2), [3, 5, 2], 1, 2], None
    for bounds in [(1, 4, 1), (None, None, 1), (1, 5, 2), (-3, 100, 1), (0, 5, 3)]:
        yield "aten::slice.Tensor", [r(3, 5, 2), 1, *bounds], None
    yield "aten::slice_backward", [r(3, 2), [3, 5], 1, 1, 3, 1], None
    yield "aten::slice_backward", [r(3, 2), [3, 5], 1, 1, 4, 2], None
    yield "aten::slice_backward", [r(3, 5), [3, 5], 1, 0, 5, 1], None
    yield "aten::squeeze.dim", [r(3, 1, 2), 1], None
    yield "aten::squeeze.dim", [r(3, 1, 2), 0], None
    yield "aten::squeeze.dims", [r(1, 3, 1, 2), [0, 2]], None
    yield "aten::squeeze", [r(1, 3, 1, 2)], None
    yield "aten::t", [r(3, 5)], None
    yield "aten::t", [r(3)], None
    yield "aten::transpose.int", [r(3, 5, 2), 0, -1], None
    yield "aten::unsqueeze", [r(3, 5), -1], None
    yield "aten::arange", [7], None
    yield "aten::arange.start", [2, 7], None
    yield "aten::arange.start_step", [0, 10, 3], None
    yield "aten::full", [[3, 5], 2.0], None
    yield "aten::zeros", [[3, 5]], None
    yield "aten::ones", [[3, 5]], None
    yield "aten::new_zeros", [r(4, 2), [3, 5]], None
    yield "aten::new_ones", [r(4, 2), [3, 5]], None
    yield "aten::new_full", [r(4, 2), [3, 5], 2.0], None
    yield "aten::scalar_tensor", [2.5], None
    yield "aten::tril", [r(2, 5, 5)], None
    yield "aten::triu", [r(2, 5, 3), 1], None
    for x, w, stride, pad, dilation, groups in [
        (r(3, 2, 7, 7), r(4, 2, 3, 3), [1, 1], [1, 1], [1, 1], 1),
        (r(2, 3, 9, 8), r(5, 3, 3, 2), [2, 1], [1, 0], [1, 2], 1),
        (r(3, 2, 5, 5), r(3, 2, 1, 1), [2, 2], [0, 0], [1, 1], 1),
        (r(2, 4, 7, 6), r(6, 2, 3, 3), [2, 2], [2, 1], [1, 1], 2),
        (r(3, 2, 9), r(4, 2, 3), [2], [1], [2], 1),
    ]:
        rest = [stride, pad, dilation, False, [0] * len(stride), groups]
        yield "aten::convolution", [x, w, None, *rest], None
        yield "aten::convolution", [x, w, r(w.shape[0]), *rest], None
        grad = torch.randn_like(torch.ops.aten.convolution(x, w, None, *rest))
        for mask in ([True, False, False], [False, True, False], [True, True, False], [True, True, True],
                     [False, True, True], [False, False, True]):  # fmt: skip
            yield "aten::convolution_backward", [grad, x, w, [w.shape[0]], *rest, mask], mask
    x, w = r(3, 2, 4, 3), r(2, 5, 2, 3)
    for stride, pad, out_pad in ([2, 2], [1, 0], [1, 0]), ([1, 1], [0, 1], [0, 0]):
        rest = [stride, pad, [1, 1], True, out_pad, 1]
        yield "aten::convolution", [x, w, None, *rest], None
        grad = torch.randn_like(torch.ops.aten.convolution(x, w, None, *rest))
        for mask in ([True, False, False], [False, True, False]):
            yield "aten::convolution_backward", [grad, x, w, [5], *rest, mask], mask
    x, w = r(1, 4, 3), r(4, 3, 2)
    rest = [[2], [1], [1], True, [0], 2]
    grad = torch.randn_like(torch.ops.aten.convolution(x, w, None, *rest))
    for mask in (
        [True, False, False],
        [False, True, False],
        [False, True, True],
        [True, True, True],
    ):
        yield "aten::convolution_backward", [grad, x, w, [6], *rest, mask], mask
    for x, w, pad, dilation in [
        (r(2, 2, 3), r(2, 2, 1), [1], [2]),
        (r(2, 2, 4), r(2, 2, 2), [3], [2]),
    ]:  # windows that lie in the padding alone
        for transposed in (False, True):
            rest = [[1], pad if not transposed else [1], dilation, transposed, [0], 1]
            yield "aten::convolution", [x, w, None, *rest], None
            grad = torch.randn_like(torch.ops.aten.convolution(x, w, None, *rest))
            for mask in ([True, False, False], [False, True, False]):
                yield "aten::convolution_backward", [grad, x, w, [2], *rest, mask], mask
    for stride, pad, dilation, ceil in ([2, 2], [0, 0], [1, 1], False), ([2, 1], [1, 1], [1, 2], False), (
        [2, 2], [0, 0], [1, 1], True):  # fmt: skip
        call = [r(3, 2, 7, 9), [3, 2], stride, pad, dilation, ceil]
        yield "aten::max_pool2d_with_indices", call, [True, False]
        yield "aten::max_pool2d_with_indices", call, None
        y, at = torch.ops.aten.max_pool2d_with_indices(*call)
        yield "aten::max_pool2d_with_indices_backward", [torch.randn_like(y), *call, at], None
        yield "smex::max_pool2d_backward", [torch.randn_like(y), *call], None
    for x, *rest in [
        (r(2, 2, 8, 6), [2, 2], [2, 2], [0, 0], [1, 1], False),
        (r(2, 2, 7, 9), [3, 3], [2, 2], [1, 1], [1, 1], False),
        (r(1, 2, 9, 8), [3, 2], [1, 2], [1, 0], [2, 1], False),
    ]:
        y, _ = torch.ops.aten.max_pool2d_with_indices(x, *rest)
        yield "smex::max_pool2d_backward", [torch.randn_like(y), x, *rest], None
    yield "aten::max_pool2d_with_indices", [r(3, 2, 8, 8), [2, 2]], [True, False]
    for rest in ([[3, 3], [2, 2], [1, 1]], [[2, 2], [], [0, 0]], [[3, 3], [2, 2], [1, 1], False, False],
                 [[3, 3], [2, 2], [1, 1], True, True]):  # fmt: skip
        x = r(3, 2, 7, 9)
        yield "aten::avg_pool2d", [x, *rest], None
        full = [*rest, *[False, True, None][len(rest) - 3 :]]
        y = torch.ops.aten.avg_pool2d(x, *full)
        yield "aten::avg_pool2d_backward", [torch.randn_like(y), x, *full], None
    yield "aten::_adaptive_avg_pool2d", [r(3, 2, 7, 5), [2, 3]], None
    yield "aten::_adaptive_avg_pool2d_backward", [r(3, 2, 2, 3), r(3, 2, 7, 5)], None
    yield "aten::upsample_nearest2d", [r(3, 2, 4, 5), [8, 10]], None
    yield "aten::upsample_bilinear2d", [r(3, 2, 4, 5), [8, 10], False], None
    x, c = r(5, 3, 4, 2), [pos(3), r(3), r(3), pos(3)]
    yield "aten::_native_batch_norm_legit_functional", [x, *c, True, 0.1, 1e-5], None
    yield "aten::_native_batch_norm_legit_no_training", [x, *c, 0.1, 1e-5], None
    for mask in ([True, True, True], [True, False, False]):
        yield "aten::native_batch_norm_backward", [
            r(5, 3, 4, 2), x, c[0], c[2], c[3], r(3), pos(3), True, 1e-5, mask], mask  # fmt: skip
    v, w = r(3, 4, 5), r(3, 4, 5)
    for dim, g in ((0, r(3, 1, 1)), (2, r(1, 1, 5))):
        norms = torch.ops.aten._weight_norm_interface(v, g, dim)[1]
        yield "aten::_weight_norm_interface", [v, g, dim], None
        yield "aten::_weight_norm_interface_backward", [w, v, g, norms, dim], None
    for shape, rows in [([5], (3, 2)), ([3, 2], (5,))]:
        x, w, b = r(*rows, *shape), r(*shape), r(*shape)
        yield "aten::native_layer_norm", [x, shape, w, b, 1e-5], None
        yield "aten::native_layer_norm", [x, shape, None, None, 1e-5], None
        _, mean, rstd = torch.ops.aten.native_layer_norm(x, shape, w, b, 1e-5)
        for mask in (
            [True, False, False],
            [False, True, True],
            [True, True, True],
            [False, True, False],
        ):
            yield "aten::native_layer_norm_backward", [
                torch.randn_like(x), x, shape, mean, rstd, w, b, mask], mask  # fmt: skip
    for x in (r(3, 4, 2, 5), r(5, 3)):
        vector = [r(x.shape[1]) for _ in range(4)]
        yield "smex::centered_square_sum", [x, vector[0]], None
        yield "smex::channel_sums", [torch.randn_like(x), x, vector[0]], None
        yield "smex::channel_combine", [torch.randn_like(x), x, *vector], None
    for x, rank in ((r(3, 4, 6), 1), (r(5, 3, 2), 2), (r(7), 1)):
        shape = x.shape[x.dim() - rank :]
        count, w, b, grad = shape.numel(), r(*shape), r(*shape), torch.randn_like(x)
        yield "smex::row_mean", [x, rank, count], None
        mean = torch.ops.smex.row_mean(x, rank, count)
        yield "smex::row_squares", [x, mean], None
        squares = torch.ops.smex.row_squares(x, mean)
        for affine in ([w, b], [None, None]):
            yield "smex::row_normalize", [x, mean, squares, *affine, count, 1e-5], None
            rstd = torch.rsqrt(squares / count + 1e-5)
            yield "smex::row_gradient_sums", [grad, x, mean, rstd, rank, affine[0]], None
            yield "smex::row_gradient", [
                grad, x, mean, rstd, affine[0], torch.cat([mean, rstd], -1), count], None  # fmt: skip
    x, w = r(2, 4, 3, 2), r(4)
    yield "aten::native_group_norm", [x, w, r(4), 2, 4, 6, 2, 1e-5], None
    _, mean, rstd = torch.ops.aten.native_group_norm(x, w, w, 2, 4, 6, 2, 1e-5)
    for mask in [True, True, True], [True, False, False], [False, True, True]:
        yield "aten::native_group_norm_backward", [
            torch.randn_like(x), x, mean, rstd, w, 2, 4, 6, 2, mask], mask  # fmt: skip
    x, lengths = r(3, 6, 4), torch.tensor([[1, 2, 3], [0, 6, 0], [4, 1, 1]])
    for reduce, line in (("sum", [x, lengths, 1]), ("max", [x[0], lengths[0], 0])):
        values, counts, axis = line
        yield "aten::segment_reduce", [
            values, reduce, counts, None, None, axis, True, None], None  # fmt: skip
        made = torch.segment_reduce(values, reduce, lengths=counts, axis=axis)
        yield "aten::_segment_reduce_backward", [
            torch.randn_like(made), made, values, reduce, counts, None, axis, None], None  # fmt: skip
    yield "smex::class_index", [ints(7, 4, 3), 7, -100], None
    yield "smex::recurrent_gradient", [r(5, 4), r(5, 3)], None
    for bias in None, r(4):
        yield "smex::recurrent_product", [r(5, 3), r(4, 3), bias], None
    layer = [r(3, 4, 8), r(4, 2), r(4, 2), r(8, 2)]
    yield "smex::lstm_layer", layer, None
    _, cells, gates = torch.ops.smex.lstm_layer(*layer)
    for more in (None, r(3, 4, 2)):
        yield "smex::lstm_layer_backward", [
            r(3, 4, 2), more, layer[3], gates, cells, layer[2]], None  # fmt: skip
    x, h, weight = r(3, 4, 6), r(4, 2), r(6, 2)
    for bias in None, r(6):
        yield "smex::gru_layer", [x, h, weight, bias], None
    out, gates = torch.ops.smex.gru_layer(x, h, weight, bias)
    yield "smex::gru_layer_backward", [r(3, 4, 2), weight, gates, out, h], None
    x, weight = r(3, 4, 2), r(2, 2)
    for relu in False, True:
        yield "smex::rnn_layer", [x, h, weight, relu], None
        out = torch.ops.smex.rnn_layer(x, h, weight, relu)
        yield "smex::rnn_layer_backward", [r(3, 4, 2), weight, out, relu], None
    yield from _attention_calls(r)
    for dim in (0, 1):
        x = r(5, 6).round()
        yield "smex::first_position", [x, x.amax(dim, keepdim=True), dim, []], None
        yield "smex::scatter_sum", [
            r(5, 6), ints(8, 5, 6), dim, [8, 6] if dim == 0 else [5, 8], []], None  # fmt: skip
    yield "aten::constant_pad_nd", [r(4, 6), [-1, -2, 2, -1], 0.5], None
    yield "aten::embedding", [r(7, 5), ints(7, 4, 3)], None
    yield "aten::embedding_dense_backward", [r(4, 3, 5), ints(7, 4, 3), 7, -1, False], None
    yield "aten::embedding_dense_backward", [r(4, 3, 5), ints(7, 4, 3), 7, 2, False], None
    weight, at, starts = r(7, 5), ints(7, 10), torch.tensor([0, 3, 3, 7])
    for mode in (0, 1, 2):
        rest = [False, mode, False, None, False, -1]
        yield "aten::_embedding_bag", [weight, at, starts, *rest], [True, False, False, False]
        yield "aten::_embedding_bag", [weight, at, starts, *rest], None
        yield "aten::_embedding_bag_forward_only", [weight, at, starts, *rest], [True] + [False] * 3
        if mode < 2:
            _, *books = torch.ops.aten._embedding_bag(weight, at, starts, *rest)
            yield "aten::_embedding_bag_backward", [
                r(4, 5), at, starts, *books, 7, False, mode, False, None, -1], None  # fmt: skip
            yield "aten::_embedding_bag_dense_backward", [
                r(4, 5), at, *books, 7, False, mode, None, -1], None  # fmt: skip
    yield "aten::gather", [r(3, 5), 1, ints(5, 3, 4)], None
    yield "aten::gather", [r(3, 5), 1, ints(5, 2, 4)], None
    yield "aten::index.Tensor", [r(4, 5, 3), [None, ints(5, 6)]], None
    yield "aten::index.Tensor", [r(4, 5, 3), [ints(4, 6, 1) - 4, ints(5, 2)]], None
    yield "aten::index_select", [r(4, 5), 1, ints(5, 7)], None
    yield "aten::scatter.src", [r(3, 5), 1, torch.tensor([[0, 2], [4, 1], [3, 2]]), r(3, 2)], None
    yield "aten::scatter.value", [r(3, 5), 1, ints(5, 3, 2), 2.5], None
    yield "aten::scatter_add", [r(3, 5), 1, ints(5, 3, 7), r(3, 7)], None
    yield "smex::dropout_mask", [r(5, 3), 0.4, 11, 2, [0, 0], [5, 3]], None
    yield "smex::uniform", [r(5, 3), 11, 2, [0, 0], [5, 3]], None
    yield "smex::bounded", [r(5, 3).abs(), 0.0, 100.0, "too large"], None


def _attention_calls(r):
    for heads in [(2,), (2, 3), (1, 2)]:
        one = [1] * len(heads)
        masks = [None, r(6, 5), r(1, *heads, 6, 5), r(2, *heads, 6, 5), r(2, *one, 1, 5), r(6, 1)]
        for mask, causal in [(None, True), *((mask, False) for mask in masks)]:
            query, key, value = r(2, *heads, 6, 4), r(2, heads[0], 5, 4), r(2, heads[0], 5, 3)
            for p in (0.0, 0.5):
                told = [mask, causal, 0.3, [], [], p, 7, 1, [2, *heads, 6, 5]]
                yield "smex::scaled_dot_product", [query, key, value, *told], None
                made = torch.ops.smex.scaled_dot_product(query, key, value, *told)
                grad = torch.randn_like(made[0])
                for wanted in {False, mask is not None}:
                    yield "smex::scaled_dot_product_backward", [
                        grad, query, key, value, *made, *told, wanted
                    ], [True, True, True, wanted]  # fmt: skip
