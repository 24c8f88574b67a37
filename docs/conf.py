"""The documentation site: ``make docs`` builds it, without a network and with warnings as errors."""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # so that a source tree that was not installed can be built, too

import rankwise  # noqa: E402

project = "rankwise"
author = "the rankwise developers"
copyright = author
version = release = rankwise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "reproduction/*.md"]
templates_path = ["_templates"]

# Pages are Markdown. Headings get anchors, so that pages can link into each other.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Docstrings are numpydoc. Single backticks become links where they name something public, else code; types of
# parameters stay the words that they are.
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", ".*")]
autosummary_generate = True
shutil.rmtree(ROOT / "docs/api/generated", ignore_errors=True)  # else names that are gone would leave their pages
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False}
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
viewcode_follow_imported_members = True

html_theme = "furo"
html_title = f"rankwise {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
smartquotes = False  # "bayes" is to be copied as it stands
pygments_style = "friendly"
pygments_dark_style = "monokai"


def skip_foreign(app, what, name, found, skip, options):
    """Leave out what is not ours: methods inherited from scikit-learn, tuples and the like, and fields of tuples."""
    found = getattr(found, "fget", None) or found
    home = getattr(found, "__module__", None) or ""
    foreign = type(found).__name__ in ("_tuplegetter", "method_descriptor", "builtin_function_or_method")
    return True if foreign or (callable(found) and not home.startswith("rankwise")) else None


def turn_links(app, name, source):
    """Pages link to files of the repository, where they are read, too; here the same links lead to pages."""
    for path, page in {"../benchmarks/README.md": "benchmarks.md", "../CHANGELOG.md": "changelog.md"}.items():
        source[0] = source[0].replace(f"]({path}", f"]({page}")


def setup(app):
    """Connect the above."""
    app.connect("source-read", turn_links)
    app.connect("autodoc-skip-member", skip_foreign)
