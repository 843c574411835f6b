"""LSTM cells as one kernel, against their formula."""

import pytest
import torch

import smex.vertex as sv

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
CASES = [
    (rows, width, children)
    for rows in (0, 1, 5)
    for width in (0, 1, 7, 16, 37)
    for children in (0, 1, 2, 3)
]


def formula(gates, cells, places):
    chunks = gates.chunk(len(places), 1)
    i, o, u, *forget = (chunks[p] for p in places)
    c = torch.sigmoid(i) * torch.tanh(u)
    for f, cell in zip(forget, cells):
        c = c + torch.sigmoid(f) * cell
    return torch.sigmoid(o) * torch.tanh(c), c


def operands(rows, width, children, dtype=torch.float64, device="cpu"):
    torch.manual_seed(0)
    gates = (torch.randn(rows, (3 + children) * width, dtype=dtype) * 3).to(device)
    cells = [torch.randn(rows, width, dtype=dtype).to(device) for _ in range(children)]
    return gates.requires_grad_(), [c.requires_grad_() for c in cells]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 3e-6), (torch.bfloat16, 0.05), (torch.float16, 0.01)],
)
@pytest.mark.parametrize(("rows", "width", "children"), CASES)
def test_values_and_gradients(rows, width, children, dtype, tolerance, device):
    gates, cells = operands(rows, width, children, dtype, device)
    places = list(reversed(range(3 + children)))
    found = torch.ops.smex.tree_lstm(gates, cells, places)
    wide = gates.detach().double().requires_grad_()
    wide_cells = [c.detach().double().requires_grad_() for c in cells]
    wanted = formula(wide, wide_cells, places)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)
    weights = torch.linspace(-1, 2, rows * width, dtype=torch.float64, device=device)
    weights = weights.view(rows, width)
    loss = (found[0].double() * weights).sum() + (found[1].double() * weights.flip(0)).sum()
    same = (wanted[0] * weights).sum() + (wanted[1] * weights.flip(0)).sum()
    grads = torch.autograd.grad(loss, [gates, *cells])
    others = torch.autograd.grad(same, [wide, *wide_cells])
    for one, other in zip(grads, others):
        torch.testing.assert_close(one.double(), other, rtol=tolerance * 4, atol=tolerance * 4)


@pytest.mark.parametrize("device", DEVICES)
def test_extremes(device):
    gates = torch.tensor([[-1e30, -1e4, -50.0, 50.0, 1e4, 1e30]], device=device)
    gates, cell = gates.repeat(4, 1).T.contiguous(), torch.ones(6, 1, device=device)
    for one, other in zip(
        sv.lstm(gates, cell), formula(gates.double(), [cell.double()], (0, 3, 2, 1))
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-6, atol=1e-30)


def test_the_order_is_that_of_torch():
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(3, 5).double()
    x, h, c = (torch.randn(4, n, dtype=torch.float64) for n in (3, 5, 5))
    gates = torch.nn.functional.linear(x, cell.weight_ih, cell.bias_ih)
    gates = gates + torch.nn.functional.linear(h, cell.weight_hh, cell.bias_hh)
    for one, other in zip(sv.lstm(gates, c), cell(x, (h, c))):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("children", [0, 2])
def test_gradcheck(children, device):
    gates, cells = operands(3, 4, children, device=device)
    assert torch.autograd.gradcheck(lambda g, *c: sv.tree_lstm(g, c), (gates, *cells))


