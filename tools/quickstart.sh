#!/usr/bin/env bash
# From a fresh Debian 12 machine to a running server: sets up what is missing, starts the all-in-one cloud, boots a
# first server and shows how to go on. Run again, it does only what is not done already.
#
# usage: tools/quickstart.sh [--driver auto|libvirt|fake] [--state-path DIRECTORY] [--port PORT] [--no-server]
#        tools/quickstart.sh stop|status [--state-path DIRECTORY]
set -euo pipefail
. "$(dirname "$0")/lib.sh"

driver=auto port=8774 server=yes action=start state=
while [ $# -gt 0 ]; do
    case $1 in
        start|stop|status) action=$1 ;;
        --driver) driver=${2:?--driver needs a value}; shift ;;
        --state-path) state=${2:?--state-path needs a value}; shift ;;
        --port) port=${2:?--port needs a value}; shift ;;
        --no-server) server=no ;;
        *) say "'$1' is no word of this command." >&2; sed -n '5,6s/^# //p' "$0" >&2; exit 2 ;;
    esac
    shift
done
case $driver in auto|libvirt|fake) ;; *) fail "--driver is '$driver'; choose auto, libvirt or fake" ;; esac
[[ $port =~ ^[0-9]{1,5}$ ]] && ((10#$port > 0 && 10#$port < 65536)) || fail "--port is '$port'; choose 1 to 65535"
root=no; [ "$(id -u)" = 0 ] && root=yes
if [ -z "$state" ]; then
    [ $root = yes ] && state=/var/lib/nova || state=$HOME/.local/share/nova
fi
umask 077
# What root keeps stands beside the state directory, which becomes the user's whom nova-all becomes: in a directory of
# another user root writes nothing.
state=$(realpath -m "$state")
own=$state
if [ $root = yes ]; then
    own=$state-quickstart
    mkdir -p "$own"
    for name in nova-all.pid nova-all.log first_key first_key.pub first-server.done guest; do      # of an earlier release
        if [ ! -e "$own/$name" ] && [ -O "$state/$name" ] && [ ! -L "$state/$name" ]; then mv "$state/$name" "$own/"; fi
    done
else
    mkdir -p "$state"
fi
pidfile=$own/nova-all.pid log=$own/quickstart.log
: >"$log"

running() { [ -s "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }
serving() { curl_ "http://127.0.0.1:$port/" >/dev/null 2>&1; }
curl_() { python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=3).read()' "$1"; }

stop_cloud() {
    running || { say "The cloud is not running."; return 0; }
    local pid; pid=$(cat "$pidfile")
    kill -TERM "$pid"
    for _ in $(seq 700); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -0 "$pid" 2>/dev/null && fail "nova-all (process $pid) has not stopped within 70 s; see $own/nova-all.log"
    rm -f "$pidfile"
    say "The cloud has stopped. Guests go on running; tools/quickstart.sh starts it again."
}

case $action in
    stop) stop_cloud; exit 0 ;;
    status) if running && serving; then say "The cloud listens on http://127.0.0.1:$port/"; exit 0
            elif running; then fail "nova-all runs (process $(cat "$pidfile")) and does not answer on port $port; give its --port, or see $own/nova-all.log."
            else say "The cloud is not running."; exit 1; fi ;;
esac

# Users of the cloud's processes, as etc/systemd/*.sysusers.
make_users() {
    local name
    for name in nova nova-image; do
        getent passwd $name >/dev/null || useradd --system --user-group --no-create-home --home-dir /var/lib/nova \
            --shell /usr/sbin/nologin $name
    done
}

# ---- what can run here ----------------------------------------------------------
if [ $driver = auto ]; then
    if [ $root = yes ] && command -v apt-get >/dev/null; then driver=libvirt
    else
        driver=fake
        say "Without root there is no libvirt and no bridge: servers are simulated (the fake driver)."
    fi
elif [ $driver = libvirt ] && [ $root = no ]; then
    fail "--driver libvirt needs root: it installs packages and makes a bridge. Try --driver fake."
fi

begun=$(date +%s%N)
say "Setting up the cloud in $state"
extras=screenshots; [ $driver = libvirt ] && extras+=,libvirt
trap end_meanwhile EXIT
begin_python() { meanwhile python make_venv "$extras" python-openstackclient; }
if [ $root = yes ]; then step "The user nova, whom nova-all becomes" make_users; choose_venv nova; fi
# Python's packages are fetched and built while Debian's other ones are installed.
install_debian() {
    # shellcheck disable=SC2086
    install_packages $python_packages $BUILD_PACKAGES && begin_python && install_packages $RUN_PACKAGES $GUEST_PACKAGES
}
python_packages=
python3 -c 'import ensurepip, venv' 2>/dev/null || python_packages="python3-venv python3-dev"
# shellcheck disable=SC2086
if [ $driver = libvirt ] && ! packages_present $python_packages $RUN_PACKAGES $GUEST_PACKAGES; then
    step "Debian packages (libvirt, QEMU, dnsmasq, …)" install_debian
elif [ -n "$python_packages" ] && [ $root = yes ] && command -v apt-get >/dev/null; then
    step "Debian packages (python3-venv)" install_packages $python_packages
fi
[ $driver = fake ] || [ $root = no ] || usermod --append --groups libvirt nova
[ $driver = fake ] || meanwhile image "$here/guest-image.sh" "$own/guest"
[ -n "${meanwhile[python]:-}" ] || begin_python
step "Python packages" outcome python
if [ $driver = libvirt ]; then
    if "$here/libvirt-host.sh" status >/dev/null 2>&1; then :; else
        step "libvirt" "$here/libvirt-host.sh" start
    fi
    step "Guest image" outcome image
fi

# ---- the cloud ------------------------------------------------------------------
start_cloud() {
    PATH="$venv/bin:$PATH" setsid nohup "$venv/bin/nova-all" --state-path "$state" --driver "$driver" --port "$port" \
        </dev/null >>"$own/nova-all.log" 2>&1 &
    echo $! >"$pidfile"
    for _ in $(seq 300); do
        serving && return 0
        running || break
        sleep 0.1
    done
    tail -n 20 "$own/nova-all.log"
    return 1
}
if running && serving; then say "  The cloud is running already"; else
    serving && fail "Something else listens on port $port; choose another one with --port."
    step "Starting nova-all" start_cloud
fi
elapsed=$(( ($(date +%s%N) - begun) / 100000000 ))
say "The cloud is serving after $((elapsed / 10)).$((elapsed % 10)) s"

# ---- a first server -------------------------------------------------------------
export OS_CLOUD=nova-admin OS_CLIENT_CONFIG_FILE=$state/clouds.yaml
if [ $server = yes ] && [ ! -f "$own/first-server.done" ]; then
    say "A first server"
    "$venv/bin/python" "$here/first_server.py" $driver "$own"
    address=$(cat "$own/first-server.done")
    elapsed=$(( ($(date +%s%N) - begun) / 100000000 ))
    say "A server runs after $((elapsed / 10)).$((elapsed % 10)) s: 'first' at $address"
    [ $driver = libvirt ] && say "  Log in:            ssh -i $own/first_key root@$address"
fi

cat <<TEXT

The cloud listens on   http://127.0.0.1:$port/
See it in a browser    http://127.0.0.1:$port/dashboard/   (users and passwords: $state/clouds.yaml)
Use it with            export OS_CLOUD=nova-admin OS_CLIENT_CONFIG_FILE=$state/clouds.yaml
                       $venv/bin/openstack server list
As an ordinary user    export OS_CLOUD=nova-demo
Its files              $state   (log: $own/nova-all.log)
Stop it                ./tools/quickstart.sh stop$([ "$state" = /var/lib/nova ] || [ "$state" = "$HOME/.local/share/nova" ] || printf ' --state-path %s' "$state")
TEXT
