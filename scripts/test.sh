#!/bin/bash
# Build and run every test: gcc release, clang with address and undefined, clang with thread, clang with libFuzzer.
# All run as one CTest, two at a time, so that its closing line counts everything.
#   scripts/test.sh          what `make test` runs
#   scripts/test.sh long     with the long tests and ten minutes for each fuzz target
set -euo pipefail
cd "$(dirname "$0")/.."
long=${1-}
scripts/packages.sh test
python=$PWD/$(scripts/venv.sh .venv tests/requirements.txt tests/server/requirements.txt)
python3 scripts/fetch_models.py smollm2 gemma3 sharegpt

# quietly LOG COMMAND...: the output goes to the log, and is shown only on failure
quietly() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -60 "$log"; echo "failed: $*"; exit 1; }
}

mkdir -p build/all
presets=(release asan tsan fuzz)
for preset in "${presets[@]}"; do
    begin=$SECONDS
    options=()
    case $preset in
    release) options=(-DMILLRACE_PYTHON="$python") ;;
    fuzz) options=(-DMILLRACE_FUZZ_SECONDS=$([ "$long" ] && echo 600 || echo 20)) ;;
    esac
    quietly build/all/configure.log cmake --preset "$preset" "${options[@]}"
    quietly build/all/build.log cmake --build "build/$preset"
    echo "built $preset in $((SECONDS - begin)) s"
done

# One run over all build folders.
printf 'subdirs("%s")\n' "${presets[@]/#/$PWD/build/}" > build/all/CTestTestfile.cmake
only=(-LE long)
[ "$long" ] && only=() && export MILLRACE_MIXES=4000
status=0
ctest --test-dir build/all -j2 --output-on-failure "${only[@]}" 2>&1 | tee build/all/ctest.log || status=$?

echo
echo "The ten slowest tests, in seconds:"
sed -nE 's|^ *[0-9]+/[0-9]+ Test +#[0-9]+: +([^ ]+) .* ([0-9.]+) sec.*$|\2 \1|p' build/all/ctest.log | sort -rn | sed -n 1,10p # reads to the end: a `head` that leaves early would end the script
# CTest's closing line once more, so that it closes the run.
grep -E '^[0-9]+% tests passed' build/all/ctest.log
exit $status
