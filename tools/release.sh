#!/usr/bin/env bash
# Makes the files of a release, signs them and verifies them.
#
# usage: tools/release.sh build DIRECTORY [KEY]    all files of a release; signed if a key is named
#        tools/release.sh packages DIRECTORY       Debian packages and bundle for this machine's release of Debian, as root
#        tools/release.sh sign DIRECTORY KEY       SHA256SUMS of all files, and its signature by a key of gpg
#        tools/release.sh verify DIRECTORY         whether the signature and all checksums are right
#
# A release has source distribution, wheel, bill of materials and, for Debian 12 and 13, packages and bundle. These are
# built as root in blank roots, which debootstrap makes (tools/debian_root.py).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[ $# -ge 2 ] && case $1 in build) [ $# -le 3 ] ;; packages|verify) [ $# = 2 ] ;; sign) [ $# = 3 ] ;; *) false ;; esac ||
    { sed -n '4,7s/^# //p' "$0" >&2; exit 2; }
action=$1
mkdir -p "$2"
directory=$(cd "$2" && pwd)
sums=SHA256SUMS

# files: names of the release's files, without the checksums themselves; one a line.
files() { (cd "$directory" && find . -maxdepth 1 -type f ! -name "$sums*" -printf '%P\n' | LC_ALL=C sort); }

# refuse_placeholder: domains for examples (RFC 2606) receive no mail.
refuse_placeholder() {
    local address
    address=$(metadata maintainer_email)
    case $address in
        *[@.]example.com|*[@.]example.net|*[@.]example.org|*.example|*.invalid|*.test|*.localhost) ;;
        *@*.*) return ;;
    esac
    fail "The maintainer's address in setup.cfg is a placeholder ('$address'): write the address that answers users, commit it and build again."
}
build_release() {
    local work log wheel release
    refuse_placeholder
    [ -z "$(git -C "$tree" status --porcelain)" ] || fail "The tree has changes that are not committed: a release is a commit."
    [ -z "$(files)" ] || fail "$directory has files: give an empty directory."
    work=$(mktemp -d "${TMPDIR:-/tmp}/nova-release.XXXXXX")
    log=$work/log
    git clone --quiet --no-hardlinks "$tree" "$work/tree"
    SOURCE_DATE_EPOCH=$(git -C "$tree" log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    step "Tools" python3 "$here/packages.py" "$work/tools" build pytest
    step "Source distribution and wheel" "$work/tools/bin/python" -m build --outdir "$directory" "$work/tree"
    wheel=$(echo "$directory"/*.whl)
    step "Environment of the wheel" python3 "$here/packages.py" "$work/venv" "$wheel"
    NOVA_VENV=$work/venv "$here/sbom.sh" "$directory/$(basename "$wheel" -py3-none-any.whl).cdx.json"
    if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
        for release in debian-12 debian-13; do
            say "Packages and bundle for $release"
            "$work/tools/bin/python" "$work/tree/tools/debian_root.py" --out "$directory" "$release" tools/release.sh packages /root/out
        done
    else
        say "Debian packages and bundles are missing: they are built as root, where debootstrap is installed."
    fi
    rm -rf "$work"
}
build_packages() {
    local log
    log=$(mktemp "${TMPDIR:-/tmp}/nova-release.XXXXXX")
    # shellcheck disable=SC2046
    step "What builds packages" install_packages $(packages python guest package)
    rm -f "$log"
    "$here/package.sh" "$directory"
    "$here/bundle.sh" "$directory"
}
sign_release() {
    [ -n "$(files)" ] || fail "$directory has no files: tools/release.sh build makes them."
    (cd "$directory" && files | tr '\n' '\0' | xargs -0 sha256sum >"$sums")
    gpg --batch --yes --local-user "$1" --armor --output "$directory/$sums.asc" --detach-sign "$directory/$sums"
    say "$directory/$sums.asc signs $(wc -l <"$directory/$sums") files."
}
verify_release() {
    gpg --batch --verify "$directory/$sums.asc" "$directory/$sums" || fail "The signature of $directory/$sums is not valid."
    (cd "$directory" && sha256sum --quiet --strict --check "$sums") || fail "A file in $directory is not the signed one."
    local unsigned
    unsigned=$(comm -23 <(files) <(sed 's/^[0-9a-f]*  //' "$directory/$sums" | LC_ALL=C sort))
    [ -z "$unsigned" ] || fail "Not signed in $directory: $unsigned"
    say "$(wc -l <"$directory/$sums") files are as they were signed."
}

case $action in
    build) build_release; [ $# = 2 ] || sign_release "$3" ;;
    packages) build_packages ;;
    sign) sign_release "$3" ;;
    verify) verify_release ;;
esac
