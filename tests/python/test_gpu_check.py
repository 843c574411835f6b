"""The steps of tools/gpu_check.py, with commands of their own in place of builds and tests."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import gpu_check
import pytest
import timed_steps
from timed_steps import FAILED, LATE, NOT_RUN, PASSED, Result, Step

ROOT = Path(__file__).parents[2]
DEVICES = [{"name": "NVIDIA X", "compute_cap": "9.0", "memory.total": "1", "driver_version": "2"}]
FACTS = {"GPU": "NVIDIA X, 9.0", "torch": "2.11.0 of CUDA 13.0"}


def step(name, code, stage="tests", **options):
    return Step(name, stage, [sys.executable, "-c", code], **options)


def run(steps, folder, seconds=20.0):
    told = []
    results = timed_steps.run(steps, seconds, folder, told.append)
    assert told == results
    return {result.name: result for result in results}


def test_a_failure_does_not_stop_the_next_steps(tmp_path):
    found = run(
        [
            step("one", "print('12 passed, 1 skipped in 0.50s')"),
            step("two", "print('noise'); print('FAILED tests/x.py::y'); raise SystemExit(3)"),
            step("three", "print('fine')", stage="bench"),
        ],
        tmp_path,
    )
    assert [each.status for each in found.values()] == [PASSED, FAILED, PASSED]
    assert found["one"].outcome == "12 passed, 1 skipped in 0.50s" and not found["one"].lines
    assert found["two"].lines == ["FAILED tests/x.py::y"]
    log = (tmp_path / "tests.log").read_text()
    assert "noise" in log and "12 passed" in log and "fine" not in log
    assert "fine" in (tmp_path / "bench.log").read_text()


def test_a_failure_without_telling_lines_shows_the_last_ones(tmp_path):
    found = run([step("one", "print(*range(40), sep='\\n'); raise SystemExit(1)")], tmp_path)
    assert found["one"].lines == [str(i) for i in range(28, 40)]


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import os, sys, time; os.setpgid(0, 0); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child, sys.argv[1]])
time.sleep(600)
"""


