#!/usr/bin/env bash
# Builds the Debian packages for this machine's release of Debian, with the Python packages that they need inside.
#
# usage: tools/package.sh [DIRECTORY]      (dist/ unless given)
#
# Packages: solonova (the all-in-one), solonova-compute (further hosts), solonova-common (programs and Python packages).
# It needs the packages of the rows python and package of tools/distributions.tsv. Python packages come from pip's index, as PIP_* and pip.conf state.
# lintian checks the packages if it is installed: 4 if it finds an error.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir -p "${1:-$tree/dist}"
out=$(cd "${1:-$tree/dist}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-package.XXXXXX")
log=$work/log
for program in dh dpkg-buildpackage eu-strip; do command -v $program >/dev/null || fail "$program is missing: run apt install debhelper dpkg-dev elfutils python3-venv."; done

. /etc/os-release
[ "$ID" = debian ] || fail "Packages are built on Debian; this is $PRETTY_NAME."
version=$(sed -n "s/^VERSION = '\(.*\)'$/\1/p" "$tree/nova/version.py")
# A release candidate comes before its release. The packages of Debian 13 replace those of Debian 12.
debian=$(sed -E 's/(a|b|rc|\.dev)([0-9]+)$/~\1\2/' <<<"$version")+deb$VERSION_ID

source=$work/solonova
copy_sources() {
    mkdir -p "$source"
    (cd "$tree" && tar -c --exclude=nova/tests --exclude=__pycache__ nova etc tools setup.py setup.cfg MANIFEST.in \
        requirements.txt LICENSE ./*.rst) | tar -x -C "$source"
    cp -r "$here/packaging/debian" "$source/debian"
    sed -i "s/@VERSION@/$debian/; s/@DATE@/$(date -R -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")/; \
        s/@MAINTAINER@/$(metadata maintainer) <$(metadata maintainer_email)>/" "$source"/debian/{changelog,control}
    local unit
    for unit in "$source"/etc/systemd/*.service; do
        case ${unit##*/} in
            nova-all.service) cp "$unit" "$source/debian/solonova.${unit##*/}" ;;
            nova-compute.service|nova-network.service) cp "$unit" "$source/debian/solonova-compute.${unit##*/}" ;;
            *) cp "$unit" "$source/debian/solonova-common.${unit##*/}" ;;
        esac
    done
    cp "$source/etc/systemd/nova.sysusers" "$source/debian/solonova-common.sysusers"
    cp "$source/etc/systemd/nova.tmpfiles" "$source/debian/solonova-common.tmpfiles"
    cp "$source/etc/systemd/nova-guests.sysusers" "$source/debian/solonova-compute.sysusers"
}
# -d: the build needs none of the packages that build-essential stands for.
build() { (cd "$source" && dpkg-buildpackage -b -us -uc -d); }
step "Sources" copy_sources
step "Packages for $PRETTY_NAME" build
cp "$work"/*.deb "$out/"
for file in "$work"/*.deb; do say "$out/${file##*/}: $(($(stat -c %s "$file") / 1000000)) MB"; done
if command -v lintian >/dev/null; then
    # As root: the container or machine that builds has no other user.
    lintian --allow-root --fail-on error --display-level '>=warning' --tag-display-limit 5 "$work"/*.deb || exit 4
fi
rm -rf "$work"
