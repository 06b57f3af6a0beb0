#!/bin/sh
# Make sure that a virtual environment holds exactly the pinned requirements; it is keyed by their hash.
#   scripts/venv.sh FOLDER REQUIREMENTS...        prints the path of its python
set -eu
folder=$1
shift
key=$(cat "$@" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/.key" 2>/dev/null || true)" != "$key" ]; then
    echo "preparing $folder" >&2
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    args=
    for file in "$@"; do args="$args -r $file"; done
    "$folder/bin/pip" install -q --disable-pip-version-check --no-compile $args >&2 || {
        echo "could not install the Python packages of $* from PyPI (is there a network?)" >&2
        exit 1
    }
    echo "$key" > "$folder/.key"
fi
echo "$folder/bin/python"
