#!/usr/bin/env bash
# Writes a bill of materials (CycloneDX 1.6, JSON) of the Python packages of an environment, and asks the package index for
# their known weaknesses where it tells them: 3 when there are some.
#
# usage: tools/sbom.sh [FILE]          (sbom.json unless given)
set -euo pipefail
. "$(dirname "$0")/lib.sh"
file=${1:-$tree/sbom.json}
log=$(mktemp "${TMPDIR:-/tmp}/nova-sbom.XXXXXX")
tools=$(mktemp -d "${TMPDIR:-/tmp}/nova-sbom-tools.XXXXXX")
trap 'rm -rf "$tools"; end_log' EXIT

[ -x "$venv/bin/python" ] || fail "There is no environment in $venv: run tools/test.sh pep8 or tools/quickstart.sh first."
make_tools() { python3 "$here/packages.py" "$tools" cyclonedx-bom pip-audit; }
write() {
    "$tools/bin/cyclonedx-py" environment --spec-version 1.6 --output-reproducible --output-format JSON \
        --output-file "$file" "$venv/bin/python"
}
step "What writes it" make_tools
step "Bill of materials" write
say "$file has $(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["components"]))' "$file") packages"
"$tools/bin/python" - "$file" "$tools/bin/pip-audit" <<'PYTHON'
import json
import subprocess
import sys
import tempfile

with open(sys.argv[1]) as file:
    parts = [part for part in json.load(file)['components'] if part['name'] != 'solonova']
with tempfile.NamedTemporaryFile('w') as wanted:
    wanted.writelines(f"{part['name']}=={part['version']}\n" for part in parts)
    wanted.flush()
    done = subprocess.run([sys.argv[2], '--format', 'json', '--progress-spinner', 'off', '--no-deps', '--disable-pip',
                           '--requirement', wanted.name], capture_output=True, text=True)
try:
    rows = json.loads(done.stdout)['dependencies']
except ValueError:
    rows = []
audited = [row for row in rows if 'skip_reason' not in row]
weak = [(row, weakness) for row in audited for weakness in row['vulns']]
for row, weakness in weak:
    print(f"{row['name']} {row['version']}: {weakness['id']}, mended in {', '.join(weakness['fix_versions']) or 'no version'}")
print(f'{len(audited)} of {len(parts)} packages were audited, {len(weak)} known weaknesses.'
      if audited else 'The package index tells no known weaknesses: nothing was audited.')
sys.exit(3 if weak else 0)
PYTHON
