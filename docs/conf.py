"""How Sphinx makes the documentation site of these files, the examples and the program (`make docs`)."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

project = "lasthop"
author = "The lasthop authors"
copyright = author  # noqa: A001
release = version_of("lasthop")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "commands",
    "pages",
    "links",
]
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
# Docstrings and help texts name files and keys in single backquotes, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
smartquotes = False  # options keep their two hyphens
exclude_patterns = ["site", "generated/runs"]
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = f"lasthop {release}"
html_static_path = ["site/site.css"]
html_css_files = ["site.css"]
html_copy_source = False
# It would fetch the pages found, which a browser refuses for files.
html_show_search_summary = False
html_show_sourcelink = False
