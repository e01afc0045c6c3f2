"""firelu.dask: bytes equal the whole array's for any chunks; stores can be resumed and survive a killed worker."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import textwrap

import firelu
import numpy as np
import pytest

da = pytest.importorskip("dask.array", reason="dask is not installed")
import dask  # noqa: E402
import firelu.dask  # noqa: E402

BORDERS = ["reflect", "symmetric", "edge", "wrap", "constant"]
KERNELS = ["box", "triangle", "cubic", "mitchell", "lanczos3", "kaiser"]


@pytest.fixture(autouse=True)
def in_this_thread():
    """Tasks are small here: no threads, so that a failure has a short traceback."""
    with dask.config.set(scheduler="synchronous"):
        yield


def draw_chunks(rng: random.Random, length: int) -> tuple[int, ...]:
    chunks = []
    while length:
        chunks.append(rng.randint(1, length) if rng.random() < 0.5 else min(length, rng.randint(1, 9)))
        length -= chunks[-1]
    return tuple(chunks) or (0,)


def draw_values(rng: random.Random, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = np.random.default_rng(rng.randrange(2**32))
    if dtype.startswith("uint"):
        return values.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    x = values.standard_normal(shape).astype(dtype)
    x[values.random(shape) < 0.2] = 0  # zeros have a sign, too
    return x


# A quick run has the first cases of each test.
def some_of(count, quick):
    return [pytest.param(case, marks=[] if case < quick else [pytest.mark.full]) for case in range(count)]


@pytest.mark.parametrize("case", some_of(200, 40))
def test_resample_is_tile_exact(case):
    rng = random.Random(case)
    shape = tuple(rng.randint(1, 60) for _ in range(rng.randint(1, 3)))
    axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    factor = rng.randint(1, 6), rng.randint(1, 6)
    if case % 5 == 0:
        factor = rng.choice([(1, 2), (2, 1), (1, 3), (17, 19), (40, 37)])
    arguments = {"axes": axes, "kernel": rng.choice(KERNELS), "border": rng.choice(BORDERS)}
    x = draw_values(rng, shape, rng.choice(["uint8", "uint16", "float16", "float32", "float64"]))
    chunks = tuple(draw_chunks(rng, length) for length in shape)
    whole = firelu.resample(x, *factor, **arguments)
    lazy = firelu.dask.resample(da.from_array(x, chunks=chunks), *factor, **arguments)
    assert (lazy.shape, lazy.dtype) == (whole.shape, whole.dtype)
    assert all(max(after) <= max(before) for after, before in zip(lazy.chunks, chunks, strict=True))
    assert lazy.compute().tobytes() == whole.tobytes(), (shape, factor, arguments, chunks, x.dtype)


@pytest.mark.parametrize("case", some_of(100, 30))
def test_upfirdn2d_is_tile_exact(case):
    rng = random.Random(1000 + case)
    shape = rng.randint(1, 2), rng.randint(8, 50), rng.randint(8, 50)
    taps = rng.choice([(3, 3), (4, 4), (12, 12), (5, 2), (1, 7), (9, 1), (13, 13)])
    values = np.random.default_rng(case)
    kernel = values.standard_normal(taps[0])[:, None] * values.standard_normal(taps[1])
    if case % 3 == 0:
        kernel = values.standard_normal(taps)
    up, down = (rng.randint(1, 3), rng.randint(1, 3)), (rng.randint(1, 3), rng.randint(1, 3))
    pad = [rng.randint(-2, 9) for _ in range(4)]
    pad = [pad[0], pad[1] + taps[1], pad[2], pad[3] + taps[0]]
    arguments = {"flip_kernel": rng.random() < 0.5, "gain": rng.choice([1.0, 0.7])}
    x = draw_values(rng, shape, rng.choice(["float16", "float32", "float64"]))
    chunks = tuple(draw_chunks(rng, length) for length in shape)
    whole = firelu.upfirdn2d(x, kernel, up, down, pad, **arguments)
    lazy = firelu.dask.upfirdn2d(da.from_array(x, chunks=chunks), kernel, up, down, pad, **arguments)
    assert lazy.shape == whole.shape
    # The sign of a zero depends on whether zeros of the padding are summed or left out: adding zero takes it away.
    assert (lazy.compute() + 0).tobytes() == (whole + 0).tobytes(), (shape, taps, up, down, pad, chunks, x.dtype)


@pytest.mark.parametrize("border", BORDERS)
def test_filter2d_has_borders(border):
    rng = random.Random(5)
    x = draw_values(rng, (2, 40, 33), "float32")
    kernel = np.random.default_rng(5).standard_normal((5, 4)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (2, 2), (2, 1)), mode=border)
    expected = firelu.upfirdn2d(padded, kernel)
    lazy = firelu.dask.filter2d(da.from_array(x, chunks=(1, 7, 12)), kernel, border=border)
    assert lazy.shape == x.shape
    assert lazy.compute().tobytes() == expected.tobytes()


def test_only_rims_are_read():
    """A tile's task depends on the chunks under it and on cuts of its neighbours, as narrow as half the kernel."""
    x = da.zeros((400, 400), chunks=(100, 100), dtype="uint8")
    lazy = firelu.dask.resample(x, 1, 2, kernel="lanczos3")
    assert lazy.chunks == ((100, 100), (100, 100))
    graph = dict(lazy.__dask_graph__())
    cuts = [key for key in graph if isinstance(key, tuple) and str(key[0]).startswith("rim-")]
    assert cuts
    for key in cuts:
        widths = [part.split(":") for part in key[-1].split("-")]
        lengths = [100 if start == "None" else int(stop) - int(start) for start, stop in widths]
        assert all(length in (5, 100) for length in lengths)
        assert 5 in lengths


