"""Sphinx settings."""

import warnings

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

import cotempo


def scrape_figures(block, variables, settings):
    """Show the figures that a block of a tutorial has made; ours are no figures of pyplot."""
    seen, paths = variables["example_globals"].setdefault("__seen__", set()), []
    for value in list(variables["example_globals"].values()):
        if isinstance(value, Figure) and id(value) not in seen:
            seen.add(id(value))
            paths.append(next(variables["image_path_iterator"]))
            value.savefig(paths[-1], dpi=110)
    return figure_rst(paths, settings["src_dir"])


def place_tutorial(file):
    """Return the place of a tutorial: the families first, as everywhere, then what privacy costs."""
    return ["hospital.py", "plants.py", "platforms.py", "labs.py", "privacy.py"].index(file)


# Tutorials show warnings as the command line does, without paths of the machine that built the page.
warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"

project = "cotempo"
author = "The cotempo developers"
copyright = "The cotempo developers, Apache-2.0"
release = cotempo.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "docutils", "config.cache"]
html_theme = "furo"
html_title = "cotempo"
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_extra_path = ["llms.txt"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "tutorials",
    "within_subsection_order": place_tutorial,
    "filename_pattern": r"\.py$",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("cotempo",),
    "image_scrapers": (scrape_figures,),
    "reset_modules": (),
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
}
