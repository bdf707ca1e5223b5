# Sourced by the scripts beside it: steps with their time, the virtual environment, Debian packages.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(dirname "$here")
venv=${NOVA_VENV:-$tree/.venv}

RUN_PACKAGES="libvirt-daemon-system libvirt-clients libvirt-dev pkg-config gcc libc6-dev qemu-system-x86 qemu-utils dnsmasq-base
 nftables iproute2 iputils-ping procps tini util-linux openssh-client bubblewrap libseccomp2"
GUEST_PACKAGES="busybox-static e2fsprogs mtools dosfstools cpio syslinux syslinux-common fdisk kmod"

say() { printf '%s\n' "$*"; }
fail() { printf '\n%s\n' "$*" >&2; exit 1; }

# step "what" command...: shows what is done and how long it took; the command's output goes to $log and is shown
# when it fails. Nobody waits without seeing why: a step over 10 s says so every 10 s.
step() {
    local what=$1 begin elapsed ticker
    shift
    begin=$(date +%s%N)
    printf '  %-58s' "$what"
    ( while sleep 10; do printf '.'; done ) & ticker=$!
    if "$@" >>"$log" 2>&1; then
        kill "$ticker" 2>/dev/null; wait "$ticker" 2>/dev/null || true
        elapsed=$(( ($(date +%s%N) - begin) / 100000000 ))
        printf ' %4d.%d s\n' $((elapsed / 10)) $((elapsed % 10))
    else
        kill "$ticker" 2>/dev/null; wait "$ticker" 2>/dev/null || true
        printf ' failed\n' >&2
        tail -n 25 "$log" >&2
        fail "'$what' failed; all of its output is in $log"
    fi
}

# Installs what of these Debian packages is missing; nothing when all are there.
install_packages() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    apt-get -qq update &&
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}"
}

packages_present() {
    dpkg-query -W -f '${Status}\n' "$@" 2>/dev/null | grep -c 'ok installed' | grep -qx $#
}

# make_venv EXTRAS PACKAGE...: the virtual environment with this tree installed; again only when it changed.
make_venv() {
    local extras=$1 stamp
    shift
    stamp=$(cat "$tree/setup.cfg" "$tree/requirements.txt" | sha256sum | cut -c1-16)-$extras-$*
    [ "$(cat "$venv/nova.stamp" 2>/dev/null)" = "$stamp" ] && return 0
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || {
        say "python3 -m venv failed; on Debian install python3-venv"; return 1; }
    "$venv/bin/pip" install --quiet --disable-pip-version-check -e "$tree${extras:+[$extras]}" "$@" || return 1
    echo "$stamp" >"$venv/nova.stamp"
}
