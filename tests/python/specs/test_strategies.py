"""Strategies as plain data, Specs verified by execution, and what a model is covered by."""

import copy
import subprocess
import sys

import pytest
import torch
from torch.utils import _pytree as pytree

import smex
from smex import specs, tdl
from smex.specs import oracle
from smex.specs.__main__ import main
from support.undescribed import undescribed

MM = torch.ops.aten.mm.default
CONVOLUTION = torch.ops.aten.convolution.default


def matrices():
    return torch.rand(5, 7, dtype=torch.float64), torch.rand(7, 3, dtype=torch.float64)


def by_name(found):
    return {strategy["name"]: strategy for strategy in found}


def test_a_product_can_be_divided_along_each_index():
    found = by_name(specs.strategies(MM, matrices(), k=2))
    assert set(found) == {"i", "j", "k"}
    first = found["i"]["workers"][0]["args"]
    assert first == [
        {"leaf": 0, "box": [[0, 2], [0, 7]], "fill": 0.0},
        {"leaf": 1, "box": None, "fill": 0.0},
    ]
    assert found["i"]["outs"] == [{"place": [[[0, 2], [0, 3]], [[2, 5], [0, 3]]], "crop": None}]
    assert found["k"]["outs"] == [{"reduce": "sum", "weights": None}]
    assert all(strategy["op"] is None for strategy in found.values())


def test_windows_are_cut_with_their_halos():
    args = (torch.rand(2, 3, 9, 9), torch.rand(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1])
    found = by_name(specs.strategies(CONVOLUTION, (*args, False, [0, 0], 1), k=2))
    spatial = [s for s in found.values() if s["workers"][0]["args"][4] == [0, 0]]
    assert spatial, "the padding of divided windows is made by hand"
    boxes = [worker["args"][0]["box"] for worker in spatial[0]["workers"]]
    assert min(lo for box in boxes for lo, _ in box) == -1


def test_sizes_are_those_of_the_tile():
    found = specs.strategies(torch.ops.aten.view.default, (torch.rand(6, 5), [30]), k=3)
    assert [worker["args"][1] for worker in found[0]["workers"]] == [[10], [10], [10]]


def test_keyword_arguments_stay_keywords():
    x = torch.rand(4, 3)
    args = {"dtype": torch.float64}
    found = specs.strategies(torch.ops.aten.sum.dim_IntList, (x, [1]), args, k=2)
    assert found[0]["workers"][0]["kwargs"] == args


def test_fake_tensors_will_do():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        args = tuple(mode.from_tensor(x) for x in matrices())
    assert specs.strategies(MM, args, k=2) == specs.strategies(MM, matrices(), k=2)


def test_the_same_tensor_twice():
    x = torch.rand(4, 4, dtype=torch.float64)
    for strategy in specs.strategies(MM, (x, x), k=2):
        oracle.check(MM, oracle.Call((x, x), {}), strategy)


def test_too_few_elements_for_the_workers():
    assert by_name(specs.strategies(MM, matrices(), k=4)).keys() == {"i", "k"}
    with pytest.raises(ValueError, match="expected at least 2 workers, found 1"):
        specs.strategies(MM, matrices(), k=1)


def test_an_operator_without_a_spec_has_none():
    assert specs.strategies(undescribed, (torch.rand(4),), k=2) == []


def test_operators_that_write_mean_what_their_functional_forms_do():
    a, b = matrices()
    out = torch.empty(5, 3, dtype=torch.float64)
    found = specs.strategies(torch.ops.aten.mm.out, (a, b), {"out": out}, k=2)
    assert by_name(found).keys() == {"i", "j", "k"}
    call = oracle.Call((a, b), {"out": out})
    for strategy in found:
        oracle.check(torch.ops.aten.mm.out, call, strategy)
    added = specs.strategies(torch.ops.aten.add_.Tensor, (a, a.clone()), k=2)
    assert by_name(added).keys() == {"i0", "i1"}


# ---- the oracle ----


def shifted(strategy):
    """The first box that is not whole, moved by one."""
    wrong = copy.deepcopy(strategy)
    for x in pytree.tree_leaves(wrong["workers"][1], is_leaf=oracle.is_reference):
        if oracle.is_reference(x) and x["box"]:
            dim = next(d for d, (lo, _) in enumerate(x["box"]) if lo)
            x["box"][dim] = [bound - 1 for bound in x["box"][dim]]
            return wrong
    raise AssertionError("no box")


def swapped(strategy):
    wrong = copy.deepcopy(strategy)
    out = wrong["outs"][0]
    if "reduce" in out:
        out["reduce"] = "max"
    else:
        out["place"] = out["place"][::-1]
    return wrong


