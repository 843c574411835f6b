"""What is said of operators, Specs and samples that cannot be."""

import subprocess
import sys

import pytest
import torch

import smex
from smex import specs, tdl
from smex.specs import oracle

aten = torch.ops.aten

LIBRARY = torch.library.Library("smex_errors", "DEF")
LIBRARY.define("scale(Tensor x, int factor) -> Tensor")
LIBRARY.impl("scale", lambda x, factor: x * factor, "CompositeExplicitAutograd")
LIBRARY.define("no_fake(Tensor x) -> Tensor")
LIBRARY.impl("no_fake", lambda x: x * 2, "CPU")
SCALE = torch.ops.smex_errors.scale


def matrices():
    return torch.rand(3, 4), torch.rand(4, 5)


# ---- operators by name ----


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ("mm", 'no operator "mm"; did you mean aten::mm'),
        ("bogus", 'no operator "bogus"; names are like aten::mm'),
        ("aten::sofmax", 'no operator "aten::sofmax"; did you mean aten::softmax'),
        ("nolib::op", 'no operator "nolib::op"; import the library that defines it'),
        ("aten::add", "expected an overload of aten::add, which are aten::add.Tensor.*found none"),
        ("aten::add.Tensr", "aten::add.Tensor.*found 'Tensr'"),
        (aten.add, "expected an overload of aten::add"),
    ],
)
def test_an_operator_that_is_not_there(op, text):
    for ask in (lambda: specs.strategies(op, matrices()), lambda: specs.verify(op, [matrices()])):
        with pytest.raises(smex.SmexValueError, match=text):
            ask()


def test_what_is_no_operator():
    with pytest.raises(smex.SmexTypeError, match="expected an operator of torch.ops or its name"):
        specs.strategies(torch.mm, matrices())


def test_a_name_a_packet_and_an_overload_are_the_same_operator():
    ways = [specs.strategies(op, matrices()) for op in ("aten::mm", aten.mm, aten.mm.default)]
    assert ways[0] == ways[1] == ways[2] and len(ways[0]) == 3
    assert specs.strategies("aten::mm.default", matrices()) == ways[0]


# ---- calls ----


def test_arguments_that_are_no_tuple():
    with pytest.raises(smex.SmexTypeError, match="arguments of aten::mm in a tuple, found Tensor"):
        specs.strategies("aten::mm", torch.rand(3, 3))
    with pytest.raises(smex.SmexTypeError, match="keyword arguments of aten::mm in a dict"):
        specs.strategies("aten::mm", matrices(), [1])


@pytest.mark.parametrize("k", [2.0, "2", True, None])
def test_workers_that_are_no_number(k):
    with pytest.raises(smex.SmexTypeError, match="expected an int as the number of workers"):
        specs.strategies("aten::mm", matrices(), k=k)


def test_a_call_that_the_operator_refuses(capfd):
    with pytest.raises(
        smex.SmexValueError, match=r"aten::mm\(float32\[3, 4\], float32\[3, 4\]\) fails: "
    ):
        specs.strategies("aten::mm", (torch.rand(3, 4), torch.rand(3, 4)))
    with pytest.raises(smex.SmexValueError, match="fails: .*missing value for argument 'mat2'"):
        specs.strategies("aten::mm", (torch.rand(3, 4),))
    assert capfd.readouterr() == ("", "")


def test_sparse_tensors_are_not_taken_for_dense_ones():
    a, b = matrices()
    assert specs.strategies("aten::mm", (a.to_sparse(), b)) == []
    with pytest.raises(smex.SpecError, match="declines sample 0: .* a tensor is not strided"):
        specs.verify("aten::mm", [(a.to_sparse(), b)])


def test_an_empty_out_takes_the_shape_of_what_is_written():
    call = oracle.Call(
        (torch.rand(5, 3).double(), torch.rand(3).double()), {"out": torch.empty(0).double()}
    )
    ways = specs.strategies("aten::add.out", *call[:2])
    assert [way["name"] for way in ways] == ["i0", "i1"]
    for way in ways:
        oracle.check(aten.add.out, call, way)
    assert specs.verify("aten::add.out", [call[:2]]) == 4


# ---- Specs ----


@pytest.mark.parametrize(
    ("target", "local", "text"),
    [
        ("smex_errors::scal", {}, "did you mean smex_errors::scale"),
        ("smex_errors::scale.bad", {}, "which are smex_errors::scale; found 'bad'"),
        (3, {}, "expected an operator such as .*, found 3"),
        (SCALE, {"fctor": "zero"}, "local rule for fctor, expected an argument among factor, x"),
        (SCALE, {"factor": "zer"}, "argument factor: expected a rule among .*, found 'zer'"),
    ],
)
def test_a_spec_of_what_is_not_there(target, local, text):
    with pytest.raises(smex.SpecError, match=text):
        smex.spec(target, local=local)


def test_a_spec_that_is_no_function():
    with pytest.raises(smex.SpecError, match="scale: expected a function of the .*, found 3"):
        smex.spec(SCALE)(3)
    assert specs.definition("smex_errors::scale") is None


