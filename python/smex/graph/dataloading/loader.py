"""The loader of mini-batches that samplers make."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, DistributedSampler

from smex._C import hang_at_end
from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.graph.creation.random import drawing_from
from smex.graph.dataloading.affinity import own_cores
from smex.graph.dataloading.epochs import EpochSeedMixin
from smex.graph.dataloading.feature_caches import FeatureCaches
from smex.graph.dataloading.lazy_features import gather_lazy_features
from smex.graph.dataloading.transport import FeatureSource, map_graphs
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count

__all__ = ["DataLoader"]

_LARGEST_SEED = 2**62
# Batches that a thread gathers ahead: one is ready while the next is made.
_AHEAD = 2


class DataLoader(EpochSeedMixin, torch.utils.data.DataLoader):
    """Hands out what a sampler makes of the seeds, batch by batch.

    Every batch has its own seed, drawn from torch's generator (or `generator`) when the iteration
    begins: batches are the same for any number of workers, whether they persist or not, threads
    and prefetching.

    Args:
        graph: the graph. It is sampled on the CPU: of one on a GPU the structure is copied there
            once, and features are gathered where they are.
        indices: ids of the seeds (nodes or edges, as the sampler takes them): a vector, or a dict
            of vectors by type. Batches of a dict are dicts of the types that occur in them.
        graph_sampler: has a method ``sample(graph, indices)``, such as :class:`NeighborSampler`.
        device: device of the batches, all graphs and tensors in them; by default that of a graph on
            a GPU, with `use_uva` the current CUDA device, and otherwise as the sampler makes them.
        use_ddp: whether each process of the distributed group gets its own part of the seeds; call
            :meth:`set_epoch` before each epoch to shuffle anew.
        ddp_seed: seed of that shuffling, the same in all processes.
        batch_size: number of seeds in a batch.
        drop_last: whether a last batch of fewer seeds is left out.
        shuffle: whether the seeds come in a new random order in each epoch.
        use_prefetch_thread: whether a thread gathers features and copies the batches to the device
            while the caller works; by default where `device` is not the CPU.
        use_alternate_streams: taken for compatibility.
        pin_prefetcher: taken for compatibility.
        use_uva: whether the batches go to a GPU, from a graph on the CPU and without workers.
            Nothing is pinned, and the results are those of ``device="cuda"``.
        gpu_cache: ``{"node": {name: rows}, "edge": {name: rows}}``, how many rows of features are
            kept on the GPU, those that were read last; of the features that the sampler prefetches,
            and without gradients. Names that the graph does not have are passed over.
        kwargs: as for ``torch.utils.data.DataLoader``: ``num_workers``, ``generator``,
            ``persistent_workers`` and others. Workers sample; the features are gathered by the
            process that iterates.

    Raises:
        SmexTypeError: an argument is of the wrong kind.
        SmexValueError: `batch_size` is less than 1, or an argument does not go with another one, as
            `use_uva` and workers.
        SmexRuntimeError: `use_uva` or `gpu_cache` without a CUDA device; an iteration goes on after
            the next one began, where ``persistent_workers``: workers that stay serve one at a time.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> g.ndata["x"] = torch.arange(4.0)
        >>> sampler = sg.dataloading.NeighborSampler([2, 2])
        >>> loader = sg.dataloading.DataLoader(g, torch.arange(4), sampler, batch_size=2)
        >>> for input_nodes, output_nodes, blocks in loader:
        ...     print(output_nodes, blocks[0].srcdata["x"])
        tensor([0, 1]) tensor([0., 1., 3., 2.])
        tensor([2, 3]) tensor([2., 3., 1., 0.])
    """

    def __init__(
        self,
        graph: Graph,
        indices: Any,
        graph_sampler: Any,
        device: torch.device | str | None = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        use_prefetch_thread: bool | None = None,
        use_alternate_streams: bool | None = None,
        pin_prefetcher: bool | None = None,
        use_uva: bool = False,
        gpu_cache: Any = None,
        **kwargs: Any,
    ):
        _check(graph, graph_sampler, kwargs)
        in_workers = kwargs.get("num_workers", 0) > 0
        self.graph = graph
        self.indices = indices
        self.graph_sampler = graph_sampler
        self.use_ddp, self.ddp_seed, self.shuffle = use_ddp, ddp_seed, shuffle
        self.use_uva, self.use_alternate_streams = use_uva, use_alternate_streams
        self.pin_prefetcher = pin_prefetcher
        self.device = _device_of_batches(graph, device, use_uva, in_workers)
        self._caches = None
        if gpu_cache is not None:
            self._caches = _caches(graph, gpu_cache, self.device)
        if use_prefetch_thread is None:
            use_prefetch_thread = self.device is not None and self.device.type != "cpu"
        self.use_prefetch_thread = use_prefetch_thread
        on_cpu = graph.cpu()
        self._source = FeatureSource(graph)
        ordering = _Ordering(shuffle, drop_last, kwargs.get("generator"))
        batches = _Batches(Seeds(indices), batch_size, ordering, use_ddp, ddp_seed)
        if in_workers:
            on_cpu.create_formats_()  # once, before the processes part
        sampling = _Sampling(graph, on_cpu, graph_sampler, self._source if in_workers else None)
        self._epoch = 0
        self._running: Generator[Any, None, None] | None = None
        super().__init__(sampling, sampler=batches, batch_size=None, collate_fn=_same, **kwargs)

    def __repr__(self) -> str:
        batches: Any = self.sampler
        return (
            f"DataLoader({len(batches.seeds):,} seeds in {len(self):,} batches of "
            f"{batches.batch_size:,}, {self.graph_sampler!r})"
        )

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, where `use_ddp`."""
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]

    def enable_cpu_affinity(
        self,
        loader_cores: Sequence[int] | None = None,
        compute_cores: Sequence[int] | None = None,
        verbose: bool = True,
    ) -> contextlib.AbstractContextManager[None]:
        """Within the context, each worker has a core of its own, and this process the others.

        That holds for workers that are started within it. Where `device` is not the CPU nothing is
        done.

        Args:
            loader_cores: a core for each worker; by default the first ones that the process may
                use, but for `compute_cores`.
            compute_cores: the cores of this process, as many as threads of torch; by default those
                that the workers leave, or all.
            verbose: taken for compatibility; the cores are logged.

        Raises:
            SmexValueError: there are no workers, or not a core for each.
            SmexRuntimeError: the system does not assign cores.

        Example:
            >>> import smex.graph as sg
            >>> g, sampler = sg.rand_graph(9, 20), sg.dataloading.NeighborSampler([2])
            >>> loader = sg.dataloading.DataLoader(g, torch.arange(9), sampler, num_workers=1)
            >>> with loader.enable_cpu_affinity():
            ...     len(list(loader))
            9
        """
        if self.device is not None and self.device.type != "cpu":
            return contextlib.nullcontext()
        return own_cores(self, loader_cores, compute_cores)

    def __iter__(self) -> Any:
        self._epoch += 1
        if self.persistent_workers and self._running is not None:
            self._running.close()  # its thread would take batches of this iteration
        arriving = super().__iter__()
        self.sampler.begin()  # type: ignore[attr-defined]
        finished = self._finished(arriving, self._epoch)
        if not self.use_prefetch_thread:
            return finished
        running = made_ahead(finished)
        self._running = running if self.persistent_workers else None
        return running

    def _finished(self, arriving: Iterator[Any], epoch: int) -> Iterator[Any]:
        while True:
            if self.persistent_workers and epoch != self._epoch:
                raise SmexRuntimeError(
                    "DataLoader: expected one iteration at a time, found that another one has "
                    "begun; workers that persist serve the last one, leave persistent_workers out "
                    "for several"
                )
            try:
                batch = next(arriving)
            except StopIteration:
                return
            yield self._finish(batch)

    def _finish(self, batch: Any) -> Any:
        """Returns the batch with its features, on its device."""
        batch = self._source.unpack(batch)
        if self.device is not None:
            batch = map_graphs((Graph, Tensor), lambda part: part.to(self.device), batch)
        for graph in graphs_in(batch):
            for frame in graph._all_frames():
                if self._caches is not None:
                    self._caches.read(frame)
                frame.read_prefetched()
        return batch


