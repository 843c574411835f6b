"""Saving a net: the files of all processes first, then the manifest, then the name."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import fcntl
import json
import os
import secrets
import shutil
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from smex.checkpoint import files, manifest
from smex.checkpoint.assignment import Task, assigned
from smex.checkpoint.consolidated import Names, Whole, consolidated
from smex.distributed.outcomes import together
from smex.distributed.world import World
from smex.errors import CheckpointError, SmexTypeError, SmexValueError
from smex.execution.module import PartitionedModule
from smex.execution.saved import Contents, Optimizers, all_saved, by_name, tensors_of

Progress = Callable[[int, int], Any]
"""Is told the bytes that this process has written, and how many it will."""


class Save:
    """A save that may still be running.

    Attributes:
        path: of the checkpoint.
        stall_seconds: for how long the caller of `smex.save` waited.
    """

    def __init__(self, path: str):
        self.path = path
        self.stall_seconds = 0.0
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Returns whether it has ended, well or not."""
        return self._thread is None or not self._thread.is_alive()

    def wait(self) -> None:
        """Returns once the checkpoint is on the disk.

        Raises:
            CheckpointError: it could not be written. It is raised once: here, by the next save, or
                as a warning, when the interpreter exits.
        """
        if self._thread is not None:
            self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _start(self, write: Callable[[], None]) -> None:
        def run() -> None:
            try:
                write()
            except BaseException as error:  # handed to whoever waits
                self._error = error

        self._thread = threading.Thread(target=run, name="smex.save")
        self._thread.start()  # no daemon: the interpreter waits for it


class _InFlight:
    """The save of this process that runs in the background."""

    def __init__(self) -> None:
        self._save: Save | None = None
        atexit.register(self.end)

    def wait(self) -> None:
        save, self._save = self._save, None
        if save is not None:
            save.wait()

    def take(self, save: Save) -> None:
        self._save = save

    def end(self) -> None:
        """Waits when the interpreter exits, where nobody can catch an error: it is a warning."""
        path = "" if self._save is None else self._save.path
        try:
            self.wait()
        except Exception as error:
            text = f"the save of {path} in the background has failed: {error}"
            warnings.warn(text, stacklevel=3)  # of no line of the program


_IN_FLIGHT = _InFlight()


def save(
    path: str | os.PathLike,
    net: PartitionedModule,
    opt: Optimizers | None = None,
    extra: dict[str, Any] | None = None,
    *,
    background: bool = False,
    format: str = "smex",
    names: Names | None = None,
    max_shard_bytes: int = 5_000_000_000,
    progress: Progress | None = None,
) -> Save:
    """Writes a checkpoint of a net, of its optimisers, and of what the caller adds.

    The folder holds one file of safetensors for each process, in which each box of a tensor stands
    once, and `manifest.json`, by which any number of workers, in any number of processes, reads
    what it needs (`smex.load`). All of it is written beside `path`, in `<path>.tmp-<nonce>`, and
    gets its name when the disk has it. Where `path` is a checkpoint already, the new files are put
    beside the old, the manifest is replaced, and the old files are removed: at each moment the name
    stands for one complete checkpoint. All processes of a net call this; what fails in one is
    raised in all.

    Args:
        path: of a folder that all processes see; those above it are made.
        net: captured.
        opt: an optimiser, or a list or dict of them, made of `net.parameters()`.
        extra: what JSON can hold: the step, a loader's place, schedulers' `state_dict()`.
        background: copy the state to the CPU's memory and write it in a thread. One such save is in
            flight: the next one, and the interpreter at its end, wait for it. Call `.wait()` before
            `torch.distributed.destroy_process_group`.
        format: "smex", or "hf" for whole tensors as Hugging Face has them: `model.safetensors`, or
            several such files with an index, without optimisers.
        names: with "hf" by the net's name that in the file: a dict, where what it does not have
            keeps its name, or a function, which leaves out what it returns None for.
        max_shard_bytes: with "hf" the size at which another file is begun.
        progress: is called with the bytes that this process has written and will have written; of
            `background` in its thread.

    Returns:
        The save: `.wait()` returns when the disk has it, at once without `background`.

    Raises:
        CheckpointError: it could not be written; nothing else than `path` as it was is left. Or the
            last save in the background had failed.
        SmexValueError: an optimiser has what cannot be saved, or `path` is of something else.
        SmexTypeError: `extra` has what JSON cannot hold.

    Example:
        >>> net = smex.partition(torch.nn.Linear(4, 4), workers=2, args=(torch.ones(8, 4),))
        >>> opt = torch.optim.AdamW(net.parameters())
        >>> folder = tempfile.mkdtemp()
        >>> smex.save(f"{folder}/step-1", net, opt, extra={"step": 1}).wait()
        >>> smex.load(smex.latest(folder), net, opt)
        {'step': 1}
    """
    started = time.perf_counter()
    _IN_FLIGHT.wait()
    if not isinstance(net, PartitionedModule):
        raise SmexTypeError(f"save: expected a net of smex.partition, got {type(net).__name__}")
    where = os.path.abspath(os.fspath(path))
    world = net._world
    with world.during("smex.save"):
        begin: _Own | _Whole
        if format == "smex":
            if names is not None:
                raise SmexValueError(
                    'save: names= is for format="hf"; a checkpoint has the net\'s own'
                )
            begin = _begin_own(where, net, opt, extra)
        elif format == "hf":
            if opt is not None or extra:
                raise SmexValueError(
                    'save: format="hf" holds the model alone; save opt and extra with format="smex"'
                )
            begin = _begin_whole(where, net, names, max_shard_bytes)
        else:
            raise SmexValueError(f'save: format is "smex" or "hf", got {format!r}')
        done = Save(where)
        if not background:
            begin.write(world, _new_folder(world, where, begin.nonce), progress)
            return done
        behind = world.beside("saves")
        copied = _outcome(begin.copy)

        def write() -> None:
            with behind.during("smex.save"):
                together(behind, copied)
                begin.write(behind, _new_folder(behind, where, begin.nonce), progress)

        done._start(write)
        _IN_FLIGHT.take(done)
        done.stall_seconds = time.perf_counter() - started
        return done


