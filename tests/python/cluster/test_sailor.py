"""benchmarks/cluster: pipelines.py, iterations.py and sailor.py, beside times that are known in closed form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from iterations import Predictor
from pipelines import Stage, add_pipeline, instructions

import smex
from smex.cluster import Tasks

ROOT = Path(__file__).parents[3]
F, B, A, G = 2.0, 5.0, 0.25, 0.5


def scheduled(stages, micro_batches, **sends):
    tasks = Tasks()
    order = add_pipeline(tasks, [Stage(F, B, **sends)] * stages, micro_batches)
    return tasks.schedule(order)


def alternating(warm, micro_batches):
    """Passes of a stage that begins with a number of forward ones (1F1B)."""
    passes = [("forward", i) for i in range(warm)]
    for i in range(micro_batches):
        passes += [("forward", warm + i)] if warm + i < micro_batches else []
        passes.append(("backward", i))
    return passes


@pytest.mark.parametrize("stages", range(1, 7))
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 5, 9])
def test_each_stage_alternates_after_its_warm_up(stages, micro_batches):
    done = list(instructions(stages, micro_batches))
    for stage in range(stages):
        passes = [(what, i) for what, s, i in done if s == stage and what.endswith("ward")]
        assert passes == alternating(min(stages - stage - 1, micro_batches), micro_batches)
    assert len(done) == len(set(done)) == micro_batches * (4 * stages - 2)


@pytest.mark.parametrize("stages", range(1, 7))
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 9])
def test_pipelines_of_equal_stages_take_what_is_known(stages, micro_batches):
    makespan = scheduled(stages, micro_batches).makespan
    assert makespan == (micro_batches + stages - 1) * (F + B)


@pytest.mark.parametrize("stages", range(1, 7))
def test_one_micro_batch_is_sent_along_all_stages_and_back(stages):
    makespan = scheduled(stages, 1, activation=A, gradient=G).makespan
    assert makespan == stages * (F + B) + (stages - 1) * (A + G)


@pytest.mark.parametrize("micro_batches", [1, 2, 7])
def test_two_stages_exchange_each_micro_batch_at_both_ends(micro_batches):
    schedule = scheduled(2, micro_batches, activation=A, gradient=G)
    assert schedule.makespan == (micro_batches + 1) * (F + B) + micro_batches * (A + G)
    assert set(schedule.busy().values()) == {micro_batches * (F + B + A + G)}


def test_receivers_may_be_free():
    tasks = Tasks()
    stages = [Stage(F, B, A, G)] * 2
    order = add_pipeline(tasks, stages, 3, replica=4, blocks_receivers=False)
    assert tasks.schedule(order).busy() == {(4, 0): 3 * (F + B + A), (4, 1): 3 * (F + B + G)}


PARAMETERS = {"embedding": 40e6, "first_block": 10e6, "block": 10e6, "last": 20e6}
TIMES = {"embedding": [1, 2], "first_block": [3, 4], "block": [3, 4], "last": [5, 7]}
FLOWS = {"1": {"coefficients": [0, 0, 0.5]}, "2": {"coefficients": [0, 0, 1]}}


def files():
    """Three layers and a last one on GPUs of one kind, with links of 1 GB/s for two flows."""
    sizes = {k: {"params_floats": n, "act_mem_floats": n / 10} for k, n in PARAMETERS.items()}
    profile = {**TIMES, "optimizer_step": 0.8}
    return {
        "links": {"inter_node": {"x>x": FLOWS, "RTX-3090>RTX-3090": {
            "2": {"coefficients": [0, 0, 0.1]}
        }}, "intra_node": {"x": {"2": {"coefficients": [0, 0, 2]}}}},
        "profiles": {"models": {"toy": {"layers": 4, "gpus": {"x": {"1": {"2": profile}}}}}},
        "memory": {
            "models": {"toy": {"2": sizes}},
            "hidden_size": {"toy": 1000},
            "sequence_length": 1000,
        },
    }  # fmt: skip


def toy(replicas, micro_batches, **changed):
    stages = [{"layers": layers, "replicas": [["x", 2]] * replicas} for layers in ([0, 1], [2, 3])]
    plan = {"pipeline": 2, "data": replicas, "micro_batch": 1, "micro_batches": micro_batches}
    return {"model": "toy", "devices": {"x": 8}, "plan": {**plan, "stages": stages}, **changed}


def test_a_predicted_iteration_is_the_sum_of_its_parts():
    found = Predictor(files(), toy(replicas=3, micro_batches=1)).iteration()
    passes = 4 + 6 + 8 + 11
    hidden = 4e-3  # GB, sent by two flows and gathered in the node in one step of a ring
    moved = 2 * (hidden / 1 + hidden / 2)
    ring = 2 * 2 * 2 * (4 * 50e6 / 3) / 1e9  # 2 (d - 1) steps of two ranks' shards
    step = 0.8 * 50 / 80
    assert found.reduce_seconds == pytest.approx(ring)
    assert found.seconds == pytest.approx(passes + moved + ring + step)


def test_a_replay_has_no_gathers():
    found = Predictor(files(), toy(1, 1), is_replay=True).iteration()
    assert found.seconds == pytest.approx(29 + 2 * 4e-3 + 0.8 * 50 / 80)
    assert found.reduce_seconds == 0


def test_jobs_with_a_3090_have_its_network():
    case = toy(1, 1, devices={"x": 8, "RTX-3090": 8})
    found = Predictor(files(), case, is_replay=True).iteration()
    assert found.seconds == pytest.approx(29 + 2 * 4e-3 / 0.1 + 0.8 * 50 / 80)


@pytest.mark.parametrize(("micro_batches", "alive"), [(1, 1), (2, 2), (9, 2)])
def test_no_more_micro_batches_are_alive_than_there_are(micro_batches, alive):
    found = Predictor(files(), toy(1, micro_batches)).iteration()
    assert found.peak_bytes == pytest.approx(24 * 50e6 + 4 * alive * 5e6 + 5.06e9)


def test_without_the_data_nothing_is_predicted(tmp_path):
    script = ROOT / "benchmarks" / "cluster" / "sailor.py"
    environment = {**os.environ, "PYTHONPATH": str(Path(smex.__file__).parents[1])}
    command = [sys.executable, script, "--data", tmp_path / "none"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("there is no") and "pass --data" in done.stdout
