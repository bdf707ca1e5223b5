#!/usr/bin/env bash
# Fills the private folder of the package solonova-common: this tree and its Python packages for the system's Python.
#
# usage: tools/packaging/private.sh FOLDER      in the source folder of the package; FOLDER becomes /usr/lib/solonova
set -euo pipefail
folder=$1 python=/usr/bin/python3
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
# An environment of the build, where the folder's path may change; pip and uv stay behind.
$python tools/packages.py --packaged "$made/venv" ".[mysql,postgresql,memcache]" 'os-vif>=5.0'
mkdir -p "$folder"
cp -a "$made/venv/." "$folder/"
rm -rf "$folder"/lib/python3.*/site-packages/{pip,uv,setuptools,_distutils_hack}{,-*} "$folder"/lib/python3.*/site-packages/distutils-precedence.pth

# Nothing in the folder names the place where it was built.
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
site=$(echo "$folder"/lib/python3.*/site-packages)
sed -i '/^command = /d' "$folder/pyvenv.cfg"
rm -f "$folder"/bin/[Aa]ctivate* "$folder"/bin/python*
ln -s ../../../bin/python3 "$folder/bin/python3"
find "$folder/bin" -type f ! -name 'nova-*' -delete
# Files of programs have no interpreter of their own: bin/ and the search path lead to "launch", which knows the Python of the
# package and reads them. A long path of the build gives a file three first lines instead of one.
mkdir "$folder/programs"
sed -i "1d; 2,3{/^'''exec' /d; /^' '''/d}" "$folder"/bin/nova-*
mv "$folder"/bin/nova-* "$folder/programs/"
rm -rf "$folder"/{lib64,.lock,.gitignore,CACHEDIR.TAG} "$site"/*.dist-info/{RECORD,direct_url.json,uv_cache.json}
rm -rf "$folder/include" "$folder/share/bash-completion"
find "$site" -type d -name tests ! -path "$site/nova/*" -prune -exec rm -rf {} +
find "$site" \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.c' -o -name '*.a' \) -delete
# Debian has what these bring: pillow for screenshots (python3-pil), libyaml, vendors of network cards (not used). The modules
# of numpy are for its tests, or not imported by it.
ln -s /usr/lib/python3/dist-packages/PIL "$site/PIL"
rm "$site"/yaml/_yaml.* "$site"/numpy/_core/_*_tests.* "$site"/numpy/linalg/lapack_lite.* "$site"/oslo_config/sources/templates/*
for file in "$site"/netaddr/eui/{iab,oui}.{txt,idx}; do ln -sf /dev/null "$file"; done
# Modules are no programs: their first lines name interpreters that Debian does not have.
grep -rlZ --include='*.py' -m1 '^#!' "$site" | xargs -0r sed -i '1s/^#!.*/#/'
find "$folder" -type f -exec chmod 644 {} +
find "$folder" -type d -exec chmod 755 {} +

# Programs, by way of one that knows the Python of the package.
. /etc/os-release
sed "s/@DEBIAN@/$VERSION_ID/; s/@PYTHON@/$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')/; \
s/@VERSION@/$(dpkg-parsechangelog -S Version)/" tools/packaging/launch >"$folder/launch"
chmod 755 "$folder/launch"
mkdir -p "$folder/../../bin"
for program in "$folder"/programs/nova-*; do
    [ "${program##*/}" != nova-api-wsgi ] || continue
    ln -s ../launch "$folder/bin/${program##*/}"
    ln -s ../lib/solonova/launch "$folder/../../bin/${program##*/}"
done
