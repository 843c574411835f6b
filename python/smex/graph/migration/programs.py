"""Programs in files, folders and notebooks, as syntax trees."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from smex.errors import SmexValueError

__all__ = ["UserProgram", "programs_in", "read"]

NOTEBOOK = ".ipynb"
_SKIPPED = {".ipynb_checkpoints", "__pycache__"}
# Magics of IPython behind which Python stands; behind others there is something else.
_TIMED = ("capture", "prun", "time", "timeit")
_LINE_MAGIC = re.compile(r"^(?P<indent>\s*)(?P<target>[\w.,\s]+=\s*)?(?P<kind>[%!])(?P<rest>.*)$")
_HELP = re.compile(r"^\s*\?{1,2}\S.*$|^\s*[\w.*]+\?{1,2}\s*$")


class UserProgram(NamedTuple):
    """The parts of a program, each with the name that it goes by; they share their variables.

    ``unread`` tells of the parts that could not be read.
    """

    parts: list[tuple[str, ast.Module]]
    unread: list[str]


def programs_in(paths: Iterable[str]) -> Iterator[Path | str]:
    """Yields the files, and the programs and notebooks in the folders.

    What cannot be looked into, and a folder without any, comes as a text that says so.
    """
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        errors: list[OSError] = []
        found = [
            Path(folder, name)
            for folder, names, files in os.walk(path, onerror=errors.append)
            for name in files
            if Path(name).suffix in (".py", NOTEBOOK) and _SKIPPED.isdisjoint(Path(folder).parts)
        ]
        yield from (f"{error.filename} cannot be looked into: {error.strerror}" for error in errors)
        if not found and not errors:
            yield f"{path} has no programs (*.py) and no notebooks (*{NOTEBOOK})"
        yield from sorted(found)


def read(path: Path) -> UserProgram:
    """Returns the syntax trees of a file, in the encoding that it declares.

    Raises:
        SmexValueError: nothing of it can be read.
    """
    try:
        content = path.read_bytes()
        if path.suffix == NOTEBOOK:
            return _notebook(path, content)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return UserProgram([(str(path), _parsed(content.decode(encoding), str(path)))], [])
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise SmexValueError(
            f"migrate: {path} cannot be read as Python: {error}; pass programs, notebooks or "
            "folders of them"
        ) from error


def _parsed(source: str, file: str) -> ast.Module:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, file, "exec", flags, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


# ---- notebooks ----


def _notebook(path: Path, content: bytes) -> UserProgram:
    data = json.loads(content)
    if not isinstance(data, dict) or not any(key in data for key in ("cells", "worksheets")):
        raise ValueError("it is no notebook: it has no cells")
    language = _language(data)
    if language != "python":
        raise ValueError(f"its cells are in {language}")
    program = UserProgram([], [])
    for number, cell in enumerate(_cells(data), 1):
        if cell.get("cell_type") != "code":
            continue
        name = f"{path}, cell {number}"
        lines = cell.get("source", cell.get("input", ""))
        try:
            text = "".join(lines)
            program.parts.append((name, _parsed(without_magics(text), name)))
        except (SyntaxError, TypeError, ValueError, RecursionError) as error:
            program.unread.append(
                f"migrate: {name} cannot be read as Python: {error}; its names are not listed"
            )
    return program


def _language(data: dict[str, Any]) -> str:
    metadata = data.get("metadata") or {}
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        found = (metadata.get(part) or {}).get(key)
        if found:
            return str(found).lower()
    return "python"


def _cells(data: dict[str, Any]) -> list[dict[str, Any]]:
    if "cells" in data:
        return data["cells"]
    return [cell for sheet in data["worksheets"] for cell in sheet.get("cells", ())]


def without_magics(text: str) -> str:
    """A cell as Python, line by line: commands of IPython and of the shell do nothing in it."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        magic = lines[first][2:].split()
        if not magic or magic[0] not in _TIMED:
            return "\n" * (len(lines) - 1)
        lines[first] = ""
    try:
        _parsed("\n".join(lines), "")
        return "\n".join(lines)  # what looks like a magic is within a text
    except SyntaxError:
        pass
    found, continued = [], False
    for line in lines:
        found.append("" if continued else _without_magic(line))
        is_magic = continued or found[-1] != line
        continued = is_magic and line.rstrip().endswith("\\")
    return "\n".join(found)


def _without_magic(line: str) -> str:
    if _HELP.match(line):
        return "pass"
    match = _LINE_MAGIC.match(line)
    if match is None:
        return line
    magic, _, rest = match["rest"].lstrip("%").partition(" ")
    if match["target"]:
        return f"{match['indent']}{match['target'].strip()} None"
    if match["kind"] == "%" and magic in _TIMED and _is_python(rest):
        return match["indent"] + rest.strip()
    return f"{match['indent']}pass"


def _is_python(text: str) -> bool:
    try:
        _parsed(text.strip(), "")
    except SyntaxError:
        return False
    return bool(text.strip())
