"""Models of torchvision, timm and transformers through a journey on one net, beside themselves.

    python benchmarks/peers/environments.py models
    python benchmarks/specs/journeys.py [NAME ...] [--workers 2 3 4]

Each model of `zoo.py`, in float64 and without dropout, and its divided net do the same: a step of
training, an evaluation under `no_grad` in training mode, one in evaluation mode, another step of
training, and a last evaluation. After each the outputs are compared, after each step of SGD all
parameters and buffers. "Error" and its tolerance are those of `models.py`.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import sys
import time
import warnings
from typing import Any

import torch

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
import environments
import models
import zoo

STATIONS = ("train", "no_grad", "eval", "train", "eval")
LEARNING_RATE = 1e-3


def visit(station: str, model: torch.nn.Module, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """One station of a journey; its outputs."""
    model.train(station != "eval")
    if station != "train":
        with torch.no_grad():
            return models.outputs(model, args, kwargs)
    results = models.outputs(model, args, kwargs)
    models.backward(results)
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimiser.step()
    optimiser.zero_grad()
    return results


def check(name: str, workers: int) -> dict[str, Any]:
    """The largest difference on the way, and where it was."""
    torch.manual_seed(0)
    model, args, kwargs = zoo.MODELS[name]()
    model = zoo.without_dropout(model).double()
    whole = copy.deepcopy(model)
    start = time.perf_counter()
    net = smex.partition(model, workers=workers, replicate_bytes=0)
    worst, where = 0.0, ""
    float32 = False
    for number, station in enumerate(STATIONS):
        found = visit(station, net, args, kwargs)
        wanted = visit(station, whole, args, kwargs)
        pairs = {f"output {n}": pair for n, pair in enumerate(zip(found, wanted, strict=True))}
        state = net.state_dict()
        pairs |= {key: (state[key], value) for key, value in whole.state_dict().items()}
        for key, pair in pairs.items():
            error = models.error(*pair)
            if not error <= worst:
                worst, where = error, f"{key} at {number + 1}: {station}"
    for compiled in net._programs:
        float32 |= any(value.dtype is torch.float32 for value in compiled.captured.values)
    seconds = time.perf_counter() - start
    return {"error": worst, "worst": where, "float32": float32, "seconds": seconds}


def cell(result: dict[str, Any]) -> str:
    """A model's error with one number of workers."""
    if "failure" in result:
        return result["failure"][:120]
    text = f"{result['error']:.0e}"
    return text if models.is_equal(result) else f"{text} **{result['worst']}**"


def main() -> int:
    """Prints the table; exit status 1 where a model differs or fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(zoo.MODELS)}; all")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--here", action="store_true", help="one model in this process, as JSON")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.names} - {*zoo.MODELS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(zoo.MODELS)}")
    if arguments.here:
        warnings.simplefilter("ignore")
        print(json.dumps(check(arguments.names[0], arguments.workers[0])))
        return 0
    if environments.interpreter("models") is None:
        parser.error("its environment is missing: python benchmarks/peers/environments.py models")
    heads = [f"{workers} workers" for workers in arguments.workers]
    print(f"torch {torch.__version__}; {' → '.join(STATIONS)} on one net")
    print(f"| model | {' | '.join(heads)} | seconds |")
    print(f"| --- | {'---: | ' * len(heads)}---: |")
    equal = total = 0
    for name in arguments.names or zoo.MODELS:
        results = [models.run(name, workers, __file__) for workers in arguments.workers]
        total += 1
        equal += all("failure" not in result and models.is_equal(result) for result in results)
        seconds = sum(result.get("seconds", 0) for result in results)
        print(f"| {name} | {' | '.join(map(cell, results))} | {seconds:.0f} |", flush=True)
    print(f"\n{equal} of {total} models equal the whole model at every station")
    return int(equal < total)


if __name__ == "__main__":
    sys.exit(main())
