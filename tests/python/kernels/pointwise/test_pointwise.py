"""Element-wise calls as one operator, against the calls one by one."""

import pytest
import torch

import smex.vertex  # noqa: F401  (which registers the operators)

UNARY = {
    "abs": torch.abs, "cos": torch.cos, "erf": torch.erf, "exp": torch.exp, "expm1": torch.expm1,
    "neg": torch.neg, "relu": torch.relu, "sigmoid": torch.sigmoid, "sign": torch.sign,
    "sin": torch.sin, "softplus": torch.nn.functional.softplus, "tanh": torch.tanh,
    "step": lambda x: (~(x <= 0)).to(x.dtype),
}  # fmt: skip
POSITIVE = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
    "maximum": torch.maximum, "minimum": torch.minimum,
    "equal": lambda a, b: (a == b).to(a.dtype), "less": lambda a, b: (a < b).to(a.dtype),
    "less_equal": lambda a, b: (a <= b).to(a.dtype),
    "greater": lambda a, b: torch.where(a == b, 0.5, (~(a < b)).to(a.dtype)),
    "part": lambda a, b: torch.where(a != 0, b, -0.0),
    "select": lambda a, b: torch.where(a != 0, b, 0.0),
    "slope": lambda a, b: b, "straight_through": lambda a, b: a,
    "weigh": lambda a, b: torch.where(a != 0, a * b, 0.0),
}  # fmt: skip
SIGNS = {"add": "x0 + x1", "sub": "x0 - x1", "mul": "x0 * x1", "div": "x0 / x1", "neg": "-x0"}
TYPES = [(torch.float64, 1e-13), (torch.float32, 1e-6), (torch.bfloat16, 0.02)]


def program_of(name):
    call = f"{name}(x0, x1)" if name in BINARY else f"{name}(x0)"
    return f"{SIGNS.get(name, call)} > x2"


def numbers(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("name", [*UNARY, *POSITIVE, *BINARY])
def test_each_operation(name, dtype, tolerance):
    a, b = numbers(5, 37, dtype=dtype), numbers(5, 37, dtype=dtype, seed=1)
    b[0] = a[0]
    a[1, :4] = 0
    if name in POSITIVE:
        a = a.abs() + 0.1
    found = torch.ops.smex.pointwise([a, b], program_of(name))
    function = {**UNARY, **POSITIVE, **BINARY}[name]
    wanted = function(a, b) if name in BINARY else function(a)
    torch.testing.assert_close(found, [wanted.to(dtype)], rtol=tolerance, atol=tolerance)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, float("inf"), -float("inf"), float("nan")]


def assert_same(found, wanted, tolerance):
    """Equal, NaN as NaN, and zeros of one sign."""
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    zero = wanted == 0
    assert torch.equal(torch.signbit(found[zero]), torch.signbit(wanted[zero]))


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("name", [*UNARY, *POSITIVE, *BINARY])
def test_numbers_that_are_special(name, dtype, tolerance):
    a = torch.tensor(SPECIAL, dtype=dtype).repeat_interleave(len(SPECIAL)).view(9, 9)
    b = torch.tensor(SPECIAL, dtype=dtype).repeat(len(SPECIAL)).view(9, 9)
    if name in ("maximum", "minimum"):  # of zeros torch's vectors give either
        a, b = a + 0.0, b + 0.0
    (found,) = torch.ops.smex.pointwise([a, b], program_of(name))
    function = {**UNARY, **POSITIVE, **BINARY}[name]
    wanted = function(a, b) if name in BINARY else function(a)
    assert_same(found, wanted.to(dtype), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES[:2])
@pytest.mark.parametrize("power", [2, 3, 0.5, -0.5, 1, -1, -2, 1.5, 0.3, -3, 4])
def test_powers_of_numbers_that_are_special(power, dtype, tolerance):
    x = torch.tensor(SPECIAL, dtype=dtype)
    (found,) = torch.ops.smex.pointwise([x.unsqueeze(1)], f"pow(x0, {power}) > x1")
    assert_same(found.squeeze(1), x**power, tolerance)


def test_slopes_of_leaky_relu_are_those_of_torch():
    x = torch.tensor([SPECIAL], dtype=torch.float64)
    (found,) = torch.ops.smex.pointwise([x], "leaky_step(x0, 0.1) > x1")
    wanted = torch.ops.aten.leaky_relu_backward(torch.ones_like(x), x, 0.1, False)
    assert torch.equal(found, wanted)


