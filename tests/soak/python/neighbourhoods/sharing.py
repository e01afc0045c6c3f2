"""Threads that share a workspace and a tensor: every update is there."""

from __future__ import annotations

import threading
from random import Random

import firelu
import numpy as np
from firelu import create_operator as op


def in_threads(works) -> None:
    """Run each in a thread of its own at once; an exception in one is raised here."""
    failures, start = [], threading.Barrier(len(works))

    def run(work) -> None:
        try:
            start.wait()
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]


def case(choices: Random) -> None:
    """Count runs, feeds and backward passes of several threads."""
    length, rounds = choices.choice([1, 5, 1000, 60_000]), choices.randint(1, 12)
    ws, counters = firelu.Workspace(), [f"C{i}" for i in range(choices.randint(1, 3))]
    ws.feed("ONE", np.ones(length, np.float32))
    for name in counters:
        ws.feed(name, np.zeros(length, np.float32))
    leaf = firelu.Tensor(np.full(length, 3, np.float32), requires_grad=True)
    expected, passes = dict.fromkeys(counters, 0), 0
    works = []
    for place in range(choices.randint(2, 8)):
        kind = choices.choice(["run", "run", "run", "feed", "look", "back"])
        chosen = [name for name in counters if choices.random() < 0.7] or counters[:1]
        if kind == "run":
            net = [
                step
                for name in chosen
                for step in (op("Add", [name, "ONE"], ["D" + name]), op("Sum", ["D" + name], [name]))
            ]
            works.append(lambda net=net: [ws.run(net) for _ in range(rounds)])
            for name in chosen:
                expected[name] += rounds
        elif kind == "feed":
            works.append(lambda place=place: [_feed(ws, f"own{place}", number, length) for number in range(rounds)])
        elif kind == "look":
            works.append(lambda name=chosen[0]: _look(ws, name, rounds))
        else:
            works.append(lambda: [(leaf * leaf).sum().backward() for _ in range(rounds)])
            passes += rounds
    in_threads(works)
    for name, count in expected.items():
        np.testing.assert_array_equal(ws.fetch(name), np.full(length, count, np.float32))
    if passes:
        np.testing.assert_array_equal(leaf.grad.numpy(), np.full(length, 6 * passes, np.float32))


def _feed(ws, name: str, number: int, length: int) -> None:
    ws.feed(name, np.full(length, number, np.float32))
    assert (ws.fetch(name) == number).all(), "a run has overwritten what was fed"


def _look(ws, name: str, rounds: int) -> None:
    last = 0.0
    for _ in range(rounds):
        values = ws.fetch(name)
        assert values.min() == values.max() >= last, "half of an update was seen"
        last = values.max()
