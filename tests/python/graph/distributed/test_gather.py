"""Rows that lie in several pieces: ``torch.ops.smex.gather_rows``."""

import pytest
import torch

gather = torch.ops.smex.gather_rows


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize("row", [(), (0,), (3,), (2, 5)])
@pytest.mark.parametrize("sizes", [(0,), (1,), (7, 0, 30), (1000, 33)])
def test_rows_are_those_of_the_whole(dtype, row, sizes):
    whole = (torch.randn(sum(sizes), *row) * 9).to(dtype)
    starts = torch.tensor([0, *sizes]).cumsum(0)
    pieces = list(whole.split(list(sizes)))
    for count in (0, 1, 2000):
        ids = torch.randint(max(len(whole), 1), (count if len(whole) else 0,))
        rows, missing = gather(pieces, starts, ids)
        assert torch.equal(rows, whole[ids]) and not missing.any()
        here = [p if n != 1 else p[:0] for n, p in enumerate(pieces)]
        rows, missing = gather(here, starts, ids)
        far = (ids >= starts[1]) & (ids < starts[2]) if len(sizes) > 1 else ids < 0
        assert torch.equal(missing, far)
        assert torch.equal(rows[~far], whole[ids[~far]])


def test_arguments():
    x = torch.zeros(4, 2)

    def refused(text, pieces=(x, x), starts=(0, 4, 8), ids=(0,), kind=ValueError):
        with pytest.raises(kind, match=text):
            gather(list(pieces), torch.tensor(starts), torch.tensor(ids))

    refused("expected ids from 0 to 7, found 8", ids=(0, 8))
    refused("expected ids from 0 to 7, found -1", ids=(-1, 9))
    refused("expected at least one piece", pieces=())
    refused(r"starts must be int64 of shape \[3\]", starts=(0, 4))
    refused("starts must ascend", starts=(0, 9, 8), pieces=(x[:0], x))
    refused("piece 1 must have 5 rows, or none", starts=(0, 4, 9))
    refused("rows of one shape and type", pieces=(x, x.double()))
    refused("rows of one shape and type", pieces=(x, torch.zeros(2, 4).T))
    refused("pieces must have rows", pieces=(torch.tensor(1.0), x))
    refused("ids must be an int64 vector", ids=(0.0,))