# ---- folders ----


def _outcome(do: Callable[[], None]) -> Callable[[], None]:
    """Does something; what it raised is raised when the result is called, by which others hear."""
    try:
        do()
    except Exception as error:
        failed = error
    else:
        return lambda: None

    def fail() -> None:
        raise failed

    return fail


def _new_folder(world: World, path: str, nonce: str) -> str:
    """Makes the folder that is written to; every process sees it."""
    folder = manifest.temporary(path, nonce)

    def make() -> str:
        if world.rank != 0:
            return ""
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _remove_left(path)
            os.mkdir(folder)
        except OSError as error:
            raise _failed(path, error) from error
        _hold(folder)
        return folder

    made = together(world, make)[0]

    def see() -> None:
        if not os.path.isdir(folder):
            raise CheckpointError(
                f"save: {folder} is not to be seen, rank 0 made {made}; give all ranks the same "
                "path, in a file system that all processes share"
            )

    try:
        together(world, see)
    except BaseException:
        _give_up(world, folder)
        raise
    return folder


_QUIET = 60.0
"""Seconds without a change after which a folder that nobody holds is nobody's."""
_HELD: dict[str, int] = {}
"""By folder that this process writes to the descriptor through which it is locked."""


def _hold(folder: str) -> None:
    """Locks a folder until it has its name, or this process ends: who is gone locks nothing."""
    with contextlib.suppress(OSError):  # of a file system without locks
        descriptor = os.open(folder, os.O_RDONLY)
        _HELD[folder] = descriptor
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _let_go(folder: str) -> None:
    if folder in _HELD:
        os.close(_HELD.pop(folder))


def _is_left(folder: str) -> bool:
    """Returns whether nobody writes to a folder any more; False where it cannot be told.

    Some file systems have locks of one machine each, so that it has to be quiet for a while too.
    """
    try:
        files_of_it = [entry.stat().st_mtime for entry in os.scandir(folder)]
        if time.time() - max([os.stat(folder).st_mtime, *files_of_it]) < _QUIET:
            return False
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _give_up(world: World, folder: str) -> None:
    """Removes what a save that fails has written."""
    if world.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        _let_go(folder)


def _refuse_other(path: str, may_replace: bool) -> None:
    """Raises SmexValueError where something else than a checkpoint has the name."""
    if not os.path.lexists(path):
        return
    is_folder = os.path.isdir(path)
    if is_folder and not os.listdir(path):
        return
    if not (is_folder and may_replace and os.path.isfile(os.path.join(path, manifest.NAME))):
        why = "is no checkpoint" if may_replace else 'format="hf" replaces nothing'
        raise SmexValueError(f"save: {path} exists and {why}; choose another name, or remove it")


