#!/usr/bin/env bash
# Style and structure: ruff, the layers of doc/source/contributor/architecture.rst, the types of the modules in
# tools/typed.txt, which has all of nova but its tests, the row types of the tables, shell scripts that parse.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff check nova setup.py tools doc/ext
lint-imports --config .importlinter
mapfile -t typed < <(grep -v '^#' tools/typed.txt)
untyped=$(LC_ALL=C comm -13 <(printf '%s\n' "${typed[@]}" | LC_ALL=C sort) \
    <(find nova -name '*.py' -not -path 'nova/tests/*' | LC_ALL=C sort))
if [ -n "$untyped" ]; then
    echo "not in tools/typed.txt:" $untyped >&2; exit 1
fi
# a cache for all clones: mypy compares contents
mypy --cache-dir "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/nova-mypy" "${typed[@]}"
python3 tools/row_types.py check
for script in tools/*.sh tools/guest/* tools/packaging/*.sh; do [[ $script = *.awk ]] || bash -n "$script"; done
if grep -rnE '^\s*(import eventlet|from eventlet)' nova --include='*.py' | grep -vE '^nova/(concurrency\.py|cmd/|runtime/|tests/)'; then
    echo 'eventlet is imported outside concurrency.py' >&2; exit 1
fi
if grep -rnE 'cfg\.CONF\b' nova --include='*.py' | grep -vE '^nova/(cmd|tests)/'; then
    echo 'the global configuration is used outside nova/cmd' >&2; exit 1
fi
