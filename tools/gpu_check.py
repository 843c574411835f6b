"""Builds, tests and measures the CUDA kernels on a machine with a GPU, without a network.

    python3 tools/gpu_check.py [build] [tests] [bench] [sanitizer] [--minutes 10]

Without names all four, in this order:

    build      for the GPUs of this machine, in build/gpu; the library goes to python/smex, where
               `make build` puts its own again
    tests      the Python tests that need a GPU, and the C++ tests
    bench      benchmarks/graph/gpu_kernels.py and gpu_training.py
    sanitizer  some of the tests under compute-sanitizer

The interpreter is the one that this file is run with, and nothing is installed. Each step has a
time limit, after which it is ended with its children and the next one begins; what it leaves of its
time is the others'. Calls for single stages add to what is known, until the next build. All is
told in summary.md of the folder build/gpu-check, with the raw logs beside it; where the variable
OUT names a folder, both are copied there.

The exit status is 0 where every step passed, 1 where one did not, and 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import asdict, replace
from pathlib import Path

from timed_steps import PASSED, ROOT, Result, Step, run

BUILD = "build/gpu"
STAGES = ("build", "tests", "bench", "sanitizer")
RESERVE = 10.0  # seconds kept for the last summary
USABLE = """
import torch, smex
found = smex.show_config()
assert found.native, found.native_reason
assert found.cuda, found.cuda_reason
assert torch.cuda.is_available(), "torch finds no GPU"
print(f"smex {found.version} with CUDA {found.cuda} for torch {found.torch}")
"""


# ---- what the machine has ----


def gpus() -> list[dict[str, str]]:
    """Of each GPU what nvidia-smi says."""
    keys = ("name", "compute_cap", "memory.total", "driver_version")
    command = ["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = found.stdout.splitlines() if found.returncode == 0 else []
    return [dict(zip(keys, line.split(", "))) for line in lines if line.count(", ") == 3]


def tool(name: str) -> str | None:
    """A program beside the interpreter, on PATH, or of the CUDA toolkit."""
    toolkit = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda")
    places = [Path(sys.executable).parent, toolkit / "bin", toolkit / "compute-sanitizer"]
    on_path = shutil.which(name)
    beside = shutil.which(name, path=str(places[0]))
    return beside or on_path or shutil.which(name, path=os.pathsep.join(map(str, places[1:])))


def said_by(command: list[str]) -> str:
    """The last line that a command prints; empty where it fails."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip().rpartition("\n")[2] if found.returncode == 0 else ""


def machine(devices: list[dict[str, str]]) -> dict[str, str]:
    """The facts at the top of the summary."""
    torch = "import torch; print(torch.__version__, 'of CUDA', torch.version.cuda)"
    return {
        "GPU": "; ".join(", ".join(device.values()) for device in devices),
        "cores": str(os.cpu_count()),
        "Python": f"{platform.python_version()}, {sys.executable}",
        "torch": said_by([sys.executable, "-c", torch]),
        "nvcc": said_by([tool("nvcc") or "nvcc", "--version"]),
        "sources": said_by(["git", "log", "-1", "--format=%h %s"]),
    }


def has_module(name: str) -> bool:
    """Whether the interpreter has a package."""
    return importlib.util.find_spec(name) is not None


def missing_for_build(facts: dict[str, str]) -> str:
    """All that the build lacks, in one text."""
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    lacks = {
        "torch for this Python (make gpu-check PYTHON=...)": not facts["torch"],
        "a CUDA build of torch": facts["torch"].endswith("None"),
        f"Python's headers ({header}; Debian: python3-dev)": not header.exists(),
        "cmake 3.24 or later, on PATH or beside the interpreter": not tool("cmake"),
        "nvcc, on PATH or in CUDA_HOME": not tool("nvcc"),
    }
    found = "; ".join(name for name, is_so in lacks.items() if is_so)
    return f"missing: {found}" if found else ""


# ---- the steps ----

# Half precision has the widest vectors of elements; with a hub, whose rows blocks put together.
CHOSEN = {
    "memcheck": "(dtype2 and id_type0 and not min and not mean) or unaligned or empty or elements",
    "racecheck": "(softmax or spmm) and dtype0 and id_type0 and (shape2 or shapes2 or shapes8)",
    "initcheck": "(softmax or spmm) and dtype2 and id_type1 and (shape2 or shapes2 or shapes8)",
}