@pytest.mark.parametrize("device", DEVICES)
def test_strided_operands(device):
    gates, cells = operands(6, 8, 2, device=device)
    wide = torch.cat([gates, gates], 1)[:, : gates.shape[1]]
    apart = [torch.stack([c, c], 1)[:, 0] for c in cells]
    turned = [c.T.contiguous().T for c in cells]
    wanted = sv.tree_lstm(gates, cells)
    for other in (apart, turned):
        for one, two in zip(sv.tree_lstm(wide, other), wanted):
            torch.testing.assert_close(one, two)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_gradients_where_the_gates_lay(dtype, device):
    gates, cells = (
        x.detach() if isinstance(x, torch.Tensor) else [c.detach() for c in x]
        for x in operands(5, 8, 2, dtype, device)
    )
    places = [4, 1, 0, 3, 2]
    h, c = torch.ops.smex.tree_lstm(gates, cells, places)
    wanted = torch.ops.smex.tree_lstm_backward(h, c, gates, cells, c, places)
    held = gates.clone()
    of_cells = torch.ops.smex.tree_lstm_backward_into(h, c, held, cells, c, places, held)
    assert torch.equal(held, wanted[0])
    assert torch.equal(of_cells, wanted[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("children", [0, 1, 2])
def test_opcheck(children, device):
    gates, cells = operands(3, 4, children, torch.float32, device)
    places = list(range(3 + children))
    torch.library.opcheck(torch.ops.smex.tree_lstm, (gates, cells, places))
    h, c = (x.detach() for x in sv.tree_lstm(gates, cells))
    gates, cells = gates.detach(), [x.detach() for x in cells]
    torch.library.opcheck(torch.ops.smex.tree_lstm_into, (gates, cells, places, h, c))
    torch.library.opcheck(
        torch.ops.smex.tree_lstm_backward, (h, c, gates, cells, c.clone(), places)
    )
    torch.library.opcheck(
        torch.ops.smex.tree_lstm_backward_into,
        (h, c, gates, cells, c.clone(), places, gates.clone()),
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("absent", [-1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("shape", [(7, 5), (7, 40), (7,), (7, 2, 3), (0, 4)])
def test_adding_rows(shape, dtype, absent, device):
    torch.manual_seed(0)
    to = torch.randint(-8, 8, shape).to(device, dtype)
    index = torch.randint(0, max(shape[0], 1), (20 if shape[0] else 0,))
    rows = torch.randint(-8, 8, (len(index), *shape[1:])).to(device, dtype)
    there = index != absent
    wanted = to.index_add(0, index[there].to(device), rows[there.to(device)])
    index = index.to(device)
    for order in (None, index.argsort(stable=True)):
        found = to.clone()
        torch.ops.smex.add_rows(found, index, rows, absent=absent, order=order)
        assert torch.equal(found, wanted)
        kwargs = {"absent": absent, "order": order}
        torch.library.opcheck(torch.ops.smex.add_rows, (to.clone(), index, rows), kwargs)


@pytest.mark.parametrize("device", DEVICES)
def test_adding_rows_of_wider_matrices(device):
    torch.manual_seed(0)
    to, rows = torch.randn(7, 20, device=device), torch.randn(30, 11, device=device)
    index = torch.randint(0, 7, (30,)).to(device)
    wanted = to.clone()
    for number, row in zip(index.tolist(), rows):
        wanted[number, 3:11] += row[1:9]
    torch.ops.smex.add_rows(to[:, 3:11], index, rows[:, 1:9])
    torch.testing.assert_close(to, wanted)


@pytest.mark.parametrize(("kind", "call", "text"), [
    (ValueError, lambda: sv.tree_lstm(torch.zeros(2, 10)), r"expected gates \[rows, 3 \* width\]"),
    (ValueError, lambda: sv.lstm(torch.zeros(2, 12), torch.zeros(3, 3)), r"expected cells \[2, 3\]"),
    (TypeError, lambda: sv.lstm(torch.zeros(2, 12), torch.zeros(2, 3).double()), "expected cells of type Float"),
    (TypeError, lambda: sv.tree_lstm(torch.zeros(2, 3).long()), "expected gates of a floating point type"),
    (ValueError, lambda: torch.ops.smex.tree_lstm(torch.zeros(2, 3), [], [0, 1, 1]), "expected the places of 3 gates"),
    (IndexError, lambda: torch.ops.smex.add_rows(torch.zeros(2, 3), torch.tensor([2]), torch.zeros(1, 3)), "expected numbers from 0 to 1, found 2"),
    (ValueError, lambda: torch.ops.smex.add_rows(torch.zeros(2, 3), torch.tensor([1]), torch.zeros(1, 4)), "expected a row of shape"),
    (ValueError, lambda: torch.ops.smex.add_rows(torch.zeros(2, 3), torch.tensor([1]), torch.zeros(1, 3), order=torch.tensor([0, 1])), r"expected an order of int64 \[1\]"),
    (TypeError, lambda: torch.ops.smex.add_rows(torch.zeros(2, 3), torch.tensor([1]).int(), torch.zeros(1, 3)), "expected int64 numbers"),
])  # fmt: skip
def test_mistakes(kind, call, text):
    with pytest.raises(kind, match=text):
        call()
