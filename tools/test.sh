#!/usr/bin/env bash
# Sets up everything that the tests need and runs them.
#
# usage: tools/test.sh [unit|functional|contract|integration|pep8|all] [pytest options]
#
# unit         pure parts
# functional   whole clouds in one process with the fake driver, over HTTP, on native and on green threads
# contract     rows against facts: fields, routes, policies, RPC interfaces, drivers; budgets of calls and SQL; floods
# integration  real parts: libvirt and QEMU, MariaDB, PostgreSQL, RabbitMQ, real clients (as root, installed here)
# pep8         style and layers
#
# NOVA_TEST_LONG=1 adds what takes long, as a nightly run does. NOVA_TEST_MINUTES (80; of a long run 480) bounds the
# whole; what runs then is named, shown and ended. Some files of integration take turns (ADR 0128): an ordinary run has a third,
# NOVA_TEST_TURN (0, 1, 2 or all; of the commit) says which.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
suite=${1:-all}
[ $# -gt 0 ] && shift
options=("$@")
case $suite in unit|functional|contract|integration|pep8|all) ;; *) sed -n '4,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac

cd "$tree"
log=$(mktemp "${TMPDIR:-/tmp}/nova-test.XXXXXX")
trap 'end_meanwhile; rm -rf "$log" "$log".*' EXIT
export NOVA_TEST_RUNNING=$log.running
mkdir "$NOVA_TEST_RUNNING"
minutes=${NOVA_TEST_MINUTES:-$([ -z "${NOVA_TEST_LONG:-}" ] && echo 80 || echo 480)}
python3 "$here/test_watch.py" "$log" $$ --minutes "$minutes" &
disown                               # no job of those that are counted and waited for
overdue() { [ -e "$log.overdue" ]; }
failed=() took=() unsteady=()
declare -A names=() begun=() codes=()    # of processes that run beside others: by process, and by name
clock() { printf '[%(%H:%M:%S)T %d:%02d] ' -1 $((SECONDS / 60)) $((SECONDS % 60)); }
needed="python python-libvirt"

turns=3
turn=${NOVA_TEST_TURN:-$([ -n "${NOVA_TEST_LONG:-}" ] && echo all || echo $(($(git log -1 --format=%ct 2>/dev/null || date +%s) % turns)))}
[ "$turn" = all ] || [[ $turn =~ ^[0-9]$ && $turn -lt $turns ]] ||
    fail "NOVA_TEST_TURN is $turn: a number below $turns or all is wanted."
export NOVA_TEST_TURN=$turn
# have_turn FILE...: those of the files whose turn it is; each has one of three.
have_turn() { printf '%s\n' "$@" | awk -v turn="$turn" -v turns=$turns 'turn == "all" || NR % turns == turn'; }

