"""Every public name stands on a page of the documentation."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PACKAGES = [
    "smex",
    "smex.cluster",
    "smex.errors",
    "smex.graph",
    *(
        f"smex.graph.{name}"
        for name in (
            *("base", "cuda", "data", "data.utils", "dataloading", "distributed", "function"),
            *("distributed.optim", "geometry", "graphbolt", "init", "nn", "ops", "random"),
            *("readout", "sampling", "sparse", "transforms", "udf", "utils"),
        )
    ),
    "smex.specs",
    "smex.tdl",
    "smex.vertex",
]
"""All but ``smex.graph.backend`` and ``multiprocessing``, whose names are torch's."""
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)\n((?:   .*\n)*)", re.M)


def documented():
    """The objects that autodoc shows, and the constants by their names in the text."""
    found = {}
    for path in DOCS.rglob("*.md"):
        for kind, name, options in DIRECTIVE.findall(path.read_text(encoding="utf-8")):
            if kind != "module":
                found[id(resolve(name))] = name
                continue
            module = importlib.import_module(name)
            left_out = re.findall(r":exclude-members: (.*)", options)
            chosen = re.findall(r":members:[ ]*(.*)", options)
            names = chosen[0].split(", ") if chosen and chosen[0] else public(module)
            for member in names:
                if member not in ", ".join(left_out).split(", "):
                    value = getattr(module, member)
                    if inspect.getdoc(value):  # autodoc leaves out what has no docstring
                        found[id(value)] = f"{name}.{member}"
    return found


def public(module):
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def resolve(name):
    """The object, not the module that has its name, as ``smex.graph.graph``."""
    path, _, member = name.rpartition(".")
    try:
        owner = importlib.import_module(path)
    except ModuleNotFoundError:  # a class
        owner = resolve(path)
    return getattr(owner, member)


@pytest.fixture(scope="module")
def pages():
    return documented(), "".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_on_a_page(package, pages):
    objects, text = pages
    module = importlib.import_module(package)
    missing = []
    for name in public(module):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            if id(value) not in objects:
                missing.append(name)
        elif not re.search(rf"(?:`|:: )(?:\w+\.)*{name}\b", text):  # a module or a constant
            missing.append(name)
    assert not missing
