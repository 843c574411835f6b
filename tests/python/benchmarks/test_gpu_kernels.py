"""benchmarks/graph/gpu_kernels.py on the CPU, where it only shows that it runs."""

import subprocess
import sys
from pathlib import Path

import smex

ROOT = Path(__file__).parents[3]


def test_the_tables_have_rows(tmp_path):
    file = tmp_path / "tables.md"
    command = [sys.executable, "benchmarks/graph/gpu_kernels.py", "--device", "cpu"]
    chosen = ["--ops", "copy_u_sum", "edge_softmax", "--graphs", "arxiv-power-law"]
    few = ["--widths", "16", "--dtypes", "float32", "bfloat16", "--rounds", "1", "--calls", "2"]
    done = subprocess.run(
        [*command, *chosen, *few, "--markdown", file], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # A sum in two types and a softmax with and without heads, each with and without gradients.
    assert done.stdout.rstrip().endswith("8 cases measured of 8, 0 wrong")
    text = file.read_text()
    rows = [line for line in text.splitlines() if "| arxiv-power-law |" in line]
    assert len(rows) == 12  # the softmax also with edges in order
    header = next(line for line in text.splitlines() if line.startswith("| operation |"))
    assert "torch csr" in header and "torch scatter" in header and "of copy" in header
    assert all(line.count("|") == header.count("|") for line in rows)


def test_without_a_gpu_nothing_is_measured():
    command = [sys.executable, "benchmarks/graph/gpu_kernels.py"]
    environment = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(smex.__file__).parents[1])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "nothing was measured" in done.stderr
