"""The semantic graph as the native library takes it, and what it says to the user."""

import inspect
import pathlib
import warnings

import pytest
import torch

import smex
from support.undescribed import undescribed

HERE = pathlib.Path(__file__).name
DTYPES = [
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.complex32,
]


class Rounded(torch.nn.Module):
    """A product of what is left of the input in another dtype."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        low = x.to(self.dtype)
        low = torch.view_as_real(low)[..., 0] if self.dtype.is_complex else low
        return low.float() @ low.float().t()


@pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:aten..view_as_real has no Spec")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_are_torchs(dtype):
    x = torch.rand(6, 4) * 100
    net = smex.partition(Rounded(dtype), workers=2, replicate_bytes=0)
    torch.testing.assert_close(net(x), Rounded(dtype)(x))


def test_a_dtype_that_no_tile_can_have():
    text = r"capture: .*torch\.bits8"  # torch 2.11 cannot trace it
    x = torch.zeros(4, dtype=torch.uint8)
    with pytest.raises(smex.CaptureError, match=text):
        smex.capture_graph(lambda x: x.view(torch.bits8).view(x.dtype) + 1, (x,))


def test_an_input_of_a_dtype_that_no_tile_can_have():
    x = torch.zeros(4, dtype=torch.uint8).view(torch.bits8)
    with pytest.raises(smex.CaptureError, match=r"capture: .*torch\.bits8"):
        smex.capture_graph(lambda x: x.view(torch.uint8) + 1, (x,))


class Undescribed(torch.nn.Module):
    def forward(self, x):
        return undescribed(x)


def test_a_missing_spec_is_reported_where_the_user_asked():
    x = torch.zeros(3, 3)
    net = smex.partition(Undescribed(), workers=2)
    for call in (lambda: smex.capture_graph(Undescribed(), (x,)), lambda: net(x)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", smex.MissingSpecWarning)
            call()
        found = [w for w in caught if w.category is smex.MissingSpecWarning]
        assert len(found) == 1, "one for all operators"
        line = inspect.getsourcelines(call)[1]
        assert {(pathlib.Path(w.filename).name, w.lineno) for w in found} == {(HERE, line)}


def test_no_op_comes_from_the_package_itself():
    loss = torch.nn.functional.mse_loss  # called by the package, not by a line of the model
    graph = smex.capture_graph(torch.nn.Linear(3, 3), (torch.zeros(2, 3), torch.zeros(2, 3)), loss)
    files = {op.source.partition(":")[0] for op in graph.captured.ops} - {""}
    assert files == {HERE}


def test_a_rule_that_the_library_does_not_know():
    graph = smex._C.Graph()
    value = graph.add_value("x", [2], "float32", 4, smex._C.Role.input)
    text = "mylib::op: expected a rule among output_shape, zero, .*, begin:index .*, found 'half'"
    with pytest.raises(smex.SmexValueError, match=text):
        graph.add_op("mylib::op", [smex._C.ValueRef(value)], [], None, [(0, "half")], "", "", False)


def test_rules_are_the_same_on_both_sides():
    graph = smex._C.Graph()
    local = [(0, rule) for rule in smex.tdl.LOCAL_RULES]
    graph.add_op("mylib::op", [1], [], None, local, "", "", False)
    assert len(graph.ops) == 1


def test_a_rule_of_an_index_needs_the_index():
    graph = smex._C.Graph()
    spec = smex._C.tdl.Spec.parse("index i=2 input [2] [i] = #0[i]")
    x = graph.add_value("x", [2], "float32", 4, smex._C.Role.input)
    args = [smex._C.ValueRef(x), []]
    graph.add_op("mylib::op", args, [], spec, [(1, "begin:i")], "", "", False)
    with pytest.raises(smex.SmexValueError, match="with an index of the Spec, found 'begin:j'"):
        graph.add_op("mylib::op", args, [], spec, [(1, "begin:j")], "", "", False)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ([[2], [2]], "its spec describes 2 operands, the call has 1"),
        ([[3]], "operand 0 has another shape than its spec"),
    ],
)
def test_a_spec_must_fit_its_call(shapes, text):
    graph = smex._C.Graph()
    x = graph.add_value("x", [2], "float32", 4, smex._C.Role.input)
    y = graph.add_value("y", [2], "float32", 4, smex._C.Role.intermediate)
    operands = ", ".join(str(shape) for shape in shapes)
    spec = smex._C.tdl.Spec.parse(f"index i=2\ninput {operands}\n[i] = #0[i]")
    graph.add_op("mylib::op", [smex._C.ValueRef(x)], [y], spec, [], "", "", False)
    with pytest.raises(smex.SmexRuntimeError, match=rf"op %0 \(mylib::op\): {text}"):
        graph.verify()