def test_tiny_chunks_are_merged_and_large_ones_split():
    x = da.zeros((1000, 64), chunks=(100, 64), dtype="float32")
    assert firelu.dask.resample(x, 1, 8).chunks == ((100, 25), (8,))
    assert firelu.dask.resample(x, 2, 1, axes=0).chunks == ((100,) * 20, (64,))


def test_pyramid():
    x = draw_values(random.Random(6), (3, 130, 97), "uint8")
    lazy = firelu.dask.pyramid(da.from_array(x, chunks=(1, 50, 40)), 4, kernel="cubic")
    for level, whole in zip(lazy, firelu.pyramid(x, 4, kernel="cubic"), strict=True):
        assert level.compute().tobytes() == whole.tobytes()


def test_bad_calls():
    x = da.zeros((8, 8), dtype="float32")
    for error, call in [
        (firelu.DTypeError, lambda: firelu.dask.resample(np.zeros((8, 8)), 2)),
        (firelu.DTypeError, lambda: firelu.dask.resample(x.astype(int), 2)),
        (firelu.DTypeError, lambda: firelu.dask.upfirdn2d(x.astype("uint8"), np.ones((2, 2)))),
        (firelu.ShapeError, lambda: firelu.dask.resample(x[x[:, 0] > 0], 2)),
        (firelu.ShapeError, lambda: firelu.dask.upfirdn2d(x, np.ones((9, 9)))),
        (firelu.ShapeError, lambda: firelu.dask.filter2d(x[0], np.ones((2, 2)))),
        (firelu.ArgumentError, lambda: firelu.dask.resample(x, 0)),
        (firelu.ArgumentError, lambda: firelu.dask.upfirdn2d(x, np.ones((2, 2)), up=0)),
        (firelu.ArgumentError, lambda: firelu.dask.filter2d(x, np.ones((2, 2)), border="mirror")),
    ]:
        with pytest.raises(error, match=r"got .*takes"):
            call()
    with pytest.raises(firelu.DTypeError, match=r"firelu\.dask"):
        firelu.resample(x, 2)


def test_colours_last_are_refused_as_in_numpy(tmp_path):
    x = da.zeros((16, 20, 3), dtype="float32")
    kernel = np.ones((2, 2), np.float32) / 4
    with pytest.raises(firelu.ShapeError, match=r"takes \(\.\.\., H, W\), .*: pass x\.transpose"):
        firelu.dask.filter2d(x, kernel)
    for call in (
        lambda **axes: firelu.dask.resample(x, 1, 2, **axes),
        lambda **axes: firelu.dask.pyramid(x, 2, **axes)[1],
    ):
        with pytest.raises(firelu.ShapeError, match=r"pass axes=\(0, 1\), or axes=\(1, 2\)"):
            call()
        assert call(axes=(0, 1)).shape == (8, 10, 3)
        assert call(axes=(1, 2)).shape == (16, 10, 2)
    pytest.importorskip("zarr", reason="zarr is not installed")
    with pytest.raises(
        firelu.ShapeError, match=r"move colours to the front with dask\.array\.moveaxis\(x, -1, 0\), or pass"
    ):
        firelu.dask.write_pyramid(tmp_path / "pixels", 2, x)
    group = firelu.dask.write_pyramid(tmp_path / "volume", 2, x, axes=(1, 2))
    assert group["1"].shape == (16, 10, 2)


