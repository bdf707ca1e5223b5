#!/usr/bin/env bash
# Takes the dashboard's libraries, in the versions of package.json, into nova/api/dashboard/static/vendor, and writes
# vendor.tsv there: name, version, licence, file, SHA-256. Needs npm; users of the dashboard do not.
#
# usage: tools/dashboard/vendor.sh
set -euo pipefail
cd "$(dirname "$0")"
vendor=../../nova/api/dashboard/static/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json "$work"
npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund --silent
modules=$work/node_modules
mkdir -p "$vendor"
rm -f "$vendor"/*.mjs "$vendor"/*.css "$vendor"/*.txt
printf '# The libraries of the dashboard: name, version, licence, file, SHA-256. Written by tools/dashboard/vendor.sh.\n' >"$vendor/vendor.tsv"
take() {          # take PACKAGE FILE NAME: browsers know no module called "preact", so it is named by its file
    sed -e 's|from"preact"|from"./preact.mjs"|' -e '/^\/\/# sourceMappingURL=/d' "$modules/$1/$2" >"$vendor/$3"
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$(node -p "require('$modules/$1/package.json').version")" \
        "$(node -p "require('$modules/$1/package.json').license")" "$3" \
        "$(sha256sum "$vendor/$3" | cut -d' ' -f1)" >>"$vendor/vendor.tsv"
    cp "$modules/$1/LICENSE" "$vendor/LICENSE.$1.txt"
}
take preact dist/preact.mjs preact.mjs
take preact hooks/dist/hooks.mjs hooks.mjs
take htm dist/htm.mjs htm.mjs
