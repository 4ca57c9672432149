"""The site: ``pip install -e ".[docs]" && sphinx-build -W docs build/site``. Pages are Markdown; what is printed
is checked by tests/docs."""
project, author, copyright = "cydnn", "The cydnn developers", "The cydnn developers"
extensions = ["myst_parser"]
html_theme, html_title = "furo", "cydnn"
html_copy_source, html_show_sourcelink = True, True           # each page as Markdown, too
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]  # links to sources; … in snippets