def _device_of_batches(
    graph: Graph, device: torch.device | str | None, use_uva: bool, in_workers: bool
) -> torch.device | None:
    if use_uva and graph.device.type != "cpu":
        raise SmexValueError(
            f"DataLoader: use_uva expects a graph on the CPU, found one on {graph.device}; leave "
            "use_uva out"
        )
    if in_workers and (use_uva or graph.device.type != "cpu"):
        what = "use_uva" if use_uva else f"a graph on {graph.device}"
        raise SmexValueError(
            f"DataLoader: {what} does not go with num_workers, whose processes have no GPU; leave "
            "one of them out"
        )
    if use_uva and not torch.cuda.is_available():
        raise SmexRuntimeError(
            "DataLoader: use_uva needs a CUDA device, found none; leave it out for batches on the "
            "CPU"
        )
    if device is not None:
        return torch.device(device)
    if use_uva:
        return torch.device("cuda", torch.cuda.current_device())
    return None if graph.device.type == "cpu" else graph.device


def _caches(graph: Graph, sizes: Any, device: torch.device | None) -> FeatureCaches | None:
    on = torch.device("cpu") if device is None else torch.empty(0, device=device).device
    caches = FeatureCaches(graph, sizes, on)
    if on.type == "cpu":
        asked = [size for names in sizes.values() for size in names.values() if size > 0]
        if asked:
            raise SmexRuntimeError(
                "DataLoader: gpu_cache keeps rows on the GPU of the batches, found batches on the "
                'CPU; pass device="cuda", or leave it out'
            )
    return caches if len(caches) else None