def _remove_left(path: str) -> None:
    """Removes what saves that were killed left behind in a folder."""
    parent, name = os.path.split(path)
    for other in os.listdir(parent):
        left = os.path.join(parent, other)
        is_own = other.startswith(f"{name}.tmp-")
        if manifest.is_temporary(other) and (is_own or _is_left(left)):
            shutil.rmtree(left, ignore_errors=not is_own)


def _failed(path: str, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"save: {path} cannot be written: {error.strerror or error}; the checkpoints that were "
        "there are as they were"
    )


def _publish(folder: str, path: str, last: str, files_of_it: Sequence[str]) -> None:
    """Gives a folder that is complete its name.

    Args:
        folder: with everything in it.
        path: its name.
        last: the file that makes it complete.
        files_of_it: the others.
    """
    files.sync_folder(folder)
    if not os.path.isdir(path) or not os.listdir(path):
        os.rename(folder, path)
    else:
        old = [name for name in os.listdir(path) if name.endswith(".safetensors")]
        for name in files_of_it:
            os.rename(os.path.join(folder, name), os.path.join(path, name))
        files.sync_folder(path)
        os.rename(os.path.join(folder, last), os.path.join(path, last))
        files.sync_folder(path)
        for name in set(old) - set(files_of_it):
            os.remove(os.path.join(path, name))
        os.rmdir(folder)
    _let_go(folder)
    files.sync_folder(os.path.dirname(path))


def _written(world: World, folder: str, path: str, steps: Sequence[Callable[[], Any]]) -> list[Any]:
    """Takes steps together; where one fails the folder is removed. Returns the last's results."""
    results: list[Any] = []

    def step_of(step: Callable[[], Any]) -> Any:
        try:
            return step()
        except OSError as error:
            raise _failed(path, error) from error

    try:
        for step in steps:
            results[:] = together(world, lambda step=step: step_of(step))  # type: ignore[misc]
    except BaseException:
        _give_up(world, folder)
        raise
    return results


