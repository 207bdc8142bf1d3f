# Two commands on a fresh clone: `make book` and `make test`. Both install what they need into .venv first.
# `make test CONSTRAINTS=constraints.txt` installs the exact versions that the committed numbers were last checked with.
PYTHON ?= python3
VENV := .venv
CONSTRAINTS ?=
READY := $(VENV)/.ready$(subst /,_,$(CONSTRAINTS))
TORCH ?= 2.6.0
TORCHVISION ?= 0.21.0
# Gigabytes are fetched: pip goes on where a connection broke, and is called again where that did not help.
export PIP_RETRIES ?= 10
export PIP_RESUME_RETRIES ?= 10
# Tests start a hundred processes: the project's modules are compiled for the first of them only.
export PYTHONDONTWRITEBYTECODE :=

# What needs no notebook, book or checkout; run by `make test-library` on other versions of Python and PyTorch.
LIBRARY := tests $(addprefix --ignore=tests/,book study project)

.PHONY: book serve test test-library coverage faults fuzz notebooks archive clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11 to 3.13 is needed, such as: make test PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	for pause in 10 60 0; do \
		$(VENV)/bin/python -m pip install --quiet --no-compile $(addprefix -c ,$(CONSTRAINTS)) -e ".[book,test]" && exit 0; \
		sleep $$pause; \
	done; exit 1
	$(VENV)/bin/python -m compileall -qq -j 0 $(VENV)/lib || true  # on all cores; some packages have files that no Python can read
	mkdir -p $(VENV)/etc/ipython  # a kernel that talks to this machine alone need not warn that it does not encrypt
	echo 'c.IPKernelApp.log_level = 40' > $(VENV)/etc/ipython/ipython_kernel_config.py
	touch $(READY)

book: $(READY)  ## build the book into _build/html
	OMP_NUM_THREADS=1 $(VENV)/bin/jupyter-book build book/ -W --keep-going
	@echo "Open _build/html/index.html"

serve: book  ## look at the book in a browser: http://localhost:8000
	$(VENV)/bin/python -m http.server 8000 --directory _build/html

test: $(READY)  ## CI's main job: unit tests, doctests, chapters against their committed outputs
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -q

test-library:  ## the wheel alone in an empty environment, then its tests: make test-library TORCH=2.6.0 TORCHVISION=0.21.0
	rm -rf $(VENV)-library build dist
	$(PYTHON) -m venv $(VENV)-library
	$(VENV)-library/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-library/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(VENV)-library/bin/python -m pip install --quiet torch==$(TORCH) dist/dtcl-*.whl
	cd /tmp && $(CURDIR)/$(VENV)-library/bin/python -I -c "import torch, dtcl_core; z = torch.randn(8, 4); \
		print(dtcl_core.DomainWeightedInfoNCELoss(num_domains=2)(z, z, torch.arange(8) % 2))"
	$(VENV)-library/bin/python -m pip install --quiet "$$(echo dist/dtcl-*.whl)[study]"
	cd /tmp && DTCL_RESULTS=$(CURDIR)/dist $(CURDIR)/$(VENV)-library/bin/python -I -m dtcl_study run main_table --seeds 1
	$(VENV)-library/bin/python -m pip install --quiet torchvision==$(TORCHVISION) pytest pytest-xdist hypothesis \
		scikit-learn "pytorch-metric-learning>=2.5,<3"
	set -e; away=$$(mktemp -d); trap 'rm -rf "$$away"' EXIT; cp -r tests benchmarks pyproject.toml $$away; cd $$away; library=$(CURDIR)/$(VENV)-library; \
		$$library/bin/python -c "import dtcl_core; assert dtcl_core.__file__.startswith('$$library'), dtcl_core.__file__"; \
		DTCL_RESULTS=$(CURDIR)/results OMP_NUM_THREADS=1 $$library/bin/python -m pytest -o addopts="--doctest-modules \
		--doctest-ignore-import-errors" -n auto --dist loadfile -q $(LIBRARY) --pyargs dtcl_core

coverage: $(READY)  ## what share of the library's lines the tests reach, and which they do not; needs the extra `dev`
	$(VENV)/bin/python -m pip install --quiet $(addprefix -c ,$(CONSTRAINTS)) -e ".[dev]"
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m coverage run -m pytest -n auto --dist loadfile -q tests -o addopts="-p no:cacheprovider"
	$(VENV)/bin/python -m coverage combine --quiet
	$(VENV)/bin/python -m coverage report --show-missing --skip-covered

faults: $(READY)  ## kill trainers at random moments, a hundred times in each of three ways: some minutes; adds to benchmarks/faults.csv
	$(VENV)/bin/python tests/faults.py --kills 100 --seed 0
	$(VENV)/bin/python tests/faults.py --kills 100 --seed 1 --processes 2
	$(VENV)/bin/python tests/faults.py --kills 100 --seed 2 --processes 2 --same

fuzz: $(READY)  ## damaged files, kills in phases of their own: half an hour; adds to benchmarks/fuzz.csv
	$(VENV)/bin/python tests/fuzz.py files --tries 1400
	$(VENV)/bin/python tests/fuzz.py kills --tries 100

notebooks: $(READY)  ## run the chapters in place and keep their text outputs, after code or results changed
	$(VENV)/bin/python book/refresh.py

archive: $(READY)  ## one file ready to be deposited: code, rows, encoders, figures, licences, versions, checksums
	$(VENV)/bin/python book/archive.py dist/dtcl.tar.gz

clean:
	rm -rf _build build dist
