"""No spec is trusted that was not executed."""

import pytest
import torch

from smex import specs, tdl
from smex.tdl import Sum
from support.spec_calls import samples
from support.spec_harness import Call, check_meaning, check_split

SAMPLES = list(samples())
IDS = [f"{target.partition('::')[2]}-{n}" for n, (target, _, _) in enumerate(SAMPLES)]


@pytest.mark.parametrize(("target", "args", "used"), SAMPLES, ids=IDS)
def test_spec(target, args, used):
    call = Call(target, list(args))
    found = call.instantiate(used)
    if found is None:
        declined = target == "aten::convolution_backward" and args[-1] in ([False, False, True],)
        assert declined or (args[-1][2] and not args[-1][1]), f"{target} has no spec for this call"
        return
    spec, local = found
    if not spec.is_opaque():
        check_meaning(call, spec)
    assert type(spec).parse(spec.text()).text() == spec.text()
    for split in spec.splits():
        for parts in (2, 3):
            check_split(call, spec, local, split, parts)


def test_every_registered_spec_is_of_an_operator_that_exists():
    for target in specs.targets():
        namespace, _, rest = target.partition("::")
        name, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace), name)
        assert not overload or overload in packet.overloads(), target


def splits_of(target, args, used=None):
    spec, _ = Call(target, args).instantiate(used)
    return {spec.indices[s.index].name: (s.reduction, s.granule) for s in spec.splits()}


def test_splits_are_not_lost():
    r = torch.randn
    assert splits_of("aten::mm", [r(3, 5), r(5, 7)]) == {
        "i": (False, 1), "j": (False, 1), "k": (True, 1)}  # fmt: skip
    assert splits_of("aten::_softmax", [r(3, 5), 1, False]) == {"i0": (False, 1)}
    assert splits_of("aten::view", [r(6, 5), [30]]) == {"i0": (False, 5)}
    assert splits_of("aten::view", [r(30), [6, 5]]) == {"i0": (False, 1)}
    rest = [None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1]
    x, w = r(3, 2, 7, 7), r(4, 2, 3, 3)
    free = splits_of("aten::convolution", [x, w, *rest])
    assert set(free) == {"n", "co", "i2", "i3", "ci"} or set(free) == {"n", "co", "o0", "o1", "ci"}
    backward = [r(3, 4, 4, 4), x, w, None, *rest[1:]]
    mask = [False, True, False]
    free = splits_of("aten::convolution_backward", [*backward, mask], mask)
    assert {name: red for name, (red, _) in free.items()} == {
        "co": False, "ci": False, "n": True, "o0": True, "o1": True}  # fmt: skip
    mask = [True, False, False]
    free = splits_of("aten::convolution_backward", [*backward, mask], mask)
    assert {name: red for name, (red, _) in free.items()} == {
        "n": False, "ci": False, "i2": False, "i3": False, "co": True}  # fmt: skip


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_attention_is_cut_along_everything(p):
    r = torch.randn
    query, key, value = r(2, 3, 2, 6, 4), r(2, 3, 5, 4), r(2, 3, 5, 3)
    told = [r(1, 3, 2, 6, 5), False, 0.3, [], [], p, 7, 1, [2, 3, 2, 6, 5]]
    forward = [query, key, value, *told]
    free = {name: red for name, (red, _) in splits_of("smex::scaled_dot_product", forward).items()}
    assert free == {"n": False, "h": False, "g": False, "i": False, "j": True}
    made = torch.ops.smex.scaled_dot_product(*forward)
    backward = [torch.randn_like(made[0]), query, key, value, *made, *told, True]
    free = splits_of("smex::scaled_dot_product_backward", backward, [True] * 4)
    assert {name: red for name, (red, _) in free.items()} == {
        "n": True, "h": False, "g": True, "i": True, "j": True}  # fmt: skip


SQUARE = torch.randn(4, 4)
MUTANTS = [
    ("aten::mm", [SQUARE, SQUARE], lambda a, b: lambda i, j: Sum(lambda k: a[k, i] * b[k, j])),
    ("aten::mm", [SQUARE, SQUARE], lambda a, b: lambda i, j: tdl.Max(lambda k: a[i, k] * b[k, j])),
    ("aten::neg", [torch.randn(4)], lambda x: lambda i: -x.pad(0)[i - 1]),
    ("aten::sum", [torch.randn(4)], lambda x, dtype: lambda: Sum(lambda k: x[k], k=3)),
]  # fmt: skip


@pytest.mark.parametrize(("target", "args", "mutant"), MUTANTS)
def test_wrong_meaning_is_rejected(target, args, mutant):
    with tdl.registered(target, mutant):
        call = Call(target, [a.double() for a in args])
        spec, _ = call.instantiate()
        with pytest.raises(AssertionError):
            check_meaning(call, spec)


WRONG_SPLITS = [
    ("aten::_softmax", [SQUARE, 1, False], lambda x, dim, h: lambda i, j: tdl.exp(x[i, j])),
    ("aten::mean", [torch.randn(6)], lambda x, dtype: lambda: Sum(lambda k: x[k] * (1 / 6))),
    ("aten::tril", [torch.randn(4, 4)], lambda x, d: lambda i, j: x[i, j]),
    ("aten::mm", [SQUARE, SQUARE], lambda a, b: lambda i, j: Sum(lambda k: a[k, i] * b[k, j])),
]  # fmt: skip


def check_splits(call, spec, local):
    for split in spec.splits():
        check_split(call, spec, local, split, 2)


@pytest.mark.parametrize(("target", "args", "mutant"), WRONG_SPLITS)
def test_wrong_split_is_rejected(target, args, mutant):
    with tdl.registered(target, mutant):
        call = Call(target, [a.double() if isinstance(a, torch.Tensor) else a for a in args])
        spec, local = call.instantiate()
        with pytest.raises((AssertionError, RuntimeError)):
            check_splits(call, spec, local)
