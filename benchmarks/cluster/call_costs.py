"""How well times of calls are told at sizes that were never measured, beside how well they repeat.

    python benchmarks/cluster/call_costs.py [NAME ...] [--device cuda]

`smex.profile` measures the calls of emulated.py's models with tiles as 1, 2, 4 and 8 workers have;
here these tell the calls of 3, 5, 6 and 7 workers, which are measured for comparison: median and
90th percentile of the errors of calls that take more than 10 us and differ from all that are known.
"Repeated" are the same of a second measurement of the first sizes beside the first one: a processor
that is not alone changes its pace from second to second, and no model errs less than that. One
thread, seconds of the processor; or calls that are queued on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import emulated
import numpy as np
import torch
from sailor import head, row

from smex.planning.call_costs import CallCost, Calls
from smex.planning.devices import checked_device
from smex.planning.profiling import Sample, fitted, measured

KNOWN, HELD_OUT = (1, 2, 4, 8), (3, 5, 6, 7)
SHORTEST = 1e-5


def told(costs: Calls, call: Sample) -> float | None:
    """What the costs tell of a call, by its kind or else by its operator."""
    for name in (call.kind, call.target):
        cost: CallCost | None = costs.get(name, {}).get(call.itemsize)
        if cost is not None:
            return cost.seconds(*call.features[1:])
    return None


def words(errors: Sequence[float]) -> list[str]:
    """How many, the median and the 90th percentile."""
    if not errors:
        return ["0", "-", "-"]
    sizes = np.abs(errors)
    return [str(len(sizes)), f"{np.median(sizes):.1%}", f"{np.percentile(sizes, 90):.1%}"]


def errors(options: argparse.Namespace, name: str) -> tuple[list[float], list[float]]:
    """Errors at sizes held out, and of repeating."""
    graph = emulated.captured(options, name)
    device = checked_device(options.device, "call_costs")
    known, again = (measured(graph, False, device, KNOWN) for _ in range(2))
    others = measured(graph, False, device, HELD_OUT)
    costs = fitted(known)

    def key(call: Sample) -> tuple[object, ...]:
        return call.kind, call.itemsize, call.features

    first = {key(call): call.seconds for call in known}
    repeated = [
        first[key(call)] / call.seconds - 1
        for call in again
        if key(call) in first and call.seconds > SHORTEST
    ]
    held_out = [
        seconds / call.seconds - 1
        for call in others
        if key(call) not in first
        and call.seconds > SHORTEST
        and (seconds := told(costs, call)) is not None
    ]
    return held_out, repeated


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of emulated.py")
    parser.add_argument("--quick", action="store_true", help="small models, which show nothing")
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}\n")
    head("held out", "median", "90 %", "repeated", "median", "90 %")
    all_held_out: list[float] = []
    all_repeated: list[float] = []
    for name in options.names or (emulated.QUICK if options.quick else emulated.CASES):
        held_out, repeated = errors(options, name)
        all_held_out += held_out
        all_repeated += repeated
        row(name, *words(held_out), *words(repeated))
        sys.stdout.flush()
    row("all", *words(all_held_out), *words(all_repeated))
    return 0


if __name__ == "__main__":
    sys.exit(main())
