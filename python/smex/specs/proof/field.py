"""The field that specs have to cover: every ATen call that PyTorch's OpInfo samples reach.

Each entry of the OpInfo database is run on its float64 samples, forward and backward, and what the
dispatcher sees below autograd is recorded, by overload.
"""

from __future__ import annotations

import collections
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from smex.errors import SmexImportError
from smex.specs.oracle import Call

MAX_CALLS = 40
"""Calls kept of an overload: the first of each signature."""

MAX_ELEMENTS = 200_000
MAX_SECONDS = 20
"""For one entry; a few samples hang by themselves."""

PLAIN = (
    *(torch.Tensor, bool, int, float, complex, str),
    *(torch.dtype, torch.layout, torch.device, torch.memory_format),
)
"""Arguments that a file can hold."""

UNSTABLE = {"nn.functional.grid_sample_3d", "_segment_reduce", "segment_reduce", "chalf"}
"""Entries of which some samples crash or hang on the CPU by themselves."""


def _copied(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().clone(memory_format=torch.contiguous_format)


def _signature(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return (tuple(x.shape), str(x.dtype))
    return repr(x)


class Recorder(TorchDispatchMode):
    """Keeps the calls that pass through."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, dict[Any, Call]] = collections.defaultdict(dict)
        self.backward = False
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
        if not plain or sum(x.numel() for x in tensors) > MAX_ELEMENTS or len(known) >= MAX_CALLS:
            return
        key = (self.backward, tuple(_signature(x) for x in leaves))
        if key not in known:
            args, kwargs = pytree.tree_map(_copied, (args, kwargs))
            known[key] = Call(args, kwargs, self.backward)


class _TimeoutError(Exception):
    pass


def _alarm(*_: Any) -> None:
    raise _TimeoutError


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


def _run(op: Any, sample: Any, recorder: Recorder) -> None:
    recorder.backward = False
    with recorder:
        out = op(sample.input, *sample.args, **sample.kwargs)
    leaves = [
        x
        for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
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


def record(names: set[str] | None = None) -> Recorder:
    """Runs the entries, all or those with the given names."""
    recorder = Recorder()
    signal.signal(signal.SIGALRM, _alarm)
    for op in entries():
        if op.name in UNSTABLE or (names is not None and op.name not in names):
            continue
        signal.alarm(MAX_SECONDS)
        try:
            torch.manual_seed(0)
            grad = op.supports_autograd
            for sample in op.sample_inputs("cpu", torch.float64, requires_grad=grad):
                try:
                    _run(op, sample, recorder)
                except _TimeoutError:
                    raise
                except Exception:  # a sample that the entry itself marks as failing
                    continue
        except _TimeoutError:
            print(f"{op.name}: stopped after {MAX_SECONDS} s", file=sys.stderr)
        except Exception as error:
            print(f"{op.name}: {type(error).__name__}: {error}"[:150], file=sys.stderr)
        finally:
            signal.alarm(0)
    return recorder


_FORMAT = "memory_format:"
"""Stands before the name of a memory format, which cannot be pickled."""


def _packed(x: Any) -> Any:
    return _FORMAT + str(x).removeprefix("torch.") if isinstance(x, torch.memory_format) else x


def _unpacked(x: Any) -> Any:
    return getattr(torch, x.removeprefix(_FORMAT)) if _is_format(x) else x


def _is_format(x: Any) -> bool:
    return isinstance(x, str) and x.startswith(_FORMAT)


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
    return (
        f"torch {torch.__version__}: {len(entries())} entries reach {len(aten)} overloads, "
        f"{len(forward)} forward and {len(aten) - len(forward)} in backward only; "
        f"{sum(map(len, aten.values()))} calls of different signatures are kept"
    )
