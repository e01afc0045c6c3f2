"""A dictionary with attributes, and opening of local files."""

from __future__ import annotations

import io
import os
from typing import Any
from urllib.parse import urlparse

from firelu.errors import ArgumentError


class EasyDict(dict[str, Any]):
    """A dictionary whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]


def is_url(obj: Any, allow_file_urls: bool = False) -> bool:
    """Tell whether something is an address."""
    scheme = urlparse(obj).scheme if isinstance(obj, str) else ""
    return scheme in (("http", "https", "ftp", "file") if allow_file_urls else ("http", "https", "ftp"))


def open_url(url: str, *arguments: Any, **options: Any) -> io.BufferedReader:
    """Open a local file for reading; firelu fetches nothing from the network."""
    if is_url(url):
        raise ArgumentError(f"open_url: url: got {url}, takes the path of a local file: download it first")
    return open(os.fspath(url).removeprefix("file://"), "rb")
