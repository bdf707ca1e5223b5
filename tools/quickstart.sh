#!/usr/bin/env bash
# Sets up a cloud on this machine and boots a first server. Run again, it does only what is not done already.
#
# usage: tools/quickstart.sh [--driver auto|libvirt|fake] [--listen ADDRESS] [--port PORT] [--state-path DIRECTORY]
#                            [--guests CIDR] [--outside CIDR] [--no-server]
#        tools/quickstart.sh check                    what would prevent or spoil an installation; changes nothing
#        tools/quickstart.sh status|start|stop        the cloud; guests go on while it is stopped
#        tools/quickstart.sh logs [-f]                its log
#        tools/quickstart.sh upgrade [WHEEL|BUNDLE]   to the release of this tree, of a wheel or of a bundle; guests go on
#        tools/quickstart.sh remove [--data]          removes what was installed; keeps the data unless told otherwise
#
# As root it runs guests of libvirt (driver libvirt), as units of systemd where that runs. As another user it simulates guests
# (driver fake). --listen: an address other machines reach, with TLS. --guests (10.44.0.0/24), --outside (172.24.4.0/24): addresses
# of the network of guests and of floating addresses. NOVA_PYTHON: another Python than the distribution's.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() { sed -n '4,10s/^# //p' "$0" >&2; exit 2; }
root=no; [ "$(id -u)" = 0 ] && root=yes
action=install from= driver=auto listen= port= guests= outside= server=yes data=no follow=
state=/var/lib/nova; [ $root = yes ] || state=$HOME/.local/share/nova
given=("$@")
declare -A belongs=([--no-server]=install [--data]=remove [-f]=logs)
asked=()
while [ $# -gt 0 ]; do
    case $1 in
        install|check|status|start|stop|logs|remove|environment) action=$1 ;;
        upgrade) action=$1; if [[ ${2:-} == *.whl || ${2:-} == *.tar ]]; then from=$(realpath "$2"); shift; fi ;;
        --driver) driver=${2:?--driver needs a value}; shift ;;
        --state-path) state=${2:?--state-path needs a value}; shift ;;
        --listen) listen=${2:?--listen needs a value}; shift ;;
        --port) port=${2:?--port needs a value}; shift ;;
        --guests) guests=${2:?--guests needs a value}; shift ;;
        --outside) outside=${2:?--outside needs a value}; shift ;;
        --no-server) server=no; asked+=("$1") ;;
        --data) data=yes; asked+=("$1") ;;
        -f) follow=-f; asked+=("$1") ;;
        -h|--help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit ;;
        *) say "'$1' is not an option or action of this command." >&2; usage ;;
    esac
    shift
done
for option in "${asked[@]}"; do
    [ "$action" = "${belongs[$option]}" ] || fail "$option is an option of ${belongs[$option]}, not of $action."
