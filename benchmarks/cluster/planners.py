"""Who plans HeteroG's models best: the agent, its rivals at equal calls, the baselines, Tofu.

    python benchmarks/cluster/planners.py [NAME ...] [--calls 100] [--planners heterog local ...]
    python benchmarks/cluster/planners.py --small [--calls 60]
    python benchmarks/cluster/planners.py [NAME ...] --fine-tune MODEL [--calls 200]

Simulated seconds of an iteration on HeteroG's testbed of 8 GPUs (`heterog_testbed`), for the models
of Table 1 as models.py captures them, or with --small for three small ones. EV-PS, EV-AR, CP-PS and
CP-AR are the data-parallel baselines, in the graph's order of ops; "random", "local",
"critical_path" and "heterog" make equally many calls of the simulator, in that order too. "ordered"
is the best of these with its ops in the order of a list schedule. "tofu" and "data_parallel" are
the exact searches of `smex.search` for the least time with shares by speed, simulated by the same
simulator, in the graph's order and in that of a list schedule; their gains are of the latter.
"gain" is what the agent's iteration is shorter by than the best baseline's, and last what the
paper's Table 1 says. In brackets are the seconds of a search on one core, and its calls: fewer than
asked for where --budget ended it. With --seeds the searches are run so often, and the medians
shown.

With --fine-tune the agent learns MODEL first; for each other model it is trained from scratch, and
goes on with that policy at half of the calls.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence

import torch
from sailor import head, row
from torch import nn
from torch.nn import functional as F

import smex
from smex.cluster.planners import EXACT, SEARCHES
from smex.cluster.strategies import BASELINES, MOST_GROUPS

SEARCHED = (*SEARCHES, "heterog")


def small(name: str) -> smex.SemanticGraph:
    """A model on which a call takes milliseconds."""
    with torch.device("meta"):
        wide = nn.Sequential(nn.Linear(1024, 8192), nn.ReLU(), nn.Linear(8192, 1024))
        convs = [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
        net = nn.Sequential(
            nn.Conv2d(3, 64, 3), *convs, *convs, nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10),
        )  # fmt: skip
        layer = nn.TransformerEncoderLayer(512, 8, batch_first=True, dropout=0.0)
        rows, images = torch.empty(512, 1024), torch.empty(256, 3, 32, 32)
        words = torch.empty(64, 64, 512)
        kinds = {
            "mlp": (wide, (rows, rows), F.mse_loss),
            "convnet": (net, (images, torch.empty(256, dtype=torch.int64)), F.cross_entropy),
            "encoder": (nn.TransformerEncoder(layer, 2), (words, words), F.mse_loss),
        }
        model, args, loss_fn = kinds[name]
        return smex.capture_graph(model.train(), args, loss_fn=loss_fn)


SMALL = ("mlp", "convnet", "encoder")


def report(
    name: str, graph: smex.SemanticGraph, paper: Sequence[float], options: argparse.Namespace
) -> None:
    """Prints a row."""
    cluster = smex.cluster.heterog_testbed()
    cells: list[str] = []
    best = float("inf")
    baselines = [smex.cluster.plan(graph, cluster, planner, ordered=False) for planner in BASELINES]
    least = min(found.seconds for found in baselines)
    cells += [words(found) for found in baselines]
    gain, winner = "", None
    for planner in options.planners:
        runs = [
            smex.cluster.plan(
                graph, cluster, planner, calls=options.calls, groups=options.groups, seed=seed,
                ordered=False, budget=options.budget, verbose=sys.stderr.isatty(),
            )
            for seed in range(options.seeds)
        ]  # fmt: skip
        seconds = statistics.median(found.seconds for found in runs)
        took = statistics.median(found.search_seconds for found in runs)
        fits = all(found.fits for found in runs)
        cells.append(f"{seconds:.4f}{'' if fits else ' OOM'} ({took:.0f} s, {runs[0].calls})")
        if planner == "heterog":
            gain = f"{1 - seconds / least:.0%}"
        if seconds < best:
            best, winner = seconds, min(runs, key=lambda found: found.seconds)
    exact: list[str] = []
    ordered = "" if winner is None else f"{smex.simulate(winner.plan.ordered()).seconds:.4f}"
    for planner in EXACT:
        found = smex.cluster.plan(graph, cluster, planner, ordered=False)
        cells.append(f"{words(found)} ({found.search_seconds:.0f} s)")
        took = smex.simulate(found.plan.ordered()).seconds
        exact += [f"{took:.4f}", f"{1 - took / least:.0%}"]
    theirs = f"{1 - paper[0] / min(paper[1:]):.0%}" if paper else ""
    row(name, *cells, ordered, gain, *exact, theirs)


def report_fine_tuning(name: str, policy: str, options: argparse.Namespace) -> None:
    """Prints a row: from scratch, and with a policy of another model at half of the calls."""
    import models

    graph, cluster = models.captured(name), smex.cluster.heterog_testbed()
    runs = [
        smex.cluster.plan(
            graph, cluster, "heterog", calls=calls, policy=saved, groups=options.groups,
            ordered=False, budget=options.budget, verbose=sys.stderr.isatty(),
        )
        for calls, saved in ((options.calls, None), (options.calls // 2, policy))
    ]  # fmt: skip
    scratch, tuned = (found.seconds for found in runs)
    cells = [f"{found.seconds:.4f} ({found.calls})" for found in runs]
    row(name, *cells, f"{scratch / tuned:.1%}")


def words(found: smex.cluster.Found) -> str:
    """Its seconds, and whether a device is out of memory."""
    return f"{found.seconds:.4f}{'' if found.fits else ' OOM'}"


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of Table 1; all by default")
    parser.add_argument("--small", action="store_true", help="three small models instead")
    parser.add_argument("--fine-tune", metavar="MODEL", help="whose policy others go on with")
    parser.add_argument("--calls", type=int, default=100, help="of the simulator, each search")
    parser.add_argument("--budget", type=float, help="seconds, each search")
    parser.add_argument("--groups", type=int, default=MOST_GROUPS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--planners", nargs="*", default=SEARCHED, choices=SEARCHED)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    of_exact = [f"{planner}, {what}" for planner in EXACT for what in ("ordered", "gain")]
    titles = (*BASELINES, *options.planners, *EXACT, "ordered", "gain", *of_exact, "the paper's")
    if options.small:
        head(*titles)
        for name in options.names or SMALL:
            report(name, small(name), (), options)
        return 0
    import models

    if options.fine_tune:
        head("from scratch, s (calls)", "fine-tuned, s (calls)", "scratch / fine-tuned")
        with tempfile.TemporaryDirectory() as folder:
            policy = f"{folder}/policy.pt"
            smex.cluster.plan(
                models.captured(options.fine_tune), smex.cluster.heterog_testbed(), "heterog",
                calls=options.calls, groups=options.groups, ordered=False, save_policy=policy,
            )  # fmt: skip
            for name in options.names or models.CASES:
                if name != options.fine_tune:
                    report_fine_tuning(name, policy, options)
        return 0
    head(*titles)
    for name in options.names or models.CASES:
        report(name, models.captured(name), models.CASES[name].seconds, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