def test_graphs_pickle():
    lazy = firelu.dask.resample(da.ones((60, 60), chunks=20, dtype="float32"), 3, 2)
    again = pickle.loads(pickle.dumps(lazy))
    assert again.compute().tobytes() == lazy.compute().tobytes()


class StoppedError(Exception):
    """What an interrupt is played by."""


def test_a_store_is_resumed(tmp_path, monkeypatch):
    pytest.importorskip("zarr", reason="zarr is not installed")
    monkeypatch.setattr(firelu.dask.stores, "_CHUNKS_AT_ONCE", 8)
    x = draw_values(random.Random(7), (3, 150, 105), "uint16")
    source = da.from_array(x, chunks=(1, 100, 77))
    seen: list[tuple[int, int]] = []

    def interrupt(done, total):
        seen.append((done, total))
        if len(seen) in (2, 5):
            raise StoppedError

    for _ in range(2):
        with pytest.raises(StoppedError):
            firelu.dask.write_pyramid(tmp_path, 4, source, chunks=16, progress=interrupt)
    with pytest.raises(firelu.ArgumentError, match="kernel='lanczos3'"):
        firelu.dask.write_pyramid(tmp_path, 4, source, chunks=16, kernel="box")
    group = firelu.dask.write_pyramid(tmp_path, 4, source, chunks=16, progress=interrupt)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen}), "what is stored is not computed again"
    assert seen[-1][0] == seen[-1][1]
    for level, whole in enumerate(firelu.pyramid(x, 4)):
        assert group[str(level)][:].tobytes() == whole.tobytes()
    multiscale = group.attrs["ome"]["multiscales"][0]
    assert [each["path"] for each in multiscale["datasets"]] == ["0", "1", "2", "3"]
    assert [axis["name"] for axis in multiscale["axes"]] == ["z", "y", "x"]
    scale, translation = multiscale["datasets"][2]["coordinateTransformations"]
    assert scale == {"type": "scale", "scale": [1.0, 4.0, 4.0]}
    assert translation == {"type": "translation", "translation": [0.0, 1.5, 1.5]}
    # A level more, from what is there.
    assert firelu.dask.write_pyramid(tmp_path, 5, source, chunks=16)["4"].shape == (3, 10, 7)


