#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run all tests on a real GPU from wheels that were built elsewhere. Needs no network, no compiler and no nox: only
# Python, pip, and a folder with the wheels to test and with those of their dependencies that the machine lacks.
#
# usage: ci/gpu.sh [FOLDER] [PYTEST-ARGUMENT...]        FOLDER: default $CUDACORE_WHEELS, then build/wheels
#
# SANITIZE=1 runs the tests under compute-sanitizer, which fails for memory errors in kernels and for device memory that
# was not freed. It watches the test process alone: what tests start is tested without it.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${CUDACORE_WHEELS:-$root/build/wheels}
case ${1:--} in
-*) ;;
*) folder=$1 && shift ;;
esac
python=${PYTHON:-python3}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m pip install --quiet --no-index --no-deps --no-compile --target "$scratch/site" "$folder"/*.whl

# The tests, without the packages' sources beside them: what is tested is what the wheels contain.
"$python" "$root/ci/copy_tests.py" "$scratch/tests"
cd "$scratch/tests"
if [ -n "${SANITIZE:-}" ]; then
    # No backtraces: those of Python keep its frames, and with them the objects whose release is to be seen. Errors of
    # the driver's functions are what many tests are about.
    wrapper="compute-sanitizer --tool memcheck --leak-check full --show-backtrace no --report-api-errors no"
    wrapper="$wrapper --target-processes application-only --error-exitcode 99"
fi
export PYTHONPATH="$scratch/site${PYTHONPATH:+:$PYTHONPATH}"
pytest="$python -m pytest --driver=gpu -p no:cacheprovider"
${wrapper:-} $pytest "$@"
# What the simulated driver is compared with: a GPU must do what was recorded on one.
[ -n "${SANITIZE:-}" ] || $pytest packages/cudacore-sim/tests/corpus packages/cudacore-sim/tests/sequences
