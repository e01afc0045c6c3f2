"""The demo: what it computes, what it writes, and whether a browser shows it."""

from __future__ import annotations

import re
import struct
import wave
import zlib

import numpy as np
import pytest
from browser import NAMES, Browser, find_browser

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

from firelu import demo
from firelu.cli import main
from firelu.demo import page as page_module
from firelu.demo import pictures
from PIL import Image, ImageOps

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
    hero = [figure.path.name for section in page.sections for figure in section.hero]
    assert hero == ["smaller_nearest_neighbour.png", "smaller_1331.png"]
    assert sorted(names) == sorted([*hero, *(path.name for path in page.pictures)])
    assert len(names) > 12
    for path in page.pictures:
        with Image.open(path) as image:
            assert np.asarray(image.convert("RGB")).std() > 5, f"{path.name} is empty"


def test_a_filter_removes_aliases_and_images(page):
    nearest, blurred = finding(
        page, "Smaller: aliases", r"nearest neighbour ([-+.\d]+) dB.*\[1, 3, 3, 1\] ([-+.\d]+) dB"
    )
    assert nearest > -6
    assert blurred < nearest - 10
    nearest, blurred = finding(
        page, "Larger: jagged edges", r"nearest neighbour ([-+.\d]+) dB.*\[1, 3, 3, 1\] ([-+.\d]+) dB"
    )
    assert blurred < nearest - 10


def test_filters_around_an_activation_remove_its_aliases(page):
    title = "Activations without aliases (StyleGAN3)"
    plain, filtered = finding(page, title, r"alias of a wave: ([-+.\d]+) dB .* ([-+.\d]+) dB when filtered")
    assert plain > -32
    assert filtered < plain - 10
    plain, filtered = finding(page, title, r"error ([-+.\d]+) dB with leaky ReLU, ([-+.\d]+) dB with filtered")
    assert filtered < plain - 12


def test_the_sounds_are_sounds(page):
    plain, filtered = finding(
        page, "Sound without aliases (vocoders)", r"([-+.\d]+) dB with snake, ([-+.\d]+) dB with filtered"
    )
    assert filtered < plain - 30
    sounds = [sound.path for section in page.sections for sound in section.sounds]
    text = page.path.read_text(encoding="utf-8")
    assert re.findall(r'<audio controls preload="none" src="([^"]+)"', text) == [path.name for path in sounds]
    for path in sounds:
        with wave.open(str(path)) as file:
            assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        assert len(samples) == 48_000
        assert 0.85 * 32767 < np.abs(samples).max() < 0.95 * 32767


def test_code_in_prose_is_marked():
    assert page_module._prose("`a < b` and c") == "<code>a &lt; b</code> and c"


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
    assert "[1/8]" in text
    assert str(tmp_path / "out" / "index.html") in text
    assert "mine.png" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    with Image.open(tmp_path / "out" / "original.png") as original:
        assert original.size == (168, 128)


RAMP = np.linspace(0, 1, 128)[None, :].repeat(64, axis=0)
WIDE, NARROW = (RAMP * 65535).astype(np.uint16), (RAMP * 255).astype(np.uint8)
HALF = np.where(np.arange(64)[:, None] < 32, 255, 0).astype(np.uint8).repeat(128, axis=1)


