#!/usr/bin/env bash
# Style and structure: ruff, the layers of doc/source/contributor/architecture.rst, the types of the modules in
# tools/typed.txt, the row types of the tables, shell scripts that parse.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff check nova setup.py tools doc/ext
lint-imports --config .importlinter
mapfile -t typed < <(grep -v '^#' tools/typed.txt)
mypy "${typed[@]}"
python3 tools/row_types.py check
for script in tools/*.sh tools/guest/*; do bash -n "$script"; done
if grep -rnE '^\s*(import eventlet|from eventlet)' nova --include='*.py' | grep -vE '^nova/(concurrency\.py|cmd/|runtime/|tests/)'; then
    echo 'eventlet is imported outside concurrency.py' >&2; exit 1
fi
if grep -rnE 'cfg\.CONF\b' nova --include='*.py' | grep -vE '^nova/(cmd|tests)/'; then
    echo 'the global configuration is used outside nova/cmd' >&2; exit 1
fi
