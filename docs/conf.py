"""How Sphinx builds these pages: `make docs`, which takes every warning for an error."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
# The reference is read from the sources: compiled classes do not tell their signatures, nor the order of their members.
os.environ["PYKAFKA_PURE_PYTHON"] = "1"
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(DOCS / "extensions"))

import pykafka  # noqa: E402

project = "PyKafka"
author = "The PyKafka developers"
version = release = pykafka.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "links", "option_lists", "reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["extensions", "redirects", "static"]
nitpicky = True

myst_enable_extensions = ["deflist"]
# Headings of all levels can be linked to, as [text](page.md#heading).
myst_heading_anchors = 4

# Docstrings say `name`: a link where the reference has that name, else code (extensions/reference.py).
default_role = "pyname"
# Building the pages needs no Spark: it is large, and the reference does not show its classes.
autodoc_mock_imports = ["pyspark", "py4j", "pyarrow", "opentelemetry"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_class_signature = "mixed"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"
pygments_style = "default"
# The theme's own underlines each imported module, as if it were a link.
pygments_dark_style = "github-dark"

html_theme = "furo"
html_static_path = ["static"]
# A page for each former name of a page, which leads to its present one.
html_extra_path = ["redirects"]
html_css_files = ["site.css"]
# A copied line is what one types: no prompt, no output.
copybutton_exclude = ".linenos, .gp, .go"
html_title = f"PyKafka {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
