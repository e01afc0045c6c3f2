"""Threads that share a leaf, a workspace, a `no_grad`; processes that fork and exit while others compute."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import firelu
import numpy as np
import pytest
from firelu import create_operator as op

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks, or looks at how a process ended")


def in_threads(count, work):
    """Run `work(index)` in so many threads at once; an exception in one is raised here."""
    failures = []
    start = threading.Barrier(count)

    def run(index):
        try:
            start.wait()
            work(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]


def run_python(code, timeout=120, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment}
    )


# A lost update needs two threads at one place at one time: the full run gives it a hundred chances.
often = pytest.mark.parametrize("runs", [1, pytest.param(100, marks=[pytest.mark.full, pytest.mark.timeout(3600)])])


@often
def test_no_gradient_is_lost_between_threads(runs):
    for _ in range(runs):
        leaf = firelu.Tensor(np.ones(200_000, np.float32), requires_grad=True)

        def work(_, leaf=leaf):
            for _ in range(25):
                (leaf * leaf).sum().backward()

        in_threads(8, work)
        # 8 threads, 25 passes, a derivative of 2: whole numbers that float32 adds exactly.
        np.testing.assert_array_equal(leaf.grad.numpy(), np.full(200_000, 400, np.float32))


def test_passes_over_several_leaves_in_any_order_neither_lose_nor_wait_for_each_other():
    leaves = [firelu.Tensor(np.ones(50_000, np.float32), requires_grad=True) for _ in range(4)]

    def work(index):
        order = leaves if index % 2 else leaves[::-1]
        for _ in range(20):
            total = order[0]
            for leaf in order[1:]:
                total = total + leaf
            total.sum().backward()

    in_threads(6, work)
    for leaf in leaves:
        np.testing.assert_array_equal(leaf.grad.numpy(), np.full(50_000, 120, np.float32))


@often
def test_runs_of_one_workspace_follow_each_other(runs):
    net = [op("Add", ["C", "ONE"], ["D"]), op("Sum", ["D"], ["C"])]
    for _ in range(runs):
        ws = firelu.Workspace()
        ws.feed("C", [0.0])
        ws.feed("ONE", [1.0])

        def work(_, ws=ws):
            for _ in range(200):
                ws.run(net)

        in_threads(8, work)
        assert ws.fetch("C").item() == 1600


def test_what_is_fed_during_a_run_is_not_overwritten_by_it():
    inside, fed = threading.Event(), threading.Event()

    def slow(x):
        inside.set()
        # The feed waits for this run: it cannot come before its end.
        assert not fed.wait(0.3)
        return x + 1

    firelu.register_operator("TestSlowFeed", slow, ["X"], ["Y"])
    ws = firelu.Workspace()
    ws.feed("X", np.float32([1]))

    def feed():
        inside.wait()
        assert "Y" not in ws  # What reads sees the state before.
        ws.feed("Y", np.float32([7]))
        fed.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    ws.run(op("TestSlowFeed", ["X"], ["Y"]))
    feeder.join(60)
    assert fed.is_set()
    assert ws.fetch("Y").item() == 7


def test_a_kernel_that_changes_its_own_workspace_is_refused():
    ws = firelu.Workspace()
    calls = {
        "feed": lambda: ws.feed("X", [1.0]),
        "remove": lambda: ws.remove("X"),
        "run": lambda: ws.run(op("Sum", ["X"], ["Z"])),
    }
    told = []

    def kernel(x):
        for name, call in calls.items():
            with pytest.raises(firelu.ArgumentError, match=f"Workspace.{name}: workspace: got a call from inside"):
                call()
            told.append(name)
        assert ws.fetch("X").tolist() == [2.0]
        return x

    firelu.register_operator("TestMeddle", kernel, ["X"], ["Y"])
    ws.feed("X", [2.0])
    ws.run(op("TestMeddle", ["X"], ["Y"]))
    assert told == list(calls)
    ws.feed("X", [3.0])
    assert ws.fetch("Y").tolist() == [2.0]


def test_a_failing_fetch_in_many_threads_does_not_deadlock():
    ws = firelu.Workspace()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(_):
        for _ in range(300):
            with pytest.raises(firelu.ArgumentError):
                ws.fetch("nothing")

    try:
        in_threads(8, work)
    finally:
        sys.setswitchinterval(before)


def test_one_of_many_threads_registers_a_name_and_all_call_its_operator():
    winners = {}

    def work(index):
        for turn in range(20):
            name = f"TestRace{turn}"
            try:
                firelu.register_operator(name, lambda x: x + index, ["X"], ["Y"])
            except firelu.ArgumentError:
                pass
            else:
                winners.setdefault(turn, []).append(index)
            assert name in firelu.operators()
            first = firelu.run_operator(name, np.zeros(1))[0]
            assert [firelu.run_operator(name, np.zeros(1))[0] for _ in range(20)] == [first] * 20

    in_threads(8, work)
    for turn in range(20):
        (winner,) = winners[turn]
        assert firelu.run_operator(f"TestRace{turn}", np.zeros(1))[0] == winner


def test_threads_with_other_arguments_get_their_own_results():
    """An operator remembers the arguments of its last call, whichever thread's that was."""

    def work(index):
        x, kernel = np.full(8, -1, np.float32), np.full((1, 1), index + 1, np.float32)
        for turn in range(500):
            slope = (8 * turn + index) % 127 / 128
            assert firelu.leaky_relu(x, slope)[0] == np.float32(-slope)
            pad = (turn + index) % 5
            assert firelu.upfirdn2d(x.reshape(1, 1, 2, 4), kernel, pad=(pad, 0)).sum() == -8 * (index + 1)

    in_threads(8, work)


