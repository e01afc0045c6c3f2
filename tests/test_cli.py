"""The command `firelu`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import firelu
import pytest
from firelu.cli import doctor, main
from firelu.cli.terminal import Terminal


def test_module_and_entry_point_are_the_same_command():
    done = subprocess.run([sys.executable, "-m", "firelu", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"firelu {firelu.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["doctor", "--help"], ["ops", "-h"], ["demo", "-h"], ["bench", "-h"]]
)
def test_help_everywhere(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "usage: firelu" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["ops", "--nonsense"]])
def test_a_bad_command_line_is_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: firelu" in capsys.readouterr().err


def test_doctor_is_well_here_and_says_so(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert firelu.__version__ in text
    assert firelu.get_cpu_level() in text
    assert "All is well." in text
    assert "\x1b" not in text


def test_doctor_says_what_to_do_next(monkeypatch, capsys):
    for version, expected in (("1.0", "firelu demo\n"), (None, "pip install 'firelu[demo]', then firelu demo\n")):
        found = dict.fromkeys(["ml_dtypes", "torch", "scipy", "matplotlib", "pillow"], version)
        monkeypatch.setattr(doctor, "_versions", lambda found=found: {"firelu": "1.0", **found})
        assert main(["doctor"]) == 0
        text = capsys.readouterr().out
        assert f"Next\n  see it      {expected}" in text
        assert "firelu bench --quick" in text
        assert ("firelu[torch]" in text.partition("Next")[2]) == (version is None)


def test_doctor_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert set(report["operators"]) == set(firelu.operators())
    assert report["cpu"]["threads"] == firelu.get_num_threads()
    assert report["cuda"]["usable"] in (True, False)
    assert report["cuda"]["reason"]
    for where in report["operators"].values():
        assert where["cuda_reason"]


@pytest.fixture
def without_cuda(monkeypatch):
    """Give a setter of the reason why there is no CUDA."""

    def because(reason):
        nothing = {"usable": False, "reason": reason, "driver": None, "devices": []}
        monkeypatch.setattr(firelu, "cuda_status", lambda **_: dict(nothing))

    return because


def test_doctor_has_one_line_for_no_gpu(without_cuda, capsys):
    without_cuda("no CUDA driver library (libcuda) was found")
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "CUDA\n  none found; the CPU is used, which is fine\ntorch\n" in text
    assert "libcuda" not in text
    assert f"all {len(firelu.operators())} run on the CPU" in text


def test_doctor_says_why_a_driver_does_not_work(without_cuda, capsys):
    without_cuda("the CUDA driver library libcuda.so.1 is cut short")
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "not usable: the CUDA driver library libcuda.so.1 is cut short; the CPU is used\n" in text
    assert text.count("cut short") == 1


def test_doctor_fails_on_a_setting_that_is_ignored(monkeypatch, capsys):
    problem = "FIRELU_NUM_THREADS: got 'abc', takes a number from 1 to 1024"
    monkeypatch.setattr(firelu._firelu, "environment_problems", lambda: [problem], raising=False)
    monkeypatch.setenv("FIRELU_NUM_THREADS", "abc")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert f"Problem: {problem}\n" in text
    assert "All is well" not in text
    assert re.search(r"FIRELU_NUM_THREADS +abc", text)
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == [problem]


@pytest.mark.skipif(not hasattr(firelu._firelu, "environment_problems"), reason="this build does not look at settings")
@pytest.mark.parametrize(("name", "value"), [("FIRELU_NUM_THREADS", "abc"), ("FIRELU_CPU_LEVEL", "avx3")])
def test_doctor_fails_on_a_bad_setting_of_a_whole_process(name, value):
    environment = {**os.environ, name: value}
    done = subprocess.run(
        [sys.executable, "-m", "firelu", "doctor"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 1
    assert re.search(rf"^Problem: .*{name}.*{value}", done.stdout, re.MULTILINE), done.stdout


def test_doctor_says_where_the_number_of_threads_comes_from(monkeypatch, capsys):
    monkeypatch.setattr(firelu._firelu, "num_threads_source", lambda: "OMP_NUM_THREADS", raising=False)
    assert main(["doctor"]) == 0
    assert f"{firelu.get_num_threads()} of " in (text := capsys.readouterr().out)
    assert ", from OMP_NUM_THREADS (" in text


def test_doctor_speaks_of_the_drop_in(capsys):
    assert main(["doctor"]) == 0
    assert "\nDrop-in (firelu.compat)\n  off: firelu.compat.install(), or" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compat"]["installed"] is False


def test_doctor_finds_a_wrong_result(monkeypatch, capsys):
    monkeypatch.setattr(firelu, "run_operator", lambda name, x, **arguments: x + 1)
    assert main(["doctor"]) == 1
    assert "wrong result" in capsys.readouterr().out


def test_doctor_finds_a_broken_torch(monkeypatch, capsys):
    def broken(name):
        raise OSError("libtorch.so: cannot open shared object file")

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    assert main(["doctor"]) == 1
    assert "libtorch.so" in capsys.readouterr().out


def test_ops_lists_every_operator(capsys):
    assert main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines[1:] if line and not line.startswith("[")]
    assert listed == firelu.operators()


@pytest.mark.parametrize("name", firelu.operators())
def test_ops_describes_every_operator(name, capsys):
    assert main(["ops", name]) == 0
    text = capsys.readouterr().out
    schema = firelu.schema(name)
    for heading in ("Inputs", "Outputs", "Facts", "Gradient definition"):
        assert f"\n{heading}\n" in text
    for part in [*schema.inputs, *schema.outputs, *schema.args]:
        assert part.name in text
    assert "what the cost function computes" not in text, "an operator says its cost in words"
    assert "gradient of" in text


def test_ops_names_the_nearest_operator(capsys):
    assert main(["ops", "LeakyRelus"]) == 1
    assert "LeakyRelu" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "meant"), [("upfirdn2d", "UpFirDn2d"), ("fused_leaky_relu", "FusedLeakyRelu")])
def test_ops_shows_the_operator_that_is_meant(name, meant, capsys):
    assert main(["ops", meant]) == 0
    expected = capsys.readouterr().out
    assert main(["ops", name]) == 0
    assert capsys.readouterr().out == f"{name} means the operator {meant}.\n\n{expected}"


def test_ops_does_not_choose_between_two(monkeypatch, capsys):
    operators = firelu.operators()
    monkeypatch.setattr(firelu, "operators", lambda: [*operators, "LEAKYRELU"])
    assert main(["ops", "leakyrelu"]) == 1
    assert "LeakyRelu" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="the output is closed by bash, which is not installed")
@pytest.mark.parametrize("arguments", [["ops"], ["ops", "LeakyRelu"], ["doctor"], ["--version"], ["ops", "Nonsense"]])
def test_a_closed_output_is_no_failure(arguments):
    done = subprocess.run(
        ["bash", "-c", '"$0" -m firelu "$@" >&-', sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == ("Nonsense" in arguments), done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="the pipe is made by bash, which is not installed")
def test_a_reader_that_leaves_early_is_no_failure():
    script = "from firelu.cli import main; import sys; sys.exit(main(['ops']))"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", '"$0" -c "$1" | true', sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_demo_says_what_it_lacks(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("firelu.demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(firelu, "demo", raising=False)
    assert main(["demo"]) == 1
    assert "pip install 'firelu[demo]'" in capsys.readouterr().err


def test_a_picture_that_is_not_there_is_named(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("PIL")
    missing = tmp_path / "missing.png"
    assert main(["demo", "--output", str(tmp_path / "out"), "--image", str(missing)]) == 1
    assert capsys.readouterr().err.endswith(f"firelu demo: {missing}: No such file or directory\n")


class Screen:
    """A stream that says it is a terminal."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


