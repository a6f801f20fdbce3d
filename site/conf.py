"""How the pages of the repository become a site, for `make site`."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmark_dspdc import __version__

ROOT = Path(__file__).resolve().parent.parent
#: The archive. Without one there is no report.
RESULTS = sorted(ROOT.glob("results/*.parquet"))
FIELD = sorted(ROOT.glob("results/field/*.parquet"))

#: The navigation: groups of pages, with short names. Pages that do not exist are left out.
GROUPS = {
    "Start here": {
        "From Python": "docs/python",
        "Your data": "docs/data",
        "Metric learning": "docs/metric-learning",
        "Python API": "site/api",
    },
    "Methods": {
        "Which method": "docs/methods",
        "How DSPDC tunes itself": "docs/steps",
        "Importance sampling": "docs/importance",
    },
    "Results": {
        "Reading results": "docs/reading-results",
        "The paper's claims": "docs/claims",
        "Measurements": "docs/measurements",
        "Other packages": "docs/peers",
        "Archive": "results/README",
        "Report": "site/report",
    },
    "For your own solver": {
        "Add something": "CONTRIBUTING",
        "Guard it in CI": "docs/guarding",
        "Clusters": "docs/scaling",
    },
    "Inside": {
        "Room by room": "docs/architecture",
        "Reliability": "docs/reliability",
        "Changes": "CHANGELOG",
    },
}

project = "benchmark_dspdc"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# The repository is the source as it is, so that links between its pages need no translation.
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "results/README.md", "site/*.rst"]
# Folders that are not even searched.
exclude_patterns = [".*", "outputs", "__cache__", "data"]
myst_heading_anchors = 4
# Blocks that name no language are commands and formulas.
highlight_language = "none"
# Dashes alone: in A'y the stroke is no quotation mark.
smartquotes_action = "D"

# Names in docstrings are links where they have an entry, else code.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
maximum_signature_line_length = 72
napoleon_use_param = napoleon_use_rtype = False
# Else attributes would be entries of their own, beside those of properties.
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = project
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = html_show_copyright = html_show_sphinx = html_use_index = False

for _name, _files in (("results", RESULTS), ("field", FIELD)):
    if _files:
        tags.add(_name)  # noqa: F821 - Sphinx gives it to this file.


def add_navigation(app, page, source):
    """Append the navigation to the front page, which shows none on the code host."""
    if page != root_doc:
        return
    for caption, pages in GROUPS.items():
        entries = "\n".join(
            f"{name} <{found}>" for name, found in pages.items() if found in app.env.found_docs
        )
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def escape(app, what, name, obj, options, lines):
    """Keep |x| in a docstring from being read as a substitution, but where it is code."""
    if what == "property":
        # As written: napoleon takes what stands before a colon in the first line for a type.
        lines[:] = inspect.getdoc(obj).splitlines()
    block = None
    for k, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line and block is not None and indent <= block:
            block = None
        if block is None:
            lines[k] = re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line)
            block = indent if line.endswith("::") else None


def finish(app, error):
    """Give the front page the name that servers look for, and make the report."""
    if error:
        return
    site = Path(app.outdir)
    shutil.copy(site / f"{root_doc}.html", site / "index.html")
    for files, folder in ((RESULTS, site / "report"), (FIELD, site / "report" / "field")):
        if files:
            command = [sys.executable, "-m", "benchmark_dspdc", "report", *files, "-o", folder]
            # Its summary is on the page too.
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def setup(app):
    app.connect("source-read", add_navigation)
    # After napoleon.
    app.connect("autodoc-process-docstring", escape, priority=600)
    app.connect("build-finished", finish)
