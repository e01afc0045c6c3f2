"""The HTML page: sections of text, images, tables and definitions."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

import firelu


@dataclass
class Figure:
    """An image of the page: its file beside the page, and what it shows."""

    path: Path
    caption: str


@dataclass
class Sound:
    """A sound of the page: its file beside the page, and what it is."""

    path: Path
    caption: str


@dataclass
class Section:
    """One part of the page."""

    title: str
    text: str
    figures: list[Figure] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """What came out, one plain sentence each; the command prints them too."""
    code: str = ""
    table: list[list[str]] = field(default_factory=list)
    """Rows of cells, the titles first."""
    gallery: list[Figure] = field(default_factory=list)
    """Images in their own size, pixel for pixel."""
    sounds: list[Sound] = field(default_factory=list)
    hero: list[Figure] = field(default_factory=list)
    """Of the gallery, what stands at the top of the page."""
    summary: str = ""
    """One line for the top of the page."""


@dataclass
class Page:
    """The page and what it shows."""

    path: Path
    source: str
    sections: list[Section] = field(default_factory=list)

    @property
    def pictures(self) -> list[Path]:
        """Every image of the page."""
        return [figure.path for section in self.sections for figure in section.figures + section.gallery]

    def write(self) -> None:
        """Write the file."""
        machine = f"Python {platform.python_version()}, {firelu.get_num_threads()} threads, {firelu.get_cpu_level()}"
        text = _PAGE.substitute(
            version=escape(firelu.__version__),
            source=escape(self.source),
            machine=escape(machine),
            hero="".join(_figure(figure, "own") for section in self.sections for figure in section.hero),
            summary="".join(f"<li>{escape(s.summary)}</li>" for s in self.sections if s.summary),
            contents="".join(f'<li><a href="#s{i}">{escape(s.title)}</a></li>' for i, s in enumerate(self.sections)),
            sections="".join(_section(i, section) for i, section in enumerate(self.sections)),
        )
        self.path.write_text(text, encoding="utf-8")


def _figure(figure: Figure, kind: str) -> str:
    name = escape(figure.path.name)
    caption = escape(figure.caption)
    return (
        f'<figure class="{kind}"><a href="{name}"><img src="{name}" alt="{caption}"></a>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _sound(sound: Sound) -> str:
    name, caption = escape(sound.path.name), escape(sound.caption)
    return f'<figure><audio controls preload="none" src="{name}"></audio><figcaption>{caption}</figcaption></figure>'


def _prose(text: str) -> str:
    """Give text as HTML, with what stands between backticks as code."""
    return re.sub("`(.+?)`", r"<code>\1</code>", escape(text))


def _section(number: int, section: Section) -> str:
    parts = [f'<section id="s{number}"><h2>{escape(section.title)}</h2>']
    parts += [f"<p>{_prose(text)}</p>" for text in section.text.strip().split("\n\n")]
    if section.code:
        parts.append(f"<pre>{escape(section.code)}</pre>")
    parts += [_figure(figure, "wide") for figure in section.figures]
    if section.sounds:
        parts.append(f"<div class='gallery'>{''.join(map(_sound, section.sounds))}</div>")
    if section.table:
        titles, *rows = section.table
        cells = "".join(f"<th>{escape(title)}</th>" for title in titles)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f'<div class="scroll"><table><tr>{cells}</tr>{body}</table></div>')
    if section.findings and not section.table:  # a table says the same
        parts.append("<ul class='findings'>" + "".join(f"<li>{escape(f)}</li>" for f in section.findings) + "</ul>")
    if section.gallery:
        parts.append("<details><summary>The images at their own size</summary><div class='gallery'>")
        parts += [_figure(figure, "own") for figure in section.gallery]
        parts.append("</div></details>")
    return "\n".join([*parts, "</section>\n"])


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>firelu demo</title>
<style>
  :root { color-scheme: light dark; --line: #8884; --soft: #8881; --mark: #c2410c; --quiet: #595959; }
  @media (prefers-color-scheme: dark) { :root { --mark: #fb923c; --quiet: #a6a6a6; } }
  body { font: 17px/1.6 system-ui, sans-serif; max-width: 68rem; margin: 0 auto; padding: 2rem 1.2rem 5rem; }
  h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .8rem; }
  h2 { font-size: 1.45rem; margin: 3.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
  p, ul, ol { max-width: 46rem; }
  .facts { color: var(--quiet); font-size: .9rem; }
  figure { margin: 1.2rem 0; }
  figcaption { color: var(--quiet); font-size: .9rem; max-width: 46rem; }
  img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
  .wide a { display: block; overflow-x: auto; } /* wider than a phone: scrolled, never scaled */
  .wide img { max-width: none; }
  .gallery { display: flex; flex-wrap: wrap; gap: 1rem; }
  .gallery figure { margin: 0; }
  .own img { object-fit: none; object-position: left top; border-radius: 0; } /* cropped, never scaled */
  .findings { border-left: 3px solid var(--mark); padding-left: 2rem; }
  pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem;
        white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; line-height: 1.45; }
  code { background: var(--soft); border-radius: 4px; padding: .1em .3em; font-size: .9em; overflow-wrap: anywhere; }
  .scroll { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .92rem; }
  th, td { text-align: right; padding: .3rem .9rem; border-bottom: 1px solid var(--line); }
  td { white-space: nowrap; }
  @media (max-width: 36rem) {
    table { font-size: .8rem; } th, td { padding: .3rem .3rem; } td:first-child { white-space: normal; }
    .wide figcaption::after { content: " Scroll the figure sideways to see all of it."; }
  }
  audio { display: block; max-width: 100%; }
  th:first-child, td:first-child { text-align: left; }
  summary { cursor: pointer; margin: 1rem 0; }
  a { color: var(--mark); }
</style>
</head>
<body>
<h1>What firelu does</h1>
<div class="gallery">$hero</div>
<ul class="findings">$summary</ul>
<p class="facts">firelu $version &middot; image: $source &middot; $machine &middot;
<a href="https://firelu.github.io/firelu/">documentation</a></p>
<ol>$contents</ol>
$sections
</body>
</html>
""")
