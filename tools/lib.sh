# Sourced by the scripts beside it: steps with their time, the virtual environment, Debian packages.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(dirname "$here")
venv=${NOVA_VENV:-$tree/.venv}

# what libvirt's Python package is built with
BUILD_PACKAGES="libvirt-dev pkg-config gcc libc6-dev"
RUN_PACKAGES="$BUILD_PACKAGES libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base
 nftables iproute2 iputils-ping procps tini util-linux openssh-client bubblewrap libseccomp2"
# disks and volumes of a Ceph that is elsewhere, and what a Ceph on this machine needs beside it (tools/ceph.sh)
CEPH_CLIENT_PACKAGES="ceph-common qemu-block-extra"
CEPH_PACKAGES="ceph-mon ceph-mgr ceph-osd $CEPH_CLIENT_PACKAGES"
# a file system in it, and what mounts its shares (nova-virtiofsd)
CEPH_FILES_PACKAGES="ceph-mds ceph-fuse"
CEPH_BINDINGS="python3-rados python3-rbd"
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
    ( while sleep 10 >/dev/null 2>&1; do printf '.'; done ) & ticker=$!
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

# meanwhile NAME command...: begins it in the background, in a process group of its own; 'step "what" outcome NAME' waits
# for its end and has its output. A script that is ended calls end_meanwhile.
declare -A meanwhile=()
meanwhile() {
    set -m
    ( trap "echo \$? >'$log.$1.code'" EXIT; "${@:2}" ) >"$log.$1" 2>&1 </dev/null & meanwhile[$1]=$!
    set +m
}
# Its code is in a file: when it has ended, the kernel may give its number to another process, and bash forgets it then.
outcome() {
    local status
    wait "${meanwhile[$1]}" 2>/dev/null || true
    unset "meanwhile[$1]"
    cat "$log.$1"
    status=$(cat "$log.$1.code") || status=1
    rm -f "$log.$1" "$log.$1.code"
    return "$status"
}
end_meanwhile() {
    local name
    for name in "${!meanwhile[@]}"; do kill -- "-${meanwhile[$name]}" 2>/dev/null || true; rm -f "$log.$name"{,.code}; done
}

# Installs what of these Debian packages is missing; nothing when all are there. The lists are fetched once.
lists=old
install_packages() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    [ $lists = new ] || apt-get -qq update || return 1
    lists=new
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}"
}

packages_present() {
    dpkg-query -W -f '${Status}\n' "$@" 2>/dev/null | grep -c 'ok installed' | grep -qx $#
}

# ceph_bindings PYTHON: lets a virtual environment import CEPH_BINDINGS, which Debian alone has. All of Debian's packages in
# the environment would hide newer ones of its own.
ceph_bindings() {
    local file site
    site=$("$1" -c 'import sysconfig; print(sysconfig.get_path("platlib"))') || return 1
    for file in /usr/lib/python3/dist-packages/{rados,rbd}.*.so; do ln -sf "$file" "$site/"; done
    "$1" -c 'import rados, rbd' || {
        echo "Ceph's packages for Python are those of $(/usr/bin/python3 --version), and this is $("$1" --version)."
        return 1
    }
}

# choose_venv USER: a virtual environment that a user can run, where he cannot look into this tree: it stands elsewhere,
# with a copy of the tree's code.
choose_venv() {
    [ -n "${NOVA_VENV:-}" ] && return 0
    if can_run "$1" "$tree/setup.cfg" "$(command -v python3)"; then
        [ ! -d "$venv" ] || chmod -R a+rX "$venv"
        return 0
    fi
    venv=/opt/nova-quickstart copied=yes
    can_run "$1" "$(command -v python3)" || PATH=/usr/bin:/bin:$PATH
}
can_run() {
    local user=$1 path
    shift
    for path in "$@"; do
        setpriv --reuid="$user" --regid="$user" --clear-groups test -r "$(readlink -f "$path")" || return 1
    done
}

# make_venv EXTRAS PACKAGE...: the virtual environment with this tree installed; again only when it changed.
copied=no
make_venv() {
    local extras=$1 stamp copy
    shift
    stamp=$(cat "$tree/setup.cfg" "$tree/requirements.txt" | sha256sum | cut -c1-16)-$extras-$*
    [ $copied = yes ] && stamp+=-$(cd "$tree" && find nova -type f ! -name '*.pyc' -print0 | sort -z |
        xargs -0 sha256sum | sha256sum | cut -c1-16)
    if [ "$(cat "$venv/nova.stamp" 2>/dev/null)" = "$stamp" ]; then compile_tree; return; fi
    (
        umask 022                        # others run it, too
        if [ $copied = yes ]; then
            copy=$(mktemp -d)            # what is built leaves no trace in the tree
            trap 'rm -rf "$copy"' EXIT
            (cd "$tree" && cp -r nova etc tools setup.py setup.cfg requirements.txt README.rst "$copy/") || return 1
            python3 "$here/packages.py" "$venv" "$copy${extras:+[$extras]}" "$@"
        else
            python3 "$here/packages.py" "$venv" -e "$tree${extras:+[$extras]}" "$@"
        fi
    ) || return 1
    echo "$stamp" >"$venv/nova.stamp"
    compile_tree
}
# compile_tree: once, for those who run the tree and may not write into it: each of their processes would do it again.
# Where this user may not write either, it is left so.
compile_tree() { [ $copied = yes ] || (umask 022 && "$venv/bin/python" -m compileall -q "$tree/nova") || true; }
