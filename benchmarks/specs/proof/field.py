"""The field that specs have to cover: every ATen call that PyTorch's OpInfo samples reach.

Each entry of the OpInfo database is run on its float64 samples, forward and backward, and what the
dispatcher sees below autograd is recorded, by overload. The samples are made of a few sizes, which
are odd for the most part; they are made of others too, and drawn calls (`extremes.py`) are added.
"""

from __future__ import annotations

import collections
import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from proof.extremes import extremes
from proof.processes import run_each
from smex.errors import SmexImportError, SmexRuntimeError
from smex.specs.oracle import Call

SIZES = {
    "odd": {},  # as the entries have them: 3, 5, 10, 20
    "even": {"XS": 2, "S": 4, "M": 12, "L": 24},
    "one": {"XS": 1, "S": 1, "M": 2, "L": 3},
    "none": {"XS": 0, "S": 0, "M": 0, "L": 1},
}
"""What the samples' sizes are called in torch's test library, and their values."""

DRAWS = 24
"""Of the calls of each kind that `extremes.py` draws."""

MAX_CALLS = {"odd": 40, "even": 40, "one": 12, "none": 12, "extreme": 40}
"""Calls kept of an overload: the first of each signature."""

MAX_ELEMENTS = 200_000

PLAIN = (
    *(torch.Tensor, bool, int, float, complex, str),
    *(torch.dtype, torch.layout, torch.device, torch.memory_format),
)
"""Arguments that a file can hold."""


