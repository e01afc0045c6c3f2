"""Objects from configurations, and the door that the allow-list closes."""

import sys
import types
from fractions import Fraction

import pytest
from firelu.diffusion import instantiate_from_config


def test_target_and_params():
    config = {"target": "fractions.Fraction", "params": {"numerator": 3, "denominator": 4}}
    assert instantiate_from_config(config) == Fraction(3, 4)
    assert instantiate_from_config({"target": "fractions.Fraction"}) == Fraction(0)
    assert instantiate_from_config({"target": "fractions.Fraction", "params": None}) == Fraction(0)


@pytest.mark.parametrize("allowed", [["fractions.Fraction"], ["fractions.*"], "fractions.*", {"fractions.*"}])
def test_allowed(allowed):
    assert instantiate_from_config({"target": "fractions.Fraction"}, allowed=allowed) == Fraction(0)


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("os.system", ["fractions.*"]),
        ("fractions.Fraction", []),
        ("fractions.Fraction", ["fraction.*"]),
        ("fractions.Fraction", ["fractions.Frac"]),
        ("fractionsx.Fraction", ["fractions.*"]),
    ],
)
def test_not_allowed(target, allowed):
    with pytest.raises(ValueError, match=f"{target}' is not allowed"):
        instantiate_from_config({"target": target}, allowed=allowed)


def test_nothing_is_imported_before_the_check(tmp_path, monkeypatch):
    (tmp_path / "trap_of_the_test.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="not allowed"):
        instantiate_from_config({"target": "trap_of_the_test.anything"}, allowed=["fractions.*"])
    with pytest.raises(SystemExit, match="imported"):  # the trap works
        instantiate_from_config({"target": "trap_of_the_test.anything"})


def test_a_star_does_not_admit_what_a_package_imports(monkeypatch):
    package = types.ModuleType("package_of_the_test")
    package.Fraction = Fraction
    monkeypatch.setitem(sys.modules, "package_of_the_test", package)
    config = {"target": "package_of_the_test.Fraction"}
    with pytest.raises(ValueError, match=r"defined elsewhere, in 'fractions\.Fraction'"):
        instantiate_from_config(config, allowed=["package_of_the_test.*"])
    assert instantiate_from_config(config, allowed=["package_of_the_test.*", "fractions.*"]) == 0
    assert instantiate_from_config(config, allowed=["package_of_the_test.Fraction"]) == 0


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"params": {}}, KeyError, "needs the key 'target'"),
        ("fractions.Fraction", TypeError, "must be a mapping"),
        ({"target": "Fraction"}, ValueError, "a module and something in it"),
        ({"target": 3}, ValueError, "dotted name"),
        ({"target": "fractions..Fraction"}, ValueError, "dotted name"),
        ({"target": "../evil.py"}, ValueError, "dotted name"),
        ({"target": "fractions.Nothing"}, ImportError, "'fractions' has no 'Nothing'"),
        ({"target": "no_such_module.Thing"}, ImportError, "no_such_module"),
        ({"target": "math.pi"}, TypeError, "cannot be called"),
    ],
)
def test_bad_configurations(config, error, message):
    with pytest.raises(error, match=message):
        instantiate_from_config(config)
