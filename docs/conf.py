"""Sphinx settings."""

import cotempo

project = "cotempo"
author = "The cotempo developers"
copyright = "The cotempo developers, Apache-2.0"
release = cotempo.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "docutils"]
html_theme = "furo"
html_title = "cotempo"
exclude_patterns = ["_build"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
