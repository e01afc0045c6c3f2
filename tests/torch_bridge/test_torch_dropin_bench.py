"""The measurement of whole networks: each is timed, and none falls back to its own formula."""

from __future__ import annotations

import json

import firelu.compat
import pytest
import torch
from firelu.bench import dropin


@pytest.fixture
def small(monkeypatch):
    """Leave one small network: the StyleGAN2 generator."""
    whole = dropin.cases

    def cases(narrow, frames):
        return dict(list(whole(1 / 16, 2).items())[:1])

    monkeypatch.setattr(dropin, "cases", cases)


def test_the_table_and_the_file_say_the_same(small, tmp_path, capsys):
    assert dropin.main(["--seconds", "0", "--json", str(tmp_path / "figures.json")]) == 0
    titles, row = capsys.readouterr().out.splitlines()
    assert titles.split() == ["network", "plain", "torch", "firelu", "ratio"]
    run = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    (network,) = run["networks"]
    assert row.startswith(network["network"])
    assert network["ratio"] == network["plain"] / network["firelu"]
    assert run["threads"] == torch.get_num_threads()
    assert not firelu.compat.status()["installed"]


def test_another_result_is_an_error(small, monkeypatch):
    with pytest.raises(AssertionError, match="not close"):
        dropin.in_turns(lambda: torch.full((3,), float(firelu.compat.status()["installed"])), 0)


def test_an_installed_drop_in_is_refused():
    with firelu.compat.install(), pytest.raises(SystemExit, match="installed already"):
        dropin.main(["--seconds", "0"])
