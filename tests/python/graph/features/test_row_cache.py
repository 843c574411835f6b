"""Rows that were read lately, against a list of ids in the order of their use."""

import pytest
import torch

from smex.graph.features.row_cache import RowCache


def cache(capacity, width=3, dtype=torch.float32):
    return RowCache(capacity, (width,), dtype, torch.device("cpu"))


@pytest.mark.parametrize("capacity", [0, 1, 5, 64])
def test_rows_are_those_of_the_feature(capacity):
    torch.manual_seed(capacity)
    x, kept = torch.rand(40, 3), cache(capacity)
    for _ in range(30):
        ids = torch.randint(40, (int(torch.randint(9, ())),))
        assert torch.equal(kept.read(x, ids), x[ids])
        assert len(set(kept._keys.tolist()) - {-1}) == (kept._keys >= 0).sum()
    assert kept.total_queries > 0 and (kept.miss_rate == 1 if not capacity else kept.miss_rate < 1)


def test_what_was_used_last_stays():
    x, kept = torch.arange(10.0).unsqueeze(1), cache(3, 1)
    for n in (0, 1, 2, 0, 5):
        kept.read(x, torch.tensor([n]))
    assert set(kept._keys.tolist()) == {0, 2, 5}
    _, index, missing = kept.query(torch.tensor([1, 5, 2]))
    assert index.tolist() == [0] and missing.tolist() == [1]
    assert kept.total_miss == 5 and kept.total_queries == 8 and kept.miss_rate == 5 / 8


def test_rows_are_replaced():
    kept = cache(2, 1, torch.int64)
    kept.replace(torch.tensor([4, 4, 6]), torch.tensor([[1], [2], [3]]))
    assert kept.query(torch.tensor([6, 4]))[0].tolist() == [[3], [2]]
    kept.replace(torch.tensor([6, 1, 2, 3]), torch.tensor([[9], [1], [2], [3]]))
    values, index, _ = kept.query(torch.tensor([6]))
    assert index.numel() == 1 or values.tolist() == [[9]]  # never the old one
    kept.clear()
    assert kept.query(torch.tensor([6, 4]))[2].tolist() == [6, 4]
    assert cache(2).miss_rate == 0
