"""Errors that a user can cause and that no other test raises; the troubleshooting page has all."""

import ast
import gc
import pathlib
import re
import warnings

import pytest
import torch

import smex
from smex import tdl
from smex.capture.records import OpRecord, ValueRef
from smex.capture.replay import replay
from smex.tdl import Sum
from support.undescribed import undescribed

PACKAGE = pathlib.Path(smex.__file__).parent
ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
BASELINES = ROOT / "benchmarks" / "partition" / "baselines"


def linear(**kwargs):
    return smex.partition(torch.nn.Linear(4, 4), workers=2, **kwargs)


# ---- the package ----


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="module 'smex' has no attribute 'partitoin'"):
        _ = smex.partitoin


def test_stand_in_library_answers_the_import_system():
    stand_in = smex._native._Absent("smex._C", "the reason")
    assert not hasattr(stand_in, "__path__")
    with pytest.raises(smex.SmexImportError, match="the reason"):
        _ = stand_in.search


# ---- partition ----


def test_plan_before_the_capture():
    with pytest.raises(smex.SmexRuntimeError, match="plan: the model has not been captured yet"):
        _ = linear().plan


def test_stats_before_the_first_run():
    with pytest.raises(smex.SmexRuntimeError, match="stats: nothing has run yet"):
        linear(args=(torch.zeros(2, 4),)).stats()


def test_loading_by_assignment():
    net = linear(args=(torch.zeros(2, 4),))
    with pytest.raises(smex.SmexValueError, match="assign=True would drop the shards"):
        net.load_state_dict(net.state_dict(), assign=True)


def test_a_weight_that_a_load_makes_anew():
    class Growing(torch.nn.Linear):
        def _load_from_state_dict(self, state, prefix, *rest):
            self.weight = torch.nn.Parameter(torch.zeros_like(state[prefix + "weight"]))
            super()._load_from_state_dict(state, prefix, *rest)

    net = smex.partition(Growing(4, 4), workers=2, args=(torch.zeros(2, 4),))
    before = net.state_dict()
    state = before | {"weight": torch.zeros(4, 5)}
    with pytest.raises(smex.SmexRuntimeError, match=r'gives "weight" the shape \[4, 5\] when it'):
        net.load_state_dict(state)
    torch.testing.assert_close(net.state_dict(), before)


def test_an_operator_without_a_spec_warns_and_shows_how_to_describe_it():
    with pytest.warns(
        smex.MissingSpecWarning, match=r"no Spec describes smex_test::\w+.*, which runs(.|\n)*@smex"
    ):
        smex.capture_graph(lambda x: undescribed(x), (torch.zeros(3, 3),))
    with warnings.catch_warnings():
        warnings.simplefilter("error", smex.MissingSpecWarning)
        smex.capture_graph(lambda x: x * 2, (torch.zeros(3, 3),))


# ---- capture ----


def test_control_flow_as_an_operator():
    def branch(x):
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))

    with pytest.raises(smex.CaptureError, match="capture: the model failed .*cond|HigherOrder"):
        smex.capture(branch, (torch.zeros(3),), training=False)


def test_a_call_that_is_no_aten_operator():
    from smex.capture.convert import Converter
    from smex.capture.repeats import Bodies

    graph = torch.fx.Graph()
    graph.output(graph.call_function(len, ((),)))
    parts = {"graph": graph, "slots": [], "input_names": [], "bodies": Bodies(graph)}
    traced = type("Trace", (), parts)()
    with pytest.raises(smex.CaptureError, match="cannot represent the call .*len"):
        Converter(traced).convert()


def test_a_result_of_unknown_kind():
    from smex.capture.trace import _describe

    graph = torch.fx.Graph()
    graph.output(()).meta["desc"] = ["a novelty"]
    module = type("Module", (), {"graph": graph})()
    with pytest.raises(smex.CaptureError, match="cannot represent the result 'a novelty'"):
        _describe(module, [], [])


