"""Children forked while other threads run nets, backward passes and registrations: none hangs, all compute."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from random import Random

import firelu
import numpy as np
from firelu import create_operator as op


def case(choices: Random) -> None:
    """Fork while others are busy, and let the child do what needs every lock."""
    ws, length = firelu.Workspace(), choices.choice([4, 4, 30_000])
    ws.feed("X", np.ones(length, np.float32))
    net = [op("LeakyRelu", ["X"], [f"Y{i}"]) for i in range(choices.choice([3, 300]))]
    leaf = firelu.Tensor(np.ones(length, np.float32), requires_grad=True)
    kinds = {
        "run": lambda: ws.run(net),
        "back": lambda: (leaf * leaf).sum().backward(),
        "register": lambda: _register("TestForkOwn", lambda x: x),
        "call": lambda: firelu.leaky_relu(np.ones(1 << 18, np.float32)),
    }
    stop = threading.Event()

    def busy(work) -> None:
        while not stop.is_set():
            work()

    chosen = choices.choices(["run", "run", "back", "call", "register"], k=choices.randint(1, 4))
    if chosen.count("register") > 1:
        chosen = [kind for kind in chosen if kind != "register"] + ["register"]
    threads = [threading.Thread(target=busy, args=(kinds[kind],)) for kind in chosen]
    for thread in threads:
        thread.start()
    try:
        for number in range(choices.randint(1, 6)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                _work(ws, net, leaf, number)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 0, f"child {number} beside {chosen} ended with {status}"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _register(name: str, kernel) -> None:
    """Register an operator, also where an earlier case has: few names keep the registry small."""
    firelu.register_operator(name, kernel, ["X"], ["Y"], replace=name in firelu.operators())


def _work(ws, net, leaf, number: int) -> None:
    """What a child does; a hang ends with a signal, a wrong result with 1."""
    signal.alarm(60)
    status = 1
    try:
        name = f"TestForkChild{number}"
        _register(name, lambda x: 2 * x)
        right = firelu.run_operator(name, np.ones(3)).tolist() == [2, 2, 2]
        before = 0.0 if leaf.grad is None else float(leaf.grad.numpy()[0])
        (leaf * leaf).sum().backward()
        right &= float(leaf.grad.numpy()[0]) == before + 2
        ws.feed("X", np.float32([-1]))
        ws.run(net[:3])
        right &= abs(float(ws.fetch("Y2")[0]) + 0.01) < 1e-6
        right &= bool((firelu.leaky_relu(np.ones(1 << 18, np.float32)) == 1).all())
        status = 0 if right else 1
    finally:
        os._exit(status)
