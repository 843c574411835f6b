import ast
import importlib
import logging
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import smex
from smex import _native, errors

ROOT = Path(smex.__file__).parent


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def copy_without_library(tmp_path):
    """The package's Python files alone, as in a checkout that was never built."""
    for source in ROOT.rglob("*.py"):
        target = tmp_path / "smex" / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    return tmp_path


SLOW = [
    "networkx",
    "scipy",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.tensor",
]
PLANNING = ["smex.cluster", "smex.execution", "smex.planning.plan"]
OF_GRAPHS = ["smex.graph.data", "smex.graph.distributed", "smex.graph.graphbolt", "smex.vertex"]


@pytest.mark.parametrize(
    ("module", "later"),
    [
        ("smex", [*SLOW, *PLANNING, "smex.graph", "smex.specs", "smex.vertex"]),
        ("smex.graph", [*SLOW, *PLANNING, *OF_GRAPHS, "smex.specs"]),
        ("smex.vertex", [*SLOW, *PLANNING, "smex.graph"]),
    ],
)
def test_what_takes_long_is_imported_by_those_who_use_it(module, later):
    found = run_python(f"""if True:
        import sys, torch
        before = set(sys.modules)
        import {module}
        print(sorted(set({later}) & (set(sys.modules) - before)))
    """)
    assert (found.stdout, found.stderr) == ("[]\n", "")


def test_names_that_are_loaded_late_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    for_checkers = next(
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    for node in for_checkers.body:
        for alias in node.names:
            found = getattr(smex, alias.name)
            if node.module == "smex":
                assert found is importlib.import_module(f"smex.{alias.name}")
            else:
                assert found is getattr(importlib.import_module(node.module), alias.name)
    assert set(smex.__all__) <= set(dir(smex))


@pytest.mark.parametrize(
    "uses",
    [
        "import smex; smex.partition, smex.cluster.plan, smex.specs",
        "from smex import *; partition, cluster.plan, specs, capture.__code__",
        "import smex.capture.trace, smex; smex.capture.__code__",
        "import smex.vertex, smex; smex.capture.__code__",
        "import smex.graph as sg; sg.data.KarateClubDataset, sg.distributed.DistGraph",
        "from smex.graph import *; data.KarateClubDataset, distributed.DistGraph",
        "import smex.graph.data.citation_graph as c, smex.graph as sg; assert c is sg.data.citegrh",
        "import smex.graph.distributed.dist_context",
        "from smex.graph.dataloading import DistNodeDataLoader",
        "import pickle; pickle.loads(b'csmex.graph.data.tree\\nSSTDataset\\n.')",
    ],
)
def test_what_is_loaded_late_is_found(uses):
    assert run_python(uses).stderr == ""


@pytest.mark.parametrize("module", ["smex", "smex.graph", "smex.graph.dataloading"])
def test_names_that_are_not_there_are_missing_as_ever(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'partitoin'"):
        importlib.import_module(module).partitoin  # noqa: B018


def test_native_library_is_loaded():
    assert _native.missing_reason is None
    import smex._C

    assert isinstance(smex._C, types.ModuleType)


def test_import_works_without_the_library(copy_without_library):
    done = run_python(
        "import smex; print(smex.show_config())", PYTHONPATH=str(copy_without_library)
    )
    assert done.returncode == 0, done.stderr
    assert "missing: the native library has not been built" in done.stdout
    assert "pip install --no-build-isolation" in done.stdout


def test_use_without_the_library_says_how_to_build_it(copy_without_library):
    code = """
import smex
uses = ["smex._C.x", "from smex._C import x", "from smex import _C; _C.x", "smex.partition",
        "import smex.tdl"]
for use in uses:
    try:
        exec(use)
    except smex.SmexImportError as error:
        assert isinstance(error, ImportError)
        print(error)
    else:
        raise SystemExit(use + " did not raise")
print(hasattr(smex, "no_such_name"))
"""
    done = run_python(code, PYTHONPATH=str(copy_without_library))
    assert done.returncode == 0, done.stderr
    *reasons, has_unknown_name = done.stdout.splitlines()
    assert len(reasons) == 5
    for reason in reasons:
        assert "has not been built" in reason
        assert "pip install --no-build-isolation" in reason
    assert has_unknown_name == "False"


def test_other_torch_minor_version_is_refused_readably():
    reason = _native._load({"torch": "2.3.1+cpu"})
    running = torch.__version__
    assert f"built against torch 2.3.1+cpu, but torch {running} is running" in reason
    series = ".".join(running.split(".")[:2])
    assert f"Install torch 2.3, or SMEX's wheel for torch {series}. " in reason
    assert "\n" not in reason
    assert "pip install" in reason


def test_other_torch_patch_version_warns(recwarn):
    major_minor = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    assert _native._load({"torch": f"{major_minor}.99"}) is None
    assert any(f"built against torch {major_minor}.99" in str(w.message) for w in recwarn)


@pytest.mark.parametrize("tag", ["", "mine"])
def test_compiled_code_on_disk_belongs_to_one_build(tag):
    """An entry that another build of the library has stored must never be found."""
    code = "import smex, torch; print(torch.compiler.config.cache_key_tag, smex._C.build_id())"
    done = run_python(code, TORCH_COMPILE_CACHE_KEY_TAG=tag)
    found, build_id = done.stdout.split()
    assert int(build_id, 16) > 0
    mark = f"smex-{smex.__version__}-{build_id}"
    assert found == (f"{tag},{mark}" if tag else mark)


def test_the_mark_of_the_build_is_set_once():
    before = torch.compiler.config.cache_key_tag
    _native._mark_compiled_code()
    assert torch.compiler.config.cache_key_tag == before


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.SmexValueError, ValueError),
        (errors.SmexTypeError, TypeError),
        (errors.SmexRuntimeError, RuntimeError),
        (errors.SmexImportError, ImportError),
        (errors.CaptureError, RuntimeError),
        (errors.PlanError, ValueError),
        (errors.SpecError, ValueError),
    ],
)
def test_errors_are_also_builtins(error, builtin):
    assert issubclass(error, errors.SmexError)
    assert issubclass(error, builtin)
    assert getattr(smex, error.__name__) is error


def test_every_error_is_exported():
    assert set(errors.__all__) <= set(smex.__all__)


def test_logs_variable_sets_the_level_and_prints():
    done = run_python(
        "import smex, logging; logging.getLogger('smex.part').debug('seen')", SMEX_LOGS="debug"
    )
    assert "smex.part DEBUG: seen" in done.stderr


def test_logs_variable_with_an_unknown_level_is_reported():
    done = run_python("import smex", SMEX_LOGS="loud")
    assert done.returncode == 0
    assert "SMEX_LOGS='loud' is not a level" in done.stderr


def test_without_the_variable_logging_is_left_alone():
    done = run_python("import smex, logging; print(logging.getLogger('smex').level)", SMEX_LOGS="")
    assert done.stdout.strip() == str(logging.NOTSET)


def test_a_spec_of_a_program_replaces_the_one_that_is_loaded_late():
    code = """if True:
        import smex
        @smex.spec("aten::relu")
        def mine(x):
            return lambda *i: x[i]
        from smex import specs, tdl
        assert tdl.REGISTRY["aten::relu"].function is mine, tdl.REGISTRY["aten::relu"]
    """
    assert run_python(code).stderr == ""
