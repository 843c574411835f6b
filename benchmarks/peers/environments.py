"""Makes and finds the Python environments of what SMEX is measured against.

    python benchmarks/peers/environments.py [dgl] [dynet] [models] [pyg] [trees]

makes build/peers/NAME/ from requirements/NAME.txt (and NAME.no-deps.txt) unless it is there
already: DGL with its own torch (5 GB on disk), DyNet, and beside the torch of the environment that
runs this script PyG, libraries for trees, and the models of others (torchvision, timm,
transformers). Plain torch and SMEX run in that environment itself. Environments made before are
taken from $SMEX_PEERS, a folder with one environment per name, when it is set.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).parents[2]
REQUIREMENTS = pathlib.Path(__file__).parent / "requirements"
OWN = ("torch", "smex")  # run in the project's own environment
BESIDE_OWN_TORCH = ("pyg", "models", "trees", "programs")


def folder(name: str) -> pathlib.Path:
    """Where the environment of a peer is, made or not."""
    ready = os.environ.get("SMEX_PEERS")
    if ready and (pathlib.Path(ready) / name).is_dir():
        return pathlib.Path(ready) / name
    return ROOT / "build" / "peers" / name


def interpreter(name: str) -> pathlib.Path | None:
    """The Python that runs the worker of a peer; None when its environment is not made."""
    if name in OWN:
        return pathlib.Path(sys.executable)
    python = folder(name) / "bin" / "python"
    return python if python.exists() else None


def make(name: str) -> None:
    """Makes the environment of one peer; one that failed half way is removed."""
    where = folder(name)
    subprocess.run([sys.executable, "-m", "venv", where], check=True)
    python = where / "bin" / "python"
    try:
        requirements = REQUIREMENTS / f"{name}.txt"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", requirements], check=True)
        alone = REQUIREMENTS / f"{name}.no-deps.txt"
        if alone.exists():
            subprocess.run([*pip, "--no-deps", "--requirement", alone], check=True)
        if name in BESIDE_OWN_TORCH:  # afterwards, so that pip installs what only lies there
            _see_own_packages(python)
    except BaseException:
        shutil.rmtree(where)
        raise


def _see_own_packages(python: pathlib.Path) -> None:
    command = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", command], check=True, capture_output=True, text=True)
    pth = pathlib.Path(packages.stdout.strip()) / "own_torch.pth"
    pth.write_text(sysconfig.get_path("purelib") + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(x.stem for x in REQUIREMENTS.glob("*.txt") if not x.match("*.no-deps.txt"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all")
    for name in parser.parse_args().names or names:
        if name not in names:
            parser.error(f"{name} is not one of {', '.join(names)}")
        if interpreter(name) is None:
            make(name)
        print(f"{name}: {interpreter(name)}")


if __name__ == "__main__":
    main()
