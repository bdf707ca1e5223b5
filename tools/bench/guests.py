#!/usr/bin/env python3
"""Measures real guests on two hosts with a libvirt and a nova-compute each, and what libvirt and QEMU need alone.

usage: tools/bench/guests.py --guest DIRECTORY [--repeat 3] [--many 4] [--data 256] [--only TEXT]

A cloud in this process, its computes and their libvirts in network namespaces of this machine (as root; see
nova/tests/integration/moving_cloud.py). Each row is the median of --repeat runs: what a user waits, and next to it the
same done by virsh or qemu-img alone where that exists. Guests are emulated where there is no KVM: compare the columns,
not machines.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

ONE, TWO = 'compute1', 'compute2'
MIB = 1 << 20
BEHIND_MB = 500                      # of a disk of one GiB
LISTEN_S = 30


def show(name, **figures):
    print(f'{name:44}', '  '.join(f'{key} {value}' for key, value in figures.items()), flush=True)


def timed(function, *args, **named):
    began = time.perf_counter()
    function(*args, **named)
    return time.perf_counter() - began


def median(values):
    return f'{statistics.median(values):.2f} s'


class Bench:
    def __init__(self, fleet, repeat, many, data_mb):
        self.fleet, self.repeat, self.many, self.data_mb = fleet, repeat, many, data_mb

    # ---- parts ----

    def boot(self, name=ONE, **fields):
        made = self.fleet.admin.boot(self.fleet.image, flavor='small', host=name, networks='auto', **fields)
        self.fleet.user_server(made['id'])
        return made['id']

    def stopped(self, ident):
        self.fleet.act(ident, 'os-stop')
        self.fleet.user_server(ident, 'SHUTOFF')

    # ---- rows ----

    def spawn(self):
        """POST until ACTIVE, and how long libvirt alone needs to start the same definition with the same disks."""
        ours, alone = [], []
        for _ in range(self.repeat):
            began = time.perf_counter()
            ident = self.boot()
            ours.append(time.perf_counter() - began)
            self.stopped(ident)
            alone.append(timed(self.fleet.virsh, ONE, 'start', ident))
            self.fleet.delete(ident)
        show('spawn until running', ours=median(ours), virsh_start=median(alone),
             of_ours=median([a - b for a, b in zip(ours, alone)]))

    def live(self):
        """Total and standstill, as libvirt counted it; the same by virsh with the same flags."""
        ours, alone, still, still_alone = [], [], [], []
        for _ in range(self.repeat):
            ident = self.boot()
            self.fleet.booted_on(ONE, ident)
            began = time.perf_counter()
            self.fleet.migrate_live(ident, TWO)
            self.fleet.migrated(ident)
            ours.append(time.perf_counter() - began)
            still.append(self._downtime(TWO, ident))
            self.fleet.delete(ident)
            ident = self.boot()
            self.fleet.booted_on(ONE, ident)
            alone.append(self._by_virsh(ident))
            still_alone.append(self._downtime(TWO, ident))
            self.fleet.virsh(TWO, 'destroy', ident)
            self.fleet.delete(ident)
            shutil.rmtree(self.fleet.places[TWO] / 'instances' / ident)
        show('live migration with its disk', ours=median(ours), virsh_migrate=median(alone),
             standstill=f'{statistics.median(still):.0f} ms', of_virsh=f'{statistics.median(still_alone):.0f} ms')

    def _by_virsh(self, ident):
        """Seconds of a migration behind the back of the cloud, to a disk that is there."""
        here, there = (self.fleet.places[name] / 'instances' for name in (ONE, TWO))
        (there / ident).mkdir(mode=0o711)
        info = json.loads(subprocess.check_output(['qemu-img', 'info', '-U', '--output=json', here / ident / 'disk']))
        base = there / '_base' / pathlib.Path(info['backing-filename']).name
        disk = there / ident / 'disk'
        subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-F', base.suffix[1:], '-b', base, disk,
                        str(info['virtual-size'])], check=True)
        target, address = self.fleet.directory / 'there.xml', self.fleet.address(TWO)
        running = self.fleet.virsh(ONE, 'dumpxml', '--migratable', ident).replace(str(here), str(there)).replace(
            self.fleet.address(ONE), address)                # which the screen listens on
        target.write_text(running)
        uri = self.fleet.cluster.hosts.migration_uri(ONE).replace('%s', address)
        return timed(self.fleet.virsh, ONE, 'migrate', '--live', '--p2p', '--copy-storage-inc', '--tls', '--xml',
                     str(target), '--migrateuri', f'tcp://{address}', '--disks-uri', f'tcp://{address}', ident, uri)

    def _downtime(self, name, ident):
        """Milliseconds in which a guest that has come did not run."""
        text = self.fleet.virsh(name, 'domjobinfo', ident, '--completed', '--keep-completed')
        return next(float(line.split()[2]) for line in text.splitlines() if line.startswith('Total downtime'))

    def cold(self):
        """A disk with so much data, until VERIFY_RESIZE; qemu-img convert of the same to an NBD server at the other
        host, with TLS."""
        ident = self.boot()
        self.fleet.booted_on(ONE, ident)
        # behind the file system, which is small
        self.fleet.tell(ONE, ident, f'dd if=/dev/urandom of=/dev/vda bs=1M seek={BEHIND_MB} count={self.data_mb}; '
                        'sync; echo written-$((40+2))', 'written-42')
        self.stopped(ident)
        disk = self.fleet.places[ONE] / 'instances' / ident / 'disk'
        size = os.stat(disk).st_blocks * 512 / MIB
        alone, ours = [], []
        for _ in range(self.repeat):
            alone.append(self._convert(disk))
            self.fleet.act(ident, 'migrate', {'host': TWO})
            began = time.perf_counter()
            self.fleet.migrated(ident, 'finished', 'VERIFY_RESIZE')
            ours.append(time.perf_counter() - began)
            self.fleet.act(ident, 'revertResize')
            self.fleet.migrated(ident, 'reverted', 'SHUTOFF')
        self.fleet.delete(ident)
        rates = [f'{size / statistics.median(values):.0f} MiB/s' for values in (ours, alone)]
        show(f'cold migration of {size:.0f} MiB', ours=median(ours), convert=median(alone), rate=rates[0],
             of_convert=rates[1])

    def _convert(self, disk):
        pki, copy = self.fleet.cluster.hosts.directory(TWO) / 'etc' / 'pki', self.fleet.directory / 'converted'
        subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', str(copy), '1G'], check=True)
        tls = f'tls-creds-x509,id=tls0,dir={pki},verify-peer=no'
        server = subprocess.Popen(
            ['ip', 'netns', 'exec', self.fleet.namespace(TWO), 'qemu-nbd', '-f', 'qcow2', '-p', '10899', '--object',
             f'{tls},endpoint=server', '--tls-creds', 'tls0', '-t', str(copy)])
        try:
            self._await_listener(10899)
            return timed(subprocess.run, [
                'ip', 'netns', 'exec', self.fleet.namespace(ONE), 'qemu-img', 'convert', '-U', '-n', '--object',
                f'{tls},endpoint=client', '--image-opts', '--target-image-opts',
                f'driver=qcow2,file.driver=file,file.filename={disk}',
                f'driver=nbd,server.type=inet,server.host={self.fleet.address(TWO)},server.port=10899,tls-creds=tls0'],
                check=True)
        finally:
            server.terminate()
            server.wait()
            copy.unlink()

    def _await_listener(self, port):
        """Wait until a program listens at a port of the second host; on a busy machine its start takes seconds."""
        deadline = time.monotonic() + LISTEN_S
        while not subprocess.check_output(['ip', 'netns', 'exec', self.fleet.namespace(TWO), 'ss', '-Hltn',
                                           f'sport = :{port}']):
            assert time.monotonic() < deadline, f'nothing listens at port {port}'
            time.sleep(0.05)

    def snapshot(self):
        """How long a running guest does not answer while an image of it is made: 20 looks a second from outside."""
        ident = self.boot()
        self.fleet.booted_on(ONE, ident)
        total, still = [], []
        for _ in range(self.repeat):
            stood, over = [0.0], threading.Event()

            def watch():
                last = time.perf_counter()
                while not over.wait(0.05):
                    now = time.perf_counter()
                    if 'paused' in self.fleet.virsh(ONE, 'domstate', ident):
                        stood[0] += now - last
                    last = now
            watcher = threading.Thread(target=watch)
            watcher.start()
            total.append(timed(self._snapshot, ident))
            over.set()
            watcher.join()
            still.append(stood[0])
        self.fleet.delete(ident)
        show('snapshot', ours=median(total), standstill=median(still))

    def _snapshot(self, ident):
        answer = self.fleet.admin.post(f'/servers/{ident}/action', {'createImage': {'name': 'copy'}})
        assert answer.status_code == 202, answer.text
        self.fleet.user_server(ident)
        image = answer.json()['image_id']
        while self.fleet.admin.get('/image/v2/images/' + image).json()['status'] != 'active':
            time.sleep(0.05)

    def volumes(self):
        """Measure a running guest until the volume is in use, and until it is available again."""
        ident = self.boot()
        self.fleet.booted_on(ONE, ident)
        body = {'volume': {'name': 'bench', 'size': 1}}
        made = self.fleet.admin.post('/volume/v3/volumes', body).json()['volume']['id']
        self._status(made, 'available')
        attach, detach = [], []
        for _ in range(self.repeat):
            began = time.perf_counter()
            self.fleet.admin.post(f'/servers/{ident}/os-volume_attachments', {'volumeAttachment': {'volumeId': made}})
            self._status(made, 'in-use')
            attach.append(time.perf_counter() - began)
            time.sleep(1)                # the guest finds its new disk
            began = time.perf_counter()
            self.fleet.admin.delete(f'/servers/{ident}/os-volume_attachments/{made}')
            self._status(made, 'available')
            detach.append(time.perf_counter() - began)
        self.fleet.delete(ident)
        show('volume', attach=median(attach), detach=median(detach))

    def _status(self, volume, wanted):
        while self.fleet.admin.get(f'/volume/v3/volumes/{volume}').json()['volume']['status'] != wanted:
            time.sleep(0.02)

    def at_once(self):
        """So many guests in one request, and what nova-compute takes of memory then."""
        before = self._rss()
        began = time.perf_counter()
        answer = self.fleet.admin.post('/servers', {'server': {
            'name': 'many', 'imageRef': self.fleet.image, 'flavorRef': 'small', 'networks': 'auto', 'host': ONE,
            'min_count': self.many, 'max_count': self.many}})
        assert answer.status_code == 202, answer.text
        while True:
            found = self.fleet.admin.get('/servers/detail').json()['servers']
            if [each['status'] for each in found] == ['ACTIVE'] * self.many:
                break
            assert 'ERROR' not in {each['status'] for each in found}
            time.sleep(0.1)
        total = time.perf_counter() - began
        show(f'{self.many} guests at once', ours=f'{total:.2f} s', each=f'{total / self.many:.2f} s',
             rss_before=f'{before} MiB', rss=f'{self._rss()} MiB')
        self.fleet.clear()

    def _rss(self):
        status = pathlib.Path(f'/proc/{self.fleet.computes[ONE].pid}/status').read_text()
        return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith('VmRSS'))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--guest', required=True, help='directory of the guest image (tools/guest-image.sh)')
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--many', type=int, default=4, help='guests at once')
    parser.add_argument('--data', type=int, default=256, choices=range(1, 500), metavar='MIB',
                        help='written into a disk that moves cold')
    parser.add_argument('--only', default='', help='rows whose name has this in it')
    args = parser.parse_args()
    os.environ['NOVA_TEST_GUEST_DIR'] = args.guest       # read where the hosts are described
    from nova.tests.integration import moving_cloud
    with moving_cloud.fleet() as fleet:
        bench = Bench(fleet, args.repeat, args.many, args.data)
        print(f'load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors')
        for name in ('spawn', 'live', 'cold', 'snapshot', 'volumes', 'at_once'):
            if args.only in name:
                getattr(bench, name)()


if __name__ == '__main__':
    main()
