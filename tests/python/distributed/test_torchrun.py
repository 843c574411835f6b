"""The example of the docs under torchrun: undisturbed, after a failure, and with other ranks."""

import os
import pathlib
import re
import subprocess
import sys

import torch

import smex

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "processes.py"


def run(*arguments, ranks=None):
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [sys.executable, *(launcher if ranks else []), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def losses(output):
    return {int(n): float(loss) for n, loss in re.findall(r"step (\d+): loss ([\d.]+)", output)}


def test_training_goes_on_after_a_failure_and_with_other_ranks(tmp_path):
    whole = losses(run(EXAMPLE, "--folder", tmp_path / "whole", "--steps", 30))
    assert sorted(whole) == [9, 19, 29]
    folder = tmp_path / "disturbed"
    arguments = (EXAMPLE, "--folder", folder)
    output = run("--max-restarts=1", *arguments, "--steps", 20, "--fail", 15, ranks=2)
    assert "goes on from" in output
    assert smex.latest(folder).endswith("step-19")
    found = losses(output) | losses(run(*arguments, "--steps", 30, ranks=3))
    assert found.keys() == whole.keys()
    for step, loss in whole.items():
        torch.testing.assert_close(found[step], loss, rtol=1e-4, atol=0)
