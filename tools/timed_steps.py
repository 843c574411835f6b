"""Commands that are run one after the other, each with a time limit, and what came of them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PASSED, FAILED, LATE, NOT_RUN = "passed", "failed", "out of time", "not run"
GRACE = 5.0  # seconds in which processes that were asked to end may do so
MOST_LINES = 12  # of a failure, in the summary
TELLING = re.compile(
    r"^(FAILED|ERROR|E  |CMake Error|\[  FAILED|DIFFERS|NOTICE"
    r"|========= +(Invalid|Error|Uninit|Warning|Potential|Program hit|.*hazard)"
    r"|.*\berror:|.*(Error|Exception): )"
)
OUTCOME = re.compile(
    r"\d+ (?:passed|failed|skipped|deselected|error).* in [\d.]+s|\d+% tests passed.*"
    r"|(?:ERROR|RACECHECK) SUMMARY: .*|\d+ cases measured.*|smex \S+ with .*"
)


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        share: of the time that is left when it begins, its limit. "{seconds}" in the command is
            replaced by nine tenths of it.
        needs: the step that has to have passed before.
        missing: what the machine lacks for it, and what to do; empty where nothing.
        idle: what the command prints when it has had nothing to do.
    """

    name: str
    stage: str
    command: list[str]
    share: float = 0.5
    needs: str = ""
    missing: str = ""
    idle: str = ""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Result:
    """What came of a step; of a failure also the lines that tell the most."""

    name: str
    stage: str
    status: str
    seconds: float = 0.0
    outcome: str = ""
    lines: list[str] = field(default_factory=list)


def of_session(session: int) -> list[int]:
    """The processes of a session that are alive: ninja, for one, gives each child its own group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def end(process: subprocess.Popen) -> None:
    """Ends a process that leads a session, and all others of it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE
        for pid in of_session(process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        while of_session(process.pid) and time.monotonic() < until:
            process.poll()
            time.sleep(0.05)
    process.wait()


def run_step(step: Step, limit: float, log: Path) -> Result:
    """Runs a command for `limit` seconds at most, its output at the end of `log`."""
    result = Result(step.name, step.stage, NOT_RUN)
    if step.missing:
        result.lines = [step.missing]
        return result
    command = [part.replace("{seconds}", str(int(0.9 * limit))) for part in step.command]
    started = time.monotonic()
    with log.open("a+", errors="replace") as output:
        output.write(f"\n$ {shlex.join(command)}\n")
        output.flush()
        begin = output.tell()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
            result.status = PASSED if code == 0 else FAILED
        except subprocess.TimeoutExpired:
            result.status = LATE
        finally:
            end(process)
        output.seek(begin)
        text = output.read()
    result.seconds = time.monotonic() - started
    if result.status == PASSED and step.idle and step.idle in text:
        result.status = NOT_RUN
    result.outcome = ["", *OUTCOME.findall(text)][-1]
    if result.status != PASSED:
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        telling = [line for line in lines if TELLING.match(line)]
        result.lines = (telling or lines[-MOST_LINES:])[:MOST_LINES]
    return result


def run(
    steps: list[Step], seconds: float, folder: Path, tell: Callable[[Result], None]
) -> list[Result]:
    """Runs the steps one after the other; `tell` hears of each result at once."""
    deadline = time.monotonic() + seconds
    results: dict[str, Result] = {}
    for stage in {step.stage for step in steps}:
        (folder / f"{stage}.log").unlink(missing_ok=True)
    for step in steps:
        needed = results.get(step.needs)
        limit = step.share * (deadline - time.monotonic())
        if needed is not None and needed.status != PASSED:
            result = Result(
                step.name, step.stage, NOT_RUN, lines=[f"{needed.name}: {needed.status}"]
            )
        elif limit < 1:
            result = Result(step.name, step.stage, NOT_RUN, lines=["no time was left"])
        else:
            print(f"{step.name}: at most {limit:.0f} s", flush=True)
            result = run_step(step, limit, folder / f"{step.stage}.log")
        results[step.name] = result
        tell(result)
    return list(results.values())
