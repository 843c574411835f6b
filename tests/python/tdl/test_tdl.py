"""Tracing lambdas into specs, and its error texts."""

import pytest

from smex import specs, tdl
from smex.capture.records import ValueRef
from smex.tdl import SpecError, Sum


def trace(function, shapes, out):
    args = [tdl.SymbolicTensor(n, shape, None) for n, shape in enumerate(shapes)]
    return tdl.trace("test::op", function, args, shapes, out)


def test_matrix_product_prints_as_in_the_guide():
    spec = trace(
        lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]), [(2, 3), (3, 4)], [(2, 4)]
    )
    assert str(spec) == "([i,k],[k,j]) -> [i,j]  sum{k}"
    assert [index.extent for index in spec.indices] == [2, 4, 3]


def test_index_names_are_shared_across_outputs():
    spec = trace(lambda a: (lambda i: a[i], lambda i: -a[i]), [(3,)], [(3,), (3,)])
    assert spec.output_axes == [[0], [0]]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda a: lambda i, j: a[i, j], "output 0: expected 1 indices"),
        (lambda a: lambda i: a[i, i], "read of input 0: expected 1 indices, found 2"),
        (lambda a: (lambda i: a[i],) * 2, "expected 1 outputs, found 2"),
        (lambda a: lambda i: Sum(lambda i: a[i]), "index i is bound twice"),
        (lambda a: lambda i: a[i] * Sum(lambda k: 1), "index k: its extent is unknown"),
        (lambda a: lambda i: a[i] if a[i] > 0 else 0, "no truth value"),
        (lambda a: lambda i: a + 1, "SymbolicTensor"),
        (lambda a: lambda i: a, "a tensor must be indexed"),
        (lambda a: lambda i: a[0:1], "expected ':'"),
        (lambda a: lambda i: a[:], "outside an opaque"),
        (lambda a: lambda i: "x", "expected an expression or a number, found str"),
    ],
)
def test_errors(function, text):
    with pytest.raises((SpecError, TypeError), match=text.replace("[", r"\[")):
        trace(function, [(3,)], [(3,)])


def test_unknown_local_rule():
    with pytest.raises(SpecError, match="argument size: expected a rule among"):
        tdl.spec("aten::view", local={"size": "nonsense"})


def test_results_are_shared_between_equal_calls():
    call = ("aten::neg", [ValueRef(3)], [(2, 3)], [(2, 3)])
    again = ("aten::neg", [ValueRef(9)], [(2, 3)], [(2, 3)])
    assert specs.instantiate(*call)[0] is specs.instantiate(*again)[0]


def test_a_tensor_given_twice_is_one_input():
    spec, _ = specs.instantiate("aten::mul.Tensor", [ValueRef(3), ValueRef(3)], [(2,)], [(2,)])
    assert spec.input_shapes == [[2]]


def test_unknown_operator_has_no_spec():
    assert specs.instantiate("nowhere::op", [ValueRef(0)], [(2,)], [(2,)]) is None


def test_registering_again_takes_effect():
    call = ("aten::neg", [ValueRef(0)], [(2,)], [(2,)])
    before = specs.instantiate(*call)[0]
    with tdl.registered("aten::neg", lambda x: lambda i: -x[i] + 0):
        assert specs.instantiate(*call)[0] is not before
    assert str(specs.instantiate(*call)[0]) == str(before)
