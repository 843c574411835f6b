"""Measured iterations of training on clusters, predicted as tasks on devices (data of Sailor).

    python benchmarks/cluster/sailor.py [--data ../shared/data/sailor]

`iterations.py` tells how they are predicted. "Replay" is the same without gathers inside nodes, and
with sends that leave the receiver free, which gives what the data's README says of its replay.
Sailor, Metis and FlashFlex are the predictions that come with the data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from iterations import Predictor

ROOT = pathlib.Path(__file__).parents[2]
DATA = pathlib.Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data") / "sailor"
FILES = {"GH200": "cases.json", "mixed_dev": "cases_mixed_dev.json", "mixed": "cases_mixed.json"}
OTHERS = ("sailor", "metis", "flashflex")


def error(found: float | None, measured: float) -> float | None:
    """How much more than measured was predicted, in per cent."""
    return None if found is None else 100 * (found / measured - 1)


def cell(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


def head(*names: str) -> None:
    row("", *names)
    print("|---|" + "---:|" * len(names))


class Case:
    """A case, what others predict for it, and what we do."""

    def __init__(self, files: dict[str, Any], case: dict[str, Any], others: dict[str, Any]):
        self.case = case
        self.ours = Predictor(files, case).iteration()
        self.replay = Predictor(files, case, is_replay=True).iteration()
        measured = case["measured_iteration_seconds"]
        found = {"ours": self.ours.seconds, "replay": self.replay.seconds}
        found |= {name: others[name]["seconds"] for name in OTHERS if others.get(name)}
        found["repeated"] = (case.get("earlier_run") or {}).get("iteration_seconds")
        self.errors = {name: error(seconds, measured) for name, seconds in found.items()}
        peaks = {name: others[name]["peak_bytes"] for name in OTHERS if others.get(name)}
        peaks["ours"] = self.ours.peak_bytes
        measured = case["measured_peak_bytes"]
        self.peak_errors = {name: error(peak, measured) for name, peak in peaks.items()}

    def print(self) -> None:
        case, errors = self.case, self.errors
        times = [errors.get(name) for name in ("ours", "replay", *OTHERS)]
        row(
            case["id"],
            f"{case['measured_iteration_seconds']:.3f}",
            f"{self.ours.seconds:.3f}",
            *[cell(number, "+.1f") for number in times],
            cell(case["measured_reduce_gradients_seconds"], ".3f"),
            f"{self.ours.reduce_seconds:.3f}",
            f"{case['measured_peak_bytes'] / 1e9:.1f}",
            cell(self.peak_errors["ours"], "+.1f"),
        )


def mean_absolute(errors: Iterable[float | None]) -> float | None:
    """None without any, and where one is not known."""
    sizes = [math.nan if number is None else abs(number) for number in errors]
    return statistics.mean(sizes) if sizes and not math.isnan(sum(sizes)) else None


def print_cases(cases: list[Case]) -> None:
    names = ("replay", "Sailor", "Metis", "FlashFlex")
    measures = ("all-reduce measured, s", "predicted, s", "peak, GB", "error, %")
    head("measured, s", "predicted, s", "error, %", *names, *measures)
    for case in cases:
        case.print()


def summary_groups(groups: dict[str, list[Case]]) -> dict[str, list[Case]]:
    """The columns of the data's table of errors."""
    all_of = groups["GH200"]
    kinds: dict[str, Callable[[dict[str, Any]], bool]] = {
        "GH200": lambda case: True,
        "OPT": lambda case: case["model"].startswith("OPT"),
        "GPT-Neo": lambda case: case["model"].startswith("GPT"),
        "without 1 micro-batch": lambda case: case["plan"]["micro_batches"] > 1,
    }
    found = {name: [each for each in all_of if take(each.case)] for name, take in kinds.items()}
    found |= {name: cases for name, cases in groups.items() if name != "GH200"}
    return {f"{name} ({len(cases)})": cases for name, cases in found.items()}


def print_summary(groups: dict[str, list[Case]]) -> None:
    columns = summary_groups(groups)
    names = {"ours": "tasks", "replay": "replay", "sailor": "Sailor", "metis": "Metis"}
    names |= {"flashflex": "FlashFlex", "repeated": "the measurement repeated"}
    for title, field in (("iteration", "errors"), ("peak memory", "peak_errors")):
        print(f"\nMean absolute error of the {title}, %\n")
        head(*columns)
        for key, name in names.items():
            means = [
                mean_absolute(getattr(case, field).get(key) for case in cases)
                for cases in columns.values()
            ]
            if any(mean is not None for mean in means):
                row(name, *[cell(mean, ".1f") for mean in means])


def unedited(profiles: dict[str, Any]) -> dict[str, Any]:
    """The profiles with the times that were edited by hand as the profiler had them."""
    changed = json.loads(json.dumps(profiles))
    for model, gpus in profiles["before_hand_edit"].items():
        for gpu, micro_batches in gpus.items():
            for micro_batch, by_ranks in micro_batches.items():
                changed["models"][model]["gpus"][gpu][micro_batch] |= by_ranks
    return changed


def with_measured_reduce(case: Case) -> float | None:
    """The error if the all-reduce took what rank 0 measured, which counts waiting for others."""
    measured = case.case["measured_reduce_gradients_seconds"]
    reduced = case.ours.reduce_seconds
    seconds = case.ours.seconds + (reduced if measured is None else measured) - reduced
    return error(seconds, case.case["measured_iteration_seconds"])


def print_causes(files: dict[str, Any], groups: dict[str, list[Case]]) -> None:
    """Prints the error under other circumstances, which tells what it comes from."""
    all_of = groups["GH200"]
    rerun = [each for each in all_of if each.case.get("earlier_run")]
    again = [error(c.ours.seconds, c.case["earlier_run"]["iteration_seconds"]) for c in rerun]
    found = {"OPT on GH200, earlier run of the same plans": again}
    for group, cases in groups.items():
        found[f"{group}, with the all-reduce as measured"] = [*map(with_measured_reduce, cases)]
    for name, sizes in (("1", {1}), ("2 or more", {2, 4, 8})):
        few = [each for each in all_of if each.case["plan"]["micro_batch"] in sizes]
        found[f"GH200, micro-batches of {name}"] = [each.errors["ours"] for each in few]
    files = files | {"profiles": unedited(files["profiles"])}
    opt = [each.case for each in all_of if each.case["model"].startswith("OPT")]
    edited = [Case(files, case, {}).errors["ours"] for case in opt]
    found["OPT on GH200, profiles as they were before the edit by hand"] = edited
    print("\nMean absolute error of tasks, %\n")
    head("cases", "error")
    for name, errors in found.items():
        row(name, str(len(errors)), cell(mean_absolute(errors), ".1f"))


def read(folder: pathlib.Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    folder = parser.parse_args().data
    if not (folder / FILES["GH200"]).exists():
        print(f"there is no {folder / FILES['GH200']}: pass --data")
        return
    files = {name: read(folder, f"{name}.json") for name in ("profiles", "memory", "links")}
    groups = {}
    for group, name in FILES.items():
        if not (folder / name).exists():
            print(f"there is no {name}\n")
            continue
        path = name.replace("cases", "predictions")
        known = read(folder, path) if (folder / path).exists() else []
        others = {each["id"]: each for each in known}
        cases = read(folder, name)
        groups[group] = [Case(files, case, others.get(case["id"], {})) for case in cases]
    print_cases([case for cases in groups.values() for case in cases])
    print_summary(groups)
    print_causes(files, groups)


if __name__ == "__main__":
    main()
