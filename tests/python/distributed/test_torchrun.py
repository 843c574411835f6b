"""The example of the docs under torchrun: undisturbed, after a failure, and with other ranks."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import smex

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "processes.py"


def run(*arguments, ranks=None, **variables):
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [sys.executable, *(launcher if ranks else []), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def losses(output):
    return {int(n): float(loss) for n, loss in re.findall(r"step (\d+): loss ([\d.]+)", output)}


@pytest.mark.costly(cases=0)
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


def test_the_rank_that_failed_has_written_what_it_did_last(tmp_path):
    arguments = ("--folder", tmp_path / "saves", "--steps", 20, "--every", 50, "--fail", 5)
    with pytest.raises(AssertionError, match="rank 1 has had enough in step 5"):
        run(EXAMPLE, *arguments, ranks=2, SMEX_FLIGHT_FOLDER=str(tmp_path / "flight"))
    found = smex.diagnose(tmp_path / "flight")
    assert found.flights[1].entries
    assert found.failure["rank"] == 1 and "has had enough" in found.failure["message"]
    assert 1 not in found.missing


OVER_A_MESH = """
import os
import signal

import torch
from torch.distributed.device_mesh import init_device_mesh

import smex

torch.set_num_threads(1)
smex.init_processes()
mesh = init_device_mesh("cpu", (2, 1))
with torch.device("meta"):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
x = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
net = smex.partition(model, mesh=mesh, args=x, replicate_bytes=0)
opt = torch.optim.AdamW(net.parameters())
start = smex.latest("ckpt")
extra = smex.load(start, net, opt) if start else smex.init(net, seed=0)
for step in range((extra or {}).get("step", -1) + 1, 6):
    loss = net(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(net.parameters()), 0.1)
    opt.step()
    opt.zero_grad()
    smex.save(f"ckpt/step-{step}", net, opt, extra={"step": step})
    print(f"step {step}: loss {loss.item():.6f}", flush=True)
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and "UNDISTURBED" not in os.environ
    if step == 2 and mesh.get_rank() == 1 and first:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_with_a_mesh_survives_a_restart(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(OVER_A_MESH)
    found = []
    for name, variables in (("whole", {"UNDISTURBED": "1"}), ("disturbed", {})):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append(losses(run("--max-restarts=1", tmp_path / "train.py", ranks=2, **variables)))
    assert sorted(found[0]) == list(range(6))
    assert found[0] == found[1]