class Lender:
    """Gives one capsule to whoever asks, which the protocol forbids."""

    def __init__(self, values):
        self.capsule = firelu.Tensor(values).__dlpack__()

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def test_one_of_many_threads_gets_a_capsule():
    for turn in range(30):
        lender, taken, refused = Lender(np.full(1000, turn, np.float32)), [], []

        def work(_, lender=lender, taken=taken, refused=refused):
            try:
                taken.append(firelu.from_dlpack(lender))
            except firelu.ArgumentError as error:
                refused.append(str(error))

        in_threads(8, work)
        (tensor,) = taken
        assert len(refused) == 7
        assert "a capsule that is used" in refused[0]
        np.testing.assert_array_equal(tensor.numpy(), np.full(1000, turn))


LET_GO = """
import numpy, firelu
class Owner:
    def __init__(self):
        self.values = numpy.ones(4, numpy.float32)
        self.__array_interface__ = self.values.__array_interface__
    def __del__(self):
        print("let go of beside", leaf.requires_grad)
leaf = firelu.Tensor(numpy.ones(4, numpy.float32), requires_grad=True)
leaf.grad = firelu.from_dlpack(numpy.asarray(Owner()))
leaf.requires_grad = False
print("done")
"""


def test_a_gradient_of_another_library_is_let_go_of_without_a_lock():
    result = run_python(LET_GO, timeout=60)
    assert result.stdout.splitlines() == ["let go of beside False", "done"], result.stderr


def is_recording():
    leaf = firelu.Tensor([1.0], requires_grad=True)
    return (leaf + leaf).requires_grad


def test_one_no_grad_serves_many_threads_and_nests():
    shared = firelu.no_grad()

    def work(_):
        for _ in range(50):
            with shared:
                assert not is_recording()
                with shared:
                    assert not is_recording()
                assert not is_recording()
            assert is_recording()

    in_threads(8, work)


def test_one_no_grad_is_left_in_the_order_in_which_it_was_entered():
    """Not as a stack is: the thread that entered first leaves first."""
    shared = firelu.no_grad()
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def work(index):
        if index == 1:
            first_in.wait(60)
        try:
            with shared:
                (second_in if index else first_in).set()
                (first_out if index else second_in).wait(60)
                assert not is_recording()
        finally:
            first_out.set()
        assert is_recording()

    in_threads(2, work)


def test_one_no_grad_serves_many_tasks():
    shared = firelu.no_grad()

    async def task(index):
        for _ in range(5):
            with shared:
                await asyncio.sleep(0.0001 * (index % 3))
                assert not is_recording()
            assert is_recording()
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(task(index) for index in range(8)))

    asyncio.run(main())
    assert is_recording()


def test_no_grad_holds_inside_a_decorated_generator_and_not_outside():
    @firelu.no_grad()
    def generate(count):
        """Say whether it is recorded."""
        received = []
        for _ in range(count):
            try:
                received.append((yield is_recording()))
            except KeyError:
                received.append(is_recording())
        return received

    assert generate.__doc__ == "Say whether it is recorded."
    generator = generate(3)
    assert next(generator) is False
    assert is_recording()
    assert generator.send("a") is False
    assert generator.throw(KeyError()) is False
    assert is_recording()
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == ["a", False, None]
    closed = generate(2)
    next(closed)
    closed.close()
    assert is_recording()


