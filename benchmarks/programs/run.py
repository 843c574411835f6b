"""Runs DGL's own example programs on smex.graph, and tells which run as they stand.

    python benchmarks/peers/environments.py programs
    git clone --depth 1 --branch v2.1.0 https://github.com/dmlc/dgl
    python benchmarks/programs/run.py dgl [PATTERN ...] [--jobs 1] [--timeout 600]
        [--results FILE] [--page docs/from_dgl.md]

lists/*.toml name the programs by their paths in that checkout, with the arguments of a short
run, the data that they read and, where a program does not run as it stands, what is changed in a
copy and why. Each program runs in a folder of its own as

    python -m smex.graph.run PROGRAM ARGUMENTS

without a GPU. Data sets are taken from $SMEX_DATA where they are there; others are random numbers
in files of their published formats (synthetic.py). Programs have run when they end without an
error, or when they print what `until` of its entry asks for, which programs have whose number of
epochs is no argument. `python -m smex.graph.migrate` is asked about each program too: it agrees
when it misses a name exactly in those that stop because of one.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import tomllib

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "peers"), str(ROOT / "tests" / "python")]

import environments  # noqa: E402 (the folder has just been added)
import synthetic  # noqa: E402

BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
# What ends a program that smex.graph lacks something for.
LACKING = re.compile(r"(smex\.graph|module 'dgl|name '?dgl|from 'dgl|No module named 'dgl|\bsg\.)")


class Program(NamedTuple):
    """A program of the list."""

    path: str
    arguments: str = ""
    data: tuple[str, ...] = ()  # names of synthetic.py
    folder: str = ""  # what is copied, from the checkout's root; else the program's own folder
    before: tuple[str, ...] = ()  # commands that run first, "python" is smex.graph.run
    until: str = ""  # a regular expression: the program has run when a line matches
    changes: tuple[tuple[str, str, str], ...] = ()  # file in the folder, text, text in its place
    because: str = ""  # why it is changed
    apart: str = ""  # why it is not judged: what it needs that is nowhere
    module: bool = False  # run as a module, from the folder's root
    launch: str = "python"  # "torchrun" starts two ranks
    accuracy: str = ""  # a regular expression whose last match has a number: the accuracy
    published: float = 0.0  # what the program's own page says of it

    @property
    def root(self) -> str:
        return self.folder or str(pathlib.PurePosixPath(self.path).parent)

    @property
    def inside(self) -> str:
        """The program's path in the folder that is copied."""
        path = pathlib.PurePosixPath(self.path).relative_to(self.root)
        return str(path.with_suffix(".py"))


class Options(NamedTuple):
    """How programs are run."""

    checkout: pathlib.Path
    timeout: float  # seconds for a program and those before it
    data: pathlib.Path  # where data that was written is kept


class Result(NamedTuple):
    """What became of a program."""

    path: str
    outcome: str  # "unchanged", "changed", "stopped" or "apart"
    seconds: float
    why: str  # of changes, the error that stopped it, or why it is not judged
    lines: int  # that were changed
    missing: tuple[str, ...]  # names that smex.graph.migrate finds not to be there
    tail: str  # the end of what it printed
    accuracy: float | None = None
    published: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether migrate's answer is what happened."""
        lacks_a_name = self.outcome == "stopped" and bool(LACKING.search(self.why))
        return self.outcome == "apart" or bool(self.missing) == lacks_a_name