done
case $driver in auto|libvirt|fake) ;; *) fail "--driver is '$driver'; choose auto, libvirt or fake." ;; esac
[ -z "$port" ] || { [[ $port =~ ^[0-9]{1,5}$ ]] && ((10#$port > 0 && 10#$port < 65536)); } || fail "--port is '$port'; choose 1 to 65535."
if [ -n "$guests$outside$listen" ] && command -v python3 >/dev/null; then
    python3 - "$guests" "$outside" "$listen" <<'CODE' || exit 1
import ipaddress
import sys

for option, text, kind in zip(('--guests', '--outside', '--listen'), sys.argv[1:],
                              (ipaddress.IPv4Network, ipaddress.IPv4Network, ipaddress.ip_address)):
    try:
        text and kind(text)
    except ValueError as error:
        sys.exit(f'{option}: {error}.')
CODE
fi

# ---- where everything is ------------------------------------------------------------
state=$(realpath -m "$state")
[[ $state =~ ^/[A-Za-z0-9._/@+-]+$ ]] || fail "--state-path is '$state'; use letters, digits and ._/@+- only."
[ $root = yes ] || [ -z "$guests" ] || fail "--guests needs root: without it guests are simulated."
# What root keeps stands beside the state directory, which becomes the user's whom nova-all becomes: in a directory of
# another user root writes nothing.
own=$state base=$state/programs systemd=no
if [ $root = yes ]; then
    own=$state-quickstart base=/opt/nova-quickstart
    [ ! -d /run/systemd/system ] || systemd=yes
fi
# Each release is a folder, and the installed one has a link: tools/upgrade.sh.
if [ -z "${NOVA_VENV:-}" ]; then venv=$base/current/venv source=$base/current/source; fi
unit=/etc/systemd/system/nova-all.service
files=(/usr/lib/sysusers.d/nova.conf /usr/lib/sysusers.d/nova-guests.conf /usr/lib/tmpfiles.d/nova.conf "$unit")
programs=(nova-manage nova-status nova-policy openstack)
pidfile=$own/nova-all.pid

# Options and the environment of an earlier run hold for later ones.
keep_environment() {
    local line name kept=()
    [ -r "$own/environment" ] || return 0
    while IFS= read -r line; do
        name=${line%%=*}
        [[ -v ${name,,} || -v ${name^^} ]] || kept+=("$line")            # what the caller has set is newer
    done <"$own/environment"
    [ ${#kept[@]} = 0 ] || export "${kept[@]}"
}
keep_environment
setting() { sed -n "s/^$1=//p" "$own/settings" 2>/dev/null || true; }
if [ $action = upgrade ] && [ -s "$own/settings" ]; then
    for name in driver listen port guests outside; do
        value=${!name} kept=$(setting $name)
        [ -z "$value" ] || [ "$name=$value" = driver=auto ] || [ "$value" = "$kept" ] ||
            fail "--$name is not an option of upgrade; the cloud keeps '$kept'. An installation changes it: tools/quickstart.sh --$name $value."
    done
fi
[ -n "$listen" ] || listen=$(setting listen)
[ -n "$port" ] || port=$(setting port)
[ -n "$guests" ] || guests=$(setting guests)
[ -n "$outside" ] || outside=$(setting outside)
# nova-all accepts no other driver than the one of its first start.
recorded=
if [ -f "$state/driver" ] && [ -r "$state/driver" ]; then recorded=$(head -c 20 "$state/driver"); fi
case $recorded in libvirt|fake) ;; *) recorded= ;; esac
[ "$driver" != auto ] || driver=${recorded:-$(setting driver)}
driver=${driver:-auto} listen=${listen:-127.0.0.1} port=${port:-8774} guests=${guests:-10.44.0.0/24} outside=${outside:-172.24.4.0/24}
host=$listen
case $host in 0.0.0.0) host=127.0.0.1 ;; ::) host=::1 ;; esac       # all addresses: asked at one of them
[[ $host != *:* ]] || host=[$host]
scheme=https; [[ $listen != 127.* && $listen != ::1 ]] || scheme=http
url=$scheme://$host:$port
# bypass_proxies: requests to the cloud go to no proxy. $bypassing: the other hosts, which the caller or an earlier run has named.
bypass_proxies() {
    bypassing=${no_proxy:-${NO_PROXY:-}}
    export no_proxy="${bypassing:+$bypassing,}127.0.0.1,localhost,$listen"
    export NO_PROXY=$no_proxy
}
bypass_proxies

running() {
    # A unit without these settings is that of another installation.
    if [ $systemd = yes ]; then [ -e "$unit.d/quickstart.conf" ] && systemctl is-active --quiet nova-all
    else [ -s "$pidfile" ] && [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$(cat "$pidfile")/cmdline") == *nova-all* ]]; fi
}
# ask PATH: prints what the cloud answers.
ask() {
    python3 - "$url$1" "$state/tls/ca.pem" <<'CODE' 2>/dev/null
import ssl
import sys
import urllib.request

url, authority = sys.argv[1:]
handlers = [urllib.request.ProxyHandler({})]
if url.startswith('https'):
    handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
sys.stdout.buffer.write(urllib.request.build_opener(*handlers).open(url, timeout=3).read())
CODE
}
# serving: before the port is open no Python is started to ask, which takes a tenth of a second of a processor.
serving() { listening && ask / >/dev/null; }
listening() { timeout --foreground 3 bash -c ': <>"/dev/tcp/$0/$1"' "${host//[][]/}" "$port"; } 2>/dev/null
installed() { [ -s "$own/settings" ]; }
# An installation before there were units left a process and no settings.
former() { ! installed && [ -s "$pidfile" ]; }
needs_installation() { installed || fail "No cloud was installed with state in $state. tools/quickstart.sh installs one."; }
needs_root() { [ $root = yes ] || installed || [ ! -d /var/lib/nova-quickstart ] || fail "The cloud of this machine is root's: run this as root."; }
check_host() {
    python3 "$here/host_check.py" --driver "$driver" --state-path "$state" --listen "$listen" --port "$port" \
        --guests "$guests" --outside "$outside" "$@"
}
# check_address: whether an installed cloud can listen at another address. Its own port is in use while it runs.
check_address() {
    local tried=$port
    [ "$listen/$port" != "$(setting listen)/$(setting port)" ] || return 0
    [ "$port" != "$(setting port)" ] || ! running || tried=0
    PYTHONPATH=$here python3 -c 'import host_check, sys; sys.exit(host_check.address_problem(*sys.argv[1:]))' "$listen" "$port" "$tried"
}
show_log() {
    if [ $systemd = yes ]; then journalctl --no-pager --unit nova-all ${follow:---lines=200}
    else tail -n 200 $follow "$own/nova-all.log"; fi
}

# ---- the cloud, installed -----------------------------------------------------------
await_serving() {
    for _ in $(seq 300); do
        serving && return 0
        running || return 1
        sleep 0.1
    done
    return 1
}
start_process() {
    ( umask 077
      exec 6>&- 7>&-                       # of an upgrade, which the process outlives
      PATH="$venv/bin:$PATH" setsid nohup "$venv/bin/nova-all" --state-path "$state" --driver "$driver" --listen "$listen" \
          --port "$port" </dev/null >>"$own/nova-all.log" 2>&1 &
      echo $! >"$pidfile" )
}
start_cloud() {
    if [ $systemd = yes ]; then
        # A start that systemd tries already may have begun with older settings of the unit.
        systemctl enable --quiet nova-all && { systemctl reset-failed nova-all 2>/dev/null || true; } && systemctl restart nova-all
    else start_process; fi
    await_serving || { show_log | tail -n 20; return 1; }
}
stop_cloud() {
    running || { say "The cloud is not running."; return 0; }
    if [ $systemd = yes ]; then systemctl stop nova-all
    else
        local pid; pid=$(cat "$pidfile")
        kill -TERM "$pid"
        timeout --foreground 70 tail --pid="$pid" --sleep-interval=0.02 -f /dev/null || true
        if kill -0 "$pid" 2>/dev/null; then say "nova-all (process $pid) has not stopped within 70 s; see $own/nova-all.log"; return 1; fi
        rm -f "$pidfile"
    fi
    say "The cloud has stopped. Guests go on running; tools/quickstart.sh start starts it again."
}
cloud_status() {
    if running && serving; then
        say "The cloud serves at $url/ ($([ $systemd = yes ] && echo "unit nova-all" || echo "process $(cat "$pidfile")"))."
    elif running; then fail "nova-all runs and does not answer at $url/: see tools/quickstart.sh logs."
    elif installed; then say "The cloud is stopped; tools/quickstart.sh start starts it."; exit 3
    else say "No cloud is installed; tools/quickstart.sh installs one."; exit 4; fi
}

# The environment of the services, after an upgrade of the machine's Python too (ExecStartPre of the unit).
environment() {
    [ $root = no ] || export UV_CACHE_DIR=${UV_CACHE_DIR:-$base/cache} PIP_CACHE_DIR=${PIP_CACHE_DIR:-$base/cache/pip}
    if [ -n "$source" ] && [ ! -L "$base/current" ]; then mkdir -p "$base/1" && ln -s 1 "$base/current"; fi
    python=$(system_python) || { echo "Python 3.11 or later is needed."; return 1; }
    exec 8>"$own/environment.lock"       # an installation and a start of the unit may want it at the same time
    flock 8
    make_venv "screenshots$([ "$driver" = fake ] || echo ,libvirt)" python-openstackclient
}

has_systemd=$systemd
if former; then systemd=no; fi
if [ $has_systemd = yes ]; then
    other=$(sed -n 's/^ReadWritePaths=//p' "$unit.d/quickstart.conf" 2>/dev/null || true)
    [ -z "$other" ] || [ "$other" = "$state" ] || fail "The cloud of this machine has its state in $other: give --state-path $other, or remove it first."
    case $state/ in /home/*|/root/*|/run/user/*|/tmp/*|/var/tmp/*) fail "--state-path is $state, which a unit of systemd does not see; choose another place." ;; esac
fi
case $action in
    check) if running; then port=0; fi; check_host; exit ;;
    status) needs_root; cloud_status; exit ;;
    stop) needs_root; stop_cloud; exit ;;
    logs) needs_root; needs_installation; show_log; exit ;;
    environment) log=/dev/null; environment; exit ;;
    remove) needs_root; driver=${recorded:-$(setting driver)}; . "$here/removal.sh"; remove_cloud; exit ;;
    start) needs_root; needs_installation; server=no ;;
esac

# ---- what can run here --------------------------------------------------------------
if [ "$driver" != "${recorded:-$driver}" ]; then
    fail "$state belongs to a cloud with --driver $recorded. Use that, or remove it first: tools/quickstart.sh remove --data."
fi
if [ "$driver" = auto ]; then
    if [ $root = yes ] && command -v apt-get >/dev/null; then driver=libvirt
    else
        driver=fake
        say "Without root there is no libvirt and no bridge: servers are simulated (the fake driver)."
    fi
elif [ "$driver" = libvirt ] && [ $root = no ]; then
    fail "--driver libvirt needs root: it installs packages and makes a bridge. Try --driver fake."
fi
if former && running; then
    check_host --problems --port 0 || exit 1
    stop_cloud
fi
if installed; then check_address; else check_host --problems; fi || exit 1
systemd=$has_systemd
. "$here/upgrade.sh"

# ---- steps of an installation -------------------------------------------------------
# received: bytes that came in by the devices of the default routes.
received() {
    awk 'NR == FNR {if ($2 == "00000000") up[$1] = 1; next} {sub(":", "", $1); if ($1 in up) sum += $2} END {print sum + 0}' \
        /proc/net/route <(tr ':' ' ' </proc/net/dev)
}
# Users of the cloud's processes, as etc/systemd/*.sysusers. A group of that name stays if it has other members.
make_users() {
    local name group
    for name in nova nova-image; do
        getent passwd $name >/dev/null && continue
        group=--user-group
        ! getent group $name >/dev/null || group=--gid=$name
        useradd --system $group --no-create-home --home-dir /var/lib/nova --shell /usr/sbin/nologin $name || return 1
        echo $name >>"$own/users"
    done
    [ "$driver" = fake ] || usermod --append --groups libvirt nova
}
# install_recorded PACKAGE...: as install_packages; what comes in is noted for "remove".
install_recorded() {
    packages_present "$@" && return 0
    refresh_lists || return 1
    apt-get -s --no-install-recommends install "$@" | awk '$1 == "Inst" && $3 !~ /^\[/ {print $2}' >>"$own/packages" || return 1
    install_packages "$@"
}
save_environment() {
    ( umask 077
      { env | grep -E '^(PIP|UV)_|^(https?|all|HTTPS?|ALL)_(proxy|PROXY)=|^(SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|NOVA_PYTHON)=' |
            grep -v '_CACHE_DIR=' || true
        [ -z "${bypassing:-}" ] || echo "no_proxy=$bypassing"; } >"$own/environment" )
}
save_settings() {
    ( umask 077
      printf '%s\n' "driver=$driver" "listen=$listen" "port=$port" "guests=$guests" "outside=$outside" >"$own/settings.new" )
    mv "$own/settings.new" "$own/settings"
}
# install_units [ENVIRONMENT]: from an environment that will be $venv; without one from $venv.
install_units() {
    local etc=$tree/etc made=${1:-$venv}
    [ -d "$etc/systemd" ] || etc=$made/share/nova
    install -m 644 "$etc/systemd/nova.sysusers" "${files[0]}" &&
        install -m 644 "$etc/systemd/nova.tmpfiles" "${files[2]}" || return 1
    # The group libvirt equals root, so a cloud with simulated guests does not let nova in.
    if [ "$driver" = fake ]; then rm -f "${files[1]}"
    else install -m 644 "$etc/systemd/nova-guests.sysusers" "${files[1]}" && systemd-sysusers "${files[1]}" || return 1; fi
    systemd-tmpfiles --create "${files[2]}" || return 1
    mkdir -p "$unit.d"
    cat >"$unit.d/quickstart.conf" <<TEXT
# Written by tools/quickstart.sh.
[Service]
# An upgrade of the machine may have replaced the Python that the environment was made with.
ExecStartPre=+$venv-check
ExecStart=
ExecStart=$venv/bin/nova-all --state-path $state --driver $driver --listen $listen --port $port
Environment=PATH=$venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ReadWritePaths=$state
TimeoutStartSec=900
TEXT
    install -m 644 "$etc/systemd/nova-all.service" "$unit" || return 1
    venv_check "$venv" "exec ${source:-$tree}/tools/quickstart.sh environment --state-path $state" >"$made-check"
    chmod 755 "$made-check"
    systemctl daemon-reload
}
link_programs() {
    local name
    for name in "${programs[@]}"; do
        if [[ ! -e /usr/local/bin/$name && ! -L /usr/local/bin/$name || $(readlink "/usr/local/bin/$name") == "$base"/* ]]; then
            ln -sfn "$venv/bin/$name" "/usr/local/bin/$name"
        fi
    done
}
# Ubuntu lets no program make user namespaces whose profile does not allow it; the sandbox for images makes them.
allow_sandbox() {
    [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null)" = 1 ] || return 0
    local etc=$tree/etc
    [ -d "$etc/apparmor" ] || etc=$venv/share/nova
    install -m 644 "$etc/apparmor/nova-bwrap" /etc/apparmor.d/nova-bwrap
    apparmor_parser -r /etc/apparmor.d/nova-bwrap
}
# Networks other than the default ones, for nova-all and for who runs nova-manage.
write_ranges() {
    [ "$guests" != 10.44.0.0/24 ] || return 0
    mkdir -p /etc/nova/nova.conf.d
    printf '[network]\ndefault_cidr = %s\n' "$guests" >/etc/nova/nova.conf.d/quickstart.conf
}

# wanted_packages [REQUIREMENT...]: the distribution's packages, without those of the named requirements.
wanted_packages() {
    local wanted=" python" name
    [ "$driver" = fake ] || wanted+=" python-libvirt run guest"
    if [ "$driver" != fake ] && [ "$(system_python)" != /usr/bin/python3 ]; then wanted+=" build"; fi
    for name in "$@"; do wanted=${wanted/ $name/}; done
    # shellcheck disable=SC2086
    packages $wanted
}

if [ $action = upgrade ]; then upgrade_cloud "$from"; exit; fi
refuse_other_release "${given[@]}"
begun=$(date +%s%N) before=$(received)
taken() { local tenths=$((($(date +%s%N) - begun) / 100000000)); printf '%d.%d s' $((tenths / 10)) $((tenths % 10)); }
mkdir -p "$own"
[ $root = no ] || chmod 700 "$own"
log=$own/quickstart.log
exec 9>"$own/quickstart.lock"
flock -n 9 || fail "Another run of tools/quickstart.sh is under way here; wait until it has ended."
: >"$log"
trap end_meanwhile EXIT
interrupted() { end_meanwhile; printf '\nInterrupted. Run the same command again: it continues where this run ended.\n' >&2; exit 130; }
trap interrupted INT TERM HUP

say "Setting up the cloud in $state$([ $systemd = yes ] && echo ", as unit nova-all of systemd" || echo ", as a process without systemd: a reboot ends it")"
[ $root = no ] || save_environment
stamp=$(cat "$venv/nova.stamp" 2>/dev/null || true)
prepare_python() { meanwhile python environment; }
if [ $root = yes ] && command -v apt-get >/dev/null; then
    needed=$(wanted_packages)
    # shellcheck disable=SC2046,SC2086
    if ! packages_present $needed; then
        # Python's packages are fetched while the distribution's other ones are installed.
        install_all() { install_recorded $(wanted_packages run guest) && prepare_python && install_recorded $needed; }
        step "Packages of $(python3 "$here/distribution.py" --name)" install_all
    fi
fi
[ $root = no ] || step "Users nova and nova-image" make_users
[ "$driver" = fake ] || meanwhile image "$here/guest-image.sh" "$own/guest"
[ -n "${meanwhile[python]:-}" ] || prepare_python
step "Python packages" outcome python
if [ "$driver" = libvirt ]; then
    "$here/libvirt-host.sh" status >/dev/null 2>&1 || step "libvirt" "$here/libvirt-host.sh" start
    step "Guest image" outcome image
fi
if [ $root = yes ]; then
    write_ranges
    [ "$driver" = fake ] || step "Sandbox for images" allow_sandbox
    link_programs
    [ $systemd = no ] || step "Units of systemd" install_units
fi
changed=no
[ "$(setting driver)/$(setting listen)/$(setting port)/$(cat "$venv/nova.stamp")" = "$driver/$listen/$port/$stamp" ] || changed=yes
save_settings
if running && serving && [ $changed = no ]; then say "  The cloud is running already"; else
    if running; then stop_cloud >/dev/null; fi
    step "Starting nova-all" start_cloud
fi
say "The cloud is serving after $(taken)$([ $root = no ] || echo ", $((($(received) - before) / 1000000)) MB received")"

# ---- a first server -----------------------------------------------------------------
export OS_CLOUD=nova-admin OS_CLIENT_CONFIG_FILE=$state/clouds.yaml
# With a wildcard address, clients ask at an address of the machine.
asked=$("$venv/bin/python" -c 'import sys, urllib.parse, yaml; print(urllib.parse.urlsplit(yaml.safe_load(open(sys.argv[1]))["clouds"]["nova-demo"]["auth"]["auth_url"]).hostname)' "$state/clouds.yaml")
export no_proxy=$no_proxy,$asked NO_PROXY=$no_proxy,$asked
if [ $server = yes ] && [ ! -f "$own/first-server.done" ]; then
    say "A first server"
    "$venv/bin/python" "$here/first_server.py" "$driver" "$own" "$outside"
    say "A server runs after $(taken): 'first' at $(cat "$own/first-server.done")"
fi
[ $action != start ] || exit 0
password() { [ -t 1 ] || { echo "in $state/clouds.yaml"; return; }; "$venv/bin/python" -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))["clouds"][sys.argv[2]]["auth"]["password"])' "$state/clouds.yaml" "$1"; }
proxied() { [ -n "${http_proxy:-}${HTTP_PROXY:-}${https_proxy:-}${HTTPS_PROXY:-}${all_proxy:-}${ALL_PROXY:-}" ]; }
program() { [ "$(readlink "/usr/local/bin/$1")" = "$venv/bin/$1" ] && echo "$1" || echo "$venv/bin/$1"; }
say ""
say "Dashboard      $url/dashboard/   user demo, password $(password nova-demo); administrator: admin, $(password nova-admin)"
[ $scheme = http ] || say "Trust it       other machines: copy $state/tls/ca.pem; a browser imports it, clouds.yaml names it as cacert"
if [ "$driver" = libvirt ] && [ -f "$own/first-server.done" ]; then
    say "Log in         ssh -i $own/first_key root@$(cat "$own/first-server.done")"
fi
say "Next server    $(! proxied || echo "no_proxy=127.0.0.1,localhost,$asked ")OS_CLOUD=nova-demo OS_CLIENT_CONFIG_FILE=$state/clouds.yaml $(program openstack) server create --image guest --flavor m1.tiny --wait second"
say "Documentation  $tree/doc/source/user/first-server.rst"
say "This cloud     tools/quickstart.sh status|stop|start|logs|check|upgrade|remove$([ "$own" = "/var/lib/nova-quickstart" ] || [ $root = no ] || printf ' --state-path %s' "$state")"
