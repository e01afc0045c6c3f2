# Free-threaded Python: the module built for one such interpreter, and the tests that need numpy alone; included by the
# Makefile. The stable ABI of the other wheels is not for it.
.PHONY: test-freethreaded

# Debian has no package of one: build its source package of Python 3.14 after `./configure --disable-gil`.
FREETHREADED_PYTHON ?= python3.14t
FREETHREADED := target/freethreaded
FREETHREADED_BIN := $(FREETHREADED)/environment/bin
FREETHREADED_PACKAGES := "numpy>=2.3" "array-api-compat>=1.9" "pytest>=8" "pytest-timeout>=2.3" "hypothesis>=6.100" \
  "ml_dtypes>=0.4" "mpmath>=1.3" "scipy>=1.11"
FREETHREADED_TESTS ?= tests/operators tests/reliability/test_freethreaded.py tests/reliability/test_threads_hostile.py \
  tests/reliability/test_processes_hostile.py tests/reliability/test_hostile_arrays.py tests/reliability/test_hostile_arguments.py \
  tests/reliability/test_hostile_operators.py tests/reliability/test_hostile_capsules.py tests/reliability/test_interrupts.py \
  $(addprefix tests/test_,$(addsuffix .py,autograd dlpack errors gradcheck gradients import kernels memory nn_functional \
  processes registry resample silent_traps workspace))

# PYTHON_GIL=1: the GIL is on from the start, so that no warning of the import ends the tests.
test-freethreaded: $(VENV)/.tools ## Build for FREETHREADED_PYTHON=python3.14t, and run the tests that need numpy alone.
	@$(FREETHREADED_PYTHON) -c "import sysconfig; assert sysconfig.get_config_var('Py_GIL_DISABLED')" 2>/dev/null || { \
	  echo "$(FREETHREADED_PYTHON) is no free-threaded Python: give one as FREETHREADED_PYTHON=path"; exit 1; }
	$(FREETHREADED_PYTHON) -m venv $(FREETHREADED)/environment
	$(FREETHREADED_BIN)/python -m pip install --quiet $(FREETHREADED_PACKAGES)
	rm -rf $(FREETHREADED)/wheel
	$(BIN)/maturin build --profile develop --interpreter $(FREETHREADED_BIN)/python --out $(FREETHREADED)/wheel
	$(FREETHREADED_BIN)/python -m pip install --quiet --no-deps --force-reinstall $(FREETHREADED)/wheel/*.whl
	PYTHON_GIL=1 $(FREETHREADED_BIN)/python -m pytest -m "not full" $(FREETHREADED_TESTS)
