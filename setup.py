"""Builds the native library: calls CMake, and copies nothing but what CMake made.

Environment variables, with the meaning they have for other PyTorch extensions:

    FORCE_CUDA=1           build the CUDA kernels or fail; without it they are built when possible
    USE_CUDA=0, WITH_CUDA=0  build without CUDA kernels
    TORCH_CUDA_ARCH_LIST   "8.0;9.0+PTX"; by default the GPUs of this machine
    MAX_JOBS               parallel compilations; by default one per core
    DEBUG=1                build without optimisation, with assertions and debug information
    CMAKE_ARGS             further arguments for CMake
    SMEX_BUILD_DIR         CMake's build folder; by default that of `make build` if it is of this
                           Python, otherwise one per Python and torch below build/
"""

import os
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def env_flag(name: str) -> bool | None:
    """True, False, or None where the variable is not set."""
    value = os.environ.get(name, "").strip().lower()
    return None if not value else value not in ("0", "off", "no", "false")


def cuda_mode() -> str:
    if env_flag("FORCE_CUDA"):
        return "ON"
    if env_flag("USE_CUDA") is False or env_flag("WITH_CUDA") is False:
        return "OFF"
    return "AUTO"


def build_dir() -> Path:
    try:
        torch_version = version("torch")
    except PackageNotFoundError:  # metadata alone is wanted, or CMake will complain
        torch_version = "-missing"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-torch{torch_version}"
    if env_flag("DEBUG"):
        tag += "-debug"
    elif of_this_python(ROOT / "build" / "native"):
        tag = "native"
    return ROOT / (os.environ.get("SMEX_BUILD_DIR") or f"build/{tag}")


def of_this_python(folder: Path) -> bool:
    """Whether CMake has configured a build folder for this interpreter."""
    cache = folder / "CMakeCache.txt"
    return cache.exists() and f"={sys.executable}\n" in cache.read_text()


def forget_stale_cache(folder: Path, generator: list[str]) -> None:
    """CMake refuses a build folder that another copy of the project or generator has made."""
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        return
    text = cache.read_text()
    same_source = f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" in text
    same_generator = not generator or f"CMAKE_GENERATOR:INTERNAL={generator[1]}\n" in text
    if not (same_source and same_generator and of_this_python(folder)):
        cache.unlink()
        shutil.rmtree(folder / "CMakeFiles", ignore_errors=True)


def tool(name: str) -> str | None:
    """The tool of this Python's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def run_cmake(command: list[str]) -> None:
    """CMake has said what is wrong; a Python traceback would only bury it."""
    code = subprocess.run(command).returncode
    if code != 0:
        raise SystemExit(f"smex: the native build failed (exit status {code}); see above")


class CMakeExtension(Extension):
    def __init__(self, name: str):
        super().__init__(name, sources=[])


class CMakeBuild(build_ext):
    in_source = False

    def run(self) -> None:
        # setuptools builds elsewhere and copies; CMake writes to the final place at once, so that a
        # later `cmake --build` updates it too.
        self.in_source = bool(self.inplace)
        super().run()

    def copy_extensions_to_source(self) -> None:
        pass

    def output_dir(self) -> Path:
        if self.in_source:
            return ROOT / "python" / "smex"
        return Path(self.get_ext_fullpath("smex._C")).resolve().parent

    def build_extension(self, ext: Extension) -> None:
        output = self.output_dir()
        folder = build_dir()
        cmake = tool("cmake")
        if cmake is None:
            raise SystemExit("SMEX needs CMake >= 3.24: pip install cmake ninja")
        ninja = tool("ninja")
        generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
        folder.mkdir(parents=True, exist_ok=True)
        forget_stale_cache(folder, generator)
        configure = [
            *(cmake, "-S", str(ROOT), "-B", str(folder), *generator),
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DSMEX_PYTHON_OUTPUT_DIR={output}",
            f"-DCMAKE_BUILD_TYPE={'Debug' if env_flag('DEBUG') else 'Release'}",
            f"-DSMEX_CUDA={cuda_mode()}",
            f"-DSMEX_CUDA_ARCH_LIST={os.environ.get('TORCH_CUDA_ARCH_LIST', '')}",
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ]
        jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
        run_cmake(configure)
        run_cmake([cmake, "--build", str(folder), "--target", "smex_python", "-j", jobs])

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), str(self.output_dir() / "_build_info.json")]


setup(
    ext_modules=[CMakeExtension("smex._C")],
    cmdclass={"build_ext": CMakeBuild},
    # Beside CMake's files, so that wheels for different torches do not mix.
    options={"build": {"build_base": str(build_dir() / "wheel")}},
)