def pytest(*arguments: str) -> list[str]:
    """The command for tests that need a GPU."""
    limit = ["--timeout", "120"] if has_module("pytest_timeout") else []
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-m", "cuda", *limit]
    every = "--continue-on-collection-errors"
    return [sys.executable, "-m", "pytest", *options, every, *arguments]


def beside_each_other() -> list[str]:
    """pytest-xdist's option for so many processes as one GPU and this machine's cores keep busy."""
    processes = min(12, (os.cpu_count() or 1) - 2)
    return ["-n", str(processes)] if has_module("xdist") and processes > 1 else []


def in_turn(*commands: list[str]) -> list[str]:
    """One command that runs several, up to the first that fails."""
    return ["sh", "-c", " && ".join(map(shlex.join, commands))]


def files_of_cuda_tests() -> list[str]:
    """Only these are collected: others may want packages that are not there."""
    tests = sorted((ROOT / "tests" / "python").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in tests if "mark.cuda" in path.read_text()]


def sanitizer(kind: str, environment: dict[str, str], no_pytest: str) -> Step:
    """Tests of message passing under one of compute-sanitizer's tools, our own kernels watched."""
    program = tool("compute-sanitizer")
    missing = "" if program else "compute-sanitizer is missing: it is a part of the CUDA toolkit"
    # What other kernels write counts as written only where these are watched too.
    ours = [] if kind == "initcheck" else ["--kernel-name", "kns=smex"]
    options = ["--tool", kind, *ours, "--error-exitcode", "9"]
    tests = pytest("-k", CHOSEN[kind], "tests/python/kernels/test_message_cuda.py")
    command = [program or "", *options, "--print-limit", "20", *tests]
    # Each tensor in memory of its own, so that an access beside it is seen.
    alone = {**environment, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    missing = no_pytest or missing
    return Step(kind, "sanitizer", command, needs="import", missing=missing, environment=alone)


def all_steps(devices: list[dict[str, str]], facts: dict[str, str], folder: Path) -> list[Step]:
    """In the order of their value, should time be short."""
    python, cmake = sys.executable, tool("cmake") or "cmake"
    jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
    archs = ";".join(sorted({device["compute_cap"] for device in devices}))
    ninja = tool("ninja")
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CUDA_FLAGS": "-lineinfo",  # for compute-sanitizer
        "Python_EXECUTABLE": python,
        "SMEX_CUDA": "ON",
        "SMEX_CUDA_ARCH_LIST": os.environ.get("TORCH_CUDA_ARCH_LIST") or archs,
        "SMEX_DOWNLOADS": "OFF",
        "SMEX_PYTHON_OUTPUT_DIR": str(ROOT / "python" / "smex"),
        "SMEX_TESTS": "ON",
        **({"CMAKE_MAKE_PROGRAM": ninja} if ninja else {}),
    }
    configure = [cmake, "--fresh", "-S", ".", "-B", BUILD, *(["-G", "Ninja"] if ninja else [])]
    configure += [f"-D{name}={value}" for name, value in settings.items()]
    build = [cmake, "--build", BUILD, "-j", jobs, "--target"]
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    running = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    no_pytest = "" if has_module("pytest") else f"pytest is missing for {python}"
    ctest = [str(Path(cmake).with_name("ctest")), "--test-dir", BUILD, "-j", jobs]
    ctest += ["--output-on-failure", "--timeout", "120"]
    bench = [python, "benchmarks/graph/gpu_kernels.py", "--seconds", "{seconds}"]
    return [
        Step(
            name="native library",
            stage="build",
            command=in_turn(configure, [*build, "smex_python"]),
            share=0.95,
            missing=missing_for_build(facts),
            environment={"CUDACXX": os.environ.get("CUDACXX") or tool("nvcc") or "nvcc"},
        ),
        Step(
            name="import",
            stage="",  # the first of a call
            command=[python, "-c", USABLE],
            needs="native library",
            environment=running,
        ),
        Step(
            name="Python tests",
            stage="tests",
            command=pytest(*beside_each_other(), *files_of_cuda_tests()),
            needs="import",
            missing=no_pytest,
            environment={**running, "OMP_NUM_THREADS": "1"},
        ),
        Step(
            name="C++ tests",
            stage="tests",
            command=in_turn([*build, "smex_cpp_tests"], ctest),
            idle="C++ unit tests are SKIPPED",
        ),
        Step(
            name="kernels",
            stage="bench",
            command=[*bench, "--markdown", str(folder / "bench.md")],
            needs="import",
            environment=running,
        ),
        Step(
            name="epochs",
            stage="bench",
            command=[python, "benchmarks/graph/gpu_training.py", "--rounds", "2"],
            needs="import",
            environment=running,
        ),
        *(sanitizer(kind, running, no_pytest) for kind in CHOSEN),
    ]