def test_a_store_with_a_first_level(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    x = draw_values(random.Random(8), (90, 70), "float32")
    zarr.open_group(tmp_path, mode="a").create_array("0", data=x, chunks=(32, 32))
    group = firelu.dask.write_pyramid(tmp_path, 3, chunks=32, kernel="box")
    for level, whole in enumerate(firelu.pyramid(x, 3, kernel="box")):
        assert group[str(level)][:].tobytes() == whole.tobytes()
    for call in [
        lambda: firelu.dask.write_pyramid(tmp_path / "none", 3),
        lambda: firelu.dask.write_pyramid(tmp_path / "a", 3, da.zeros((8, 8, 3)), axes=(0, 1)),
        lambda: firelu.dask.write_pyramid(tmp_path / "b", 3, da.zeros((8, 8)), chunks=0),
        lambda: firelu.dask.write_pyramid(tmp_path / "c", 3, da.zeros((8, 8)), axis_names="x"),
        lambda: firelu.dask.write_pyramid(tmp_path / "d", 0, da.zeros((8, 8))),
        lambda: firelu.dask.write_pyramid(tmp_path / "e", 2, da.zeros((0, 8))),
    ]:
        with pytest.raises(firelu.FireluError, match=r"got .*takes"):
            call()


KILLED = """
    import os, sys, threading
    import dask.array as da, numpy as np
    from distributed import Client, LocalCluster
    import firelu, firelu.dask

    def slowly(block):
        import time
        time.sleep(0.05)
        return block

    if __name__ == "__main__":
        x = np.random.default_rng(0).integers(0, 255, (1600, 1500), np.uint8)
        source = da.from_array(x, chunks=(128, 128)).map_blocks(slowly, dtype=x.dtype)
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            victim = client.run(os.getpid)
            killed = []

            def kill(done, total):
                if not killed:
                    killed.append(victim[sorted(victim)[0]])
                    threading.Timer(0.3, os.kill, (killed[0], 9)).start()

            group = firelu.dask.write_pyramid(sys.argv[1], 4, source, chunks=128, progress=kill)
            assert killed[0] not in client.run(os.getpid).values(), "a worker was to die"
        for level, whole in enumerate(firelu.pyramid(x, 4)):
            assert group[str(level)][:].tobytes() == whole.tobytes(), level
        print("complete")
"""


@pytest.mark.full
def test_a_killed_worker_leaves_no_gap(tmp_path):
    pytest.importorskip("distributed", reason="distributed is not installed")
    pytest.importorskip("zarr", reason="zarr is not installed")
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    done = subprocess.run(
        [sys.executable, script, tmp_path / "store"], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("complete")


BUSY = """
    import os
    import numpy as np
    import firelu

    def helpers():
        \"\"\"Give how many threads of firelu's own have worked in this process.\"\"\"
        count = 0
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/comm") as name, open(f"/proc/self/task/{thread}/schedstat") as times:
                count += name.read().startswith("firelu-") and int(times.read().split()[0]) > 0
        return count

    def busy_threads(size):
        \"\"\"Give how many threads resample pictures: the one that calls, and firelu's own.\"\"\"
        for _ in range(5):
            firelu.resample(np.zeros((size, size, 3), np.uint8), 2, axes=(0, 1))
        return 1 + helpers()
"""
# Each prints how many threads are busy, and how many the engine gave.
ENGINES = {
    "joblib": """
        import joblib
        if __name__ == "__main__":
            counts = joblib.Parallel(n_jobs=2)(joblib.delayed(busy_threads)(size) for size in (1024, 1025))
            print(max(counts), max(1, joblib.cpu_count() // 2))
    """,
    "distributed": """
        from distributed import Client, LocalCluster
        if __name__ == "__main__":
            cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            with cluster, Client(cluster) as client:
                print(max(client.gather(client.map(busy_threads, [1024, 1025]))), 1)
    """,
    "dask": """
        import dask, dask.array as da
        import firelu.dask
        if __name__ == "__main__":
            x = da.zeros((8192, 8192), dtype="uint8", chunks=2048)
            with dask.config.set(scheduler="threads", num_workers=2):
                firelu.dask.resample(x, 2).sum().compute()
            print(2 + helpers(), 2)
    """,
    "ray": """
        import ray
        if __name__ == "__main__":
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
            print(max(ray.get([ray.remote(busy_threads).remote(size) for size in (1024, 1025)])), 1)
    """,
    # Without an engine all threads are ours: what is counted above does count.
    "numpy": """
        if __name__ == "__main__":
            firelu.set_num_threads(3)
            print(busy_threads(2048), 3)
    """,
}


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are read as Linux writes them")
def test_no_more_threads_are_busy_than_the_engine_gave(engine, tmp_path):
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    script = tmp_path / "busy.py"
    script.write_text(textwrap.dedent(BUSY) + textwrap.dedent(ENGINES[engine]))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    busy, given = map(int, done.stdout.split()[-2:])
    assert busy <= given
    assert engine != "numpy" or busy == 3


LARGE = """
    import re
    import dask, dask.array as da, numpy as np
    import firelu.dask

    def block(block_info=None):
        where = block_info[None]["array-location"]
        y, x = np.ogrid[slice(*where[0]), slice(*where[1])]
        return ((y * 31 + x * 17) >> 3).astype(np.uint8)

    sizes = (1024,) * 64
    x = da.map_blocks(block, chunks=(sizes, sizes), dtype=np.uint8, meta=np.empty((0, 0), np.uint8))
    assert x.nbytes == 2**32
    with dask.config.set(scheduler="threads", num_workers=2):
        level = firelu.dask.pyramid(x, 7)[-1].compute()
    assert level.shape == (1024, 1024)
    # Not ru_maxrss, which a process inherits from the one that started it.
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read as Linux writes it")
def test_a_pyramid_of_four_gigabytes_takes_less_than_one():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LARGE)], capture_output=True, text=True, check=False, timeout=290
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1024
