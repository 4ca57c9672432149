"""The site: ``pip install -e ".[docs]" && sphinx-build -W docs build/site``. Pages are Markdown; tests/docs
checks what is printed, and runs what is shown."""
project, author, copyright = "cydnn", "The cydnn developers", "The cydnn developers"
extensions = ["myst_parser"]
html_theme, html_title = "furo", "cydnn"
html_extra_path = ["llms.txt"]                            # a list of the pages, for programs that read
html_copy_source, html_show_sourcelink = True, True           # each page as Markdown, too
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]          # … in snippets
