"""Relative links of the documents lead to files and headings that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "csrc" / "README.md",
    ROOT / "python" / "smex" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
ROLE = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")


def prose(text):
    """The text without blocks of code and code in lines."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchor(heading):
    """A heading's anchor as GitHub and MyST make it."""
    words = re.sub(r"[`*]", "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(text):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {anchor(heading) for heading in headings}


def broken(path, text):
    """The links of a document that lead nowhere."""
    found = []
    for link in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, part = link.partition("#")
        target = path.parent / name if name else path
        exists = target.exists()
        content = text if target == path else target.read_text() if part and exists else ""
        if not exists or (part and part not in anchors(content)):
            found.append(link)
    for link in ROLE.findall(text):
        target = path.parent / link
        if not any(target.with_name(target.name + end).exists() for end in (".md", ".ipynb")):
            found.append(link)
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(path):
    assert not broken(path, path.read_text(encoding="utf-8"))


def test_what_leads_nowhere_is_found(tmp_path):
    path = tmp_path / "page.md"
    text = (
        "# A page of `code`, and more\n[a](#a-page-of-code-and-more) [b](#none) [c](none.md) "
        "[d](page.md#a-page-of-code-and-more) {doc}`page` {doc}`none` {doc}`words <other>` "
        "[e](https://example.org) `[f](f.md)`\n```\n[g](g.md)\n# no heading\n```\n[h](#no-heading)\n"
    )
    path.write_text(text)
    assert broken(path, text) == ["#none", "none.md", "#no-heading", "none", "other"]
