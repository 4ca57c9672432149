# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python
STAMP  := $(VENV)/.installed

# cydnn.torch is tested where torch is: make test TORCH=torch==2.13.0+cpu
TORCH ?=

.PHONY: demo test lab sanitize ptx wheel clean

$(STAMP): pyproject.toml setup.py ptx/manifest.json $(wildcard cydnn/*.p[yx][xd] cydnn/*/*.p[yx][xd])
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install -q --disable-pip-version-check --no-compile -e ".[test,demo,docs]"
	$(if $(TORCH),$(RUN) -m pip install -q --disable-pip-version-check --no-compile "$(TORCH)" \
	    || echo "no CPU build of torch here: the tests of cydnn.torch are left out")
	touch $@

demo: $(STAMP)                   # train on real handwritten digits: GPU if there is one, else NumPy
	$(RUN) examples/digits.py

test: $(STAMP)                   # a fixed set, and all about what changed; GPU tests where there is a GPU
	$(RUN) -m pytest -q -n 2 --dist worksteal -m "not timing"
	@if $(RUN) -m cydnn info --json 2>/dev/null | grep -q '"default": "cuda'; then $(RUN) -m pytest -q -m timing; fi

lab: $(STAMP)                    # the whole, with what tests the tests, on all cores: lab/records/whole.json
	$(RUN) -m lab

sanitize: $(STAMP)               # the extension under gcc: addresses, undefined behaviour, races
	$(RUN) tools/sanitize.py
	$(RUN) tools/sanitize.py --thread

ptx: $(STAMP)                    # rebuild what changed in kernels_src/ (needs nvcc 13.0)
	$(RUN) tools/build_ptx.py

wheel: $(STAMP)                  # of a clean clone, into a fresh environment, tried there
	$(RUN) tools/try_wheel.py

clean:
	rm -rf $(VENV) build dist *.egg-info cydnn/*.so cydnn/*/*.so
