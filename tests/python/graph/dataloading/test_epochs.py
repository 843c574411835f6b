"""Several epochs of one loader: the same batches however they are made."""

import pytest
import torch

import smex
import smex.graph as sg

pytestmark = pytest.mark.costly

dl = sg.dataloading
WAYS = {
    "no workers": {},
    "workers": {"num_workers": 2},
    "workers that persist": {"num_workers": 2, "persistent_workers": True},
}
SAMPLERS = {
    "neighbours": lambda: dl.NeighborSampler([3, 2]),
    "layers": lambda: dl.LaborSampler([3, 2]),
    "negative": lambda: dl.as_edge_prediction_sampler(
        dl.NeighborSampler([3]), negative_sampler=dl.negative_sampler.GlobalUniform(2)
    ),
    "negative, by source": lambda: dl.as_edge_prediction_sampler(
        dl.NeighborSampler([3]), negative_sampler=dl.negative_sampler.PerSourceUniform(2)
    ),
    "walks": lambda: dl.SAINTSampler("walk", (5, 2)),
    "around": lambda: dl.ShaDowKHopSampler([3]),
}


def graph():
    g = sg.rand_graph(60, 600)
    g.ndata["x"] = torch.arange(60.0)
    return g


def numbers(batch):
    """Every tensor and graph of a batch as lists."""
    if isinstance(batch, sg.Graph):
        return [
            batch.num_nodes(),
            [x.tolist() for x in batch.edges()],
            [x.tolist() for frame in batch._all_frames() for x in frame.values()],
        ]
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: numbers(x) for key, x in batch.items()}
    return [numbers(x) for x in batch]


def epochs(make, way, number=3):
    """The batches of some epochs; what the caller draws in between counts too."""
    torch.manual_seed(2)
    loader = make(**WAYS[way])
    found = []
    for _ in range(number):
        found.append([numbers(batch) for batch in loader])
        found.append(torch.rand(2).tolist())
    return found


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_epochs_are_the_same_with_workers_that_persist(name, shuffle):
    torch.manual_seed(1)
    g, sampler = graph(), SAMPLERS[name]()

    def make(**options):
        ids = torch.arange(40)
        return dl.DataLoader(g, ids, sampler, batch_size=16, shuffle=shuffle, **options)

    first, *others = (epochs(make, way) for way in WAYS)
    assert others == [first] * len(others)
    assert first[0] != first[2] != first[4]


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_of_the_loader_serves_all_epochs(way):
    torch.manual_seed(1)
    g = graph()

    def make(**options):
        generator = torch.Generator().manual_seed(3)
        sampler, ids = dl.NeighborSampler([2]), torch.arange(30)
        options |= {"shuffle": True, "generator": generator}
        return dl.DataLoader(g, ids, sampler, batch_size=8, **options)

    assert epochs(make, way) == epochs(make, "no workers")


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_epoch_that_is_left_early(way, threads):
    torch.manual_seed(1)
    g = graph()

    def journey(way, threads):
        torch.manual_seed(2)
        options = WAYS[way] | {"use_prefetch_thread": threads, "shuffle": True}
        loader = dl.DataLoader(
            g, torch.arange(60), dl.NeighborSampler([2]), batch_size=7, **options
        )
        found = []
        for stop in (2, 1, 99, 3, 99):
            for n, batch in enumerate(loader):
                found.append(numbers(batch))
                if n + 1 == stop:
                    break
        kept = iter(loader)
        found.append(numbers(next(kept)))
        return [*found, *map(numbers, loader)]

    assert journey(way, threads) == journey("no workers", False)


@pytest.mark.parametrize("way", WAYS)
def test_draws_between_the_beginning_and_the_first_batch(way):
    torch.manual_seed(1)
    g = graph()

    def journey(way):
        torch.manual_seed(2)
        sampler, options = dl.NeighborSampler([2]), WAYS[way] | {"shuffle": True}
        loader = dl.DataLoader(g, torch.arange(30), sampler, batch_size=8, **options)
        found = []
        for _ in range(2):
            batches = iter(loader)
            found.append(torch.rand(1).item())
            found += map(numbers, batches)
        return found

    assert journey(way) == journey("no workers")


@pytest.mark.parametrize("threads", [False, True])
def test_two_iterations_at_once(threads):
    torch.manual_seed(1)
    g, ids = graph(), torch.arange(30)
    options = {"batch_size": 8, "use_prefetch_thread": threads}
    pairs = dl.DataLoader(g, ids, dl.NeighborSampler([2]), **options)
    assert all(torch.equal(a[1], b[1]) for a, b in zip(pairs, pairs))
    loader = dl.DataLoader(
        g, ids, dl.NeighborSampler([2]), num_workers=1, persistent_workers=True, **options
    )
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert next(second)[1].tolist() == list(range(8))
    with pytest.raises((smex.SmexRuntimeError, StopIteration)) as error:
        next(first)
    assert threads or "another one has begun" in str(error.value)
    assert torch.cat([seeds for _, seeds, _ in second]).tolist() == list(range(8, 30))


@pytest.mark.parametrize("way", WAYS)
def test_epochs_of_a_part_of_a_group(way, tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        torch.manual_seed(1)
        g = graph()
        graphs = [sg.rand_graph(5, 9) for _ in range(9)]

        def journey(way):
            torch.manual_seed(2)
            options = WAYS[way] | {"use_ddp": True, "ddp_seed": 5, "shuffle": True, "batch_size": 4}
            of_seeds = dl.DataLoader(g, torch.arange(30), dl.NeighborSampler([2]), **options)
            of_graphs = dl.GraphDataLoader(graphs, **options)
            found = []
            for epoch in range(3):
                for loader in (of_seeds, of_graphs):
                    loader.set_epoch(epoch)
                    found += map(numbers, loader)
            return found

        assert journey(way) == journey("no workers")
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_epochs_of_graphs(way, own):
    torch.manual_seed(1)
    items = [(sg.rand_graph(5, 9), n) for n in range(11)]

    def make(**options):
        generator = torch.Generator().manual_seed(3) if own else None
        return dl.GraphDataLoader(items, batch_size=3, shuffle=True, generator=generator, **options)

    found = epochs(make, way)
    assert found == epochs(make, "no workers")
    assert found[0] != found[2] != found[4]
