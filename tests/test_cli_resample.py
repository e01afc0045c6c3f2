"""`firelu resample`: image files, .npy files and zarr stores."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import firelu
import numpy as np
import pytest
from firelu.cli import main


def test_images(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rng = np.random.default_rng(0)
    for shape, dtype in [((40, 60), np.uint8), ((40, 60, 3), np.uint8), ((40, 60), np.uint16)]:
        pixels = rng.integers(0, np.iinfo(dtype).max, shape, dtype)
        image.fromarray(pixels).save(tmp_path / "in.png")
        assert main(["resample", str(tmp_path / "in.png"), str(tmp_path / "out.png"), "--factor", "3/2"]) == 0
        told = capsys.readouterr()
        assert told.out.endswith(f"90 x 60 pixels: {tmp_path / 'out.png'}\n")  # width, height, as everywhere
        for step in ("reading", "resampling", "writing"):
            assert step in told.out + told.err
        written = np.asarray(image.open(tmp_path / "out.png"))
        np.testing.assert_array_equal(written, firelu.resample(pixels, 3, 2, axes=(0, 1)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_photos_stay_upright(tmp_path, orientation, ending):
    """A camera's photo is turned as its metadata says, once: no viewer turns the result again."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    operations = pytest.importorskip("PIL.ImageOps")
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:32, :48] = 255, 0, 0
    pixels[32:, 48:] = 0, 0, 255
    exif = image.Exif()
    exif[0x0112] = orientation
    source, target = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    image.fromarray(pixels).save(source, exif=exif)
    assert main(["resample", str(source), str(target), "--factor", "1/2"]) == 0
    with image.open(source) as opened, image.open(target) as written:
        upright = operations.exif_transpose(opened)
        assert written.getexif().get(0x0112, 1) == 1
        assert written.size == (upright.width // 2, upright.height // 2)
        corners = [(4, 4), (4, -5), (-5, 4), (-5, -5)]
        for y, x in corners:
            before, after = np.asarray(upright)[y, x].astype(int), np.asarray(written)[y, x].astype(int)
            assert abs(before - after).max() < 32  # JPEG is not exact; the colours are 255 apart


def test_transparent_pixels_do_not_colour_their_neighbours(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pixels = np.zeros((40, 40, 4), np.uint8)
    pixels[:, :20] = 255, 0, 0, 255
    pixels[:, 20:] = 0, 255, 0, 0  # green that nobody sees
    image.fromarray(pixels).save(tmp_path / "in.png")
    assert main(["resample", str(tmp_path / "in.png"), str(tmp_path / "out.png"), "--factor", "0.7"]) == 0
    written = np.asarray(image.open(tmp_path / "out.png"))
    assert written.shape == (28, 28, 4)
    assert written[..., 1].max() == 0
    assert written[5, 5].tolist() == [255, 0, 0, 255]


@pytest.mark.parametrize("border", ["reflect", "wrap"])
def test_npy_files(tmp_path, monkeypatch, border):
    monkeypatch.setattr(firelu.cli.resample, "_TILE", 16)
    x = np.random.default_rng(1).standard_normal((2, 50, 70)).astype(np.float32)
    np.save(tmp_path / "in.npy", x)
    command = ["resample", str(tmp_path / "in.npy"), str(tmp_path / "out.npy"), "--factor", "2/3", "--kernel", "cubic"]
    assert main([*command, "--border", border]) == 0
    expected = firelu.resample(x, 2, 3, kernel="cubic", border=border)
    assert np.load(tmp_path / "out.npy").tobytes() == expected.tobytes()
    assert main([*command, "--axes", "0,2"]) == 0
    assert np.load(tmp_path / "out.npy").shape == (2, 50, 47)


def test_zarr_stores(tmp_path, capsys):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    x = np.random.default_rng(2).integers(0, 255, (3, 90, 70), np.uint8)
    zarr.create_array(tmp_path / "in.zarr", data=x, chunks=(1, 32, 32))
    command = ["resample", str(tmp_path / "in.zarr"), str(tmp_path / "out.zarr"), "--factor", "1/2"]
    assert main(command) == 0
    told = capsys.readouterr()
    assert "3 of 3 tiles" in told.out + told.err
    out = zarr.open(tmp_path / "out.zarr", mode="r")
    assert out.chunks == (1, 32, 32)
    assert out[:].tobytes() == firelu.resample(x, 1, 2).tobytes()
    assert main(command) == 1
    assert "store already" in capsys.readouterr().err


def test_bad_command_lines(tmp_path, capsys):
    np.save(tmp_path / "in.npy", np.zeros((4, 4)))
    path = str(tmp_path / "in.npy")
    for arguments, text in [
        ([path, str(tmp_path / "out.png"), "--factor", "2"], "same kind"),
        ([path, path, "--factor", "2"], "another file"),
        ([path, str(tmp_path / "out.npy"), "--factor", "2", "--kernel", "best"], "lanczos3"),
        ([path, str(tmp_path / "out.npy"), "--factor", "2", "--axes", "5"], "axes"),
        ([str(tmp_path / "none.npy"), str(tmp_path / "out.npy"), "--factor", "2"], "none.npy"),
    ]:
        assert main(["resample", *arguments]) == 1
        assert text in capsys.readouterr().err
    for arguments in ([path, "out.npy"], [path, "out.npy", "--factor", "0"], [path, "out.npy", "--factor", "half"]):
        with pytest.raises(SystemExit):
            main(["resample", *arguments])
    assert not (tmp_path / "out.npy").exists()


def test_names_that_no_image_has_and_memory_that_is_not_there(tmp_path, monkeypatch, capsys):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    path = str(tmp_path / "in.png")
    image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(path)
    for name, factor, text in [
        ("out.picture", "2", "ends as an image's"),
        ("out", "2", "ends as an image's"),
        ("out.png", "10000000000", "below 2^31"),
    ]:
        assert main(["resample", path, str(tmp_path / name), "--factor", factor]) == 1
        assert text in capsys.readouterr().err

    def refuse(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr("firelu.cli.resample.resample", refuse)
    assert main(["resample", path, str(tmp_path / "out.png"), "--factor", "2"]) == 1
    assert "out of memory" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["in.png"]


LIMITED = """
    import re, resource, sys
    from firelu.cli import main
    resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))
    assert main(["resample", sys.argv[1], sys.argv[2], "--factor", "1/2", "--kernel", "box"]) == 0
    # Not ru_maxrss, which a process inherits from the one that started it.
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10)
"""


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA limits what is allocated on Linux alone")
def test_a_gigabyte_through_300_megabytes(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    stored = zarr.create_array(tmp_path / "in.zarr", shape=(32768, 32768), chunks=(1024, 1024), dtype="uint8")
    stored[1024:2048, :] = 200
    stored[:, 5 * 1024 : 6 * 1024] = 100
    arguments = [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path / "in.zarr"), str(tmp_path / "out.zarr")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 300
    out = zarr.open(tmp_path / "out.zarr", mode="r")
    assert out.shape == (16384, 16384)
    assert (out[600, 100], out[3000, 2600], out[600, 2600], out[3000, 100]) == (200, 100, 100, 0)


def test_arrays_with_colours_last_are_refused_with_the_option(tmp_path, capsys):
    np.save(tmp_path / "in.npy", np.zeros((16, 20, 3), np.uint8))
    command = ["resample", str(tmp_path / "in.npy"), str(tmp_path / "out.npy"), "--factor", "1/2"]
    assert main(command) == 1
    assert not (tmp_path / "out.npy").exists()
    told = capsys.readouterr().err
    assert told.startswith("firelu resample: IN: got (16, 20, 3), takes (..., H, W), and would resample the colours")
    assert told.endswith("pass --axes 0,1, or --axes 1,2 where these are no colours\n")
    for axes, shape in {"0,1": (8, 10, 3), "1,2": (16, 10, 2)}.items():
        assert main([*command, "--axes", axes]) == 0
        assert np.load(tmp_path / "out.npy").shape == shape
