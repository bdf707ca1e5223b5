#!/usr/bin/env bash
# Sets up everything that the tests need and runs them.
#
# usage: tools/test.sh [unit|functional|contract|integration|pep8|all] [pytest options]
#
# unit         pure parts
# functional   whole clouds in one process with the fake driver, over HTTP, on native and on green threads
# contract     rows against facts: fields, routes, policies, RPC interfaces, drivers; budgets of calls and SQL
# integration  real parts: libvirt and QEMU, MariaDB, PostgreSQL, RabbitMQ, real clients (as root, installed here)
# pep8         style and layers
set -euo pipefail
. "$(dirname "$0")/lib.sh"
suite=${1:-all}
[ $# -gt 0 ] && shift
case $suite in unit|functional|contract|integration|pep8|all) ;; *) sed -n '4,10s/^# //p' "$0" >&2; exit 2 ;; esac

cd "$tree"
log=$(mktemp "${TMPDIR:-/tmp}/nova-test.XXXXXX")
trap 'rm -f "$log" "$log".*' EXIT
TEST_PACKAGES="mariadb-server postgresql rabbitmq-server busybox-static libxml2-utils"

wants() { [ "$suite" = all ] || [ "$suite" = "$1" ]; }
root=no; [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && root=yes

extras=test,mysql,postgresql
say "Setting up the tests"
if wants integration && [ $root = yes ]; then
    # shellcheck disable=SC2086
    packages_present $RUN_PACKAGES $GUEST_PACKAGES $TEST_PACKAGES ||
        step "Debian packages" install_packages $RUN_PACKAGES $GUEST_PACKAGES $TEST_PACKAGES
    extras=$extras,libvirt
fi
if [ -f "$venv/nova.stamp" ] && ! wants integration; then
    grep -q libvirt "$venv/nova.stamp" && extras=$extras,libvirt      # do not undo a fuller environment
fi
step "Python packages" make_venv "$extras"
if wants integration && [ $root = yes ]; then
    export NOVA_TEST_GUEST_DIR=${NOVA_TEST_GUEST_DIR:-${TMPDIR:-/tmp}/nova-test-guest}
    step "libvirt" "$here/libvirt-host.sh" start
    step "Guest image" "$here/guest-image.sh" "$NOVA_TEST_GUEST_DIR"
fi

pytest() { "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@"; }
# What shares nothing with other tests runs on every core, file by file.
side_by_side() { pytest -n auto --maxprocesses 8 --dist loadfile "$@"; }
# The same for green threads, which pytest-xdist's workers cannot run on: a process a core, each with one share of the
# files after the other; files take seconds or minutes, so there are more shares than cores.
in_shares() {
    local files=("$1"/test_*.py) cores count status=0 code number=0 share file
    cores=$(nproc) count=$(($(nproc) * 6))
    shift
    while [ $number -lt "$count" ]; do
        share=()
        for ((file = number; file < ${#files[@]}; file += count)); do share+=("${files[file]}"); done
        while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n || true; done
        { code=0; pytest "${share[@]}" "$@" >"$log.$number" 2>&1 || code=$?; echo $code >"$log.$number.code"; } &
        number=$((number + 1))
    done
    wait
    for ((number = 0; number < count; number++)); do
        code=$(cat "$log.$number.code")
        [ "$code" = 0 ] || [ "$code" = 5 ] || status=$code          # 5: no test of this share was wanted
        cat "$log.$number"
    done
    return "$status"
}
# Real servers are mostly waited for: what shares the one libvirt of this machine, its bridges or its packet filter runs
# in one process, everything else beside it in a second one.
beside_the_host() {
    local directory=$1 file status=0 code host=() others=()
    shift
    for file in "$directory"/test_*.py; do
        case ${file##*/} in
            test_clients.py|test_crash.py|test_libvirt*.py|test_network_linux.py) host+=("$file") ;;
            *) others+=("$file") ;;
        esac
    done
    pytest -rsfE "${host[@]}" "$@" >"$log.host" 2>&1 &
    pytest -rsfE "${others[@]}" "$@" || status=$?
    code=0
    wait $! || code=$?
    cat "$log.host"
    for code in "$status" "$code"; do
        [ "$code" = 0 ] || [ "$code" = 5 ] || return "$code"            # 5: no test of this part was wanted
    done
}
failed=()
run() {
    local name=$1
    shift
    printf '\n==== %s\n' "$name"
    "$@" || failed+=("$name")
}

export PATH=$venv/bin:$PATH
if wants pep8; then run "style and layers" "$here/check.sh"; fi
if wants unit; then run "unit" side_by_side nova/tests/unit "$@"; fi
if wants contract; then
    run "contract" side_by_side nova/tests/contract "$@"
    run "budgets" pytest nova/tests/perf "$@"
fi
if wants functional; then
    export NOVA_THREAD_MODEL=native
    run "functional, native threads" side_by_side nova/tests/functional "$@"
    NOVA_THREAD_MODEL=eventlet
    run "functional, green threads" in_shares nova/tests/functional "$@"
    unset NOVA_THREAD_MODEL
fi
if wants integration; then run "integration" beside_the_host nova/tests/integration "$@"; fi

printf '\n'
[ ${#failed[@]} = 0 ] || fail "Failed: ${failed[*]}"
say "All green."
