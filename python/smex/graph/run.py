"""Runs a program that was written for DGL, as it stands.

    python -m smex.graph.run PROGRAM [ARGUMENT ...]
    python -m smex.graph.run -m MODULE [ARGUMENT ...]

In the program, and in processes that it starts, ``dgl`` is :mod:`smex.graph`; see
:func:`smex.graph.alias.install`. ``python -m smex.graph.migrate PROGRAM`` tells beforehand what it
uses that is not there.
"""

from __future__ import annotations

import argparse
import pathlib
import runpy
import sys
from collections.abc import Sequence

from smex.graph.alias import install

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program that the arguments of the command name."""
    parser = argparse.ArgumentParser(
        prog="python -m smex.graph.run",
        description="Runs a program that was written for DGL, as it stands.",
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", metavar="PROGRAM", help="a file, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    options = parser.parse_args(arguments)
    if not options.is_module and not pathlib.Path(options.program).exists():
        parser.error(f'there is no file "{options.program}"')
    install(for_processes=True)
    sys.argv = [options.program, *options.arguments]
    if options.is_module:
        sys.path.insert(0, "")
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        program = pathlib.Path(options.program).absolute()
        sys.path.insert(0, str(program.resolve().parent))
        runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
