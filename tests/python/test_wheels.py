"""What goes into wheels and into the archive of the sources."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import wheels

ROOT = Path(__file__).parents[2]
FILES = ["smex/__init__.py", "smex/_C.cpython-311-x86_64-linux-gnu.so", "smex-1.dist-info/RECORD"]
DYNAMIC = """
 0x1 (NEEDED)             Shared library: [libc10.so]
 0x1 (NEEDED)             Shared library: [libtorch_cuda.so]
 0x1 (NEEDED)             Shared library: [libcudart.so.13]
 0x1 (NEEDED)             Shared library: [libgomp.so.1]
 0x1 (NEEDED)             Shared library: [libstdc++.so.6]
"""


def test_a_wheel_with_one_library_that_torch_and_the_system_complete_is_right():
    assert wheels.faults(FILES, DYNAMIC) == []


@pytest.mark.parametrize(
    ("files", "dynamic", "fault"),
    [
        ([], "", "expected smex/_C alone"),
        (["smex.libs/libc10-1a2b.so"], "", "expected smex/_C alone"),
        (["include/a.h"], "", "has include/a.h, which is no part"),
        ([], " 0x1 (NEEDED) Shared library: [libcublas.so.13]", "needs libcublas.so.13"),
        ([], " 0x1d (RUNPATH) Library runpath: [/home/me]", "has a run path: /home/me"),
    ],
)
def test_what_a_wheel_must_not_have_is_told(files, dynamic, fault):
    ours = FILES if files or dynamic else FILES[:1]
    (found,) = wheels.faults([*ours, *files], DYNAMIC + dynamic)[:1]
    assert fault in found


def test_a_wheel_asks_for_the_torch_that_it_was_built_against():
    metadata = "Name: smex\nRequires-Dist: torch>=2.11\nRequires-Dist: numpy\n"
    assert wheels.for_one_torch(metadata, "2.15.0+cu132") == (
        "Name: smex\nRequires-Dist: torch==2.15.*\nRequires-Dist: numpy\n"
    )
    with pytest.raises(SystemExit, match="0 lines"):
        wheels.for_one_torch("Name: smex\n", "2.15.0")


def test_the_sources_have_what_a_build_reads_and_nothing_that_was_built(tmp_path):
    command = ["egg_info", "--egg-base", tmp_path, "sdist", "--dist-dir", tmp_path]
    subprocess.run([sys.executable, "setup.py", "--quiet", *command], cwd=ROOT, check=True)
    (archive,) = tmp_path.glob("smex-*.tar.gz")
    with tarfile.open(archive) as tar:
        found = {name.partition("/")[2] for name in tar.getnames() if "." in name}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        needed = {
            name
            for name in tracked.stdout.splitlines()
            if name.startswith(("cmake/", "csrc/", "include/", "python/"))
        }
        assert needed <= found
        assert {"CMakeLists.txt", "pyproject.toml", "setup.py", "README.md"} <= found
    assert not [name for name in found if name.endswith((".so", ".pyc", "_build_info.json"))]
    assert not [name for name in found if name.startswith(("build/", "tests/", "docs/", "."))]