def test_colour_and_bars_are_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    terminal = Terminal(screen)
    with terminal.progress(2) as progress:
        progress.step("first")
        progress.step("second")
    assert terminal.style("x", "red") == "\x1b[31mx\x1b[0m"
    assert "2/2 second" in screen.text
    assert screen.text.endswith("\x1b[2K")  # the bar is gone at the end
    monkeypatch.setenv("NO_COLOR", "1")
    assert Terminal(Screen()).style("x", "red") == "x"


def test_a_pipe_gets_plain_lines(capsys):
    terminal = Terminal(sys.stdout)
    with terminal.progress(1) as progress:
        progress.step("first")
    assert capsys.readouterr().out == "[1/1] first\n"
    assert terminal.style("x", "red") == "x"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["1x2x64x64", "1,3,3,1"], "both sums in registers: 4 taps; planes"),
        (["1x2x64x64", "1,3,3,1", "--set", "up_x=2", "up_y=2"], "4 taps, up 2"),
        (["1x16x64x64", "1,3,3,1", "--channels-last"], "channels-last rows"),
        (["1x2x64x64", "1,2,3,2,1"], "by way of rows in the first-level cache"),
        (["0x2x64x64", "1,1"], "nothing to compute"),
    ],
)
def test_ops_explains_which_path_a_call_takes(inputs, expected, capsys):
    if firelu.get_cpu_level() == "native":
        pytest.skip("the portable level has one path for all of these")
    assert main(["ops", "UpFirDn2d", "--explain", *inputs]) == 0
    assert expected in " ".join(capsys.readouterr().out.split())


def test_ops_explains_operators_of_one_path(capsys):
    assert main(["ops", "LeakyRelu", "--explain", "4x4"]) == 0
    assert "one path for every call" in capsys.readouterr().out