def _check(graph: Any, sampler: Any, kwargs: dict[str, Any]) -> None:
    if not isinstance(graph, Graph):
        raise SmexTypeError(f"DataLoader: expected a graph, found {type(graph).__name__}")
    if not hasattr(sampler, "sample"):
        raise SmexTypeError(
            f"DataLoader: expected a sampler with a method sample, found {type(sampler).__name__}"
        )
    own = [name for name in ("collate_fn", "sampler", "batch_sampler") if name in kwargs]
    if own:
        raise SmexValueError(
            f"DataLoader: {own[0]} is the loader's own; write a Sampler whose sample(g, indices) "
            "makes the batch"
        )


def graphs_in(batch: Any) -> list[Graph]:
    """Returns the graphs in tuples, lists and dicts."""
    found: list[Graph] = []
    map_graphs(Graph, found.append, batch)
    return found


def _same(batch: Any) -> Any:
    return batch


class _Ordering:
    """The order of places in an epoch."""

    def __init__(self, shuffle: bool, drop_last: bool, generator: torch.Generator | None):
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.generator = generator


class Seeds:
    """Ids of one type or several, one after another."""

    def __init__(self, indices: Any):
        self._keys = list(indices) if isinstance(indices, Mapping) else None
        lists = list(indices.values()) if isinstance(indices, Mapping) else [indices]
        self._lists = [_vector(ids) for ids in lists]
        sizes = torch.tensor([0, *(ids.shape[0] for ids in self._lists)])
        self._ends = torch.cumsum(sizes, 0)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def at(self, places: Tensor) -> Any:
        """Returns the ids at some places, in this order; by type where there are types."""
        if self._keys is None:
            return self._lists[0][places]
        owner = torch.searchsorted(self._ends, places, right=True) - 1
        batch = {}
        for n, key in enumerate(self._keys):
            mine = places[owner == n]
            if mine.shape[0]:
                batch[key] = self._lists[n][mine - self._ends[n]]
        return batch


def _vector(ids: Any) -> Tensor:
    given = torch.as_tensor(ids).cpu()  # where they are sampled from
    if given.numel() == 0:
        given = given.long()
    if given.dim() != 1 or given.is_floating_point() or given.is_complex():
        raise SmexTypeError(
            "DataLoader: indices must be a vector of ids, or a dict of them by type, found "
            f"{given.dtype} of shape {list(given.shape)}"
        )
    return given.nonzero().view(-1) if given.dtype == torch.bool else given


