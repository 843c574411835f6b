"""The types of the native library, as they were written and as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

import smex

ROOT = Path(__file__).parents[2]


def test_the_stubs_are_those_of_the_library():
    pytest.importorskip("pybind11_stubgen", reason="pybind11-stubgen is not installed")
    if Path(smex.__file__).parents[2] != ROOT:
        pytest.skip("the library that is tested was not built in this checkout")
    command = [sys.executable, "tools/stubs.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
