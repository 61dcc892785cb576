# Every target sets up what it needs: python3 (3.11 or newer, with venv) and make are all that must be there.
#
#   make demo    the main job in one command; installs the core alone (make demo ARGS="--jobs 500")
#   make check   format, lint, types, imports, and the quick tests: before every push
#   make test    the same, and every test there is
#   make test-postgres  a quick part on the system's PostgreSQL, or on that of SERVER=/usr/lib/postgresql/15/bin
#   make soak    everything at once for MINUTES=10: processes killed, stopped, clocks set; then the books are judged
#   make soak-postgres  trouble of one kind after the other for PostgreSQL: what it costs, and whether anything is lost
#   make test-pythons  the quick tests with each Python from 3.11 on that is found; environments go into build/pythons
#   make bench   the benchmarks, one script after the other
#   make docs    the documentation as a site, in build/site
#   make format  rewrite the files as `make lint` wants them
#   make release VERSION=0.2.0  changelog, version, commit, tag; wheel, sdist, SBOM, checksums into dist; publishes nothing
#   make lock    write requirements/*.txt anew from pyproject.toml
#   make clean   remove what the other targets made, .venv included
#
# PYTHON=python3.12 picks an interpreter for a new .venv; ARGS goes to the program behind demo, test and check.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := check

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input install --quiet
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
PYTHON ?=
ARGS ?=
# Folders that are not written yet are left out.
QUICK_TESTS := $(wildcard tests/unit tests/contract tests/property) $(wildcard src/fairlane/domain)
# Side by side on all cores; what starts, kills or stops processes of its own for long runs later, two files at a time:
# it waits more than it computes.
SURFACES := $(wildcard tests/surfaces/test_*.py tests/surfaces/*/test_*.py)
LONG := $(addprefix tests/surfaces/,test_cli_worker.py test_demo.py test_postgres_workers.py test_replay.py dashboard/test_browser.py)
APART := tests/crash $(filter $(LONG) tests/surfaces/test_examples%,$(SURFACES))
TOGETHER := $(filter-out tests/crash/ tests/surfaces/,$(wildcard tests/*/)) $(filter-out $(APART),$(SURFACES)) \
    $(wildcard src/fairlane/domain)
BENCHES := $(sort $(filter-out bench/_%,$(wildcard bench/*.py)))

.PHONY: demo test test-postgres check static lint format bench nightly soak soak-postgres docs lock clean core dev test-pythons release

core: $(CORE)
dev: $(DEV)

# The first python that runs, is new enough and can make environments; a name on PATH may be only a stub.
$(PY):
	@set -eu; \
	for python in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        echo "Making $(VENV) with $$("$$python" --version)"; \
	        exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo 'fairlane needs Python 3.11 or newer with its venv module (on Debian: apt-get install python3-venv).' >&2; \
	echo "None was found under: $(or $(PYTHON),python3.13 python3.12 python3.11 python3). Name one: make PYTHON=..." >&2; \
	exit 1

# An environment that uv made has no pip.
define install
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null
	@echo "Installing $(1) into $(VENV)"
	@$(PIP) --require-hashes -r $(1)
	@$(PIP) --no-deps --no-build-isolation -e .
endef

$(CORE): pyproject.toml requirements/core.txt | $(PY)
	$(call install,requirements/core.txt)
	@touch $@

# What the tools need holds the core too, at the same versions.
$(DEV): pyproject.toml requirements/dev.txt requirements/core.txt | $(PY)
	$(call install,requirements/dev.txt)
	@touch $(CORE) $@

demo: $(CORE)
	@$(BIN)/fairlane demo $(ARGS)

lint: $(DEV)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

static: lint
	$(PY) -m mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports

check: static
	FAIRLANE_RUNS=30 $(PY) -m pytest -n auto --doctest-modules --hypothesis-profile=check -m "not slow and not crash and not bench and not postgres" $(QUICK_TESTS) $(ARGS)

test: static
	@failed=0; \
	$(PY) -m pytest -n auto --dist worksteal --doctest-modules $(TOGETHER) $(ARGS) || failed=1; \
	$(PY) -m pytest -n 2 --dist loadfile $(APART) $(ARGS) || failed=1; \
	$(MAKE) --no-print-directory test-postgres || failed=1; \
	exit $$failed

# The newest of Debian's places, when there is one.
SERVER ?= $(patsubst %/,%,$(dir $(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin/postgres)))))
ON_SERVER := $(addprefix tests/contract/test_,postgres.py::TestShared postgres_barriers.py transactional_postgres.py)
test-postgres: $(DEV)
	$(if $(SERVER),FAIRLANE_TEST_POSTGRES=$(SERVER) $(PY) -m pytest -n auto $(ON_SERVER) $(ARGS),@echo 'SKIPPED: the tests on the PostgreSQL of the system, which has none (on Debian: apt-get install postgresql).')

# What `make check` runs, without what does not depend on the version. -o: linted and typed as if that had been done.
test-pythons: | $(PY)
	@set -eu; $(PY) tools/pythons.py | while read -r version python; do \
	    echo "== Python $$version, $$python"; \
	    for target in dev check; do \
	        $(MAKE) --no-print-directory -o static $$target \
	            VENV=build/pythons/$$version PYTHON="$$python" ARGS='$(ARGS)' </dev/null; \
	    done; \
	done

VERSION ?=
release: $(DEV)
	@$(if $(VERSION),,echo 'Name the version: make release VERSION=0.2.0' >&2; exit 2;) $(PY) tools/release.py $(VERSION) $(ARGS)

nightly: $(DEV)
	$(PY) -m pytest --hypothesis-profile=nightly --timeout=1800 tests/property $(ARGS)

MINUTES ?= 10
soak: $(DEV)
	@$(PY) tests/crash/soak.py --minutes $(MINUTES) $(ARGS)

soak-postgres: $(DEV)
	@$(PY) tests/crash/soak_postgres.py --minutes $(MINUTES) $(ARGS)

format: $(DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(CORE)
	@set -eu; for script in $(BENCHES); do echo "== $$script"; $(PY) "$$script" $(ARGS); done
	$(if $(BENCHES),,@echo 'No benchmark is written yet.')

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict $(ARGS)

# Hashes and no addresses, so the files work with any index. Runs on the newest versions: make lock ARGS=--upgrade
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --custom-compile-command 'make lock'
lock: $(PY)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null
	@$(PIP) 'uv>=0.7'
	$(LOCK) pyproject.toml --all-extras --group dev --group build --output-file requirements/dev.txt $(ARGS)
	$(LOCK) pyproject.toml --group build --constraint requirements/dev.txt --output-file requirements/core.txt $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	find src tests $(wildcard bench examples tools docs) -type d -name __pycache__ -prune -exec rm -rf {} +
