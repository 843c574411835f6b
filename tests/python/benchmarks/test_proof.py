"""The proof of Specs by execution: recorded calls, brute force, and wrong Specs and strategies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from proof import brute_force, field, harness, mutations
from proof.extremes import extremes

from smex import specs, tdl
from smex.specs import oracle
from smex.specs.strategies import OperatorCall

SPECS = Path(__file__).parents[3] / "benchmarks" / "specs"
MM = torch.ops.aten.mm.default


def matrices():
    return torch.rand(5, 7, dtype=torch.float64), torch.rand(7, 3, dtype=torch.float64)


def test_wrong_specs_and_strategies_are_rejected():
    tried, surviving = mutations.survivors(OperatorCall(MM, matrices()))
    assert tried > 5 and surviving == []
    with tdl.registered("aten::mm", lambda a, b: lambda i, j: tdl.Sum(lambda k: a[i, k] * 1)):
        assert mutations.survivors(OperatorCall(MM, matrices()))[0] > 0


def test_mutants_say_what_was_changed():
    spec = "index i=3, k=4 input [3,4] [i] = sum{k}(#0[i, k])"
    assert {what for what, _ in mutations.spec_mutants(spec)} == {
        "an offset by one",
        "two indices exchanged",
        "another reduction",
    }


def test_brute_force_finds_what_a_product_allows():
    call = oracle.Call(matrices(), {})
    cuts = brute_force.valid_cuts(MM, call)
    assert cuts == {((0, None), (0,)), ((None, 1), (1,)), ((1, 0), ("sum",))}
    assert cuts == {brute_force.cuts_of(MM, call, s) for s in specs.strategies(MM, call.args, k=2)}


# ---- the field ----


def record(names, folder):
    """In a process where no test has run a backward pass before."""
    pytest.importorskip("expecttest", reason="OpInfo needs expecttest")
    code = (
        "from pathlib import Path; from proof import field; "
        f"field.save(field.record({names}), Path({str(folder)!r}))"
    )
    path = os.pathsep.join([str(SPECS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)


def test_recorded_calls_are_verified(tmp_path):
    record({"mm", "nn.functional.conv2d", "sum", "index_select"}, tmp_path)
    overloads = field.overloads(tmp_path)
    assert {"aten::mm", "aten::convolution", "aten::convolution_backward"} <= set(overloads)
    findings = harness.verify_all(tmp_path, overloads)
    assert [f.overload for f in findings] == overloads
    for finding in findings:
        assert not finding.wrong and not finding.error and not finding.survivors, finding
        assert finding.split >= 0.9 * finding.splittable, finding
    assert sum(finding.mutants for finding in findings) > 100
    table = harness.summary(findings)
    assert f"| {len(findings)} | {len(findings)} | 100.00% |" in table


def test_a_crash_is_a_finding(tmp_path, monkeypatch):
    recorder = field.Recorder()
    with recorder:
        torch.mm(*matrices())
    field.save(recorder, tmp_path)
    monkeypatch.setattr(harness, "verify_overload", lambda *_, **__: os._exit(3))
    (finding,) = harness.verify_all(tmp_path, ["aten::mm"])
    assert finding.error == "its process ended with status 3"


def test_samples_are_made_of_other_sizes_too(tmp_path):
    record({"mm"}, tmp_path)
    calls = field.load(tmp_path, "aten::mm")
    shapes = {
        sizes: {c.args[0].shape[0] for c in calls if c.sizes == sizes} for sizes in field.SIZES
    }
    assert 5 in shapes["odd"] and 4 in shapes["even"] and 0 in shapes["none"]
    from torch.testing._internal.opinfo import core

    assert core.S == 5, "the sizes of the library are as they were"


def test_drawn_calls_reach_operators_with_windows():
    drawn = [function.__name__ for seed in range(3) for function, _, _ in extremes(seed)]
    assert {"conv2d", "conv_transpose3d", "avg_pool1d", "unfold", "fold", "softmax"} <= set(drawn)
    again = [function.__name__ for seed in range(3) for function, _, _ in extremes(seed)]
    assert drawn == again


# ---- the command line ----


def test_the_command_says_what_is_wrong():
    command = [sys.executable, str(SPECS / "verify.py"), "aten::nope"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and 'there is no operator "aten::nope"' in done.stderr
    assert "Traceback" not in done.stderr
