"""Epochs of a GCN, a GAT and GraphSAGE on a GPU, full graph: smex.graph beside PyG, in one process.

    python benchmarks/graph/gpu_training.py [--models train_gat] [--graphs arxiv-power-law]
        [--markdown FILE]

The models are those of training.py at ogbn-arxiv's sizes; graphs, clock and rounds are those of
gpu_kernels.py. An epoch is forward, cross entropy over all nodes, backward and a step of Adam;
results are compared with those of the first PyG that runs. "Wall" is the time of 20 epochs from
the host, "peak" what an epoch allocates at most beside its inputs. `--device cpu` is a check that
everything runs.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time

import gpu_kernels
import report
import torch
from gpu_kernels import GRAPHS, OURS, Clock, Measurement
from prepared import Training
from systems.base import Case, System

SIZES = {"features": 128, "classes": 40}
MODELS = {
    "train_gcn": Case("train_gcn", 64, 0, backward=True, **SIZES),
    "train_gat": Case("train_gat", 64, gpu_kernels.HEADS, backward=True, **SIZES),
    "train_sage": Case("train_sage", 64, 0, backward=True, **SIZES),
}
COLUMNS = ("model", "graph", "system", "ms", "/ ours", "wall, ms", "/ ours", "peak, MB", "/ ours")
TOLERANCE = 2e-3  # of the largest number of a result
EPOCHS = 20


def measured(measurement: Measurement, every: list[System], clock: Clock, rounds: int) -> dict:
    """By system the medians of seconds on the device and on the wall, and the peak's bytes."""
    ready, seconds, wanted = {}, {}, None
    for system in sorted(every, key=lambda each: not each.name.startswith("pyg")):
        prepared = measurement.attempt(system.name, trained, system, measurement)
        found = prepared and measurement.attempt(system.name, gpu_kernels.common, prepared)
        if not found:
            continue
        # All gradients are one: what is large in it tells how exact a small one is.
        gradients = torch.cat([x.flatten() for role, x in found.items() if role != "out"])
        found = {"out": found["out"], "gradients": gradients}
        wanted = wanted or found
        off = gpu_kernels.difference(found, wanted)
        if off > TOLERANCE:
            measurement.differs.add(system.name)
            measurement.notes[system.name] = f"DIFFERS by {off:.2g} of the largest number"
        ready[system.name] = prepared
        prepared.step()
        seconds[system.name] = ([], [], peak(prepared.step, clock))
    names = list(ready)
    for turn in range(rounds):
        shift = turn % max(1, len(names))
        for name in names[shift:] + names[:shift]:
            on_device, on_wall, _ = seconds[name]
            on_device.append(clock(ready[name].step, EPOCHS))
            on_wall.append(wall(ready[name].step, clock))
    return {n: (statistics.median(d), statistics.median(w), p) for n, (d, w, p) in seconds.items()}


def trained(system: System, measurement: Measurement) -> Training:
    given = {role: tensor.clone() for role, tensor in measurement.inputs.items()}
    return Training(system.operator(measurement.case, measurement.edges), given)


def peak(step, clock: Clock) -> float:
    """Bytes that a step has allocated at most, beside what was there before."""
    if not clock.is_cuda:
        return 0.0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def wall(step, clock: Clock) -> float:
    """Seconds of an epoch among several, one after the other."""
    started = time.perf_counter()
    for _ in range(EPOCHS):
        step()
    if clock.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / EPOCHS


def rows(model: str, graph: str, found: dict) -> list[str]:
    """A line of the table for each system, ours first."""
    lines = []
    for name in sorted(found, key=lambda each: each != OURS):
        cells = []
        for own, base, unit in zip(found[name], found[OURS], (1e3, 1e3, 1e-6)):
            cells += [f"{own * unit:.3g}", f"{own / base:.2f}" if base else "-"]
        lines.append(report.line([model, graph, name, *cells]))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=pathlib.Path, help="a file for the table")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU here, so nothing was measured; try --device cpu")
    device = torch.device(options.device)
    clock = Clock(device)
    every, notes = gpu_kernels.systems(device)
    lines = [report.header(COLUMNS)]
    print(*notes, lines[0], sep="\n", flush=True)
    wrong = 0
    built = gpu_kernels.loaded(options.graphs, device)
    for model in options.models:
        for graph, (edges, structure) in built.items():
            case = MODELS[model]
            inputs = gpu_kernels.inputs_of(case, edges, device)
            measurement = Measurement(case, structure, inputs)
            found = measured(measurement, every, clock, options.rounds)
            new = rows(model, graph, found) if OURS in found else []
            new += [f"* {name}, {model}: {note}" for name, note in measurement.notes.items()]
            lines += new
            wrong += OURS not in found or OURS in measurement.differs
            print(*new, sep="\n", flush=True)
            if options.markdown:
                options.markdown.write_text("\n".join(lines) + "\n")
    if wrong:
        raise SystemExit(f"{wrong} models are wrong")


if __name__ == "__main__":
    main()
