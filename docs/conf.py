from importlib.metadata import version as package_version

from docutils import nodes

project = "SMEX"
author = "the SMEX authors"
copyright = "the SMEX authors, Apache-2.0"
release = package_version("smex")
version = release

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]  # troubleshooting.md
myst_heading_anchors = 3
nb_execution_mode = "off"  # tools/notebooks.py has stored what the notebooks print and draw
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]  # pictures, light or dark as the page
html_title = f"SMEX {release}"
autodoc_typehints = "description"
nitpicky = False


def trim_blocks(app, doctree):
    """Drops the blank lines before the end of a block that doctest needs."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")
        block.rawsource = text
        block[:] = [nodes.Text(text)]


def setup(app):
    app.connect("doctree-read", trim_blocks)
