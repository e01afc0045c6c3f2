"""The demo: what it computes, what it writes, and whether a browser shows it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from browser import NAMES, Browser, find_browser

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

from firelu import demo
from firelu.cli import main
from PIL import Image

NO_BROWSER = f"no browser: none of {', '.join(NAMES)} is installed, or this is not a POSIX system"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The demo on its generated pictures, run once."""
    return demo.run(tmp_path_factory.mktemp("demo"))


def finding(page, title, pattern):
    (section,) = [section for section in page.sections if section.title == title]
    match = re.search(pattern, " ".join(section.findings))
    assert match, section.findings
    return [float(number) for number in match.groups()]


def test_every_picture_of_the_page_is_a_picture(page):
    text = page.path.read_text(encoding="utf-8")
    names = re.findall(r'<img src="([^"]+)"', text)
    assert sorted(names) == sorted(path.name for path in page.pictures)
    assert len(names) > 12
    for path in page.pictures:
        with Image.open(path) as image:
            assert np.asarray(image.convert("RGB")).std() > 5, f"{path.name} is empty"


def test_a_filter_removes_aliases_and_images(page):
    nearest, blurred = finding(
        page, "Smaller: aliases", r"nearest neighbour ([-+.\d]+) dB.*\[1, 3, 3, 1\] ([-+.\d]+) dB"
    )
    assert nearest > -3
    assert blurred < nearest - 10
    nearest, blurred = finding(page, "Larger: images", r"nearest neighbour ([-+.\d]+) dB.*\[1, 3, 3, 1\] ([-+.\d]+) dB")
    assert blurred < nearest - 10


def test_the_blur_is_recovered(page):
    (error,) = finding(page, "A blur, recovered", r"within ([.\d]+) %")
    assert error < 10
    before, after = finding(page, "A blur, recovered", r"from ([.\d]+) dB to ([.\d]+) dB")
    assert after > before + 5


def test_the_diffusion_reaches_its_data(page):
    few, many = finding(page, "A toy diffusion", r"5 steps with eta 0 ([.\d]+).*20 steps with eta 0 ([.\d]+)")
    assert many < few
    assert many < 0.05


def test_a_picture_of_the_user(tmp_path, capsys, monkeypatch):
    from firelu.demo import timing

    monkeypatch.setattr(timing, "_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (130, 171, 3), dtype=np.uint8)).save(tmp_path / "mine.png")
    assert main(["demo", "-o", str(tmp_path / "out"), "--image", str(tmp_path / "mine.png")]) == 0
    text = capsys.readouterr().out
    assert "[1/6]" in text
    assert str(tmp_path / "out" / "index.html") in text
    assert "mine.png" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    with Image.open(tmp_path / "out" / "original.png") as original:
        assert original.size == (168, 128)


@pytest.mark.parametrize("content", [None, b"no picture"])
def test_what_is_no_picture_is_refused(content, tmp_path, capsys):
    path = tmp_path / "broken.png"
    if content is not None:
        path.write_bytes(content)
    assert main(["demo", "-o", str(tmp_path / "out"), "--image", str(path)]) == 1
    assert "broken.png" in capsys.readouterr().err


@pytest.mark.skipif(find_browser() is None, reason=NO_BROWSER)
def test_a_browser_shows_every_picture(page, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(page.path)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        widths = browser.evaluate(
            "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth, () => 0)))"
        )
        assert len(widths) == len(page.pictures)
        assert min(widths) > 0
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.console == []


@pytest.mark.skipif(find_browser() is None, reason=NO_BROWSER)
def test_a_missing_picture_would_be_seen(tmp_path):
    (tmp_path / "page.html").write_text('<link rel="icon" href="data:,"><img src="absent.png">', encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "page.html")
        assert browser.console
