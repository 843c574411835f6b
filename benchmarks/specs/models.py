"""Models of torchvision, timm and transformers, divided, beside the models themselves.

    python benchmarks/peers/environments.py models
    python benchmarks/specs/models.py [NAME ...] [--workers 4]

Each model of `zoo.py`, in float64 and in training mode without dropout, runs whole and divided; its
outputs, the gradients of all parameters and its buffers are compared. A model is one process, with
a time limit. "Error" is the largest difference of an element over the largest element of its
tensor, and at most 1e-8, or 1e-5 where the model computes something in float32 by itself;
"coverage" the operator calls of forward and backward that have a Spec.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import pathlib
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from torch.utils import _pytree as pytree

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
import environments
import zoo

TOLERANCE = 1e-8
FLOAT32 = 1e-5
"""The tolerance of models that compute something in float32 whatever their dtype."""

MAX_SECONDS = 600


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference in units of the largest element."""
    if found.shape != wanted.shape:
        raise ValueError(f"expected shape {list(wanted.shape)}, found {list(found.shape)}")
    if not wanted.numel():
        return 0.0
    if not wanted.is_floating_point():
        return float(not torch.equal(found, wanted))
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-3))


def outputs(model: torch.nn.Module, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that a model returns."""
    leaves = pytree.tree_leaves(model(*args, **kwargs))
    return [x for x in leaves if isinstance(x, torch.Tensor)]


def backward(results: list[torch.Tensor]) -> None:
    """The gradients of all outputs times fixed numbers."""
    torch.manual_seed(2)
    results = [x for x in results if x.requires_grad]
    torch.autograd.backward(results, [torch.randn(x.shape, dtype=x.dtype) for x in results])


def check(name: str, workers: int) -> dict[str, Any]:
    """Runs a model whole and divided."""
    torch.manual_seed(0)
    model, args, kwargs = zoo.MODELS[name]()
    model = zoo.without_dropout(model).double().train()
    whole = copy.deepcopy(model)
    expected = outputs(whole, args, kwargs)
    backward(expected)

    start = time.perf_counter()
    net = smex.partition(model, workers=workers, replicate_bytes=0)
    found = outputs(net, args, kwargs)
    backward(found)
    seconds = time.perf_counter() - start

    pairs = {f"output {n}": pair for n, pair in enumerate(zip(found, expected, strict=True))}
    gradients = net.full_grads()
    for key, parameter in whole.named_parameters():
        if parameter.grad is not None:
            pairs[f"gradient of {key}"] = (gradients[key], parameter.grad)
    state = net.state_dict()
    pairs |= {key: (state[key], buffer) for key, buffer in whole.named_buffers() if key in state}
    errors = {key: error(*pair) for key, pair in pairs.items()}
    worst = max(errors, key=lambda key: errors[key] if errors[key] == errors[key] else 1e300)
    # The operators of the program that ran, not of another capture.
    found_ops = smex.Coverage(net.plan.graph.captured)
    return {
        "calls": sum(row.calls for row in found_ops),
        "described": sum(row.described for row in found_ops),
        "missing": found_ops.missing,
        "float32": any(value.dtype is torch.float32 for value in net.plan.graph.captured.values),
        "error": errors[worst],
        "worst": worst,
        "seconds": seconds,
    }


def run(name: str, workers: int, script: str = __file__) -> dict[str, Any]:
    """What a script says of a model, in a process of its own."""
    python = environments.interpreter("models")
    command = [str(python), script, name, "--here", "--workers", str(workers)]
    own = {**os.environ, "PYTHONPATH": str(pathlib.Path(smex.__file__).parents[1])}
    try:
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        return {"failure": f"stopped after {MAX_SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"failure": last}


def is_equal(result: dict[str, Any]) -> bool:
    """Whether the divided model computes what the whole one does."""
    return result["error"] <= (FLOAT32 if result["float32"] else TOLERANCE)


def row(name: str, result: dict[str, Any]) -> str:
    """A line of the table."""
    if "failure" in result:
        return f"| {name} | | | {result['failure'][:120]} | | |"
    verdict = f"{result['error']:.0e}" + (" (float32 inside)" if result["float32"] else "")
    verdict += "" if is_equal(result) else f" **{result['worst']}**"
    coverage = f"{result['described'] / result['calls']:.2%}"
    missing = ", ".join(result["missing"])
    return (
        f"| {name} | {result['calls']} | {coverage} | {verdict} | {result['seconds']:.0f} s "
        f"| {missing} |"
    )


def main() -> int:
    """Prints the table; exit status 1 where a model differs or fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(zoo.MODELS)}; all")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--here", action="store_true", help="one model in this process, as JSON")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.names} - {*zoo.MODELS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(zoo.MODELS)}")
    if arguments.here:
        warnings.simplefilter("ignore")
        print(json.dumps(check(arguments.names[0], arguments.workers)))
        return 0
    if environments.interpreter("models") is None:
        parser.error("its environment is missing: python benchmarks/peers/environments.py models")
    print(f"torch {torch.__version__}, {arguments.workers} workers")
    print("| model | calls | coverage | error | capture, plan, run | without a Spec |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    results = {}
    for name in arguments.names or zoo.MODELS:
        results[name] = run(name, arguments.workers)
        print(row(name, results[name]), flush=True)
    ran = [result for result in results.values() if "failure" not in result]
    equal = sum(map(is_equal, ran))
    calls = sum(result["calls"] for result in ran)
    described = sum(result["described"] for result in ran)
    print(f"\n{equal} of {len(results)} models equal the whole model; "
          f"{described} of {calls} operator calls have a Spec "
          f"({described / max(1, calls):.2%})")  # fmt: skip
    return int(equal < len(results))


if __name__ == "__main__":
    sys.exit(main())
