"""Convolutions of any number of spatial dimensions, and their gradients."""

from __future__ import annotations

from smex.specs.common import geometry
from smex.tdl import Sum, and_, lands, like, spec, where, whole


class _Geometry:
    """Shapes and index arithmetic of one convolution call."""

    def __init__(self, weight, stride, padding, dilation, groups):
        self.kernel = weight.shape[2:]
        self.spatial = len(self.kernel)
        self.stride = geometry(stride, self.spatial)
        self.padding = geometry(padding, self.spatial)
        self.dilation = geometry(dilation, self.spatial)
        self.groups = groups

    def window(self, o, k):
        """Returns the input position that output position `o` reads at kernel position `k`."""
        return [
            o[d] * self.stride[d] + k[d] * self.dilation[d] - self.padding[d]
            for d in range(self.spatial)
        ]

    def hits(self, y, o, k):
        """Returns whether that input position is `y`."""
        result = None
        for at, wanted in zip(self.window(o, k), y):
            same = lands(wanted, at)
            result = same if result is None else and_(result, same)
        return result

    def inner_name(self, channel):
        """Returns the name of a summed channel: with groups it counts within one."""
        return channel if self.groups == 1 else channel + "_of_group"

    def kernel_extents(self):
        return {f"k{d}": size for d, size in enumerate(self.kernel)}


def _grouped(channel, groups, per_group_from, per_group_to, inner):
    """Channel `inner` of the group of `channel`. A group must not be divided: `groups` stays."""
    if groups == 1:
        return inner
    return whole(channel) // per_group_from * per_group_to + whole(inner)


def _forward(x, weight, g):
    """Returns the convolution without bias at [n, co, *o]."""
    cog, cig = weight.shape[0] // g.groups, weight.shape[1]

    def body(n, co, *o):
        def product(*inner):
            ci, *k = inner
            at = g.window(o, [whole(i) for i in k])
            return x.pad(0)[(n, _grouped(co, g.groups, cog, cig, ci), *at)] * weight[(co, ci, *k)]

        return Sum(product, **{g.inner_name("ci"): cig}, **g.kernel_extents())

    return body


def _adjoint(grad, weight, g):
    """Returns the transposed convolution at [n, ci, *y]: what the windows that land on it bring."""
    cog, cig = weight.shape[0] // g.groups, weight.shape[1]
    places = {f"o{d}": size for d, size in enumerate(grad.shape[2:])}

    def body(n, ci, *y):
        def product(*inner):
            co, *rest = inner
            o, k = rest[: g.spatial], [whole(i) for i in rest[g.spatial :]]
            source = _grouped(ci, g.groups, cig, cog, co)
            column = ci if g.groups == 1 else ci % cig
            value = grad[(n, source, *o)] * weight[(source, column, *k)]
            return where(g.hits(y, o, k), value, 0)

        return Sum(product, **{g.inner_name("co"): cog}, **places, **g.kernel_extents())

    return body


def _with_bias(product, bias):
    if bias is None:
        return product
    return lambda n, c, *o: product(n, c, *o) + bias[c]


@spec("aten::convolution", local={"padding": "window", "output_padding": "window_rest"})
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    g = _Geometry(weight, stride, padding, dilation, groups)
    if x.ndim != weight.ndim:
        return None
    product = _adjoint(x, weight, g) if transposed else _forward(x, weight, g)
    return _with_bias(product, bias)


def _grad_weight(grad, x, weight, g, transposed):
    """Returns the weight's gradient at [co, ci, *k]; `weight` gives its shape only."""
    wide, narrow = (grad, x) if transposed else (x, grad)  # the padded side, and the other one
    cog, cig = weight.shape[0] // g.groups, weight.shape[1]
    places = {f"o{d}": size for d, size in enumerate(narrow.shape[2:])}

    def body(co, ci, *k):
        def product(n, *o):
            at = g.window(o, [whole(i) for i in k])
            source = _grouped(co, g.groups, cog, cig, ci)
            if transposed:
                o = tuple(whole(i) for i in o)
            return like(wide.pad(0)[(n, source, *at)] * narrow[(n, co, *o)], weight[(co, ci, *k)])

        if g.groups > 1:
            whole(ci)
        return Sum(product, n=narrow.shape[0], **places)

    return body


@spec("aten::convolution_backward", local={"padding": "window", "output_padding": "window"})
def convolution_backward(
    grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask
):
    if x.ndim != weight.ndim:
        return None
    g = _Geometry(weight, stride, padding, dilation, groups)

    # The input is passed for its shape, which also fixes the gradient's.
    def grad_input(n, ci, *y):
        return like(_adjoint(grad, weight, g)(n, ci, *y), x[(n, ci, *y)])

    # A transposed convolution's weight is [co, ci] with co the channels of its input.
    def transposed_grad_input(n, co, *y):
        return like(_forward(grad, weight, g)(n, co, *y), x[(n, co, *y)])

    def bias_sum(channel):
        places = {f"o{d}": size for d, size in enumerate(grad.shape[2:])}
        return Sum(
            lambda n, *o: grad[(n, channel, *[whole(i) for i in o])], n=grad.shape[0], **places
        )

    def grad_bias(co):
        return bias_sum(co)

    def transposed_grad_bias(ci):
        return bias_sum(ci)

    if mask[2] and not mask[1]:
        return None  # weight and input would be needed for their shapes; a sum does the same
    outputs = (
        transposed_grad_input if transposed else grad_input,
        _grad_weight(grad, x, weight, g, transposed),
        transposed_grad_bias if transposed else grad_bias,
    )
    if transposed and groups > 1:  # the weight's ci counts within one group
        outputs = (*outputs[:2], bias_sum)
    return tuple(output if used else None for output, used in zip(outputs, mask))