def png(bits, colour, samples):
    """Write a PNG by its specification: Pillow does not write every kind that it reads."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = samples.astype(">u2" if bits == 16 else "u1").reshape(len(samples), -1)
    header = struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], bits, colour, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


GREY, COLOUR, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 4, 6
OVER_WHITE = np.where(HALF > 0, RAMP, 1)


@pytest.mark.parametrize(
    ("content", "expected", "steps"),
    [
        (png(16, GREY, WIDE), RAMP, 65535),
        (png(8, GREY, NARROW), RAMP, 255),
        (png(16, COLOUR, np.stack([WIDE] * 3, axis=2)), RAMP, 255),
        (png(16, GREY_ALPHA, np.stack([WIDE, HALF * np.uint16(257)], axis=2)), OVER_WHITE, 255),
        (png(8, GREY_ALPHA, np.stack([NARROW, HALF], axis=2)), OVER_WHITE, 255),
        (png(16, COLOUR_ALPHA, np.stack([WIDE] * 3 + [HALF * np.uint16(257)], axis=2)), OVER_WHITE, 255),
    ],
    ids=["grey 16", "grey 8", "colour 16", "grey and alpha 16", "grey and alpha 8", "colour and alpha 16"],
)
def test_a_ramp_stays_a_ramp(content, expected, steps, tmp_path):
    (tmp_path / "ramp.png").write_bytes(content)
    picture = pictures.read(tmp_path / "ramp.png")
    assert picture.shape == (1, 3, 64, 128)
    assert picture.dtype == np.float32
    # Each value was cut to a step of the file's, and to one of 8 bits where Pillow reads no more.
    assert np.abs(picture - expected).max() <= 1.01 / steps + 1e-6


def test_palettes_and_floats(tmp_path):
    indexed = Image.fromarray(NARROW).convert("P")
    indexed.save(tmp_path / "opaque.png")
    np.testing.assert_allclose(pictures.read(tmp_path / "opaque.png")[0, 1], NARROW / 255, atol=1e-6)
    # A picture whose colour 0, black, is the transparent one.
    indexed.save(tmp_path / "transparent.png", transparency=0)
    expected = np.where(NARROW == 0, 1, NARROW / 255)
    np.testing.assert_allclose(pictures.read(tmp_path / "transparent.png")[0, 1], expected, atol=1e-6)
    for scale in (1, 1000):
        Image.fromarray((RAMP * scale).astype(np.float32)).save(tmp_path / "floats.tiff")
        np.testing.assert_allclose(pictures.read(tmp_path / "floats.tiff")[0, 2], RAMP, atol=1e-6)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_stay_upright(tmp_path, orientation):
    values = np.zeros((64, 96, 3), np.uint8)
    values[:32, :48] = 255, 0, 0
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(values).save(tmp_path / "photo.png", exif=exif)
    with Image.open(tmp_path / "photo.png") as stored:
        upright = np.asarray(ImageOps.exif_transpose(stored), np.float32) / 255
    np.testing.assert_allclose(pictures.read(tmp_path / "photo.png")[0].transpose(1, 2, 0), upright, atol=1e-6)


def test_a_large_picture_of_16_bits_is_made_smaller(tmp_path):
    (tmp_path / "large.png").write_bytes(png(16, GREY, np.full((1100, 2200), 32768, np.uint16)))
    picture = pictures.read(tmp_path / "large.png")
    assert picture.shape == (1, 3, 512, 1024)
    np.testing.assert_allclose(picture, 32768 / 65535, atol=1e-6)


@pytest.mark.parametrize(("value", "size"), [(0, 128), (77, 128), (255, 128), (77, 64)])
def test_a_constant_picture_makes_no_warnings(value, size, tmp_path, monkeypatch):
    """Warnings are errors in these tests."""
    from firelu.demo import deblurring, downsampling, upsampling

    monkeypatch.setattr(deblurring, "_KERNEL_STEPS", 3)
    monkeypatch.setattr(deblurring, "_PICTURE_STEPS", 3)
    Image.new("RGB", (size, size), (value,) * 3).save(tmp_path / "constant.png")
    source = pictures.Pictures(tmp_path / "out", tmp_path / "constant.png")
    sections = [module.section(source) for module in (downsampling, upsampling, deblurring)]
    text = " ".join(finding for section in sections for finding in section.findings)
    assert "nearest neighbour no signal" in text
    assert "nan" not in text
    assert "inf" not in text


@pytest.mark.parametrize("content", [None, b"no picture"])
def test_what_is_no_picture_is_refused(content, tmp_path, capsys):
    path = tmp_path / "broken.png"
    if content is not None:
        path.write_bytes(content)
    assert main(["demo", "-o", str(tmp_path / "out"), "--image", str(path)]) == 1
    assert "broken.png" in capsys.readouterr().err


def test_what_shows_aliases_is_drawn_pixel_for_pixel(page):
    """At any other size the drawing itself would have aliases, as would what a browser shrinks."""
    folder = page.path.parent
    drawing = np.asarray(Image.open(folder / "downsampling.png").convert("RGB"), np.int16)
    result = np.asarray(Image.open(folder / "smaller_nearest_neighbour.png"), np.int16)[:160, :200]
    corners = np.argwhere((abs(drawing[:-160, :-200] - result[0, 0]) <= 1).all(axis=2))
    assert any(abs(drawing[y : y + 160, x : x + 200] - result).max() <= 1 for y, x in corners)  # rounded otherwise
    for path in folder.glob("*.png"):
        with Image.open(path) as picture:
            assert picture.width < 1050  # the page's column


@pytest.mark.skipif(find_browser() is None, reason=NO_BROWSER)
def test_a_browser_shows_every_picture(page, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(page.path)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        widths = browser.evaluate(
            "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth, () => 0)))"
        )
        assert len(widths) == len(page.pictures) + 2  # two of them stand at the top as well
        assert min(widths) > 0
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.evaluate("[...document.images].every(i => i.width === i.naturalWidth || i.closest('.own'))")
        assert browser.console == []


@pytest.mark.skipif(find_browser() is None, reason=NO_BROWSER)
def test_a_missing_picture_would_be_seen(tmp_path):
    (tmp_path / "page.html").write_text('<link rel="icon" href="data:,"><img src="absent.png">', encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "page.html")
        assert browser.console
