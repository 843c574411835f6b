"""Shared fixtures: seeds that a failure prints, and the reason why a GPU test is skipped."""

from __future__ import annotations

import os
import random
import signal

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = cuda_skip_reason()
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def seed() -> int:
    """Seeds every generator before each test; the header of the run prints the seed."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  (code under test may use the old generator)
    torch.manual_seed(SEED)
    return SEED
