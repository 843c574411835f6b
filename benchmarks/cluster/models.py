"""The eight models of HeteroG's Table 1, captured for training, and small forms of them.

    python benchmarks/peers/environments.py models
    python benchmarks/cluster/models.py [NAME ...]
    python benchmarks/cluster/models.py --reduced [NAME ...]

The graphs are of forward, loss and backward in float32, with the dropout that the libraries have by
default, at the paper's batches for 8 GPUs; nothing is allocated. Images are 224×224 and sentences
10 words (Transformer) or 128 (BERT), as in HeteroG's published code, which has no XLNet: it reads
what BERT does. Both answer questions about a text. Three models differ from that code's: NASNet is
NASNet-A-large and not that of CIFAR-10, ResNet-200 has its activations behind the convolutions and
not before, and the Transformer is that of `torch.nn`.
"Operations" are counted as the cost model does, a multiplication and an addition being two; the
seconds of capture are those of the run that made the graph, and seconds of an iteration the
paper's. Graphs are kept in build/captured/ until capture or the models change, and other benchmarks
read them with `captured(name)`, without the models' libraries once they are there.

With `--reduced`, models of the same parts with few and narrow layers, in float64 and without
dropout, are trained for one step over 1 to 4 workers with every tensor cut that may be
(`replicate_bytes=0`). The largest error of the loss, the gradients and the buffers, which is at
most 1e-10, is relative to the largest element of the tensor. "Zero" counts tensors that are zero
but for rounding, of which it is relative to the largest gradient or buffer: gradients of biases
that a softmax or a batch normalisation behind them cancels, such as those of BERT's keys, and
running means of what such a normalisation has centred before.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import heterog_models
import torch
from heterog_models import CASES, STRATEGIES, Training, zoo
from sailor import head, row

import smex
from smex.capture import CapturedGraph

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))

import environments

CACHE = environments.ROOT / "build" / "captured"
PLANNERS = ("data_parallel", "tofu")
WORKERS = (1, 2, 3, 4)
TOLERANCE = 1e-10
ZERO = 1e-13
"""What part of the largest gradient or buffer is rounding."""


def captured(name: str, batch: int | None = None) -> smex.SemanticGraph:
    """The graph of an iteration, at the paper's batch or another; kept for the next time."""
    batch = batch or CASES[name].batch
    path = CACHE / f"{name}-{batch}-{fingerprint()}.pickle"
    if not path.exists():
        if importlib.util.find_spec(CASES[name].library):
            keep(capture(name, batch), path)
        else:
            in_models_environment("--capture", name, "--batch", str(batch))
    with path.open("rb") as file:
        return smex.SemanticGraph(Unpickler(file).load())


def capture(name: str, batch: int) -> CapturedGraph:
    """The records of an iteration on the meta device."""
    with torch.device("meta"):
        model, args, loss_fn = CASES[name].whole(batch)
    return smex.capture(model.train(), args, loss_fn=loss_fn)


def fingerprint() -> str:
    """Changes with the models, with capture and with torch."""
    package = pathlib.Path(smex.__file__).parent
    found = hashlib.sha256(torch.__version__.encode())
    models = pathlib.Path(heterog_models.__file__)
    for path in [models, *sorted((package / "capture").rglob("*.py"))]:
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


class Pickler(pickle.Pickler):
    """One that writes operators by their names."""

    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        if isinstance(value, torch._ops.OpOverload):
            return value._schema.name, value._overloadname
        return None


class Unpickler(pickle.Unpickler):
    """What reads them: `aten::add`, `Tensor` is torch.ops.aten.add.Tensor."""

    def persistent_load(self, name: tuple[str, str]) -> torch._ops.OpOverload:
        namespace, packet = name[0].split("::")
        return getattr(getattr(getattr(torch.ops, namespace), packet), name[1])


