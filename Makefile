# make run: the main job on embedded data; make test: everything that must pass. Both set the project up first.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: setup run test test-random test-order test-trackers test-flower test-ray lint docs docs-serve hooks bench clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[images,flower,onnx,tensorboard,docs,test,lint]"
	touch .venv/ready

run: setup
	$(BIN)/perfed compare examples/main.yaml
	$(BIN)/perfed compare examples/main_domains.yaml

test: setup lint
	$(BIN)/python -m pytest -n 2 -m "not slow and not flower and not ray"

# property tests with other examples every time, and many of them
test-random: setup
	$(BIN)/python -m pytest -n 2 -m "hypothesis and not slow and not flower and not ray" --hypothesis-profile=random

# the tests of make test in an order that is new every time; SEED=… repeats one
test-order: SEED ?= $(shell date +%s)
test-order: setup
	@echo "order $(SEED)"
	$(BIN)/python -m pytest -n 2 -m "not slow and not flower and not ray" --random-order --random-order-bucket=global --random-order-seed=$(SEED)

# trackers against the real libraries, which are large and so no part of setup
test-trackers: setup
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[tensorboard,mlflow,wandb]"
	$(BIN)/python -m pytest tests/trackers

test-flower: setup
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m flower

# cells, clients and kills on small Ray clusters of this machine; Ray is large and so no part of setup
test-ray: setup
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest -m ray tests/on_ray

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .
	$(BIN)/mypy

docs: setup  # the site, in build/docs
	$(BIN)/python docs/site/build.py
	$(BIN)/zensical build --clean --strict

docs-serve: docs  # the site at a loopback address; run make docs again after a change of a page
	$(BIN)/zensical serve

hooks: setup
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[hooks]"
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build runs .pytest_cache .mypy_cache .ruff_cache
