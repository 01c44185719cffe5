# gramme: build, test, measure. Everything runs in .venv; docs/HACKING.md says more.

# Of CPython 3.11, 3.12, 3.13 or 3.14: PYTHON=3.14, or PYTHON=/path/to/python.
PYTHON311 ?= python3.11
OF_VENV   := $(if $(PYTHON),$(patsubst 3.%,python3.%,$(PYTHON)),$(PYTHON311))
VENV      := .venv
PY        := $(VENV)/bin/python
STAMP     := $(VENV)/.installed
CONFIGURE := $(VENV)/bin/cmake -S . -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) \
             -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja
CMAKE_BUILD := $(VENV)/bin/cmake --build
CXX_FILES  = $(shell find src -name '*.h' -o -name '*.cpp')

.PHONY: build demo test quick bench figures torches pythons wheels matrix libraries debug soak lint format clean
.DEFAULT_GOAL := build

build: $(STAMP)
	@test -f build/release/build.ninja || { echo "== configure"; $(CONFIGURE) -B build/release; }
	@echo "== build"
	@$(CMAKE_BUILD) build/release

$(STAMP): requirements.txt requirements.lock pyproject.toml tools/install_checkout.py
	@test -x $(PY) || $(OF_VENV) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13), (3, 14)))' 2>/dev/null \
	  || { echo "error: CPython 3.11, 3.12, 3.13 or 3.14 is needed; '$(OF_VENV)' is not it. Set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(CXX) --version >/dev/null 2>&1 \
	  || { echo "error: a C++20 compiler is needed (GCC 12 or newer); '$(CXX)' does not run. Set CXX" >&2; exit 1; }
	@echo "== python environment in $(VENV)"
	@test -x $(PY) || $(OF_VENV) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt -c requirements.lock
	@$(PY) tools/install_checkout.py
	@touch $@

demo: build
	@$(PY) examples/demo.py

# One pytest run, slow tests last (tests/conftest.py), in WORKERS processes: its summary closes the output. Threads of
# operators wait passively, because the processes share the cores.
WORKERS ?= 2
PYTEST  := OMP_WAIT_POLICY=passive $(PY) -m pytest -n $(WORKERS) --dist=worksteal
TOLD    := build/told.txt
test: lint build
	@echo "== instructions of captures and hits"
	@$(PY) bench/instructions.py
	@echo "== tests"
	@rm -f $(TOLD)
	@GRAMME_TOLD=$(TOLD) $(PY) tools/torches.py test
	@GRAMME_TOLD=$(TOLD) $(PY) tools/pythons.py test
	@GRAMME_TOLD=$(TOLD) $(PYTEST) --session-timeout=3600 --durations=25

quick: build
	@$(PYTEST) -q -m "not slow"

soak: build
	@GRAMME_SOAK=1 $(PY) -m pytest -q -m "slow or sampled" --timeout=7200

bench: build
	@for script in bench/bench_*.py; do test -f "$$script" || continue; echo "== $$script"; $(PY) "$$script" || exit 1; done

# Rewrites the tables of README.md, adds a line to docs/figures.md. Minutes; for a quiet machine.
figures: build
	@$(PY) bench/figures.py --inductor --write

# Another torch beside the one in .venv (TORCH=2.15.0), and another CPython (PYTHON=3.14); `make test` then runs a sample
# of the quick tests on it. GRAMME_CI_TORCHES=3.14-2.15 has it set up there.
TORCH ?= 2.15.0
torches: $(STAMP)
	@$(PY) tools/torches.py set-up $(TORCH) $(PYTHON)

# dist/: a wheel for each CPython of WHEELS, with a module for each torch, installed and tried with each.
WHEELS ?= 3.11
wheels: $(STAMP)
	@$(PY) tools/wheels.py $(WHEELS)

# Runs what is there of CPython x torch, writes docs/matrix.md.
matrix: build
	@$(PY) tools/matrix.py

# Other versions of CPython; `make test` then runs the module without torch on each. GRAMME_CI_PYTHONS="3.13 3.14" has
# them set up there.
pythons: $(STAMP)
	@$(PY) tools/pythons.py set-up

# Programs of libraries on three front ends; LIBRARIES is a folder in which bench/libraries/requirements.txt lies.
libraries: build
	@PYTHONPATH=$(LIBRARIES) $(PY) bench/libraries/run.py

# mypy starts from nothing: what its cache keeps of torch can hide an error that a fresh clone shows.
lint: $(STAMP)
	@echo "== lint"
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/mypy --no-error-summary --no-incremental
	@$(VENV)/bin/clang-format --dry-run -Werror $(CXX_FILES)
	@$(PY) tools/check_includes.py src
	@$(PY) tools/check_statics.py src
	@$(PY) tools/check_state.py src
	@$(PY) tools/check_private_names.py src python/gramme

format: $(STAMP)
	@$(VENV)/bin/ruff check --quiet --fix . || true
	@$(VENV)/bin/ruff format --quiet .
	@$(VENV)/bin/clang-format -i $(CXX_FILES)

# AddressSanitizer with stock Python. libstdc++ is preloaded too: without it libasan aborts at torch's first C++
# exception; pymalloc would hide uses after free. The build has its own copy of the package, which PYTHONPATH puts first.
DEBUG_TESTS ?= frame or effect or fx_
debug: $(STAMP)
	@test -f build/debug/build.ninja || { echo "== configure, AddressSanitizer"; $(CONFIGURE) -B build/debug \
	  -DGRAMME_SANITIZE=ON -DGRAMME_OUTPUT_DIR=$(CURDIR)/build/debug/python/gramme; }
	@echo "== build, AddressSanitizer"
	@$(CMAKE_BUILD) build/debug
	@tar -C python --exclude='_C*.so' --exclude=__pycache__ -cf - gramme | tar -C build/debug/python -xf -
	@echo "== tests under AddressSanitizer: $(DEBUG_TESTS)"
	@LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc PYTHONPATH=build/debug/python \
	  $(PY) -m pytest -q -m "not slow" -k "$(DEBUG_TESTS)" --timeout=600

clean:
	rm -rf build dist python/gramme/_C*.so python/gramme/_torch/*/_C*.so