wants() { [ "$suite" = all ] || [ "$suite" = "$1" ]; }
root=no; [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && root=yes

unset PYTHONDONTWRITEBYTECODE        # thousands of processes start: each would compile all of its modules again

extras=test,mysql,postgresql
say "Setting up the tests (of those that take turns: $turn)"
if wants integration && [ $root = yes ]; then
    needed+=" run guest test browser firmware tpm spice virtiofs ceph ceph-client ceph-files ceph-python"
    needed+=" build python-headers mysqlclient"
    extras=$extras,libvirt,mysqlclient
fi
# shellcheck disable=SC2046,SC2086
[ $root = no ] || step "Debian packages" install_packages $(packages $needed)
if [ -f "$venv/nova.stamp" ] && ! wants integration; then
    grep -q libvirt "$venv/nova.stamp" && extras=$extras,libvirt      # do not undo a fuller environment
fi
# where it cannot be installed, its tests say so and are skipped
keystone_venv() {
    local program
    for program in keystone-manage barbican-manage ironic-dbsync cinder-volume manila-share; do
        [ -x "$NOVA_TEST_KEYSTONE/bin/$program" ] && continue
        python3 "$here/packages.py" "$NOVA_TEST_KEYSTONE" keystone barbican ironic cinder manila ||
            say "Keystone, Barbican, Ironic, Cinder and Manila cannot be installed."
        break
    done
    [ ! -x "$NOVA_TEST_KEYSTONE/bin/cinder-volume" ] || [ $root = no ] || ceph_bindings "$NOVA_TEST_KEYSTONE/bin/python" ||
        say "Cinder cannot use Ceph."
}
if wants integration && [ $root = yes ]; then
    export NOVA_TEST_GUEST_DIR=${NOVA_TEST_GUEST_DIR:-${TMPDIR:-/tmp}/nova-test-guest}
    maker=guest-image.sh
    [ -z "${NOVA_TEST_LONG:-}" ] || maker=vpn-image.sh          # makes both
    meanwhile image "$here/$maker" "$NOVA_TEST_GUEST_DIR"
fi
step "Python packages" make_venv "$extras"
# What cannot be collected ends the run here, not an hour later in its part.
collected() { [ $# = 0 ] || "$venv/bin/python" -m pytest -qq --collect-only "$@"; }
for number in 0 1; do
    tests=() pair=(unit contract functional integration)
    for name in "${pair[@]:2 * number:2}"; do ! wants $name || tests+=("nova/tests/$name"); done
    meanwhile collected$number collected "${tests[@]}"
done
all_collected() { outcome collected0 && outcome collected1; }
# What integration tests alone need comes together while the others run.
if wants integration; then
    export NOVA_TEST_KEYSTONE=${NOVA_TEST_KEYSTONE:-${TMPDIR:-/tmp}/nova-test-keystone}
    meanwhile keystone keystone_venv
fi
others_made() {
    [ -n "${meanwhile[keystone]:-}" ] || return 0
    step "Keystone, Barbican, Ironic, Cinder, Manila" outcome keystone
    [ $root = no ] || step "Guest image" outcome image
}
[ "$suite" != integration ] || step "Test files" all_collected
if wants integration && [ $root = yes ]; then step "libvirt" "$here/libvirt-host.sh" start; fi

# Waited for in the background, so that the end of this script is the end of its tests, whenever it comes.
# pytest NAME arguments
pytest() {
    local status=0
    begin "$@" & wait "$!" || status=$?
    [ "$status" = 0 ] || once_more "$status" "$1"
}
# What needs bridges and a packet filter, and no libvirt, has a network of its own: nothing of the machine's is there.
begin() {
    local inside=()
    [[ $1 != bridges* || $root = no ]] || inside=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
    export NOVA_TEST_PART=$1
    exec "${inside[@]}" "$venv/bin/python" -m pytest -q -o cache_dir="$log.$1.cache" "${@:2}"
}
# What is ended shows what it has printed until then. Fixtures have a minute for what they have started.
stop() {
    local second jobs
    trap '' TERM
    mapfile -t jobs < <(jobs -rp)
    kill "${jobs[@]}" 2>/dev/null || true
    for ((second = 0; second < 60; second++)); do
        [ -n "$(jobs -rp)" ] || break
        sleep 1
    done
    kill -9 $(jobs -rp) 2>/dev/null || true
    while [ ${#names[@]} -gt 0 ]; do ended "${!names[@]}" || true; done
    report
    exit 143
}
trap stop TERM INT HUP
# once_more STATUS NAME: runs what failed again, with nothing beside it. A test of a whole cloud can lose a race
# on a full machine; what passes alone is named at the end of this script, since the race may be the product's, too.
# Files with failures are counted, as all tests of a file fail with what they share; more than $unsteady_most are a defect.
# Processes that ran one list (NAME-1, NAME-2, ...) are one.
unsteady_most=3
once_more() {
    local status=$1 name=$2 tests files again=$log.$2.again.cache/v/cache
    mapfile -t tests < <(sed -n 's/^ *"\(.*\)": true,\?$/\1/p' "$log.$name".cache/v/cache/lastfailed \
        "$log.$name"-[0-9]*.cache/v/cache/lastfailed 2>/dev/null)
    mapfile -t files < <(printf '%s\n' "${tests[@]%%::*}" | sort -u)
    [ "$status" = 1 ] && [ ${#tests[@]} -gt 0 ] && [ ${#files[@]} -le $unsteady_most ] || return "$status"
    ! overdue || return "$status"
    printf '\n%s== once more, alone: %s\n' "$(clock)" "${tests[*]}"
    mkdir -p "$again"
    printf '"%s": true\n' "${tests[@]}" | sed '$! s/$/,/; 1 s/^/{/; $ s/$/}/' >"$again/lastfailed"
    begin "$name.again" "${files[@]}" "${options[@]}" -n 0 --last-failed --session-timeout=$again_s & wait "$!" || return "$?"
    unsteady+=("${tests[@]}")
}
again_s=600                          # and no test begins later
# beside NAME arguments: begins a process beside those that run, as soon as there are fewer than $most of them.
# shown: waits for all of them; fails when one of them has. What a process has printed is shown when it ends.
beside() {
    next $((most - 1))
    ! overdue || return 0
    begin "$@" >"$log.$1" 2>&1 &
    names[$!]=$1 begun[$!]=$SECONDS
    printf '%s%s begins\n' "$(clock)" "$1"
}
# next COUNT: waits until no more than so many run.
next() {
    local pid
    while [ ${#names[@]} -gt "$1" ]; do
        for pid in "${!names[@]}"; do jobs -rp | grep -qx "$pid" || ended "$pid"; done
        [ ${#names[@]} -le "$1" ] || sleep 1
    done
}
ended() {
    local name=${names[$1]} code=0
    wait "$1" || code=$?
    cat "$log.$name"
    printf '%s%s has ended with code %s after %s s\n' "$(clock)" "$name" "$code" $((SECONDS - begun[$1]))
    [[ $name =~ -[0-9]+$ ]] || took+=("$(printf '  %-26s %4d s' "$name" $((SECONDS - begun[$1])))")
    codes[$name]=$code
    unset "names[$1]"
}
shown() {
    local name code status=0
    declare -A worst=()
    next 0
    for name in "${!codes[@]}"; do
        code=${codes[$name]}
        [ "$code" != 1 ] || [ -s "$log.$name.cache/v/cache/lastfailed" ] || code=2      # it ended before it could say what
        name=${name%-[0-9]*}
        case $code in
            0|5) ;;                                                 # 5: no test of this part was wanted
            *) [ "${worst[$name]:-1}" != 1 ] || worst[$name]=$code ;;
        esac
    done
    codes=()
    for name in "${!worst[@]}"; do once_more "${worst[$name]}" "$name" || status=$?; done
    return "$status"
}
# pulled NAME COUNT FILE...: so many processes run the files, each taking the next of one list when it has done one
# (nova/tests/pulled.py). Those of longest.txt come first, so that none is left when the other processes have ended.
pulled() {
    local name=$1 most=$2 directories number
    shift 2
    export NOVA_TEST_FILES=$log.$name.files
    printf '%s\n' "$@" | awk 'NR == FNR {order[$0] = NR; next} {print $0 in order ? order[$0] : 9999, $0}' \
        nova/tests/longest.txt - | sort -s -n -k 1,1 | cut -d ' ' -f 2 >"$NOVA_TEST_FILES"
    mapfile -t directories < <(dirname "$@" | sort -u)
    for ((number = 1; number <= most; number++)); do
        beside "$name-$number" -p nova.tests.pulled -o console_output_style=classic "${directories[@]}" "${options[@]}"
    done
    unset NOVA_TEST_FILES
    shown
}
# Real servers are mostly waited for (a part keeps a quarter of a core busy), so there are more processes than cores.
# What shares the one libvirt of this machine, or its bridges together with guests, runs in one of them; the others are
# cut by the servers that they share.
by_servers() {
    local directory=$1 most=$(($(nproc) + 1)) file part name
    declare -A parts=() later=()
    shift
    mapfile -t alternating <nova/tests/turns.txt
    for file in "${alternating[@]}"; do later[$file]=1; done
    for file in $(have_turn "${alternating[@]}"); do unset "later[$file]"; done
    for file in "$directory"/test_*.py; do
        [ -z "${later[$file]:-}" ] || continue
        name=${file##*/}
        case $name in
            test_libvirt*_moves.py|test_libvirt_live_*.py|test_libvirt_hosts.py|test_network_overlay.py|\
                test_console_tls.py|test_metadata_hops.py) part=namespaces ;;                  # hosts of their own
            test_libvirt_moving*.py|test_libvirt_killed*.py|test_libvirt_exports.py|test_libvirt_locks.py|\
                test_libvirt_lost_ports.py) part=moving ;;                                     # the same
            test_crash.py) [ -z "${NOVA_TEST_LONG:-}" ] && part=fleets || part=host ;;     # long runs kill guests, too
            test_clients.py|test_consoles.py|test_libvirt*) part=host ;;
            test_network_linux.py) part=bridges ;;
            test_fresh_machine.py) part=fresh ;;
            test_client_suites.py|test_*_clients.py) part=clients ;;
            test_dashboard*.py) part=dashboards ;;
            test_fleet.py|test_faults.py|test_failover.py|test_rolling_upgrade.py|test_systemd.py) part=fleets ;;
            test_*database*|test_*races.py|test_*_on_servers.py|test_lost_*|test_placement_proof.py|test_round_trips.py|\
                test_shared_requests.py) part=databases ;;
            test_ceph*.py|test_barbican.py|test_ironic.py|test_manila.py|test_keystone_callers.py|test_ec2_api_project.py|\
                test_exported_moves.py|test_volume_*.py|test_image_disk.py|test_injection.py|test_bench_disks.py|\
                test_placement_service.py|test_tls.py) part=services ;;                        # of other projects
            *) part=brokers ;;
        esac
        parts[$part]+="$file "
    done
    for part in host fresh brokers clients fleets namespaces databases services moving dashboards bridges; do   # the longest first
        # shellcheck disable=SC2086
        beside "$part" -rsfE --durations=15 ${parts[$part]} "$@"
    done
    shown
}
run() {
    local name=$1 begin=$SECONDS
    shift
    if overdue; then failed+=("$name"); return; fi
    printf '\n==== %s%s\n' "$(clock)" "$name"
    "$@" || failed+=("$name")
    took+=("$(printf '%-28s %4d s' "$name" $((SECONDS - begin)))")
    printf '==== %s%s has ended after %s s\n' "$(clock)" "$name" $((SECONDS - begin))
}
report() {
    printf '\n'
    [ ${#took[@]} = 0 ] || printf '%s\n' "${took[@]}" ''
    [ ${#unsteady[@]} = 0 ] || printf 'Failed beside others and passed alone, to be looked into: %s\n' "${unsteady[@]}"
}

export PATH=$venv/bin:$PATH
# mypy keeps one core busy
if wants pep8; then meanwhile style "$here/check.sh"; fi
if wants unit; then run "unit" pulled unit $((2 * $(nproc))) nova/tests/unit/test_*.py; fi
[ "$suite" = integration ] || step "Test files" all_collected
if wants pep8; then run "style and layers" outcome style; fi
if wants contract; then
    floods=(nova/tests/perf/test_*_flood.py) timed=("${floods[@]}" nova/tests/perf/test_rpc.py) counted=()
    for file in nova/tests/contract/test_*.py nova/tests/perf/test_*.py; do
        [[ " ${timed[*]} " == *" $file "* ]] || counted+=("$file")
    done
    run "contract, budgets" pulled contract $((2 * $(nproc))) "${counted[@]}"
    others_made
    run "times" pytest times "${timed[@]}" "$@"                    # with nothing beside them
    NOVA_THREAD_MODEL=eventlet run "floods, green threads" pytest floods "${floods[@]}" "$@"
fi
if wants functional; then              # whole clouds are mostly waited for, and keep a third of a core busy
    export NOVA_TEST_ALTERNATE=1
    NOVA_THREAD_MODEL=native run "functional, native threads" pulled native $((3 * $(nproc))) nova/tests/functional/test_*.py
    NOVA_THREAD_MODEL=eventlet run "functional, green threads" pulled green $((3 * $(nproc))) nova/tests/functional/test_*.py
    unset NOVA_TEST_ALTERNATE
fi
# Without the tools that write it there is none; known weaknesses are a failure.
bill() {
    local status=0
    "$here/sbom.sh" "$log.sbom.json" || status=$?
    [ $status != 3 ]
}
if [ "$suite" = all ]; then meanwhile bill bill; fi          # it mostly waits for the package index
if wants integration; then
    others_made
    run "integration" by_servers nova/tests/integration "$@"
fi
if [ "$suite" = all ]; then run "bill of materials" outcome bill; fi

report
! overdue || fail "Not ended within $minutes minutes. Failed or not begun: ${failed[*]}"
[ ${#failed[@]} = 0 ] || fail "Failed: ${failed[*]}"
say "All green."