def programs() -> list[Program]:
    """The programs of the lists, by their paths."""
    found: dict[str, Program] = {}
    for path in sorted((HERE / "lists").glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["program"]:
            unknown = entry.keys() - set(Program._fields)
            if unknown or entry["path"] in found:
                what = f"unknown keys {sorted(unknown)}" if unknown else "an entry already"
                raise SystemExit(f"{path.name}: {entry['path']} has {what}")
            for key in ("data", "before"):
                entry[key] = tuple(entry.get(key, ()))
            entry["changes"] = tuple(map(tuple, entry.get("changes", ())))
            found[entry["path"]] = Program(**entry)
    return [found[path] for path in sorted(found)]


def run_program(program: Program, options: Options) -> Result:
    """Runs one program of the list in a copy of its folder."""
    checkout = options.checkout
    if not (checkout / program.path).exists():
        raise SystemExit(f'{checkout} has no file "{program.path}": is it DGL v2.1.0?')
    with tempfile.TemporaryDirectory(prefix="program") as name:
        work = pathlib.Path(name) / pathlib.PurePosixPath(program.root).name
        shutil.copytree(checkout / program.root, work, symlinks=True)
        for notebook in work.rglob("*.ipynb"):
            _convert(notebook)
        lines = _change(program, work)
        missing = _missing(work / program.inside)
        if program.apart:
            return Result(program.path, "apart", 0.0, program.apart, 0, missing, "")
        try:
            environment = _environment(program, work, options)
        except subprocess.CalledProcessError as error:
            why = f"its data cannot be written: {error}"
            return Result(program.path, "stopped", 0.0, why, lines, missing, "")
        started = time.monotonic()
        commands = [*program.before, _command(program)]
        deadline = started + options.timeout
        for command in commands:
            until = program.until if command is commands[-1] else ""
            why, text = _outcome(command, work, environment, until, deadline)
            if why:
                break
        seconds = time.monotonic() - started
    outcome = "stopped" if why else "changed" if program.changes else "unchanged"
    tail = "\n".join(text.splitlines()[-60:])
    shown = re.findall(program.accuracy, text, re.M) if program.accuracy else []
    return Result(
        program.path,
        outcome,
        seconds,
        why or program.because,
        lines,
        missing,
        tail,
        float(shown[-1]) if shown else None,
        program.published,
    )


def _convert(notebook: pathlib.Path) -> None:
    """Writes the cells of a notebook as a program beside it."""
    from smex.graph.migration.programs import without_magics

    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    notebook.with_suffix(".py").write_text("\n\n".join(map(without_magics, code)) + "\n")


def _change(program: Program, work: pathlib.Path) -> int:
    """Changes the copy of a program; returns how many lines."""
    lines = 0
    for name, old, new in program.changes:
        path = work / name
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"lists: {program.path}: {name} has no {old!r}")
        lines += text.count(old) * max(old.count("\n"), new.count("\n"), 1)
        path.write_text(text.replace(old, new))
    return lines


def _command(program: Program) -> str:
    if program.launch == "torchrun":
        return f"torchrun {program.inside} {program.arguments}"
    if program.module:
        module = program.inside.removesuffix(".py").replace("/", ".")
        return f"python -m {module} {program.arguments}"
    return f"python {program.inside} {program.arguments}"


def _environment(program: Program, work: pathlib.Path, options: Options) -> dict[str, str]:
    """Makes the data that a program reads; returns its environment."""
    home = work.parent / "home"
    home.mkdir()
    for name in program.data:
        synthetic.provide(name, work, home, options.data)
    return os.environ | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "CUDA_VISIBLE_DEVICES": "",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(HERE / "offline")]),
        "SMEX_DOWNLOADS": str(home / "downloads"),
        # ogb keeps graphs as pickles, which torch.load refuses by default since 2.6.
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
    }


def _outcome(
    command: str, work: pathlib.Path, environment: dict[str, str], until: str, deadline: float
) -> tuple[str, str]:
    """Runs a command; returns why it failed, nothing if it did not, and what it printed."""
    first, *rest = shlex.split(command)
    python = str(environments.interpreter("programs"))
    if first == "python":
        arguments = [python, "-u", "-m", "smex.graph.run", *rest]
    elif first == "torchrun":
        ranks = ["--standalone", "--nproc-per-node", "2"]
        arguments = [python, "-m", "torch.distributed.run", *ranks, "-m", "smex.graph.run", *rest]
    else:
        arguments = [first, *rest]
    pattern = re.compile(until) if until else None
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            arguments,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def printed() -> str:
            # The position is the file's, shared with the program that writes: it is not moved.
            return os.pread(output.fileno(), 1 << 26, 0).decode(errors="replace")

        try:
            while process.poll() is None:
                time.sleep(0.2)
                if pattern and pattern.search(printed()):
                    return "", printed()
                if time.monotonic() > deadline:
                    return "it does not end in time", printed()
        finally:
            _end(process)
        text = printed()
    if process.returncode == 0 or (pattern and pattern.search(text)):
        return "", text
    return _last_error(text) or f"status {process.returncode}", text


def _end(process: subprocess.Popen) -> None:
    """Ends a program and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_error(text: str) -> str:
    """The last line of what was printed that looks like an exception's."""
    named = r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b.*"
    errors = re.findall(rf"^(?:\[rank\d+\]: )?({named})$", text, re.M)
    errors = [error for error in errors if "ChildFailedError" not in error]  # torchrun's own
    lines = text.strip().splitlines()
    return (errors or lines or [""])[-1][:300]


def _missing(path: pathlib.Path) -> tuple[str, ...]:
    """The names in a program and its own modules that smex.graph.migrate does not find."""
    from smex.graph import migrate

    found = [use for file in _modules(path) for use in migrate.uses(file.read_text(), str(file))]
    return tuple(sorted({use.name for use in found if not use.found}))


