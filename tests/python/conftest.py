"""Shared fixtures: seeds that a failure prints, and the reason why a GPU test is skipped."""

from __future__ import annotations

import os
import random
import signal
import zlib
from collections import defaultdict

import numpy as np
import pytest
import torch

import smex

SEED = int(os.environ.get("SMEX_TEST_SEED", "20240229"))


def cuda_skip_reason() -> str | None:
    """Why tests marked ``cuda`` cannot run here, or None."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    config = smex.show_config()
    if not config.cuda:
        return f"SMEX was built without CUDA kernels: {config.cuda_reason}"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-cases", action="store_true", help="run all of the tests marked costly")


def pytest_configure() -> None:
    # A shell starts background jobs with SIGINT ignored; tests of Ctrl-C need Python's own handler.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    config = smex.show_config()
    native = "loaded" if config.native else f"MISSING: {config.native_reason}"
    return [
        f"smex {config.version}, native library {native}",
        f"torch {config.torch}, {config.threads} threads, cuda kernels: {config.cuda or 'none'}",
        f"seed {SEED} (SMEX_TEST_SEED)",
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = cuda_skip_reason()
    if reason is not None:
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason=reason))
    if not config.getoption("all_cases"):
        _leave_out_combinations(config, items)


def _leave_out_combinations(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of tests marked ``costly``.

    Those stay in which each value of each parameter is seen, ``cases`` of the marker at most; of
    several markers, such as a test's and a parameter's, the fewest.
    """
    groups = defaultdict(list)
    for item in items:
        markers = list(item.iter_markers("costly"))
        if markers:
            limits = [marker.kwargs["cases"] for marker in markers if "cases" in marker.kwargs]
            test, most = item.nodeid.partition("[")[0], min(limits, default=None)
            groups[test, most, bool(item.get_closest_marker("cuda"))].append(item)
    left_out = set()
    for (_, most, _), cases in groups.items():
        kept = _with_each_value(cases, len(cases) if most is None else most)
        left_out |= {id(item) for item in cases} - {id(item) for item in kept}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]


def _with_each_value(cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Few of a test's cases, those with the most new values first; their order is of no effect."""
    waiting = sorted(cases, key=lambda item: zlib.crc32(item.name.encode()))
    values = {id(item): _values(item) for item in cases}
    seen: set[tuple] = set()
    kept: list[pytest.Item] = []
    while waiting and len(kept) < most:
        best = max(waiting, key=lambda item: len(values[id(item)] - seen))
        if kept and values[id(best)] <= seen:
            break
        seen |= values[id(best)]
        waiting.remove(best)
        kept.append(best)
    return kept


def _values(item: pytest.Item) -> set[tuple]:
    """A case's value of each ``parametrize``, which may have several parameters, and fixture."""
    params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    found = set()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = names.split(",") if isinstance(names, str) else names
        names = tuple(name.strip() for name in names)
        found.add((names, *(id(params.pop(name, None)) for name in names)))
    return found | {(name, id(value)) for name, value in params.items()}


@pytest.fixture(autouse=True)
def seed() -> int:
    """Seeds every generator before each test; the header of the run prints the seed."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  (code under test may use the old generator)
    torch.manual_seed(SEED)
    return SEED
