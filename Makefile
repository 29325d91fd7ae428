# Everything a fresh checkout needs is python3 (3.10 or later, with venv) and make, and for `make test` a C compiler, which
# is installed where that is possible; SLURM_TRIAGE_PYTHON names another interpreter. `make help` lists the targets.

.DEFAULT_GOAL := help
BIN := .venv/bin
SLURM ?= 24.11

.PHONY: help venv venv-dev demo lint test accuracy accuracy-page baselines bench cluster cluster-test cluster-hold cluster-shell cluster-down vm-test agent packages packages-test clean

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

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
	@tools/compiler.sh
	$(BIN)/pytest -q -n 2

accuracy: venv-dev  ## score the diagnosis over the corpora, CORPUS=DIR, or what people corrected in HISTORY=FILE (LIST=1: every miss)
	$(BIN)/python -m tests.accuracy $(if $(CORPUS),--corpus '$(CORPUS)') $(if $(HISTORY),--history "$$HISTORY") $(if $(LIST),--list) \
		$(if $(CORPUS)$(HISTORY),,--baselines --healthy --nodes)

accuracy-page: venv-dev  ## measure all of it and write docs/explanation/accuracy.md
	$(BIN)/python -m tests.accuracy --page

baselines: venv-dev  ## tools of others that `make accuracy` asks too, in a venv of their own (build/baselines)
	$(BIN)/python -m venv build/baselines
	build/baselines/bin/python -m pip install --quiet -r tests/baselines/requirements.txt

bench: venv-dev  ## time of a command, of each stage, of the history, and of a live diagnosis if the cluster runs
	$(BIN)/python -m tests.bench

cluster:  ## a real Slurm in containers, SLURM=24.11 (default), 22.05 or 26.05; SETUP, WITNESSES: docs/howto/mini-cluster.md
	@SLURM='$(SLURM)' tools/cluster/cluster.sh up

cluster-test: venv-dev  ## provoke failures on it, diagnose them, check the answers (CORE=1: the short list)
	@SLURM='$(SLURM)' tools/cluster/test.sh $(if $(CORE),--core) $(if $(ONLY),--only '$(ONLY)') $(if $(OUT),--out '$(OUT)')

cluster-hold: venv-dev  ## how long the witnesses hold a node of it at the end of a job
	@SLURM='$(SLURM)' tools/cluster/cluster.sh up
	@$(BIN)/python -m tests.cluster.hold

cluster-shell:  ## a shell on its login node, as the ordinary user user1
	@SLURM='$(SLURM)' tools/cluster/cluster.sh shell

cluster-down:  ## take it down, with all its data
	@SLURM='$(SLURM)' tools/cluster/cluster.sh down

vm-test: venv-dev  ## the same system on cgroup v2 in an emulated machine: out-of-memory jobs
	@SLURM='$(SLURM)' tools/cluster/vm_test.sh $(if $(OUT),--out '$(OUT)')

agent: venv  ## the agent as one file, dist/slurm-triage-agent, for any Python from 3.9
	@$(BIN)/python -m tools.agent_zipapp

packages:  ## wheel, Debian packages and RPMs into dist: docs/reference/packages.md
	@packaging/build.sh

packages-test:  ## build them, install them in a small Debian of their own and take them away (root, Debian)
	@packaging/test.sh

clean:  ## remove what was made, .venv too
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