def test_a_spec_by_its_operator():
    with tdl.registered(SCALE.default, lambda x, factor: lambda i: x[i] * factor):
        assert specs.verify(SCALE, [(torch.rand(5), 3)]) == 2
    assert specs.definition("smex_errors::scale") is None


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x, factor: 3, "expected for each output a function of its indices, found 3"),
        (lambda x: lambda i: x[i], "its function fails: TypeError: .*takes 1 positional"),
        (lambda x, n: lambda i: torch.sin(x[i]), r"fails at test_spec_errors.py:\d+: TypeError"),
        (lambda x, n: lambda i: x[i] * (1 / 0), r"fails at test_spec_errors.py:\d+: ZeroDivision"),
        (lambda x, n: lambda i: x[i] + x, "a tensor must be indexed before it is used"),
        (lambda x, n: lambda i: x[i] if x[i] else 0, "an expression has no truth value"),
        (lambda x, n: lambda i: x[i + 5], r"sample 0: .*expected an index in \[0, 4\), found 5"),
        (lambda x, n: None, "its Spec declines sample 0: it returns None"),
        (lambda x, n: lambda i: x[i] * (n + 1), r"sample 0: output 0 at \[0\]: expected 2, found 3"),
    ],
)  # fmt: skip
def test_errors_in_a_spec_name_its_operator(function, text):
    with (
        tdl.registered("smex_errors::scale", function),
        pytest.raises(smex.SpecError, match=f"smex_errors::scale: .*{text}"),
    ):
        specs.verify("smex_errors::scale", [(torch.ones(4), 2)])


# ---- samples ----


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (None, "expected a list of argument tuples, found NoneType"),
        (torch.rand(3, 3), "expected a list of argument tuples, found Tensor"),
        (matrices(), "sample 0: expected a tuple of arguments, found Tensor"),
    ],
)
def test_samples_that_are_no_list_of_tuples(samples, text):
    with pytest.raises(smex.SmexTypeError, match=text):
        specs.verify("aten::mm", samples)


@pytest.mark.parametrize("samples", [[], [(torch.rand(0, 4), torch.rand(4, 5))]])
def test_samples_that_prove_nothing(samples):
    with pytest.raises(smex.SmexValueError, match="the samples of aten::mm prove nothing"):
        specs.verify("aten::mm", samples)


def test_samples_too_small_to_be_divided_still_prove_the_meaning():
    assert specs.verify("aten::mm", [(torch.rand(1, 1), torch.rand(1, 1))]) == 0


@pytest.mark.parametrize(
    ("workers", "error"),
    [([], smex.SmexTypeError), (2, smex.SmexTypeError), ([2.5], smex.SmexTypeError),
     ([1], smex.SmexValueError)],
)  # fmt: skip
def test_numbers_of_workers_that_prove_nothing(workers, error):
    with pytest.raises(error, match="verify: expected"):
        specs.verify("aten::mm", [matrices()], workers=workers)


# ---- models ----


def test_what_is_no_model():
    x = torch.rand(2, 3)
    with pytest.raises(smex.SmexTypeError, match="a module or a function as model, found None"):
        smex.coverage(None, x)
    with pytest.raises(smex.SmexTypeError, match="a module or a function as loss_fn, found 3"):
        smex.coverage(torch.nn.Linear(3, 3), x, loss_fn=3)
    for ask in (smex.coverage, lambda model, args: smex.partition(model, 2, args=args)):
        with pytest.raises(smex.SmexTypeError, match="arguments in a tuple, found a list"):
            ask(torch.nn.Linear(3, 3), [x])
    with pytest.raises(TypeError, match="bogus"):
        smex.coverage(torch.nn.Linear(3, 3), x, bogus=1)


def test_an_operator_that_cannot_be_captured_says_what_helps():
    with pytest.raises(smex.CaptureError, match=r"no_fake.*; tell the shapes .*register_fake"):
        smex.coverage(lambda x: torch.ops.smex_errors.no_fake(x), torch.rand(3))

    @torch.library.custom_op("smex_errors::no_backward", mutates_args=())
    def no_backward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    no_backward.register_fake(torch.empty_like)
    x = torch.rand(3, requires_grad=True)
    with pytest.raises(smex.CaptureError, match=r"register_autograd, or .* torch.no_grad\(\)"):
        smex.coverage(lambda x: no_backward(x), x)
    with torch.no_grad():
        assert smex.coverage(lambda x: no_backward(x), x).missing == ["smex_errors::no_backward"]


def test_what_to_describe_is_shown_with_its_arguments():
    with pytest.warns(smex.MissingSpecWarning) as caught:
        smex.capture_graph(lambda x: torch.rrelu(x, training=True), torch.rand(3, 3))
    text = str(caught[0].message)
    assert "random numbers drawn by one worker" in text
    assert "def op(self, noise, lower, upper, training, generator):" in text


# ---- the command line ----


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["show", "mm"], 2, "did you mean aten::mm"),
        (["show", "aten::mm", "4,6", "6,5", "3"], 2, "takes 2 arguments, found 3: 4,6 6,5 3"),
        (["show", "aten::sum.dim_IntList", "4,3", "5"], 2, "Dimension out of range"),
        (["list", "nothing of that name"], 1, "0 of"),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments, status, text):
    done = subprocess.run(
        [sys.executable, "-m", "smex.specs", *arguments], capture_output=True, text=True
    )
    assert done.returncode == status and text in done.stderr
    assert "Traceback" not in done.stderr