def test_numbers_in_programs():
    x = numbers(4, 3)
    found = torch.ops.smex.pointwise(
        [x], "pow(x0, 3); leaky_relu(x0, 0.1); 2.5; x3 * x0 > x1 x2 x4"
    )
    wanted = [x**3, torch.nn.functional.leaky_relu(x, 0.1), 2.5 * x]
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_operands_of_all_layouts(rows):
    whole = numbers(rows, 4, 9)
    part = numbers(rows, 4, 20)[:, :, 3:12]
    column = numbers(rows, 1, 1)
    shared = numbers(4, 9)
    inner = numbers(rows, 4, 1)
    turned = numbers(9, rows, 4).permute(1, 2, 0)
    scalar = numbers()
    operands = [whole, part, column, shared, inner, turned, scalar]
    code = "x0 + x1; x7 + x2; x8 * x3; x9 + x4; x10 * x5; x11 + x6 > x12"
    (found,) = torch.ops.smex.pointwise(operands, code)
    wanted = ((whole + part + column) * shared + inner) * turned + scalar
    torch.testing.assert_close(found, wanted)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [1, 5, 64, 600])
@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_along_rows_of_all_layouts(rows, columns, device):
    whole = numbers(rows, 4, columns)
    part = numbers(rows, 4, 2 * columns)[:, :, ::2]
    column, one = numbers(rows, 1, 1), numbers()
    shared, row = numbers(4, columns), numbers(columns)
    inner = numbers(rows, 4, 1)
    turned = numbers(columns, rows, 4).permute(1, 2, 0)
    repeated = numbers(rows, 4, 1).expand(rows, 4, columns)
    operands = [whole, part, column, shared, row, inner, turned, repeated, one]
    operands = [x.to(device) for x in operands]
    whole, part, column, shared, row, inner, turned, repeated, one = operands
    code = (
        "sum_last(x0 * x1) + x2; x9 * x3 + max_last(x6); sum_last(x4) / (1 + x5 * x5);"
        "sum_last(x7); sum_last(x8); less(x9, x10) > x9:1 x10 x11:1 x12 x13:1 x14? x14:1?"
    )
    first = (whole * part).sum(-1, keepdim=True) + column
    second = first * shared + turned.amax(-1, keepdim=True)
    wanted = [
        first,
        second,
        row.sum() / (1 + inner * inner),
        repeated.sum(-1, keepdim=True).expand_as(whole),
        one.expand(rows, 4, 1) * columns,
        first < second,
        (first < second)[:, :, :1],
    ]
    found = torch.ops.smex.pointwise(operands, code)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other)
    outs = [torch.empty_like(x).transpose(0, 1).contiguous().transpose(0, 1) for x in wanted]
    torch.ops.smex.pointwise_into(operands, code, outs)
    for one, other in zip(outs, found):
        assert torch.equal(one, other)
    meta = torch.ops.smex.pointwise([x.to("meta") for x in operands], code)
    assert [(x.shape, x.dtype) for x in meta] == [(x.shape, x.dtype) for x in found]


@pytest.mark.parametrize("shape", [(), (6,), (1,), (3, 5)])
def test_along_rows_of_few_dimensions(shape):
    x = numbers(*shape)
    found = torch.ops.smex.pointwise([x], "sum_last(x0); max_last(x0); x0 - x2 > x1 x1:1 x3")
    size = shape[-1] if shape else 1
    total = x.view(-1, size).sum(1, keepdim=True)
    top = x.view(-1, size).amax(1, keepdim=True)
    torch.testing.assert_close(found[0], total.expand(-1, size).reshape(shape))
    torch.testing.assert_close(found[1], total.reshape(*shape[:-1], 1) if shape else total[0, 0])
    torch.testing.assert_close(found[2], (x.view(-1, size) - top).reshape(shape))


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("rows", [3, 600])
def test_results_along_rows_in_place(rows, dtype, tolerance):
    x, weight = numbers(rows, 100, dtype=dtype), numbers(100, dtype=dtype, seed=1)
    exact = x.double()
    wanted = torch.nn.functional.layer_norm(exact, (100,), weight.double())
    code = "x0 - sum_last(x0) / 100; x2 / sqrt(sum_last(x2 * x2) / 100 + 1e-5) * x1 > x3"
    torch.ops.smex.pointwise_into([x, weight], code, [x])
    torch.testing.assert_close(x.double(), wanted, rtol=tolerance, atol=4 * tolerance)