class _Told:
    """Adds bytes up for whoever wants to know the progress."""

    def __init__(self, progress: Progress | None, total: int):
        self._progress = progress
        self._total = total
        self._done = 0

    def __call__(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


# ---- our own format ----


@dataclasses.dataclass
class _Own:
    """A save of format "smex"."""

    path: str
    nonce: str
    workers: int
    tasks: list[Task]
    optimizers: dict[str, Contents]
    names: dict[str, list[str]]
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    plan: dict[str, Any]
    random: bytes
    extra: dict[str, Any]
    rank: int
    tiles: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    def copy(self) -> None:
        """Copies what this process writes, tile by tile."""
        for task in self._mine():
            self.tiles[task.piece.key] = task.copied()

    def write(self, world: World, folder: str, progress: Progress | None) -> None:
        """Writes everything."""
        by_rank: list[list[Task]] = [[] for _ in range(world.size)]
        tasks = {task.piece.key: task for task in self.tasks}
        for piece in files.aligned(task.piece for task in self.tasks):
            by_rank[tasks[piece.key].rank].append(tasks[piece.key])
        done: list[files.Written] = []

        def write_mine() -> files.Written | None:
            mine = by_rank[world.rank]
            if not mine:
                return None
            begin, _ = files.header([task.piece for task in mine], {"format": "pt"})
            total = len(begin) + sum(task.piece.bytes for task in mine)
            path = os.path.join(folder, self._file(world, world.rank))
            tiles = (lambda task=task: self._tile(task) for task in mine)
            return files.write(path, begin, tiles, _Told(progress, total))

        def finish() -> None:
            if world.rank == 0:
                self._finish(world, folder, by_rank, done)

        done += [each for each in _written(world, folder, self.path, [write_mine]) if each]
        self.tiles.clear()
        _written(world, folder, self.path, [finish])

    def _finish(
        self, world: World, folder: str, by_rank: list[list[Task]], done: list[files.Written]
    ) -> None:
        numbers = {each.name: number for number, each in enumerate(done)}
        tensors = {
            name: manifest.SavedTensor(dtype, shape, self.names[name], [])
            for name, (dtype, shape) in self.shapes.items()
        }
        for rank, tasks in enumerate(by_rank):
            if not tasks:
                continue
            _, places = files.header([task.piece for task in tasks], {"format": "pt"})
            number = numbers[self._file(world, rank)]
            for task, place in zip(tasks, places, strict=True):
                box = manifest.SavedBox(number, place, task.box)
                tensors[task.saved.name].boxes.append(box)
        contents = manifest.Manifest(
            self.nonce, time.time(), self.workers, [manifest.SavedFile(*each) for each in done],
            tensors, self.optimizers, self.plan, self.random, self.extra,
        )  # fmt: skip
        path = os.path.join(folder, manifest.NAME)
        with open(path, "x") as file:
            file.write(contents.text())
            file.flush()
            os.fsync(file.fileno())
        _publish(folder, self.path, manifest.NAME, [each.name for each in done])

    def _mine(self) -> list[Task]:
        return [task for task in self.tasks if task.rank == self.rank]

    def _tile(self, task: Task) -> torch.Tensor:
        return self.tiles.pop(task.piece.key) if self.tiles else task.tile()

    def _file(self, world: World, rank: int) -> str:
        return f"rank-{rank:05}-of-{world.size:05}-{self.nonce}.safetensors"


def _refuse_unready(net: PartitionedModule) -> None:
    """Raises SmexRuntimeError where a net has no shards yet, or these have no values."""
    net._look()
    net._refuse_uncut("save")
    net._state.refuse_blank("save")


def _begin_own(
    path: str, net: PartitionedModule, opt: Optimizers | None, extra: dict[str, Any] | None
) -> _Own:
    """Agrees over all processes on what is saved and who writes what."""
    world = net._world

    def ready() -> str:
        _refuse_unready(net)
        _refuse_unwritable(extra)
        if world.rank == 0:
            _refuse_other(path, may_replace=True)
        return secrets.token_hex(6)

    tensors, contents, nonces = all_saved(net._state, world, lambda: by_name(opt), ready)
    for saved in tensors:
        files.type_name(saved.name, saved.dtype)
    return _Own(
        path, nonces[0], net.workers, assigned(tensors, world), contents,
        {saved.name: saved.names for saved in tensors},
        {saved.name: (saved.dtype, saved.shape) for saved in tensors},
        _plan(net) if world.rank == 0 else {},
        torch.get_rng_state().numpy().tobytes(), extra or {}, world.rank,
    )  # fmt: skip


_PLANS: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def _plan(net: PartitionedModule) -> dict[str, Any]:
    """Returns what the plan of a net says, which its digest takes a while to make."""
    if net.plan not in _PLANS:
        _PLANS[net.plan] = net.plan.contents()
    return _PLANS[net.plan]


def _refuse_unwritable(extra: Any) -> None:
    if extra is not None and not isinstance(extra, dict):
        raise SmexTypeError(f"save: extra is a dict, got {type(extra).__name__}")
    for key, value in (extra or {}).items():
        try:
            text = json.dumps({key: value})
        except (TypeError, ValueError) as error:
            raise SmexTypeError(
                f"save: extra[{key!r}] cannot be written as JSON ({error}); numbers, texts, lists "
                "and dicts can"
            ) from error
        if not isinstance(key, str):
            raise SmexTypeError(f"save: the keys of extra are texts, got {key!r} ({text})")


# ---- whole tensors ----


@dataclasses.dataclass
class _Whole:
    """A save of format "hf"."""

    path: str
    nonce: str
    whole: Whole

    def copy(self) -> None:
        """Copies what this process writes, tile by tile."""
        self.whole.copy()

    def write(self, world: World, folder: str, progress: Progress | None) -> None:
        """Writes everything."""
        told = _Told(progress, self.whole.bytes)
        _written(
            world, folder, self.path,
            [
                lambda: self.whole.make(folder) if world.rank == 0 else None,
                lambda: self.whole.fill(folder, told),
                lambda: self._finish(folder) if world.rank == 0 else None,
            ],
        )  # fmt: skip

    def _finish(self, folder: str) -> None:
        *others, last = self.whole.finish(folder)
        _publish(folder, self.path, last, others)


def _begin_whole(
    path: str, net: PartitionedModule, names: Names | None, max_shard_bytes: int
) -> _Whole:
    world = net._world

    def ready() -> str:
        _refuse_unready(net)
        if world.rank == 0:
            _refuse_other(path, may_replace=False)
        return secrets.token_hex(6)

    nonce = together(world, ready)[0]
    tensors = tensors_of(net._state)
    for saved in tensors:
        files.type_name(saved.name, saved.dtype)
    return _Whole(path, nonce, consolidated(tensors, world, names, max_shard_bytes))
