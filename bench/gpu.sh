#!/bin/sh
# Run everything that needs a GPU on a machine that has one and no network: bench/gpu.sh WHEELS OUT
#
# WHEELS holds the wheel of recipes/saxpy for this Python, and what this Python lacks of requirements/demo.txt, cuda-core,
# cuda-bindings, cuda-pathfinder, cupy-cuda13x, numpy and pytest. OUT gets tests.log, tests.xml, launch.txt and launch.json.
set -eu
[ $# -eq 2 ] || { sed -n 's/^# \{0,1\}//p' "$0" >&2; exit 2; }
wheels=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

# shellcheck disable=SC2046  # one word for each project
"$python" -m pip install --quiet --no-index --no-deps --find-links "$wheels" --target "$site" \
    $(cd "$wheels" && for wheel in *.whl; do echo "${wheel%%-*}"; done | sort -u)
cd "$root"
status=0
PYTHONPATH="$site:$root" "$python" -m pytest tests/gpu -m gpu -q -p no:cacheprovider -o filterwarnings=default \
    --junitxml "$out/tests.xml" >"$out/tests.log" 2>&1 || status=$?
tail -n 30 "$out/tests.log"
PYTHONPATH="$site" "$python" bench/launch.py --json "$out/launch.json" >"$out/launch.txt" 2>&1 || status=$?
cat "$out/launch.txt"
exit "$status"
