# Sourced by the scripts beside it: steps with their time, the virtual environment, Debian packages.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(dirname "$here")
venv=${NOVA_VENV:-$tree/.venv}

# Files that others read (programs, packages, logs of apt) keep the usual modes whatever the caller's umask is; what is secret
# gets its mode where it is made.
umask 022
# "su" without "-" keeps the PATH of an ordinary user, which has no programs of the administrator.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# The output of other programs is read, so it must be English. LANGUAGE has precedence even with C.UTF-8.
export LC_ALL=C.UTF-8
unset LANGUAGE

# packages REQUIREMENT...: Debian packages, by tools/distributions.tsv.
packages() { python3 "$here/distribution.py" "$@" || exit 1; }

# metadata KEY: of the distribution, in setup.cfg.
metadata() { sed -n "s/^$1 = //p" "$tree/setup.cfg"; }

say() { printf '%s\n' "$*"; }
fail() { printf '\n%s\n' "$*" >&2; exit 1; }

# step "what" command...: shows what is done and how long it took; the command's output goes to $log and is shown
# when it fails. A step over 10 s says so every 10 s. A lock that a script holds with descriptor 9 stays its own: what a step
# starts may outlive the script.
ticker= failed=no
step() {
    local what=$1 begin elapsed
    shift
    begin=$(date +%s%N)
    printf '  %-58s' "$what"
    ( while sleep 10 >/dev/null 2>&1; do printf '.'; done ) 6>&- 7>&- 9>&- & ticker=$!
    if "$@" >>"$log" 2>&1 9>&-; then
        end_ticker
        elapsed=$(( ($(date +%s%N) - begin) / 100000000 ))
        printf ' %4d.%d s\n' $((elapsed / 10)) $((elapsed % 10))
    else
        end_ticker
        failed=yes
        printf ' failed\n' >&2
        tail -n 25 "$log" >&2
        fail "'$what' failed; all of its output is in $log$(explanation)"
    fi
}

# end_ticker: of a step that has ended, or of one that a signal ends. SIGTERM would let a ticker that has just begun run the
# script's own EXIT trap.
end_ticker() {
    [ -z "$ticker" ] || { kill -KILL "$ticker" && wait "$ticker"; } 2>/dev/null || true
    ticker=
}

# end_log: of a script that ends. The message of a failed step names the log, which then stays.
end_log() { [ $failed = yes ] || rm -f "$log"; }

# explanation: a sentence about the cause of a failed step, where its output names a known one; with a line break before it.
explanation() {
    local pattern sentence
    while IFS='|' read -r pattern sentence; do
        if grep -qE "${pattern//;/|}" <(tail -n 200 "$log"); then printf '\n%s Then run the same command again: it continues.' "$sentence"; return; fi
    done <<'TABLE'
No space left on device;not enough free space|A file system is full: free some room (df -h).
Temporary failure resolving;Could not resolve;Name or service not known;failed to lookup address|No name server answers: correct /etc/resolv.conf, or set https_proxy.
not yet valid;certificate has expired;is not valid yet;Release file .* is not valid yet|A certificate or package list is not valid now: set the clock (timedatectl set-ntp true).
Could not get lock;Unable to acquire the dpkg|Another program installs packages: wait until it has ended.
Unable to locate package;has no installation candidate;apt knows no package|apt does not know a package: its lists are old, or a name in tools/distributions.tsv is wrong here.
Cannot allocate memory;MemoryError;Killed process|The memory does not suffice: end other programs, or give the machine more.
Proxy Authentication Required;Tunnel connection failed;403  Forbidden|The proxy refuses: correct http_proxy and https_proxy.
TABLE
}

# meanwhile NAME command...: begins it in the background, in a process group of its own; 'step "what" outcome NAME' waits
# for its end and has its output. A script that is ended calls end_meanwhile.
declare -A meanwhile=()
meanwhile() {
    set -m
    ( trap "echo \$? >'$log.$1.code'" EXIT; "${@:2}" ) >"$log.$1" 2>&1 </dev/null 9>&- & meanwhile[$1]=$!
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
    end_ticker
    for name in "${!meanwhile[@]}"; do kill -- "-${meanwhile[$name]}" 2>/dev/null || true; rm -f "$log.$name"{,.code}; done
}

