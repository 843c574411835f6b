"""Rows of batches lie in memory that earlier batches have left, and in nobody else's."""

import gc
import multiprocessing
import threading

import pytest
import torch

import smex.graph as sg
from smex.graph.features.column import rows_of

ROWS = 20_000  # of 400 bytes: larger than what malloc keeps itself


def table(rows=50_000):
    return torch.arange(rows, dtype=torch.float32).unsqueeze(1).expand(-1, 100).contiguous()


def test_rows_are_in_memory_of_the_last_that_is_gone():
    x = table()
    ids = torch.randint(len(x), (ROWS,))
    rows = rows_of(x, ids)
    assert torch.equal(rows, x[ids])
    place = rows.data_ptr()
    del rows
    # A batch of nearly as many rows.
    again = rows_of(x, ids[: ROWS - 50])
    assert again.data_ptr() == place
    assert torch.equal(again, x[ids[: ROWS - 50]])


def test_what_is_held_is_not_written_to():
    x = table()
    holders = [
        lambda rows: rows,
        lambda rows: rows[7:9],
        lambda rows: rows.numpy(),
        lambda rows: torch.from_dlpack(rows),
    ]
    ids = [torch.randint(len(x), (ROWS,)) for _ in range(12)]
    held = [holders[n % 4](rows_of(x, each)) for n, each in enumerate(ids)]
    gc.collect()
    for n, each in enumerate(ids):
        expected = x[each][7:9] if n % 4 == 1 else x[each]
        assert torch.equal(torch.as_tensor(held[n]), expected)


def test_gradients_read_the_rows_that_they_saved():
    x = table()
    weights = [torch.ones(100, requires_grad=True) for _ in range(4)]
    ids = [torch.randint(len(x), (ROWS,)) for _ in weights]
    losses = [(rows_of(x, i) * w).sum() for i, w in zip(ids, weights)]
    for each, weight, loss in zip(ids, weights, losses):
        loss.backward()
        torch.testing.assert_close(weight.grad, x[each].sum(0))


def test_a_result_is_like_any_other_tensor():
    x = table()
    rows = rows_of(x, torch.arange(ROWS))
    assert rows.untyped_storage().nbytes() == ROWS * 400
    rows.resize_(3 * ROWS, 100)[ROWS:] = 1
    assert torch.equal(rows[:ROWS], x[:ROWS])
    rows.share_memory_()
    assert torch.equal(rows[:ROWS], x[:ROWS])


@pytest.mark.parametrize(
    "column",
    [
        lambda: table().requires_grad_(),
        lambda: table().t().contiguous().t(),
        lambda: torch.view_as_complex(table().view(-1, 50, 2)).conj(),
        lambda: table(),
    ],
    ids=["with gradients", "other strides", "conjugate", "plain"],
)
def test_all_columns_are_read(column):
    source = column()
    ids = torch.randint(len(source), (ROWS,))
    rows = rows_of(source, ids)
    assert torch.equal(rows.detach(), source.detach()[ids])
    assert rows.requires_grad == source.requires_grad


def test_threads_do_not_share_what_they_hold():
    x = table()
    wrong = []

    def work(seed):
        drawn = torch.Generator().manual_seed(seed)
        for _ in range(30):
            ids = torch.randint(
                len(x), (ROWS - int(torch.randint(3000, ()).item()),), generator=drawn
            )
            rows = rows_of(x, ids)
            if not torch.equal(rows[:, 0], ids.float()) or not torch.equal(
                rows[:, 99], ids.float()
            ):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _in_child(queue):
    torch.set_num_threads(1)  # as workers of loaders do: threads of OpenMP are not forked
    x = table()
    ids = torch.randint(len(x), (ROWS,))
    queue.put(bool(torch.equal(rows_of(x, ids), x[ids])))


def test_a_forked_child_goes_on():
    x = table()
    kept = rows_of(x, torch.arange(ROWS))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,), daemon=True)
    child.start()
    assert queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert torch.equal(kept, x[:ROWS])


def test_batches_that_are_collected_stay_as_they_were():
    g = sg.rand_graph(30_000, 200_000)
    g.ndata["x"] = table(30_000)
    sampler = sg.dataloading.NeighborSampler([5, 5], prefetch_node_feats=["x"])
    loader = sg.dataloading.DataLoader(g, torch.arange(30_000), sampler, batch_size=3000)
    for _ in range(2):
        for inputs, _, blocks in [*loader]:
            assert torch.equal(blocks[0].srcdata["x"][:, 5], inputs.float())


def test_compiled_functions_read_rows():
    x = table()
    compiled = torch.compile(lambda ids: rows_of(x, ids) + 1, fullgraph=True, backend="eager")
    for count in (ROWS, ROWS - 7):
        ids = torch.randint(len(x), (count,))
        assert torch.equal(compiled(ids), x[ids] + 1)
