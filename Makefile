# make demo    train the example on two processes
# make test    all tests
# make lint    what a change has to pass besides the tests; make format mends some of it
# make tidy    clang-tidy over the runtime, which takes minutes
# make develop an editable installation in .venv
#
# All of them set up .venv first. PYTHON chooses its Python, TENSORFLOW_VERSION its TensorFlow.

PYTHON ?= python3
TENSORFLOW_VERSION ?= 2.21

VENV := .venv
BUILD := build/release
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
PACKAGES := $(VENV)/.packages-for-tensorflow-$(TENSORFLOW_VERSION)
WHEEL := build/.wheel-for-tensorflow-$(TENSORFLOW_VERSION)
LINTERS := $(VENV)/.linters
SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
  $(shell find build_backend cmake include src tf_ops python -type f -not -name '*.pyc')
CPP_FILES = $(shell find include src tf_ops python/core tests/cpp -name '*.cc' -o -name '*.cu' -o -name '*.h')

# ThreadSanitizer's fixed memory layout clashes with the wide address randomisation of new kernels.
FIXED_ADDRESSES := $(shell setarch `uname -m` -R true 2>/dev/null && echo setarch `uname -m` -R)

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.PHONY: demo
demo: $(WHEEL)
	tfcrun -np 2 python examples/train_digits.py

.PHONY: test test-cpp test-address test-thread test-python
test: test-cpp test-address test-thread test-python

test-cpp: $(WHEEL)
	cmake -DTFC_BUILD_TESTS=ON $(BUILD)
	cmake --build $(BUILD)
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error

test-address: $(PACKAGES)
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan --no-tests=error

test-thread: $(PACKAGES)
	cmake --preset tsan
	cmake --build --preset tsan
	$(FIXED_ADDRESSES) ctest --preset tsan --no-tests=error

test-python: $(WHEEL)
	python -m pytest

.PHONY: develop
develop: $(PACKAGES)
	$(PIP) install --no-build-isolation --config-settings build-dir=$(BUILD) --editable '.[test,examples]'
	rm -f build/.wheel-*

.PHONY: lint tidy format
lint: $(LINTERS)
	ruff check
	ruff format --check
	mypy
	clang-format --dry-run -Werror $(CPP_FILES)

tidy: $(LINTERS)
	cmake --preset debug -DTFC_BUILD_OPS=OFF -DTFC_BUILD_PYTHON=OFF -B build/tidy
	clang-tidy --quiet -p build/tidy $(shell find src tests/cpp -name '*.cc')

format: $(LINTERS)
	ruff check --fix
	ruff format
	clang-format -i $(CPP_FILES)

.PHONY: clean
clean:
	rm -rf build

# The build tools come from PyPI, and the wheel is built with them as installed here and not in an
# environment that pip makes for each build: with that, every build would start from nothing.
$(PACKAGES):
	$(PYTHON) -m venv $(VENV)
	$(PIP) install 'tensorflow==$(TENSORFLOW_VERSION).*' 'scikit-build-core>=1.1' 'pybind11>=2.13' cmake ninja \
	  $$($(VENV)/bin/python build_backend/cuda_kernels.py missing)
	rm -f $(VENV)/.packages-* build/.wheel-*
	touch $@

$(WHEEL): $(PACKAGES) $(SOURCES)
	rm -rf build/dist
	$(PIP) wheel --no-build-isolation --no-deps --config-settings build-dir=$(BUILD) --wheel-dir build/dist .
	$(PIP) install --force-reinstall --no-deps build/dist/*.whl
	$(PIP) install "$$(echo build/dist/*.whl)[test,examples]"
	touch $@

$(LINTERS): $(PACKAGES) pyproject.toml
	$(PIP) install 'clang-format>=19' 'clang-tidy>=19' 'mypy>=1.13' 'ruff>=0.9'
	touch $@
