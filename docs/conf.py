"""Documentation build: Markdown in, self-contained HTML out; nothing is fetched while building or reading."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from foretrain._version import __version__

project = "foretrain"
author = "the foretrain authors"
copyright = "the foretrain authors, Apache-2.0"
release = version = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"foretrain {release}"
html_show_sphinx = False
html_copy_source = False
