"""Functions whose result for a vertex depends on the other vertices: who is warned, and who not."""

import pathlib
import re
import warnings

import pytest
import torch
from torch import nn

import smex
import smex.vertex as sv

HERE = pathlib.Path(__file__).name
GRAPHS = [sv.tree(((1, 2), 3)), sv.chain(3)]
ROWS = sum(g.num_vertices for g in GRAPHS)


class Cell(sv.VertexFunction):
    def __init__(self, combine):
        super().__init__(h=4)
        self.w = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.combine = combine

    def forward(self):
        x, left, right = self.w(self.pull()), self.gather(0).h, self.gather(1).h
        self.scatter(self.combine(self, x + left - right))


def picked(cell, h):
    """Each row by its own number: torch's way to pick, which no Spec can tell apart."""
    rows = torch.arange(h.shape[0])
    return h + h[rows, (h.detach() * 0).long()[:, 0]].unsqueeze(1)


MIXING = {
    "mean": lambda cell, h: h - h.mean(0),
    "softmax": lambda cell, h: h.softmax(0),
    "running sum": lambda cell, h: h.cumsum(0),
    "sorted": lambda cell, h: h.sort(0).values,
    "rolled": lambda cell, h: h.roll(1, 0),
    "flipped": lambda cell, h: h.flip(0),
    "norm of all": lambda cell, h: h / h.norm(),
    "maximum": lambda cell, h: h - h.max(),
    "products of rows": lambda cell, h: (h @ h.t()) @ h,
    "batch norm": lambda cell, h: cell.norm(torch.cat([h, h + 1]))[: h.shape[0]],
    "number of rows": lambda cell, h: h / h.shape[0],
}
APART = {
    "element by element": lambda cell, h: torch.tanh(h) * 2,
    "own row": lambda cell, h: h - h.mean(1, keepdim=True),
    "looks at values": lambda cell, h: h if float(h.detach().sum()) < 1e9 else h * 2,
    "looks at rows": lambda cell, h: h.clone() if h.shape[0] > 3 else h,
    "picked": picked,
    "there and back": lambda cell, h: h.flip(0).tanh().flip(0),
    "in place": lambda cell, h: h.clone()[:, :2].add_(1).repeat(1, 2),
    "numbers": lambda cell, h: h * torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "dropout": lambda cell, h: nn.functional.dropout(h, 0.5),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def run(function, x=None):
    return sv.run(function, GRAPHS, torch.randn(ROWS, 4) if x is None else x)


@pytest.mark.parametrize("combine", MIXING.values(), ids=MIXING)
def test_mixed_rows_are_told_once_with_the_line(combine):
    line = combine.__code__.co_firstlineno
    function = Cell(combine)
    text = re.escape(f"Cell: forward mixes the rows of different vertices at {HERE}:{line} (")
    with pytest.warns(smex.MixedRowsWarning, match=text) as caught:
        run(function)
    assert [w.filename for w in caught if w.category is smex.MixedRowsWarning] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(function)
        run(function, torch.randn(ROWS, 4, requires_grad=True))
        with torch.no_grad():
            run(function)
    with pytest.warns(smex.MixedRowsWarning):
        run(Cell(combine))


@pytest.mark.parametrize("combine", APART.values(), ids=APART)
def test_functions_that_keep_rows_apart_get_no_warning(combine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(Cell(combine))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_of_numbers(dtype):
    x = torch.randn(ROWS, 4, dtype=dtype)
    with pytest.warns(smex.MixedRowsWarning, match="mean"):
        run(Cell(MIXING["mean"]).to(dtype), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("picked", "there and back", "in place"):
            run(Cell(APART[name]).to(dtype), x)


def test_mixed_edges_are_told():
    class Attention(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)

        def forward(self):
            children = self.gather_each().h
            share = children.sum(1, keepdim=True).softmax(0)  # of all vertices' children
            self.scatter(self.pull() + self.sum_children(share * children))

    with pytest.warns(smex.MixedRowsWarning, match=r"Attention: .*softmax"):
        run(Attention())


def test_batch_norm_is_told_in_training_alone():
    function = Cell(MIXING["batch norm"]).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(function)
    function.train()
    with pytest.warns(smex.MixedRowsWarning, match="batch_norm"):
        run(function)


def test_the_trial_leaves_nothing_behind():
    function = Cell(MIXING["batch norm"])
    before = {name: x.clone() for name, x in function.state_dict().items()}
    state = torch.get_rng_state()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    with pytest.warns(smex.MixedRowsWarning):
        sv.run(function, GRAPHS[1:], x)
    assert torch.equal(state, torch.get_rng_state())
    counted = {
        name for name, x in function.state_dict().items() if not torch.equal(x, before[name])
    }
    assert counted == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert function.norm.num_batches_tracked == 3  # once for each task, and not for the trial


def test_indices_of_the_trial_are_the_users_own():
    class Word(sv.VertexFunction):
        def __init__(self):
            super().__init__(h=4)
            self.table = nn.Embedding(3, 4)

        def forward(self):
            self.scatter(self.table(self.pull()).softmax(0) + self.gather(0).h)

    with pytest.warns(smex.MixedRowsWarning, match=r"Word: .*softmax"):
        sv.run(Word(), [sv.chain(4)], torch.tensor([0, 0, 2, 1]))
