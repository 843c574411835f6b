"""The region that a tile needs: never too small, and exact where indices are affine.

Specs are drawn; the inputs outside of the region are poisoned with NaN.
"""

import itertools
import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smex._C import tdl

AFFINE, DIVIDED = "affine", "divided"


@st.composite
def positions(draw, kind, names, extents):
    """An index of a read and the range of its values: a text, the least and the greatest."""
    if kind == DIVIDED:
        name = draw(st.sampled_from(names))
        divisor = draw(st.integers(2, 4))
        if draw(st.booleans()):
            return f"floordiv({name}, {divisor})", 0, (extents[name] - 1) // divisor
        return f"mod({name}, {divisor})", 0, min(divisor, extents[name]) - 1
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    text, least, most = str(draw(st.integers(-2, 2))), 0, 0
    least = most = int(text)
    for name in chosen:
        factor = draw(st.sampled_from([-2, -1, 1, 2, 3]))
        text = f"add({text}, mul({name}, {factor}))"
        ends = (0, factor * (extents[name] - 1))
        least, most = least + min(ends), most + max(ends)
    return text, least, most


@st.composite
def specs(draw, kinds, is_padded):
    """A Spec that sums reads of one input, and its extents by name."""
    names = ["i", "j", "k"]
    extents = {name: draw(st.integers(1, 6)) for name in names}
    bounds = []
    for _ in range(2):  # dimensions of the input
        text, least, most = draw(positions(draw(st.sampled_from(kinds)), names, extents))
        shift = draw(st.integers(0, 2)) - least  # from here on no index is negative
        bounds.append((f"add({text}, {shift})", most + shift + 1 + draw(st.integers(0, 2))))
    shape = [size for _, size in bounds]
    places = ", ".join(text for text, _ in bounds)
    if is_padded:  # what lies outside is 0
        shape = [max(1, size - draw(st.integers(0, 3))) for size in shape]
        read = f"#0{{0}}[{places}]"
    else:
        read = f"#0[{places}]"
    text = "index " + ", ".join(f"{name}={size}" for name, size in extents.items())
    text += f"\ninput [{shape[0]},{shape[1]}]\n[i,j] = sum{{k}}({read})\n"
    return tdl.Spec.parse(text)


def evaluate(spec, x):
    ((data, shape),) = spec.evaluate([(x.flatten().tolist(), list(x.shape))])
    return torch.tensor(data, dtype=torch.float64).reshape(shape)


@st.composite
def tiles(draw, spec):
    """A range of each output index; the reduction is whole."""
    ranges = spec.full_ranges()
    for index in (0, 1):
        lo = draw(st.integers(0, spec.indices[index].extent - 1))
        ranges[index] = (lo, draw(st.integers(lo + 1, spec.indices[index].extent)))
    return ranges


def tile_of(result, ranges):
    return result[tuple(slice(lo, hi) for lo, hi in ranges[:2])]


def values(shape):
    return torch.arange(1.0, 1 + math.prod(shape), dtype=torch.float64).reshape(shape).sqrt()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_nothing_outside_of_the_region_is_read(data):
    spec = data.draw(specs([AFFINE, DIVIDED], data.draw(st.booleans())))
    ranges = data.draw(tiles(spec))
    x = values(spec.input_shapes[0])
    (need,) = spec.input_needs(ranges)
    poisoned = torch.full_like(x, torch.nan)
    inside = tuple(slice(lo, hi) for lo, hi in need.region)
    poisoned[inside] = x[inside]
    expected = tile_of(evaluate(spec, x), ranges)
    torch.testing.assert_close(tile_of(evaluate(spec, poisoned), ranges), expected)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_affine_regions_are_not_too_large(data):
    spec = data.draw(specs([AFFINE], is_padded=False))
    ranges = data.draw(tiles(spec))
    (need,) = spec.input_needs(ranges)
    if not need.used or any(lo >= hi for lo, hi in need.region):
        return
    x = values(spec.input_shapes[0])
    for dim, end in itertools.product((0, 1), (0, 1)):
        poisoned = x.clone()
        lo, hi = need.region[dim]
        poisoned.select(dim, hi - 1 if end else lo).fill_(torch.nan)
        assert tile_of(evaluate(spec, poisoned), ranges).isnan().any(), (spec.text(), need.region)