def test_the_limit_ends_a_step_with_its_children(tmp_path, monkeypatch):
    """Also those that have left the process group, as ninja's do, and what ignores the signal."""
    monkeypatch.setattr(timed_steps, "GRACE", 0.5)
    file = tmp_path / "child"
    late = Step("late", "tests", [sys.executable, "-c", STUBBORN, str(file)], share=0.3)
    started = time.monotonic()
    found = run([late, step("next", "pass")], tmp_path, seconds=10.0)
    assert time.monotonic() - started < 8
    assert found["late"].status == LATE and found["next"].status == PASSED
    child = int(file.read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail(f"process {child} is still there")


def test_time_that_is_left_is_the_next_ones(tmp_path):
    tell = [sys.executable, "-c", "import sys; print(sys.argv[1])", "{seconds}"]
    run([Step(f"{i}", "bench", tell, share=0.5) for i in range(3)], tmp_path, seconds=100.0)
    lines = (tmp_path / "bench.log").read_text().splitlines()
    limits = [int(line) for line in lines if line.isdigit()]
    assert len(limits) == 3 and all(40 <= limit <= 45 for limit in limits)  # nine tenths of a half


def test_what_is_not_run_and_why(tmp_path):
    found = run(
        [
            step("library", "raise SystemExit(1)", stage="build"),
            step("tests", "print('wrong')", needs="library"),
            step("sanitizer", "pass", missing="compute-sanitizer is missing"),
            step("C++", "print('NOTICE: SKIPPED')", idle="SKIPPED"),
            step("alone", "pass", needs="of an earlier call"),
        ],
        tmp_path,
    )
    assert [each.status for each in found.values()] == [FAILED, NOT_RUN, NOT_RUN, NOT_RUN, PASSED]
    assert found["tests"].lines == ["library: failed"]
    assert found["sanitizer"].lines == ["compute-sanitizer is missing"]
    assert found["C++"].lines == ["NOTICE: SKIPPED"]
    assert "wrong" not in "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert run([step("late", "pass")], tmp_path, seconds=0.5)["late"].lines == ["no time was left"]


def test_the_summary_adds_up_over_calls(tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setenv("OUT", str(out))
    folder = tmp_path / "check"
    record = gpu_check.Record(folder, FACTS, ["build", "tests"])
    record.add(Result("native library", "build", PASSED, 61.0))
    record.add(Result("Python tests", "tests", FAILED, 5.0, "1 failed in 2s", ["FAILED a::b"]))
    (folder / "bench.md").write_text("| operation |\n")
    (folder / "tests.log").write_text("raw\n")
    gpu_check.Record(folder, FACTS, ["tests"]).add(Result("Python tests", "tests", PASSED, 7.0))
    text = (out / "summary.md").read_text()
    assert "| GPU | NVIDIA X, 9.0 |" in text
    assert "| build | native library | passed | 61 |" in text
    assert "| tests | Python tests | passed | 7 |" in text and "FAILED a::b" not in text
    assert "| operation |" in text and (out / "tests.log").read_text() == "raw\n"
    gpu_check.Record(folder, FACTS, ["build"]).add(Result("native library", "build", FAILED))
    assert [each["name"] for each in json.loads((folder / "state.json").read_text())] == [
        "native library"
    ]
    assert "operation" not in (folder / "summary.md").read_text()


def test_failures_are_in_the_summary():
    results = [Result("Python tests", "tests", FAILED, 5.0, "1 failed in 2s", ["FAILED a::b"])]
    text = gpu_check.summary(FACTS, results, "")
    assert "| tests | Python tests | failed | 5 | 1 failed in 2s |" in text
    assert "Python tests, failed:\n\n```\nFAILED a::b\n```" in text


def test_the_steps_are_of_files_that_exist(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    monkeypatch.setattr(gpu_check, "missing_for_build", lambda facts: "")
    steps = gpu_check.all_steps(DEVICES, FACTS, tmp_path)
    names = [each.name for each in steps]
    assert names[0] == "native library" and names[-3:] == ["memcheck", "racecheck", "initcheck"]
    assert "-DSMEX_CUDA_ARCH_LIST=9.0 " in steps[0].command[-1]
    assert {each.needs for each in steps} <= {"", *names}
    assert {each.stage for each in steps} == {*gpu_check.STAGES, ""}
    for each in steps:
        for part in each.command:
            assert not part.endswith(".py") or (ROOT / part).exists()
    assert "tests/python/kernels/test_message_cuda.py" in gpu_check.files_of_cuda_tests()


def test_what_the_build_lacks(monkeypatch):
    assert "a CUDA build" in gpu_check.missing_for_build({"torch": "2.11.0 of CUDA None"})
    monkeypatch.setattr(gpu_check, "tool", lambda name: None)
    text = gpu_check.missing_for_build({"torch": ""})
    for name in ("torch for this Python", "cmake 3.24", "nvcc"):
        assert name in text


def test_the_sanitizer_gets_a_few_tests():
    file = "tests/python/kernels/test_message_cuda.py"
    calls = [gpu_check.pytest("-k", k, "--collect-only", file) for k in gpu_check.CHOSEN.values()]
    code = f"import pytest\nfor call in {[call[3:] for call in calls]}: pytest.main(call); print('end')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    for chosen in done.stdout.split("\nend\n")[:3]:
        tests = [line for line in chosen.splitlines() if "::test_" in line]
        assert 10 <= len(tests) <= 100
        assert any("test_edge_softmax[" in line for line in tests)
        assert any("test_spmm_extremum[" in line for line in tests)


def test_without_a_gpu_it_says_so(tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path)}
    script = ROOT / "tools" / "gpu_check.py"
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout.count("\n") == 1 and "no GPU" in done.stdout
