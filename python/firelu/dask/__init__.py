"""firelu on dask arrays: lazy, for any chunks, with the bytes that the whole array would give.

Needs dask (``pip install "firelu[dask]"``); `write_pyramid` needs zarr, too.

>>> import dask.array, firelu.dask
>>> x = dask.array.zeros((300, 200), dtype="uint8", chunks=(128, 128))
>>> firelu.dask.resample(x, 1, 2)
dask.array<resample, shape=(150, 100), dtype=uint8, chunksize=(128, 100), chunktype=numpy.ndarray>
"""

try:
    import dask.array as _array  # noqa: F401 - only to say what is missing
except ModuleNotFoundError as _missing:
    raise ImportError('firelu.dask needs dask: pip install "firelu[dask]"') from _missing

from .functions import filter2d, pyramid, resample, upfirdn2d
from .stores import write_pyramid

__all__ = ["filter2d", "pyramid", "resample", "upfirdn2d", "write_pyramid"]