def test_results_into_memory():
    a, b = numbers(6, 5), numbers(6, 5, seed=1)
    into = numbers(6, 12)
    before = into.clone()
    outs = [into[:, 1:6], into[:, 7:12]]
    torch.ops.smex.pointwise_into([a, b], "x0 + x1; x0 * x1 > x2 x3", outs)
    torch.testing.assert_close(into[:, 1:6], a + b)
    torch.testing.assert_close(into[:, 7:12], a * b)
    assert torch.equal(into[:, [0, 6]], before[:, [0, 6]])
    old = a.clone()
    torch.ops.smex.pointwise_into([a, b], "x0 + x1; x2 * x0 > x3", [a])  # in place
    torch.testing.assert_close(a, (old + b) * old)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_on_cuda_as_on_the_cpu(dtype):
    operands = [numbers(300, 70), numbers(70, seed=1), numbers(300, 1, seed=2)]
    code = "sigmoid(x0); x3 * x1; tanh(x4); x5 + x2; leaky_relu(x6, 0.1) > x3 x7"
    wanted = torch.ops.smex.pointwise(operands, code)
    narrow = [x.to("cuda", dtype) for x in operands]
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 0.05)
    for one, other in zip(torch.ops.smex.pointwise(narrow, code), wanted):
        torch.testing.assert_close(one.cpu().double(), other, rtol=tolerance, atol=tolerance)


def test_shapes_on_meta():
    a = torch.empty(6, 5, device="meta")
    found = torch.ops.smex.pointwise([a, a[0]], "x0 + x1; exp(x2) > x2 x3")
    assert [x.shape for x in found] == [(6, 5), (6, 5)]


@pytest.mark.parametrize(
    ("operands", "code", "error", "text"),
    [
        ([], "1 > x0", ValueError, "expected at least one operand"),
        ([(2, 3)], "frob(x0) > x1", ValueError, "expected a known function at position 0"),
        ([(2, 3), (2, 4)], "x0 + x1 > x2", ValueError, "expected operands that broadcast"),
    ],
)
def test_mistakes(operands, code, error, text):
    tensors = [torch.zeros(shape) for shape in operands]
    with pytest.raises(error, match=text):
        torch.ops.smex.pointwise(tensors, code)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
def test_bools(dtype, tolerance, device):
    x, y = (numbers(7, 33, dtype=dtype, seed=i).to(device) for i in range(2))
    mask, column = (y > 0.5).t().contiguous().t(), (x > 0)[:, :1]
    code = "less(x0, x1); maximum(x4, x2); select(x5, x0) * x3 > x4? x6 x5? x2?"
    for _ in range(2):
        less, product, either, same = torch.ops.smex.pointwise([x, y, mask, column], code)
        assert torch.equal(less, x < y) and torch.equal(either, (x < y) | mask)
        assert torch.equal(same, mask)
        torch.testing.assert_close(product, torch.where((x < y) | mask, x, 0) * column)
    outs = [torch.empty_like(t) for t in (less, product, either)]
    torch.ops.smex.pointwise_into([x, y, mask, column], code, [*outs, mask])  # in place
    assert all(torch.equal(*pair) for pair in zip([*outs, mask], (less, product, either, same)))
    code = "x0 * x1 > x2 x2?"
    shapes = [
        (o.shape, o.dtype) for o in torch.ops.smex.pointwise([x.to("meta"), same.to("meta")], code)
    ]
    assert shapes == [(x.shape, dtype), (x.shape, torch.bool)]


def test_mistakes_of_types_and_results():
    x = torch.zeros(2, 3)
    with pytest.raises(TypeError, match="operands of one floating point type"):
        torch.ops.smex.pointwise([x, x.double()], "x0 + x1 > x2")
    with pytest.raises(
        TypeError, match="one floating point type, and of bool, found Bool and Bool"
    ):
        torch.ops.smex.pointwise([x > 0], "1 - x0 > x1")
    with pytest.raises(TypeError, match="expected a result of type Bool, found Float"):
        torch.ops.smex.pointwise_into([x], "less(x0, 1) > x1?", [x])
    with pytest.raises(ValueError, match="expected 1 results, found 2"):
        torch.ops.smex.pointwise_into([x], "exp(x0) > x1", [x, x])
    with pytest.raises(ValueError, match="expected a result of shape"):
        torch.ops.smex.pointwise_into([x], "exp(x0) > x1", [x[:1]])
    with pytest.raises(ValueError, match=r"expected a result of shape \[2, 1\], found \[2, 3\]"):
        torch.ops.smex.pointwise_into([x], "sum_last(x0) > x1:1", [x])
