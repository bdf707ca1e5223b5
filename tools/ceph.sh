#!/usr/bin/env bash
# A Ceph of one node for tests: a monitor, a manager and one OSD in a directory, with cephx, on loopback unless told.
#
# usage: tools/ceph.sh start|stop DIRECTORY
#        tools/ceph.sh missing        the first program that is not installed, or nothing
#
# A new DIRECTORY takes from the environment: PORT (16700; the monitor takes it and the next, the others what is free
# of PORT+10 to PORT+99), ADDRESS (127.0.0.1), SIZE (2G: at most so much is written, the file behind the OSD is sparse), POOL (vms).
# FILES (no; yes: a file system "shares" and its MDS as well).
# Leaves in DIRECTORY: ceph.conf, and ceph.client.nova.keyring, whose user may use RBD in POOL and nothing else.
# start of a directory that was stopped goes on with what it holds. It is for tests: nothing is kept twice.
# Needs root and the packages of the requirements ceph, ceph-client (tools/distributions.tsv).
set -euo pipefail

missing() {
    for program in ceph-mon ceph-mgr ceph-osd ${FILES:+ceph-mds} ceph-authtool monmaptool ceph rbd; do
        command -v "$program" >/dev/null || { echo "$program"; return; }
    done
}
[ "$*" = missing ] && { missing; exit; }             # needs nothing else, not even the programs of lib.sh
. "$(dirname "$0")/lib.sh"
usage() { echo "usage: $0 start|stop DIRECTORY | missing" >&2; exit 2; }
fail() { echo "ceph: $*" >&2; exit 1; }
[ $# = 2 ] || usage
lacks=$(missing)
[ -z "$lacks" ] || fail "'$lacks' is missing; install: $(packages ceph ceph-client)"
if [ "$1" = start ]; then mkdir -p "$2"; fi
[ -d "$2" ] || fail "$2 is not there"
dir=$(cd "$2" && pwd)
cd /                                                 # an OSD of 18.2.7 looks for its classes below this directory
[ ${#dir} -le 85 ] || fail "$dir is too long a path: unix sockets lie below it"
port=${PORT:-16700} address=${ADDRESS:-127.0.0.1} size=${SIZE:-2G} pool=${POOL:-vms}
export CEPH_CONF=$dir/ceph.conf
unset CEPH_ARGS

# The process of a daemon, if it runs. A pid may have gone to a stranger since: its command line names our file.
process() {
    local pid
    pid=$(cat "$dir/run/$1.pid" 2>/dev/null) || return 1
    tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "$CEPH_CONF" && echo "$pid"
}
# until SECONDS WHAT COMMAND...: call COMMAND until it succeeds
until_true() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt "$end" ] || fail "$what takes too long; see $dir/log"
        sleep 0.1
    done
}
daemon() {
    process "$1" >/dev/null ||
        "ceph-${1%%.*}" -i "${1#*.}" -c "$CEPH_CONF" --pid-file "$dir/run/$1.pid" >>"$dir/log/$1.out" 2>&1 ||
        fail "ceph-${1%%.*} does not start: $(tail -n 3 "$dir/log/$1.out" | tr '\n' ' '); see $dir/log"
}
gone() { ! process "$1"; }
active() { ceph --admin-daemon "$dir/run/mds.a.asok" status | grep '"state": "up:active"'; }
leads() { ceph --admin-daemon "$dir/run/mon.a.asok" mon_status | grep '"state": "leader"'; }

configuration() {
    cat <<CONF
[global]
fsid = $1
mon host = [v2:$address:$port,v1:$address:$((port + 1))]
public addr = $address
# without it the OSD listens on all addresses
cluster addr = $address
ms bind port min = $((port + 10))
ms bind port max = $((port + 99))
keyring = $dir/\$cluster.\$name.keyring
run dir = $dir/run
crash dir = $dir/crash
mon cluster log file = $dir/log/cluster.log
auth allow insecure global id reclaim = false
# one OSD: nothing is kept twice, and the disk below it may be nearly full
mon allow pool size one = true
mon warn on pool no redundancy = false
# a monitor refuses to start where 5 % of the disk are left: a share, however many GiB that is
mon data avail warn = 0
mon data avail crit = 0
osd pool default size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
# memory: no Python modules in the manager, a small cache and few threads in the OSD
mgr module path = $dir/modules
osd memory target = 939524096
bluestore cache autotune = false
bluestore cache size = 67108864
osd op num shards = 2
bluestore block size = $(numfmt --from=iec "$size")
# a start of seconds: decisions at once, a short log to read again, less polling
paxos propose interval = 0.05
paxos min wait = 0.01
bdev aio poll ms = 20
bluefs log compact min size = 1048576
mgr tick period = 1
mgr stats period = 1
mds beacon interval = 0.5
mds cache memory limit = 67108864
# clients notice a restarted OSD after a second
objecter tick interval = 1
objecter timeout = 2
CONF
    local name
    for name in mon.a mgr.x osd.0 mds.a; do
        cat <<CONF
[$name]
${name%%.*} data = $dir/$name
keyring = $dir/$name/keyring
log file = $dir/log/$name.log
admin socket = $dir/run/$name.asok
CONF
    done
}

# key FILE NAME RIGHTS...: a new key, which the monitor learns as well
key() {
    ceph-authtool -C "$1" -n "$2" --gen-key "${@:3}"
    [ "$2" = mon. ] || ceph-authtool "$dir/mon.keyring" --import-keyring "$1"
}

create() {
    local fsid
    fsid=$(cat /proc/sys/kernel/random/uuid)
    rm -rf "$dir"/{mon.a,mgr.x,osd.0,mds.a,modules,crash,log,run}
    mkdir -p "$dir"/{mon.a,mgr.x,osd.0,modules,crash,log,run}
    [ -z "${FILES:-}" ] || mkdir "$dir/mds.a"
    configuration "$fsid" >"$CEPH_CONF"
    (
        umask 077
        key "$dir/mon.keyring" mon. --cap mon 'allow *'
        key "$dir/ceph.client.admin.keyring" client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' \
            --cap mds 'allow *'
        key "$dir/ceph.client.nova.keyring" client.nova --cap mon 'profile rbd' --cap mgr "profile rbd pool=$pool" \
            --cap osd "profile rbd pool=$pool"
        key "$dir/mgr.x/keyring" mgr.x --cap mon 'allow profile mgr' --cap osd 'allow *'
        [ ! -d "$dir/mds.a" ] || key "$dir/mds.a/keyring" mds.a --cap mon 'profile mds' --cap mgr 'profile mds' \
            --cap osd 'allow rw tag cephfs *=*' --cap mds 'allow'
        key "$dir/osd.0/keyring" osd.0 --cap mon 'allow profile osd' --cap mgr 'allow profile osd' --cap osd 'allow *'
        monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:$address:$port,v1:$address:$((port + 1))]" \
            "$dir/monmap"
        ceph-mon -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/mon.keyring"
    ) >"$dir/log/create" 2>&1 || fail "the files of the monitor could not be made; see $dir/log/create"
}
create_osd() {
    local id files=()
    [ ! -d "$dir/mds.a" ] || files=("osd pool create shares_metadata" "osd pool create shares_data"
        "fs new shares shares_metadata shares_data")
    id=$(cat /proc/sys/kernel/random/uuid)
    {   # one call says all: each start of this program takes a second
        printf '%s\n' "osd new $id 0" "osd pool create $pool" 'health mute MGR_MODULE_ERROR --sticky' \
            ${files:+"${files[@]}"} | timeout 60 ceph &&
            ceph-osd -i 0 --mkfs --osd-uuid "$id"
    } >>"$dir/log/create" 2>&1 || fail "the OSD could not be made; see $dir/log/create"
}

start() {
    if [ ! -e "$dir/complete" ]; then
        # what a start left that did not end well is ours to remove, what a stranger has here is not
        [ -e "$dir/made-by-ceph.sh" ] || [ -z "$(ls -A "$dir")" ] || fail "$dir is not empty"
        touch "$dir/made-by-ceph.sh"
        stop
        rm -f "$dir"/*.keyring
        create
    fi
    daemon mon.a
    until_true 30 'the monitor' leads
    [ -e "$dir/complete" ] || create_osd
    daemon mgr.x
    daemon osd.0
    # both wait until the pool can be written
    if [ -e "$dir/complete" ]; then timeout 60 rbd -p "$pool" ls >/dev/null; else timeout 60 rbd pool init "$pool"; fi ||
        fail "the pool $pool does not answer; see $dir/log"
    if [ -d "$dir/mds.a" ]; then
        daemon mds.a
        until_true 60 'the file system' active
    fi
    touch "$dir/complete"
}

stop() {
    local name pid
    for name in mds.a osd.0 mgr.x mon.a; do
        if pid=$(process "$name"); then
            kill "$pid"
            until_true 30 "the end of $name" gone "$name"
        fi
    done
}

case $1 in
start | stop) "$1" ;;
*) usage ;;
esac