class _Batches(torch.utils.data.Sampler):
    """(seed, ids) of each batch of an epoch."""

    def __init__(
        self, seeds: Seeds, batch_size: int, ordering: _Ordering, use_ddp: bool, ddp_seed: int
    ):
        self._seeds = seeds
        self._batch_size = check_count("DataLoader", "batch_size", batch_size, 1)
        self._ordering = ordering
        self._latest: _Epoch | None = None
        self._shared: DistributedSampler | None = None
        if use_ddp:
            places = range(len(seeds))
            options = {"shuffle": ordering.shuffle, "drop_last": ordering.drop_last}
            self._shared = DistributedSampler(places, seed=ddp_seed, **options)  # type: ignore

    @property
    def seeds(self) -> Seeds:
        return self._seeds

    @property
    def batch_size(self) -> int:
        return self._batch_size

    def set_epoch(self, epoch: int) -> None:
        if self._shared is not None:
            self._shared.set_epoch(epoch)

    def __len__(self) -> int:
        number = len(self._seeds if self._shared is None else self._shared)
        if not self._ordering.drop_last:
            number += self._batch_size - 1
        return number // self._batch_size

    def _places(self) -> Tensor:
        if self._shared is not None:
            return torch.tensor(list(self._shared))
        if self._ordering.shuffle:
            return torch.randperm(len(self._seeds), generator=self._ordering.generator)
        return torch.arange(len(self._seeds))

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        self._latest = _Epoch(self)
        return self._latest

    def begin(self) -> None:
        """Makes the draws of the latest epoch now, rather than when its first batch is asked for.

        Other draws from the generator, between this and the first batch, do not change it then.
        """
        if self._latest is not None:
            self._latest.begin()

    def draw(self) -> Iterator[tuple[int, Any]]:
        """Returns the batches of an epoch, whose seeds and order are drawn at once."""
        first = int(torch.randint(_LARGEST_SEED, (), generator=self._ordering.generator))
        places = self._places().split(self._batch_size)
        return ((first + n, self._seeds.at(places[n])) for n in range(len(self)))


class _Epoch(Iterator):
    """The batches of an epoch, which are drawn once."""

    def __init__(self, batches: _Batches):
        self._batches = batches
        self._drawn: Iterator[tuple[int, Any]] | None = None

    def begin(self) -> Iterator[tuple[int, Any]]:
        if self._drawn is None:
            self._drawn = self._batches.draw()
        return self._drawn

    def __next__(self) -> tuple[int, Any]:
        return next(self.begin())


class _Sampling(Dataset):
    """The batches by seed and ids."""

    def __init__(self, graph: Graph, on_cpu: Graph, sampler: Any, source: FeatureSource | None):
        self._graph = graph
        self._on_cpu = on_cpu
        self._sampler = sampler
        self._source = source  # of a worker: leaves the features behind

    def __getitem__(self, batch: tuple[int, Any]) -> Any:
        seed, ids = batch
        with drawing_from(seed):
            g = self._sampled()
            made = self._sampler.sample(g, ids)
        for part in graphs_in(made):
            gather_lazy_features(part, g)
        return made if self._source is None else self._source.pack(made)

    def _sampled(self) -> Graph:
        """Returns the graph on the CPU, with the features that it has now."""
        if self._on_cpu is self._graph:
            return self._graph
        result = self._on_cpu.clone()
        for own, frame in zip(result._all_frames(), self._graph._all_frames()):
            own._columns = frame.to(result.device)._columns
        return result


class _StoppedError(Exception):
    """The caller wants no more batches."""


def made_ahead(batches: Iterable[Any], count: int = _AHEAD) -> Generator[Any, None, None]:
    """Yields the same batches, made by a thread `count` of them ahead of the caller."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(count)
    stopped = threading.Event()

    def put(item: tuple[bool, Any]) -> None:
        while True:
            if stopped.is_set():
                raise _StoppedError
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def make() -> None:
        try:
            for batch in batches:
                put((True, batch))
            put((False, None))
        except _StoppedError:
            pass
        except BaseException as error:
            with contextlib.suppress(_StoppedError):
                put((False, error))

    hang_at_end()  # a generator that is never closed leaves the thread to the interpreter's end
    thread = threading.Thread(target=make, name="smex-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            is_batch, item = ready.get()
            if is_batch:
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        stopped.set()
        thread.join()
