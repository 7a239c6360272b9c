#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Test and measure on a real GPU, from wheels that were built elsewhere. Needs no network, no compiler and no nox: only
# Python, pip, and a folder with the wheels to test and with those of their dependencies that the machine lacks.
#
# usage: ci/gpu.sh [FOLDER] [PYTEST-ARGUMENT...]        FOLDER: default $CUDACORE_WHEELS, then build/wheels
#
# PARTS lists what to run; default "tests". A part that fails does not keep the next ones from running.
#   tests     all tests, and the kernels that the simulated driver is compared with: a GPU must do what was recorded
#   sweep     all recorded sequences of driver calls, in a process each; lists what differs. Where a context takes
#             seconds to create, this takes ten minutes: set BUDGET
#   stale     what the driver does with destroyed handles, in processes that may crash; lists what differs from the recording
#   stress    threads that use, close and drop what they share: packages/cudacore-handles/tests/stress.py
#   sanitize  all tests under compute-sanitizer, which fails for memory errors in kernels and for device memory that was
#             not freed; it watches the test process alone: what tests start is tested without it
#   bench     ci/benchmarks/run.py
# Tests that inject failures are left out: a driver does not fail on request.
# RESULTS   folder for a log of each part, JUnit files and the measurements; default build/gpu
# BUDGET    seconds for all parts; default 540. A part that is still running then is interrupted, and fails.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${CUDACORE_WHEELS:-$root/build/wheels}
case ${1:--} in
-*) ;;
*) folder=$1 && shift ;;
esac
folder=$(cd "$folder" && pwd)
python=${PYTHON:-python3}
results=${RESULTS:-$root/build/gpu}
mkdir -p "$results"
results=$(cd "$results" && pwd)
end=$(($(date +%s) + ${BUDGET:-540}))

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m pip install --quiet --no-index --no-deps --no-compile --target "$scratch/site" "$folder"/*.whl

# The tests, without the packages' sources beside them, so that they use the packages of the wheels.
mkdir "$scratch/tests"
cd "$root"
cp -r --parents packages/*/tests packages/*/README.md ci docs examples tests README.md conftest.py pyproject.toml "$scratch/tests"
cd "$scratch/tests"
export PYTHONPATH="$scratch/site${PYTHONPATH:+:$PYTHONPATH}"
pytest="$python -m pytest --cuda-driver=gpu -p no:cacheprovider"

# part NAME RESERVE COMMAND...: run a part, and leave so many seconds of the budget to the next ones.
failed=
part() {
    name=$1 limit=$((end - $(date +%s) - $2))
    shift 2
    echo "==== $name, at most $limit s"
    if [ "$limit" -le 0 ]; then
        failed="$failed $name(no time left)"
        return
    fi
    # An interrupt, so that pytest writes what it has.
    timeout --signal=INT --kill-after=20 "$limit" "$@" </dev/null 2>&1 | tee "$results/$name.log" ||
        failed="$failed $name(${PIPESTATUS[0]})"
}

parts=${PARTS:-tests}
case $parts in *bench*) bench=150 ;; *) bench=0 ;; esac
for each in $parts; do
    case $each in
    tests)
        part tests 0 $pytest --junitxml="$results/tests.xml" "$@"
        part recorded 0 $pytest packages/cudacore-sim/tests/corpus
        ;;
    sweep)
        part sweep 0 "$python" packages/cudacore-sim/tests/sequences/sweep.py
        ;;
    stale)
        cp "$root/packages/cudacore-sim/src/sim/driver/base/stale_outcomes.def" "$results"
        part stale 0 "$python" packages/cudacore-sim/tests/sequences/record_stale.py libcuda.so.1 "$results/stale_outcomes.def"
        ;;
    stress)
        part stress 0 "$python" packages/cudacore-handles/tests/stress.py --seconds 30
        ;;
    sanitize)
        # No backtraces: those of Python keep its frames, and with them the objects whose release is to be seen. Errors
        # of the driver's functions are what many tests are about. Left out: modules that are loaded while a stream is
        # captured, which invalidates the capture under the tool alone; and executable graphs with conditional nodes that
        # are destroyed while they run, whose kernels the tool has patched: a launch is then at address 0.
        part sanitize "$bench" compute-sanitizer --tool memcheck --leak-check full --show-backtrace no \
            --report-api-errors no --target-processes application-only --error-exitcode 99 \
            $pytest --junitxml="$results/sanitize.xml" \
            --ignore=packages/cudacore-graph/tests/captures/test_lifetime.py \
            --ignore=packages/cudacore-graph/tests/captures/test_memory_of_captures.py \
            --deselect=packages/cudacore-graph/tests/test_lifetime.py::test_dropped_in_any_order "$@"
        ;;
    bench)
        part bench 0 "$python" ci/benchmarks/run.py --seconds 140 --wheels "$folder" --json "$results/bench.json"
        ;;
    *)
        failed="$failed $each(no such part)"
        ;;
    esac
done
echo "==== ${failed:+failed:$failed; }results are in $results"
[ -z "$failed" ]
