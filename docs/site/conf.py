"""How Sphinx makes the site; `./dev docs` calls it.

The source folder is the repository, so that a link of a page means the same here as on a forge: to
another page, to a part of it, or to a file, which the site hands out. Only the frame is here: the
start page with the order of all pages, the references of Python and C++, and two extensions.
"""

import sys
from pathlib import Path

import memlease
import numpydoc.xref

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

project = "memlease"
author = "The memlease authors"
version = release = (ROOT / "VERSION").read_text().strip()

root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/**", "tests/model/README.md"]
exclude_patterns = ["docs/site/templates", "docs/site/static", "build", "**/.*"]
templates_path = ["templates"]
html_additional_pages = {"index": "to_start.html"}

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "breathe",
    "manual_pages",
    "docstrings",
]

# Headings have the anchors that a forge gives them.
myst_heading_anchors = 6
highlight_language = "text"

# Docstrings: `name` is a link or an argument (docstrings.py), and the types are in their text.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc.xref.DEFAULT_LINKS.clear()  # to Python's and NumPy's documents, which are not asked for
numpydoc_xref_aliases = {name: f"memlease.{name}" for name in memlease.__all__}

breathe_projects = {"memlease": str(ROOT / "build/docs/doxygen/xml")}
breathe_default_project = "memlease"
breathe_default_members = ("members", "undoc-members")
breathe_show_include = False

# What other projects document. Nothing is looked up in the network.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|ctypes|pathlib|faulthandler|select|selectors|asyncio)(\..*)?"),
    ("cpp:.*", r"(std|internal)(::.*)?|.*_t|CUstream_st|memlease"),
]

html_theme = "furo"
html_title = f"memlease {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
