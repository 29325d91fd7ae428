# Everything a fresh checkout needs is python3 (3.10 or later, with venv) and make; SLURM_TRIAGE_PYTHON names another
# interpreter. `make help` lists the targets.

.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help venv venv-dev demo lint test accuracy bench clean

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14

venv:  ## .venv with slurm-triage, ready to run
	@tools/venv.sh run

venv-dev:  ## .venv with what the tests need too
	@tools/venv.sh dev

demo: venv  ## diagnose a handful of recorded jobs, show one diagnosis and the history
	@tools/demo.sh

lint: venv-dev  ## ruff, mypy --strict, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck $$(tools/shell_files.sh)

test: lint  ## lint, then all tests
	$(BIN)/pytest -q -n 2

accuracy: venv-dev  ## score the diagnosis over the built-in corpora, or over CORPUS=DIR (LIST=1 shows every miss)
	$(BIN)/python -m tests.accuracy $(if $(CORPUS),--corpus '$(CORPUS)') $(if $(LIST),--list)

bench: venv-dev  ## time of a command, of each stage and of the history
	$(BIN)/python -m tests.bench

clean:  ## remove what was made, .venv too
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