# ---- the summary ----


def summary(facts: dict[str, str], results: list[Result], bench: str) -> str:
    """The page in Markdown."""
    lines = ["# GPU check", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value or 'unknown'} |" for name, value in facts.items()]
    lines += ["", "| stage | step | status | seconds | |", "|---|---|---|---:|---|"]
    for one in results:
        cells = [one.stage, one.name, one.status, f"{one.seconds:.0f}", one.outcome]
        lines.append(f"| {' | '.join(cells)} |")
    for one in results:
        if one.lines:
            lines += ["", f"{one.name}, {one.status}:", "", "```", *one.lines, "```"]
    return "\n".join([*lines, "", bench])


class Record:
    """What is known, in a folder: state.json, summary.md and the logs."""

    def __init__(self, folder: Path, facts: dict[str, str], stages: list[str]) -> None:
        self.folder, self.facts = folder, facts
        folder.mkdir(parents=True, exist_ok=True)
        self.state = folder / "state.json"
        kept = json.loads(self.state.read_text()) if self.state.exists() else []
        anew = set(STAGES if "build" in stages else stages)
        self.results = [Result(**each) for each in kept if each["stage"] not in anew]
        if "bench" in anew:
            (folder / "bench.md").unlink(missing_ok=True)

    def add(self, result: Result) -> None:
        """Prints a result and writes everything anew."""
        told = f" ({result.outcome})" if result.outcome else ""
        print(f"{result.name}: {result.status} in {result.seconds:.0f} s{told}", flush=True)
        for line in result.lines:
            print(f"  {line}", flush=True)
        self.results.append(result)
        self.results.sort(key=lambda one: STAGES.index(one.stage))
        self.state.write_text(json.dumps([asdict(one) for one in self.results], indent=1))
        bench = self.folder / "bench.md"
        text = summary(self.facts, self.results, bench.read_text() if bench.exists() else "")
        (self.folder / "summary.md").write_text(text)
        if out := os.environ.get("OUT"):
            Path(out).mkdir(parents=True, exist_ok=True)
            for path in [*self.folder.glob("*.md"), *self.folder.glob("*.log")]:
                shutil.copy(path, out)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stages", nargs="*", help=f"of {', '.join(STAGES)}; all without any")
    parser.add_argument("--minutes", type=float, default=10, help="for all together")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "gpu-check")
    options = parser.parse_args()
    if unknown := set(options.stages) - set(STAGES):
        parser.error(f"there is no stage {', '.join(sorted(unknown))}, only {', '.join(STAGES)}")
    started = time.monotonic()
    stages = [stage for stage in STAGES if stage in (options.stages or STAGES)]
    devices = gpus()
    if not devices:
        print("This machine has no GPU, as far as nvidia-smi tells: nothing was checked.")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the step that runs, too
    facts = machine(devices)
    record = Record(options.folder.resolve(), facts, stages)
    steps = [
        replace(step, stage=step.stage or stages[0])
        for step in all_steps(devices, facts, record.folder)
        if not step.stage or step.stage in stages
    ]
    seconds = 60 * options.minutes - RESERVE - (time.monotonic() - started)
    results = run(steps, seconds, record.folder, record.add)
    print(f"\n{record.folder / 'summary.md'}")
    return 0 if all(one.status == PASSED for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
