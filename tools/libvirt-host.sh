#!/usr/bin/env bash
# Starts virtlogd and libvirtd where no systemd does it, so that real guests can run on any Debian machine.
#
# usage: tools/libvirt-host.sh start|stop|status        needs root, libvirt-daemon-system, qemu-system-x86, tini
#        tools/libvirt-host.sh serve [ARGUMENT...]      libvirtd itself, to its end; in a mount namespace that is its own
#
# With systemd it only asks systemd. Without it, two habits of such machines would make each guest's start take
# 10 to 50 s instead of 0.3 s:
# - the first process may not reap QEMU's short-lived probes, and libvirtd waits for them: tini adopts and reaps;
# - /dev/kvm may exist though the processor cannot use it, and libvirtd probes QEMU again at every definition, 4 to 5 s
#   each: libvirtd gets a /dev of its own without it. (Something bound over the node does not help: libvirt asks
#   access(2), which root passes.)
set -eu
umask 022                                # /run/libvirt/qemu is passed through by swtpm, whatever the caller's umask is
unset TMPDIR                             # swtpm_setup runs as another user, who may not write in the caller's directory
run=${RUN:-/run/nova-libvirt}
uri=qemu:///system

answers() { timeout 20 virsh -c "$uri" version >/dev/null 2>&1; }
kvm_works() { [ -w /dev/kvm ] && grep -qE '\b(vmx|svm)\b' /proc/cpuinfo; }

# A /dev without kvm for this mount namespace, everything else as it was.
hide_kvm() {
    mkdir -p "$run/dev"
    mount -t tmpfs -o mode=755,nosuid dev "$run/dev"
    cd /dev
    for name in *; do
        [ "$name" = kvm ] && continue
        if mountpoint -q "$name"; then
            mkdir "$run/dev/$name"
            mount --bind "$name" "$run/dev/$name"
            while mountpoint -q "/dev/$name"; do umount -l "/dev/$name" || break; done
        else
            cp -a "$name" "$run/dev/"
        fi
    done
    cd /
    mount --move "$run/dev" /dev
}

# libvirtd goes with tini, whatever ends that: it leads the process group that others signal.
serve() {
    kvm_works || hide_kvm
    exec tini -s -- setpriv --pdeathsig KILL libvirtd "$@"
}

# libvirtd's settings for a machine without D-Bus, where it cannot ask polkit: the group libvirt is let in, as polkit does.
settings() {
    local name value
    cat /etc/libvirt/libvirtd.conf >"$run/libvirtd.conf" 2>/dev/null || true
    [ ! -S /run/dbus/system_bus_socket ] && getent group libvirt >/dev/null || return 0
    while read -r name value; do
        grep -q "^ *$name *=" "$run/libvirtd.conf" || echo "$name = \"$value\"" >>"$run/libvirtd.conf"
    done <<'TEXT'
unix_sock_group libvirt
unix_sock_rw_perms 0770
auth_unix_rw none
TEXT
}

start() {
    answers && return 0
    [ "$(id -u)" = 0 ] || { echo "libvirt does not answer and only root can start it" >&2; return 1; }
    if [ -d /run/systemd/system ]; then
        systemctl start virtlogd.socket libvirtd 2>/dev/null || systemctl start virtlogd.socket virtqemud.socket virtproxyd.socket
    else
        mkdir -p "$run"
        setsid tini -s -- virtlogd </dev/null >"$run/virtlogd.out" 2>&1 &
        echo $! >"$run/virtlogd.pid"
        settings
        setsid unshare -m "$0" serve --config "$run/libvirtd.conf" </dev/null >"$run/libvirtd.out" 2>&1 &
        echo $! >"$run/libvirtd.pid"
    fi
    for _ in $(seq 100); do
        answers && return 0
        sleep 0.1
    done
    echo "libvirtd did not answer in 10 s; its last words:" >&2
    tail -n 5 "$run/libvirtd.out" >&2 2>/dev/null || true
    return 1
}

# A number may be another process's after a restart of a machine that keeps /run.
stop() {
    for name in libvirtd virtlogd; do
        [ -f "$run/$name.pid" ] || continue
        pid=$(cat "$run/$name.pid")
        if grep -qa "$name" "/proc/$pid/cmdline" 2>/dev/null; then kill "$pid" 2>/dev/null || true; fi
        rm -f "$run/$name.pid"
    done
}

case ${1:-} in
    start) start ;;
    stop) stop ;;
    status) answers ;;
    serve) shift; serve "$@" ;;
    *) echo "usage: $0 start|stop|status|serve" >&2; exit 2 ;;
esac
