# Needs Python 3.11 or newer with venv, and make; everything else goes to .venv.
PYTHON ?= python3
CONFIG ?= config/config.yaml
CORES ?= all
PYTEST_ARGS ?=
PLAN_ARGS ?=

in_venv := PATH="$(CURDIR)/.venv/bin:$$PATH"
run_name := $(in_venv) python tools/runs.py "$(CONFIG)"
pip_install := $(in_venv) python -m pip install --quiet --use-pep517 --disable-pip-version-check

.PHONY: help reproduce report bundle verify extended pin plan test test-conda test-browser test-cluster lint lock clean-venv

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

reproduce: .venv/run.stamp ## the whole run, all figures and the report (CONFIG=config/config.yaml CORES=all)
	@$(in_venv) snakemake --configfile "$(CONFIG)" --cores $(CORES)
	@$(MAKE) --no-print-directory report
	@run=$$($(run_name)); echo "Figures:"; ls -1 "figures/$$run/"*.pdf

report: .venv/run.stamp ## one HTML file with all figures and tables of a finished run (CONFIG=config/config.yaml)
	@run=$$($(run_name)) && $(in_venv) snakemake --configfile "$(CONFIG)" \
	--report "results/$$run/report.html" --report-stylesheet workflow/report/style.css \
	&& echo "Report: results/$$run/report.html"

bundle: .venv/run.stamp ## pack a finished run for a reviewer (CONFIG=config/config.yaml)
	@$(in_venv) python tools/bundle.py "$(CONFIG)"

verify: .venv/run.stamp ## compare a run with the committed reference (CONFIG=config/config.yaml)
	@$(in_venv) python tools/verify.py "$(CONFIG)"

extended: ## the laptop run and more: head removal of both models on both corpora (over an hour)
	@$(MAKE) --no-print-directory reproduce CONFIG=config/extended.yaml

pin: .venv/run.stamp ## write the commits of the hub's models and corpora to config/pins (CONFIG=config/paper.yaml)
	@$(in_venv) snakemake pins --configfile "$(CONFIG)" --cores 1

plan: .venv/run.stamp ## what a run takes: jobs, hours, memory, disk (CONFIG=config/paper.yaml PLAN_ARGS="--seconds 2")
	@$(in_venv) python tools/plan.py "$(CONFIG)" $(PLAN_ARGS)

test: .venv/test.stamp ## lint and all tests (PYTEST_ARGS="tests/unit -k bounds")
	@$(in_venv) python -m pytest $(PYTEST_ARGS)

test-conda: .venv/test.stamp ## every conda environment, made by Snakemake, and the test-size run in them (10 to 20 minutes, 4 GB)
	@$(in_venv) python -m pytest tests/conda

test-browser: .venv/test.stamp ## the report in headless Chromium; installs Debian's chromium with apt if it is missing
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	{ apt-get update -qq && apt-get install --yes --no-install-recommends chromium chromium-driver; }
	@$(in_venv) python -m pytest tests/browser

test-cluster: .venv/test.stamp ## the test-size run on a Slurm of one node, which apt installs: as root on Debian or Ubuntu (9 minutes)
	@command -v slurmctld >/dev/null && command -v munged >/dev/null || { apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends slurm-wlm munge; }
	@$(in_venv) python -m pytest tests/cluster

lint: .venv/test.stamp ## ruff, snakefmt and Snakemake's own linter
	@$(in_venv) python -m pytest -q tests/workflow/test_lint.py

lock: .venv/test.stamp ## resolve pyproject.toml anew: requirements*.lock and envs/*.yaml
	@$(in_venv) python tools/lock.py

clean-venv: ## remove the environment
	rm -rf .venv

# The stamp is the last thing made, so an interrupted installation is begun afresh.
.venv/run.stamp: requirements.lock
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
	"Python 3.11 or newer with venv is needed: apt-get install python3-venv, or make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing the pinned packages into .venv (some minutes, once)"
	@$(PYTHON) -m venv --clear .venv
	@$(pip_install) -r requirements.lock
	@touch $@

.venv/test.stamp: .venv/run.stamp requirements-test.lock
	@$(pip_install) -r requirements-test.lock
	@touch $@