def keep(graph: CapturedGraph, path: pathlib.Path) -> None:
    """Writes the file at once, so that no other process reads a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as file:
        Pickler(file, protocol=5).dump(graph)
    unfinished.rename(path)


def in_models_environment(*arguments: str) -> str:
    """What this script prints there."""
    python = environments.interpreter("models")
    if python is None:
        raise SystemExit("first: python benchmarks/peers/environments.py models")
    own = {**os.environ, "PYTHONPATH": str(pathlib.Path(smex.__file__).parents[1])}
    command = [str(python), __file__, *arguments]
    return subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, check=True).stdout


def operations(graph: smex.SemanticGraph) -> float:
    """Of an iteration: the seconds of one worker that does one each picosecond, and all else."""
    level = smex.Level(1, latency=0, bandwidth=1e18)
    machine = smex.Machine("operations", {"float32": 1e12}, 1e18, 0, 1e18, (level,))
    return 1e12 * smex.search(graph, 1, machine=machine).compute_seconds


def print_models(names: Sequence[str]) -> None:
    """Prints the table of graphs."""
    head(
        "batch", "parameters, M", "GiB", "calls forward", "backward", "with a Spec",
        "operations, TFLOP", "capture, s", *(f"{name}, s" for name in STRATEGIES),
    )  # fmt: skip
    for name in names:
        graph, case = captured(name), CASES[name]
        records = graph.captured
        parameters = records.with_role("parameter")
        sizes = [math.prod(value.shape) for value in parameters]
        held = sum(n * value.dtype.itemsize for n, value in zip(sizes, parameters))
        backward = sum(op.backward for op in records.ops)
        row(
            name,
            str(case.batch),
            f"{sum(sizes) / 1e6:.1f}",
            f"{held / 2**30:.2f}",
            str(len(records.ops) - backward),
            str(backward),
            f"{smex.Coverage(records).fraction:.0%}",
            f"{operations(graph) / 1e12:.2f}",
            f"{sum(records.timings.values()):.1f}",
            *(f"{seconds:.3f}" for seconds in case.seconds),
        )


def reduced(name: str) -> Training:
    """A small form in float64 and training mode, without dropout; the same numbers each time."""
    torch.manual_seed(0)
    model, args, loss_fn = CASES[name].small()
    doubled = (x.double() if x.is_floating_point() else x for x in args)
    return zoo.without_dropout(model).double().train(), tuple(doubled), loss_fn


Step = dict[str, torch.Tensor]
"""The loss, gradients and buffers of a step, by what they are."""


def whole_step(training: Training) -> Step:
    """A step of the model as it is."""
    model, args, loss_fn = training
    model = copy.deepcopy(model)
    loss = loss_fn(model(*args[:-1]), args[-1])
    loss.backward()
    found = {f"gradient of {name}": x.grad for name, x in model.named_parameters()}
    kept = model.state_dict()
    found |= {f"buffer {name}": kept[name] for name, _ in model.named_buffers() if name in kept}
    return {"loss": loss.detach()} | {key: x for key, x in found.items() if x is not None}


def divided_step(training: Training, planner: str, workers: int) -> Step:
    """A step over workers."""
    model, args, loss_fn = training
    net = smex.partition(
        copy.deepcopy(model), workers=workers, loss_fn=loss_fn, planner=planner, replicate_bytes=0
    )
    loss = net(*args)
    loss.backward()
    found = {f"gradient of {name}": x for name, x in net.full_grads().items()}
    found |= {f"buffer {name}": x for name, x in net.state_dict().items()}
    return {"loss": loss.detach()} | found


def scales(whole: Step) -> dict[str, tuple[torch.Tensor, bool]]:
    """By tensor what its error is relative to, and whether it is zero but for rounding."""
    own = {key: x.abs().max() for key, x in whole.items()}
    found = {}
    for key, size in own.items():
        kind = key.split()[0]
        largest = max(size for other, size in own.items() if other.split()[0] == kind)
        is_zero = bool(size <= ZERO * largest)
        found[key] = largest if is_zero else size, is_zero
    return found


def largest_error(whole: Step, found: Step) -> tuple[float, str]:
    """Over all tensors, and of which it is."""
    errors = []
    for key, (scale, _) in scales(whole).items():
        if found[key].shape != whole[key].shape:
            raise ValueError(
                f"{key}: expected {list(whole[key].shape)}, found {list(found[key].shape)}"
            )
        difference = (found[key] - whole[key]).abs().max()
        errors.append((float(difference / scale) if difference else 0.0, key))
    # Not a number is the largest error of all.
    return max(errors, key=lambda each: (each[0] != each[0], each[0]))


def check(name: str) -> dict[str, Any]:
    """The errors of a reduced model by planner and workers."""
    training = reduced(name)
    whole = whole_step(training)
    errors = {
        f"{planner}, {workers}": largest_error(whole, divided_step(training, planner, workers))
        for planner in PLANNERS
        for workers in WORKERS
    }
    zeros = sum(is_zero for _, is_zero in scales(whole).values())
    return {"tensors": len(whole), "zeros": zeros, "errors": errors}


def print_reduced(names: Sequence[str]) -> bool:
    """Prints the table of errors; returns whether all are within the tolerance."""
    columns = [f"{planner}, {workers}" for planner in PLANNERS for workers in WORKERS]
    head("tensors", "zero", *columns, "s")
    beyond = []
    for name in names:
        started = time.perf_counter()
        result = json.loads(in_models_environment("--check", name).splitlines()[-1])
        took = time.perf_counter() - started
        cells = [f"{result['errors'][column][0]:.0e}" for column in columns]
        row(name, str(result["tensors"]), str(result["zeros"]), *cells, f"{took:.0f}")
        for column, (error, key) in result["errors"].items():
            if not error <= TOLERANCE:
                beyond.append(f"{name}, {column}: {key}: {error:.1e}")
    for words in beyond:
        print(words)
    return not beyond


def main() -> int:
    """Prints a table; exit status 1 where a reduced model differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all")
    parser.add_argument("--reduced", action="store_true", help="errors of divided small models")
    parser.add_argument("--capture", metavar="NAME", help="keep its graph, and nothing else")
    parser.add_argument("--batch", type=int, help="of --capture")
    parser.add_argument("--check", metavar="NAME", help="errors of one model, as JSON")
    options = parser.parse_args()
    unknown = sorted({*options.names} - {*CASES})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = options.names or list(CASES)
    if options.capture:
        captured(options.capture, options.batch)
    elif options.check:
        print(json.dumps(check(options.check)))
    elif options.reduced:
        return int(not print_reduced(names))
    else:
        print_models(names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