lists=old
APT="apt-get -qq -o DPkg::Lock::Timeout=300 -o APT::Update::Error-Mode=any -o Acquire::Languages=none"
# Questions would go to the log, unseen: changed configuration files are kept.
KEEP="--force-confdef --force-confold"
APT+=$(printf ' -o DPkg::Options::=%s' $KEEP)
refresh_lists() { [ $lists = new ] || $APT update && lists=new; }
# install_packages PACKAGE...: installs those of them that are missing. An interrupted run of dpkg is completed first, and another
# run of apt (unattended-upgrades) is waited for.
install_packages() {
    local missing=() package
    for package in "$@"; do
        packages_present "$package" || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    local -x DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    [ -z "$(dpkg --audit)" ] || dpkg $KEEP --configure -a </dev/null || return 1
    refresh_lists || return 1
    $APT -y --no-install-recommends install "${missing[@]}" </dev/null
}

# packages_present PACKAGE...: whether all are installed. dpkg-query prints a line for each architecture of a package.
packages_present() {
    local wanted
    wanted=$(printf '%s\n' "${@%%:*}" | sort -u | wc -l)
    dpkg-query -W -f '${Package} ${Status}\n' "$@" 2>/dev/null | awk '/ ok installed$/ {print $1}' | sort -u | wc -l | grep -qx "$wanted"
}

# ceph_bindings PYTHON: lets a virtual environment import Ceph's modules, which Debian alone has. All of Debian's packages in
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

# system_python: the distribution's own Python, for which it has compiled modules (libvirt); else the first one of the search
# path; NOVA_PYTHON names another one.
system_python() {
    local python
    for python in ${NOVA_PYTHON:-/usr/bin/python3 python3}; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then command -v "$python"; return 0; fi
    done
    return 1
}

# make_venv EXTRAS PACKAGE...: the virtual environment with this tree installed; again only when tree or Python changed.
# With $source it is installed from a copy of the tree in there, which stays for the next time. A source can have wheels
# instead of modules: that of this product, and all others if it comes from a bundle.
source= python=python3
make_venv() {
    local extras=$1 stamp minor from=(-e "$tree")
    shift
    minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || return 1
    stamp=$minor-$extras-$*-$(cd "$tree" && {
        if [ -d wheels ]; then sha256sum wheels/*; else cat setup.cfg requirements.txt; fi
        [ -z "$source" ] || [ -d wheels ] || find nova etc tools -path nova/tests -prune -o -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum
    } | sha256sum | cut -c1-16)
    if [ "$(cat "$venv/nova.stamp" 2>/dev/null)" = "$stamp" ]; then compile_tree; return; fi
    if [ -n "$source" ]; then
        # What another Python made, or an interrupted run left, is made anew.
        [ -s "$venv/nova.stamp" ] && [ -e "$venv/lib/python$minor" ] || rm -rf "$venv"
        if [ "$tree" != "$source" ]; then
            rm -rf "$source.new"
            mkdir -p "$source.new"
            (cd "$tree" && cp -r nova etc tools setup.py setup.cfg requirements.txt README.rst "$source.new/") || return 1
            rm -rf "$source" "$source.new/nova/tests"
            mv "$source.new" "$source"
        fi
        from=("$source")
        if [ -d "$source/wheels" ]; then
            from=("$source"/wheels/solonova-*.whl)
            [ "$(ls "$source/wheels" | wc -l)" = 1 ] || export PIP_NO_INDEX=1 PIP_FIND_LINKS=$source/wheels
        fi
    fi
    rm -f "$venv/nova.stamp"
    from[-1]+=${extras:+[$extras]}
    "$python" "$here/packages.py" "$venv" "${from[@]}" "$@" || return 1
    [ -z "$source" ] || rm -rf "$source"/build "$source"/*.egg-info
    echo "$stamp" >"$venv/nova.stamp"
    compile_tree
}
# venv_check VENV COMMAND: a script that runs the command if the environment is incomplete, or its Python does not find the product.
# A Python that has the name of the environment's modules, as python3.11, is not started for that.
venv_check() {
    cat <<TEXT
#!/bin/sh
python=\$(readlink -f $1/bin/python)
if [ -s $1/nova.stamp ] && [ -x "\$python" ]; then
    [ -d "$1/lib/\${python##*/}/site-packages" ] || $1/bin/python -c "import nova" 2>/dev/null && exit
fi
$2
TEXT
}
# compile_tree: once, for those who run the tree and may not write into it: each of their processes would do it again.
# Where this user may not write either, it is left so.
compile_tree() { [ -n "$source" ] || "$venv/bin/python" -m compileall -q "$tree/nova" || true; }
