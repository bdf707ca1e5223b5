#!/usr/bin/env bash
# Installs everything that the tests need and runs them.
#
# usage: tools/test.sh [unit|functional|contract|integration|pep8|all|long] [pytest options]
#
# unit         pure parts
# functional   whole clouds in one process with the fake driver, over HTTP, on native threads and some on green ones
# contract     rows against facts: fields, routes, policies, RPC interfaces, drivers; budgets of calls and SQL; floods
# integration  real parts: libvirt and QEMU, MariaDB, PostgreSQL, RabbitMQ, real clients (as root, installed here)
# pep8         style and layers
# long         a part of the list of long tests (nova/tests/long.tsv), which the others leave out; the bill of materials
#
# NOVA_TEST_LONG=1 adds these and what takes still longer, as a nightly run does. NOVA_TEST_MINUTES (80; of a nightly run
# 480) bounds the whole; what runs then is named, shown and ended. NOVA_TEST_TURN (a number or all; of the commit) says
# which part of the list of long tests runs. NOVA_TEST_RECORD=FILE writes the seconds of each file.
# What runs beside what, and when, is in nova/tests/plan.py; nova/tests/runner.py runs it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
suite=${1:-all}
[ $# -gt 0 ] && shift
case $suite in
    unit|functional|contract|integration|pep8) suites=("$suite") ;;
    all) suites=(pep8 unit contract functional integration) ;;
    long) suites=(unit contract functional integration --long --bill) ;;
    *) sed -n '4,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
NOVA_TEST_BEGAN=$(date +%s)
export NOVA_TEST_BEGAN

cd "$tree"
log=$(mktemp "${TMPDIR:-/tmp}/nova-test.XXXXXX")
trap end_log EXIT
real=no; [[ " ${suites[*]} " != *" integration "* ]] || real=yes
root=no; [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && root=yes

unset PYTHONDONTWRITEBYTECODE        # thousands of processes start: each would compile all of its modules again

say "Setting up the tests"
needed="python python-libvirt"
extras=test,mysql,postgresql
if [ $real$root = yesyes ]; then
    needed+=" run guest test browser firmware tpm spice virtiofs ceph ceph-client ceph-files ceph-python"
    needed+=" build python-headers mysqlclient"
    extras=$extras,libvirt,mysqlclient
elif [ $real = no ] && grep -qs libvirt "$venv/nova.stamp"; then
    extras=$extras,libvirt           # do not undo a fuller environment
fi
# shellcheck disable=SC2046,SC2086
[ $root = no ] || step "Debian packages" install_packages $(packages $needed)
step "Python packages" make_venv "$extras"
if [ $real = yes ]; then
    export NOVA_TEST_GUEST_DIR=${NOVA_TEST_GUEST_DIR:-${TMPDIR:-/tmp}/nova-test-guest}
    export NOVA_TEST_KEYSTONE=${NOVA_TEST_KEYSTONE:-${TMPDIR:-/tmp}/nova-test-keystone}
    [ $root = no ] || step "libvirt" "$here/libvirt-host.sh" start
fi
end_log                              # exec runs no trap

export PATH=$venv/bin:$PATH
exec "$venv/bin/python" -m nova.tests.runner "${suites[@]}" -- "$@"