def _copied(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().clone(memory_format=torch.contiguous_format)


def _signature(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return (tuple(x.shape), str(x.dtype))
    return repr(x)


_FORMAT = "memory_format:"
"""Stands before the name of a memory format, which cannot be pickled."""


def _packed(x: Any) -> Any:
    return _FORMAT + str(x).removeprefix("torch.") if isinstance(x, torch.memory_format) else x


def _unpacked(x: Any) -> Any:
    return getattr(torch, x.removeprefix(_FORMAT)) if _is_format(x) else x


def _is_format(x: Any) -> bool:
    return isinstance(x, str) and x.startswith(_FORMAT)


class Recorder(TorchDispatchMode):
    """Keeps the calls that pass through."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, dict[Any, Call]] = collections.defaultdict(dict)
        self.backward = False
        self.sizes = "odd"
        self.seeded: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Records a call, and makes it."""
        kwargs = kwargs or {}
        self._record(func, args, kwargs)
        return func(*args, **kwargs)

    def _record(self, func: Any, args: Any, kwargs: Any) -> None:
        name = func.name()
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.seeded.add(name)
        leaves, _ = pytree.tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        plain = all(x is None or isinstance(x, PLAIN) for x in leaves) and all(
            type(x) in (torch.Tensor, torch.nn.Parameter)
            and x.layout is torch.strided
            and x.device.type == "cpu"
            and not x.is_quantized
            for x in tensors
        )
        known = self.calls[name]
        same = sum(call.sizes == self.sizes for call in known.values())
        is_large = sum(x.numel() for x in tensors) > MAX_ELEMENTS
        if not plain or is_large or same >= MAX_CALLS[self.sizes]:
            return
        key = (self.backward, tuple(_signature(x) for x in leaves))
        if key not in known:
            args, kwargs = pytree.tree_map(_copied, (args, kwargs))
            known[key] = Call(args, kwargs, self.backward, self.sizes)

    def content(self) -> bytes:
        """All of it, for :meth:`add`."""
        calls = {
            name: {key: pytree.tree_map(_packed, tuple(call)) for key, call in known.items()}
            for name, known in self.calls.items()
        }
        file = io.BytesIO()
        torch.save((calls, self.seeded), file)
        return file.getvalue()

    def add(self, content: bytes) -> None:
        """Adds what another one has kept."""
        calls, seeded = torch.load(io.BytesIO(content), weights_only=False)
        self.seeded |= seeded
        for name, found in calls.items():
            known = self.calls[name]
            counts = collections.Counter(call.sizes for call in known.values())
            for key, call in found.items():
                call = Call(*pytree.tree_map(_unpacked, call))
                if key not in known and counts[call.sizes] < MAX_CALLS[call.sizes]:
                    known[key] = call
                    counts[call.sizes] += 1


def entries() -> list[Any]:
    """The OpInfo entries with float64 samples on the CPU.

    Raises:
        SmexImportError: torch's test library lacks what it needs.
    """
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise SmexImportError(
            f"smex.specs: OpInfo cannot be loaded: {error}; pip install expecttest tqdm"
        ) from None

    return [op for op in op_db if op.supports_dtype(torch.float64, "cpu")]


@contextlib.contextmanager
def _sized(sizes: dict[str, int]) -> Iterator[None]:
    """Samples are made with these sizes."""
    before = []
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal") and isinstance(getattr(module, "XS", 0), int):
            for size, value in sizes.items():
                if isinstance(vars(module).get(size), int):
                    before.append((module, size, getattr(module, size)))
                    setattr(module, size, value)
    try:
        yield
    finally:
        for module, size, value in before:
            setattr(module, size, value)


def _run(recorder: Recorder, function: Any, args: Any, kwargs: Any) -> None:
    """Calls a function, and what its gradients call."""
    recorder.backward = False
    with recorder:
        out = function(*args, **kwargs)
    leaves = [
        x
        for x in pytree.tree_leaves((args, kwargs))
        if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf
    ]
    outs = [
        x
        for x in pytree.tree_leaves(out)
        if isinstance(x, torch.Tensor) and x.requires_grad and (x.is_floating_point())
    ]
    if not leaves or not outs:
        return
    grads = [torch.rand_like(x) + 0.5 for x in outs]
    recorder.backward = True
    with recorder:
        torch.autograd.grad(outs, leaves, grads, allow_unused=True)


def _record_entry(item: tuple[int, tuple[str, ...]]) -> bytes:
    """Runs the samples of an entry; those that torch itself refuses are left out."""
    number, sizes = item
    op = entries()[number]
    recorder = Recorder()
    for recorder.sizes in sizes:
        with contextlib.suppress(Exception), _sized(SIZES[recorder.sizes]):
            torch.manual_seed(0)
            grad = op.supports_autograd
            for sample in op.sample_inputs("cpu", torch.float64, requires_grad=grad):
                with contextlib.suppress(Exception):
                    _run(recorder, op, (sample.input, *sample.args), sample.kwargs)
    return recorder.content()


def _record_draw(seed: int) -> bytes:
    recorder = Recorder()
    recorder.sizes = "extreme"
    for function, args, kwargs in extremes(seed):
        with contextlib.suppress(Exception):  # a draw that torch refuses
            _run(recorder, function, args, kwargs)
    return recorder.content()


def _backward(_: int) -> None:
    torch.ones(1, requires_grad=True).sum().backward()


def record(names: set[str] | None = None) -> Recorder:
    """Runs all entries and the drawn calls, or the entries with the given names.

    Raises:
        SmexRuntimeError: the process has run backward passes in such a way that the processes
            forked from it cannot.
    """
    (probe,) = run_each(_backward, [0], "backward")
    if probe.error:
        raise SmexRuntimeError(
            f"smex.specs: calls cannot be recorded in this process: {probe.error}; start a new one"
        )
    recorder = Recorder()
    known = entries()
    chosen = [n for n, op in enumerate(known) if names is None or op.name in names]
    items = [(number, tuple(SIZES)) for number in chosen]
    for attempt in ("recording", "each size alone"):  # a few samples end the process, or hang
        failed = []
        for outcome in run_each(_record_entry, items, attempt):
            if outcome.error:
                failed.append(outcome)
            else:
                recorder.add(outcome.value)
        items = [(outcome.item[0], (size,)) for outcome in failed for size in SIZES]
    for number, sizes, error in [(*outcome.item, outcome.error) for outcome in failed]:
        print(f"{known[number].name} of {sizes[0]} sizes: {error}", file=sys.stderr)
    for outcome in run_each(_record_draw, range(0 if names else DRAWS), "drawn calls"):
        if not outcome.error:
            recorder.add(outcome.value)
    return recorder


def file_of(folder: Path, overload: str) -> Path:
    """Where the calls of an overload are kept."""
    return folder / f"{overload.replace('::', '__', 1)}.pt"


def overloads(folder: Path) -> list[str]:
    """The recorded overloads, sorted."""
    return sorted(path.stem.replace("__", "::", 1) for path in folder.glob("*.pt"))


def load(folder: Path, overload: str) -> list[Call]:
    """The recorded calls of an overload."""
    calls = torch.load(file_of(folder, overload), weights_only=False)
    return [Call(*pytree.tree_map(_unpacked, call)) for call in calls]


def save(recorder: Recorder, folder: Path) -> None:
    """One file for each overload."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.pt"):
        old.unlink()
    for name, calls in recorder.calls.items():
        if calls and name.startswith("aten::"):
            packed = [pytree.tree_map(_packed, tuple(call)) for call in calls.values()]
            torch.save(packed, file_of(folder, name))


def summary(recorder: Recorder) -> str:
    """The denominators, which differ by version."""
    aten = {name: calls for name, calls in recorder.calls.items() if name.startswith("aten::")}
    forward = {name for name, calls in aten.items() if any(not c.backward for c in calls.values())}
    by_sizes = collections.Counter(call.sizes for calls in aten.values() for call in calls.values())
    return (
        f"torch {torch.__version__}: {len(entries())} entries reach {len(aten)} overloads, "
        f"{len(forward)} forward and {len(aten) - len(forward)} in backward only; "
        f"{sum(map(len, aten.values()))} calls of different signatures are kept: "
        + ", ".join(f"{count} {sizes}" for sizes, count in by_sizes.items())
    )
