"""The site: Sphinx, from the Markdown pages of this folder and the docstrings. `make docs` builds it."""

import re

import firelu

project = "firelu"
author = "The firelu authors"
release = version = firelu.__version__
copyright = author

extensions = [
    "myst_parser",  # pages in Markdown
    "sphinx.ext.autodoc",  # the reference, from the docstrings
    "sphinx.ext.napoleon",  # docstrings have Google's sections
    "sphinx_copybutton",  # a button that copies a block
]
exclude_patterns = ["reliability/*", "**/*.py"]
default_role = "code"  # `x` in a docstring is code, as in Markdown
suppress_warnings = ["myst.header"]  # the reliability page is written by a program

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# By these names, which the page "numpy functions" explains.
autodoc_type_aliases = {
    name: name for name in ("ArgumentValue", "ArrayLike", "DTypeLike", "NumpyArray", "Numbers", "Taps")
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"firelu {release}"
html_static_path = ["site"]
html_css_files = ["firelu.css"]
html_theme_options = {
    "source_repository": "https://github.com/firelu/firelu/",
    "source_branch": "main",
    "source_directory": "docs/",
    # Burnt orange: 5.2 to 1 on white, and its light twin 7.9 to 1 on the dark ground.
    "light_css_variables": {"color-brand-primary": "#c2410c", "color-brand-content": "#b83a08"},
    "dark_css_variables": {"color-brand-primary": "#fb923c", "color-brand-content": "#fb923c"},
}


def navigation(index: str) -> str:
    """Give the site's navigation, read from the tables of the first page: one list for both."""
    trees = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        caption, _, table = section.partition("\n")
        pages = [f"{title} <{page}>" for title, page in re.findall(r"\| \[(.+?)\]\(([\w-]+)\.md\) \|", table)]
        trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]))
    return "\n\n".join(trees)


def plain_types(annotations: dict[str, str]) -> dict[str, str]:
    """Give the types of a function as a reader knows them."""
    return {name: re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", kind) for name, kind in annotations.items()}


def setup(app):
    """Append the navigation to the first page as Sphinx reads it, and write types plainly."""

    def read(app, page, source):
        if page == "index":
            source[0] += f"\n{navigation(source[0])}\n"

    def describe(app, domain, kind, content):
        known = app.env.current_document.autodoc_annotations
        for name, annotations in known.items():
            known[name] = plain_types(annotations)

    app.connect("source-read", read)
    app.connect("object-description-transform", describe, priority=400)  # before autodoc writes the types