def _modules(path: pathlib.Path) -> list[pathlib.Path]:
    """A program and the modules that it imports from its own folder and those beside it."""
    found, waiting = [], [path]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.append(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = [node.module] if node.module else []
                names = start + [".".join([*start, alias.name]) for alias in node.names]
            else:
                continue
            for name in names:
                inner = name.replace(".", "/")
                for folder in (path.parent, file.parent, file.parent.parent):
                    waiting += [
                        other
                        for other in (folder / f"{inner}.py", folder / inner / "__init__.py")
                        if other.exists()
                    ]
    return found


def summary(results: Sequence[Result], listed: int) -> str:
    """The results as Markdown; `listed` programs are on the lists."""
    counts = Counter(result.outcome for result in results)
    judged = len(results) - counts["apart"]
    rows = ["| programs | number | share |", "|---|---|---|"]
    for outcome, words in (
        ("unchanged", "run as they stand"),
        ("changed", "run after the changes below"),
        ("stopped", "stop"),
    ):
        share = counts[outcome] / max(judged, 1)
        rows.append(f"| {words} | {counts[outcome]} | {share:.0%} |")
    rows.append(f"| not judged | {counts['apart']} | |")
    if listed > len(results):
        rows.append(f"| listed, not run for this table | {listed - len(results)} | |")
    agreeing = sum(result.agrees for result in results if result.outcome != "apart")
    parts = ["\n".join(rows)]
    parts.append(f"`python -m smex.graph.migrate` agrees on {agreeing} of {judged}.")
    for outcome, title in (
        ("changed", "after changes | lines | because"),
        ("stopped", "stops | because"),
        ("apart", "not judged | because"),
    ):
        chosen = [r for r in results if r.outcome == outcome]
        if not chosen:
            continue
        columns = title.count("|") + 1
        table = [f"| {title} |", "|---" * columns + "|"]
        for result in chosen:
            cells = [f"`{_short(result.path)}`"]
            cells += [str(result.lines)] if outcome == "changed" else []
            why = result.why.replace("|", "\\|")
            table.append("| " + " | ".join([*cells, why]) + " |")
        parts.append("\n".join(table))
    table = ["| accuracy of | here | published |", "|---|---|---|"]
    for result in results:
        if result.accuracy is not None:
            published = _per_cent(result.published) if result.published else ""
            table.append(
                f"| `{_short(result.path)}` | {_per_cent(result.accuracy)} | {published} |"
            )
    if len(table) > 2:
        parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"


def _per_cent(value: float) -> str:
    """A number as per cent; some programs print shares."""
    return f"{100 * value if value <= 1 else value:.1f} %"


def _short(path: str) -> str:
    return path.removeprefix("examples/").removeprefix("pytorch/")


def write_page(page: pathlib.Path, text: str) -> None:
    """Puts the results between the marks of a page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path, help="of DGL v2.1.0")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="programs; all")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a program")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build" / "published")
    parser.add_argument("--results", type=pathlib.Path, help="JSON of results, which is kept up")
    parser.add_argument("--page", type=pathlib.Path, help="whose table is written anew")
    options = parser.parse_args()
    if environments.interpreter("programs") is None:
        parser.error("first: python benchmarks/peers/environments.py programs")
    chosen = [
        program
        for program in programs()
        if not options.patterns
        or any(fnmatch.fnmatch(program.path, f"*{pattern}*") for pattern in options.patterns)
    ]
    how = Options(options.checkout, options.timeout, options.data)
    results: dict[str, Result] = {}
    if options.results and options.results.exists():
        for entry in json.loads(options.results.read_text()):
            results[entry["path"]] = Result(**entry | {"missing": tuple(entry["missing"])})
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run_program, program, how) for program in chosen]
        for number, future in enumerate(concurrent.futures.as_completed(futures), 1):
            result = future.result()
            results[result.path] = result
            print(
                f"{number:4} of {len(chosen)}  {result.outcome:9} {result.seconds:6.1f} s  "
                f"{result.path}  {result.why}{'' if result.agrees else '  MIGRATE DISAGREES'}",
                flush=True,
            )
            if options.results:
                _save(options.results, results)
    order = [results[p.path] for p in programs() if p.path in results]
    print("\n" + summary(order, len(programs())))
    if options.page:
        write_page(options.page, summary(order, len(programs())))


def _save(path: pathlib.Path, results: dict[str, Any]) -> None:
    path.write_text(json.dumps([r._asdict() for r in results.values()], indent=1))


if __name__ == "__main__":
    main()