def test_a_replay_checks_shapes():
    graph = smex.capture(lambda x: x * 2, (torch.zeros(3),))
    assert isinstance(graph.ops[0], OpRecord) and graph.ops[0].args[0] == ValueRef(0)
    with pytest.raises(AssertionError, match=r"aten::mul.Tensor: .* expected float32\[3\]"):
        replay(graph, {}, [torch.zeros(4)])


@pytest.mark.parametrize("enabled", [True, False])
def test_capture_leaves_the_collector_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        smex.capture(torch.nn.Linear(2, 2), (torch.zeros(1, 2),))
        assert gc.isenabled() == enabled
        with pytest.raises(smex.CaptureError):
            smex.capture(torch.nn.Linear(2, 2), (torch.zeros(1, 3),))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


# ---- specs ----


def traced(function):
    shapes = [(3,)]
    args = [tdl.SymbolicTensor(n, shape, None) for n, shape in enumerate(shapes)]
    return tdl.trace("test::op", function, args, shapes, [(3,)])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda a: lambda i: tdl.exp(a[i], 2), "exp: expected 1 arguments, found 2"),
        (lambda a: lambda i: a[tdl.whole(i + 1)], "whole: expected an index"),
        (lambda a: lambda i: sum(a), "a tensor argument cannot be iterated over"),
        (lambda a: lambda i: Sum(lambda k: a[k], j=3), "extent of j, which is not among"),
    ],
)
def test_specs_that_cannot_be_traced(function, text):
    with pytest.raises(smex.SpecError, match=re.escape(text)):
        traced(function)


def test_one_index_of_two_extents():
    two = [tdl.SymbolicTensor(n, shape, None) for n, shape in enumerate([(3,), (4,)])]

    def outputs(a, b):
        return (lambda i: a[i], lambda i: b[i])

    with pytest.raises(smex.SpecError, match="index i: expected one extent, found 3 and 4"):
        tdl.trace("test::op", outputs, two, [(3,), (4,)], [(3,), (4,)])


def test_expressions_outside_a_spec():
    with pytest.raises(smex.SpecError, match="expressions exist only while a spec is traced"):
        tdl.SymbolicTensor(0, (3,), None)[0]


# ---- the page ----


def template(node):
    """A message as the page shows it: what is inserted at run time is an ellipsis."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    return ""


def messages():
    """The messages of all errors that the package raises on purpose."""
    folders = (
        "",
        "capture/",
        "checkpoint/",
        "cluster/",
        "distributed/",
        "execution/",
        "graph/**/",
        "planning/**/",
        "tdl/",
        "vertex/**/",
    )
    files = [path for folder in folders for path in PACKAGE.glob(f"{folder}*.py")]
    files += BASELINES.glob("*.py")
    for path in sorted(files):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(node, ast.Return):
                call = node.value  # _explain and _conflict make messages for others to raise
            if not isinstance(call, (ast.Call, ast.JoinedStr)):
                continue
            is_error = isinstance(node, ast.Raise) or "Error" in ast.unparse(call).split("(")[0]
            if isinstance(call, ast.JoinedStr):
                if path.name == "plan.py" and template(call).startswith("plan: "):
                    yield template(call)
                continue
            text = template(call.args[0]) if is_error and call.args else ""
            # Reasons not to fuse are caught, and told by sg.explain; attributes are Python's own.
            kinds = ("AssertionError", "AttributeError", "RefusedError", "UntraceableError")
            # So are reasons that are part of what is said of a checkpoint's file.
            is_part = ast.unparse(call.func) in ("ValueError", "refuse")
            if text and not is_part and not any(kind in ast.unparse(call.func) for kind in kinds):
                prefix = "spec of …: " if ast.unparse(call.func).endswith(".fail") else ""
                yield prefix + text


def test_every_error_is_on_the_troubleshooting_page():
    """An entry is the message, an ellipsis in the place of each inserted value.

    A line may have several, with commas between them.
    """
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("**`")]
    entries = [
        entry for line in lines for entry in re.findall(r"\*\*``? ?(.*?) ?``?\*\*(?:, |$)", line)
    ]
    found = sorted(set(messages()))
    assert len(found) > 40
    missing = [text for text in found if text.replace("……", "…") not in entries]
    assert not missing, "\n".join(missing)
