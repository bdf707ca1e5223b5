#!/usr/bin/env bash
# Writes one file with all that an installation needs, for machines without package servers of this machine's release of Debian.
#
# usage: tools/bundle.sh [DIRECTORY]      (dist/ unless given)
#
# Packages of this release in DIRECTORY are taken; otherwise tools/package.sh builds them. The file has them with the
# packages that they depend on, the wheels for tools/quickstart.sh upgrade, the guest image and install.sh.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir -p "${1:-$tree/dist}"
out=$(cd "${1:-$tree/dist}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-bundle.XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$out/bundle.log
: >"$log"
. /etc/os-release
[ "$ID" = debian ] || fail "A bundle is made on Debian; this is $PRETTY_NAME."
version=$(sed -n "s/^VERSION = '\(.*\)'$/\1/p" "$tree/nova/version.py")
debian=$(sed -E 's/(a|b|rc|\.dev)([0-9]+)$/~\1\2/' <<<"$version")+deb$VERSION_ID
content=$work/solonova-$version
mkdir -p "$content"/{packages,wheels,guest}

# dependencies: what apt would install on a machine that has nothing, recommended packages that the product uses included.
dependencies() {
    refresh_lists && : >"$work/status" && mkdir -p "$work/cache/partial" || return 1
    apt-get -qq -y -o Dir::State::status="$work/status" -o Dir::Cache::archives="$work/cache" -o APT::Sandbox::User=root \
        --no-install-recommends --download-only install "$content"/packages/*.deb python3-pil python3-openstackclient \
        $(packages firmware tpm python python-libvirt run) || return 1
    mv "$work"/cache/*.deb "$content/packages/"
    (cd "$content/packages" && dpkg-scanpackages -m . >Packages)
}
# wheels: the product's and all others, for the distribution's Python. libvirt's module is Debian's.
wheels() {
    local built
    /usr/bin/python3 "$here/packages.py" "$work/tools" build wheel || return 1
    git clone --quiet --no-hardlinks "$tree" "$work/tree" || return 1
    "$work/tools/bin/python" -m build --wheel --outdir "$work/built" "$work/tree" || return 1
    built=$(echo "$work"/built/*.whl)
    "$work/tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --wheel-dir "$content/wheels" "$built[screenshots]" 'os-vif>=5.0' \
        python-openstackclient
}
write_bundle() {
    install -m 755 "$here/packaging/install.sh" "$content/install.sh"
    tar -c -f "$out/solonova-$debian.tar" --owner 0 --group 0 --sort name -C "$work" "solonova-$version"
}

if compgen -G "$out/solonova*_${debian}_*.deb" >/dev/null; then
    cp "$out"/solonova*_"$debian"_*.deb "$content/packages/"
else
    "$here/package.sh" "$content/packages"
fi
step "Packages that these depend on" dependencies
step "Wheels" wheels
step "Guest image" "$here/guest-image.sh" "$work/guest"
cp "$work/guest/guest.qcow2" "$content/guest/"
step "One file" write_bundle
rm -f "$log"
say "$out/solonova-$debian.tar: $(($(stat -c %s "$out/solonova-$debian.tar") / 1000000)) MB"