def same(strategy):
    wrong = copy.deepcopy(strategy)
    wrong["outs"] = [{"same": True}]
    return wrong


@pytest.mark.parametrize("mutation", [shifted, swapped, same])
def test_wrong_strategies_are_rejected(mutation):
    call = oracle.Call(matrices(), {})
    for strategy in specs.strategies(MM, call.args, k=2):
        oracle.check(MM, call, strategy)
        with pytest.raises((oracle.WrongError, RuntimeError)):
            oracle.check(MM, call, mutation(strategy))


# ---- verify ----


def test_verify_counts_what_it_executed():
    assert specs.verify("aten::mm", [matrices()], workers=(2, 3)) == 6


def test_verify_shows_where_a_spec_is_wrong():
    with (
        tdl.registered("aten::mm", lambda a, b: lambda i, j: a[i, j] * b[j, i]),
        pytest.raises(smex.SpecError, match=r"sample 0: output 0 at \[0, 0\]: expected .*, found"),
    ):
        specs.verify("aten::mm", [(torch.rand(3, 3).double(), torch.rand(3, 3).double())])


def test_verify_shows_which_strategy_is_wrong():
    spec = lambda x, dim, dtype: lambda i, j: tdl.Opaque("scan", x[i, j])  # noqa: E731
    with (
        tdl.registered("aten::cumsum", spec),
        pytest.raises(smex.SpecError, match="divided along j among 2 workers: output 0 at"),
    ):
        specs.verify("aten::cumsum", [(torch.rand(3, 4).double(), 1)])


def test_verify_asks_for_a_spec():
    with pytest.raises(smex.SpecError, match="no Spec describes sample 0"):
        specs.verify("smex_test::undescribed", [(torch.rand(3),)])


def test_means_of_parts_are_weighed():
    x, y = torch.rand(5, 3), torch.rand(5, 3)
    for op, args in (
        (torch.ops.aten.mean.default, (x,)),
        (torch.ops.aten.mean.dim, (x, [0])),
        (torch.ops.aten.mse_loss.default, (x, y)),
    ):
        outs = {s["name"]: s["outs"][0] for s in specs.strategies(op, args, k=2)}
        assert outs["k0"] == {"reduce": "sum", "weights": [2 / 5, 3 / 5]}, op
    summed = specs.strategies(torch.ops.aten.mse_loss.default, (x, y, 2), k=2)
    assert [s["outs"][0]["weights"] for s in summed] == [None, None]


@pytest.mark.parametrize("op", [torch.ops.aten.tril.default, torch.ops.aten.triu.default])
def test_triangles_are_cut_in_rows_and_columns(op):
    call = (torch.rand(7, 5, dtype=torch.float64), -1)
    assert {s["name"] for s in specs.strategies(op, call, k=3)} == {"i0", "i1"}
    assert specs.verify(op, [call, (call[0], 2)]) == 8


# ---- coverage ----


def test_coverage_of_a_model():
    found = smex.coverage(torch.nn.Linear(3, 4), torch.ones(2, 3))
    assert found.fraction == 1 and found.missing == []
    assert found["aten::mm"].calls == found["aten::mm"].described == 2
    assert "k (reduced)" in found["aten::mm"].splits
    assert "aten::mm" in str(found) and "<table>" in found._repr_html_()
    with pytest.raises(KeyError, match="aten::bmm is not called"):
        found["aten::bmm"]


def test_coverage_names_what_is_missing():
    found = smex.coverage(undescribed, torch.ones(2, 3))
    assert found.missing == ["smex_test::undescribed"] and found.fraction < 1
    assert "missing" in str(found)


# ---- the command line ----


def test_list_and_show(capsys):
    def run(*arguments):
        status = main(list(arguments))
        return status, *capsys.readouterr()

    status, out, _ = run("list", "matmul")
    assert status == 0 and "aten::bmm" in out
    _, out, _ = run("show", "aten::mm", "4,6", "6,5")
    assert "Sum(lambda k: a[i, k] * b[k, j])" in out
    assert "can be divided along k: reduces by sum" in out
    _, out, _ = run("show", "aten::avg_pool2d", "1,2,6,6", "[2,2]")
    assert "def avg_pool(" in out and "along i3: concatenates" in out
    _, out, _ = run("list", "pooling")
    assert "aten::avg_pool2d" in out
    status, _, error = run("show", "aten::_softmax", "3,4")
    assert status == 2 and "aten::_softmax: 3,4 does not fit" in error
    status, out, _ = run("show", "aten::_local_scalar_dense")
    assert status == 1 and "aten::_local_scalar_dense has no Spec" in out


def test_the_command():
    command = [sys.executable, "-m", "smex.specs", "list", "matmul"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0 and "aten::bmm" in found.stdout