def test_no_grad_holds_inside_decorated_coroutines_and_asynchronous_generators():
    @firelu.no_grad()
    async def coroutine():
        first = is_recording()
        await asyncio.sleep(0)
        return [first, is_recording()]

    @firelu.no_grad()
    async def generate():
        for _ in range(3):
            await asyncio.sleep(0)
            sent = yield is_recording()
            assert sent in (None, "sent")

    async def main():
        assert await coroutine() == [False, False]
        seen = []
        async for recorded in generate():
            seen.append(recorded)
            assert is_recording()
        assert seen == [False] * 3
        generator = generate()
        assert await generator.__anext__() is False
        assert await generator.asend("sent") is False
        await generator.aclose()
        # Driven by hand, a coroutine holds nothing between its steps.
        steps = coroutine().__await__()
        next(steps)
        assert is_recording()
        steps.close()

    asyncio.run(main())
    assert is_recording()


FORKS = """
import os, signal, sys, threading, numpy, firelu
op = firelu.create_operator
ws = [firelu.Workspace() for _ in range(3)]
for w in ws:
    w.feed("X", numpy.ones(4, numpy.float32))
net = [op("LeakyRelu", ["X"], [f"Y{i}"]) for i in range(2000)]
leaf = firelu.Tensor(numpy.ones(20000, numpy.float32), requires_grad=True)
stop = threading.Event()
def run(w):
    while not stop.is_set():
        w.run(net)
def back():
    while not stop.is_set():
        (leaf * leaf).sum().backward()
threads = [threading.Thread(target=run, args=(w,)) for w in ws] + [threading.Thread(target=back)]
for thread in threads:
    thread.start()
firelu.leaky_relu(numpy.ones(1 << 20, numpy.float32))
hung = []
for number in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        signal.alarm(60)
        firelu.register_operator(f"Own{number}", lambda x: x, ["X"], ["Y"])
        firelu.register_gradient(f"Own{number}", None)
        firelu.run_operator(f"Own{number}", numpy.ones(3))
        leaf.grad
        (leaf * leaf).sum().backward()
        ws[0].feed("X", [1.0])
        ws[0].run(net[:3])
        firelu.leaky_relu(numpy.ones(1 << 19, numpy.float32))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        hung.append((number, status))
stop.set()
for thread in threads:
    thread.join()
print(hung)
"""


@linux
@pytest.mark.parametrize("forks", [60, pytest.param(2000, marks=[pytest.mark.full, pytest.mark.timeout(3600)])])
def test_children_forked_while_nets_run_register_and_compute(forks):
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, str(forks)], capture_output=True, text=True, timeout=3000
    )
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


EXITS = {
    "own kernel, held": ("lambda: firelu.run_operator('Slow', a)", 10),
    "own kernel, released": ("lambda: firelu.run_operator('Slow', a)", 100_000),
    "own kernel in a net": ("lambda: ws.run(net)", 1000),
    "own kernel on the tape": ("lambda: firelu.run_operator('Slow', leaf)", 100_000),
    "operand that computes": ("lambda: firelu.leaky_relu(Slow())", 1000),
    "built-in": ("lambda: firelu.leaky_relu(a)", 50_000),
}
EXIT = """
import threading, time, numpy, firelu
a = numpy.ones({size}, numpy.float32)
firelu.register_operator("Slow", lambda x: (time.sleep(.001), x * 2)[1], ["X"], ["Y"])
leaf = firelu.Tensor(a, requires_grad=True)
ws = firelu.Workspace()
ws.feed("X", a)
net = [firelu.create_operator("Slow", ["X"], ["Y"])] * 3
class Slow:
    def __array__(self, dtype=None, copy=None):
        time.sleep(.001)
        return a
call = {call}
def loop():
    while True:
        call()
class Late:
    # Python code that runs while the interpreter shuts down lets other threads ask for it.
    def __del__(self):
        until = time.monotonic() + .02
        while time.monotonic() < until:
            pass
late = Late()
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(.05)
"""


@linux
@pytest.mark.parametrize("name", EXITS)
def test_daemon_threads_do_not_abort_the_exit(name):
    call, size = EXITS[name]
    for _ in range(20 if "own kernel," in name else 5):
        result = run_python(EXIT.format(call=call, size=size))
        assert (result.returncode, result.stderr) == (0, "")


@linux
def test_a_signal_that_ends_the_process_is_its_status():
    call, size = EXITS["own kernel, released"]
    code = EXIT.format(call=call, size=size) + "import os, signal; os.kill(os.getpid(), signal.SIGTERM)\n"
    assert run_python(code).returncode == -signal.SIGTERM
