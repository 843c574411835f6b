"""Writes python/smex/_C/*.pyi, the types of the native library, from what was built.

    python tools/stubs.py [--check]

pybind11-stubgen reads signatures from the docstrings that pybind11 makes; here they are put into
the words that callers use. `--check` compares with the files and writes nothing; exit status 1
where they differ.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
STUBS = ROOT / "python" / "smex" / "_C"
HEAD = "# Made by `make stubs` from what csrc/bindings declares.\n"

# What pybind11 converts to a number, in the type that callers have.
WORDS = (
    (r"typing\.SupportsInt \| typing\.SupportsIndex", "int"),
    (r"typing\.SupportsFloat \| typing\.SupportsIndex", "float"),
    (r"(\w+): (\w+) = None\b", r"\1: \2 | None = None"),
)


def generated() -> dict[str, str]:
    """The text of each stub file, by its name below `_C`."""
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: torch first, whose libraries smex._C needs.
        code = (
            "import sys, torch; from pybind11_stubgen import main; "
            f"main(['smex._C', '--output-dir', {folder!r}, '--ignore-all-errors'])"
        )
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        made = pathlib.Path(folder) / "smex" / "_C"
        return {path.name: worded(path.read_text()) for path in sorted(made.glob("*.pyi"))}


def worded(text: str) -> str:
    """A stub in callers' words and the project's format."""
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "_C.pyi", "-"]
    done = subprocess.run(
        command, input=HEAD + text, check=True, capture_output=True, text=True, cwd=ROOT
    )
    return done.stdout


def main() -> int:
    """Writes or compares the stubs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    found = generated()
    known = {path.name: path.read_text() for path in STUBS.glob("*.pyi")}
    if found == known:
        return 0
    if check:
        differing = sorted(n for n in {*found, *known} if found.get(n) != known.get(n))
        print(f"{STUBS.relative_to(ROOT)}: {', '.join(differing)} differ from what was built; run")
        print("  make stubs")
        return 1
    STUBS.mkdir(exist_ok=True)
    for name in {*known} - {*found}:
        (STUBS / name).unlink()
    for name, text in found.items():
        (STUBS / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
