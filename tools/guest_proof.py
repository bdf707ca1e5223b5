#!/usr/bin/env python3
"""Checks what guests of a running cloud see of it: a Debian guest, and a guest whose resolver is musl's.

usage: tools/guest_proof.py CLOUDS_YAML --own GUEST.qcow2 [--debian DEBIAN.qcow2 --guest DIRECTORY] [--cloud nova-admin]
                            [--musl DIRECTORY] [--isolinux DIRECTORY] [--only PART]... [--seconds 1800]

--own     image of tools/guest-image.sh
--debian  image of tools/debian-guest.sh; without it the checks that need a distribution are left out (short form)
--guest   directory of the small image's kernel and ramdisk, which install Debian from an ISO image (B4 with --debian)
--musl    root directory with Debian's packages musl and musl-dev, / unless given; gcc compiles a program with them
--isolinux  root directory with Debian's packages isolinux and syslinux-common, / unless given
--only    one of B1, B2, B4, B5, B6, B7 and B9, or the name of one check, as 'tagged'

Uses the APIs and the serial consoles alone, makes flavors, images, networks and servers, and deletes them. Prints a
line for each check, and exits with 1 unless all are right.
"""
import argparse
import base64
import gzip
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import uuid

import pycdlib
import requests
import yaml

VERSION = '2.96'
DOMAIN = 'blue.example'
POLL_S = 2
QUIESCE = {'os_require_quiesce': 'yes'}

# Prints what it finds to the console at the end of the first boot; the server beta is a neighbour in the network.
SEEN = r'''exec >/dev/ttyS0 2>&1
touch /root/marker
say() { echo "proof: $1=$2."; }
say routes "$(ip -4 route show default | tr '\n' ';')"
say domains "$(resolvectl domain 2>/dev/null | tr '\n' ' ')"
tries=0
until found=$(getent hosts beta) || [ $tries -ge 60 ]; do tries=$((tries + 1)); sleep 2; done
say neighbour "$found"
say done yes
'''
# Prints the default routes once there are two.
TWO_ROUTES = r'''#!/bin/sh
tries=0
until [ "$(ip -4 route show default | wc -l)" -ge 2 ] || [ $tries -ge 60 ]; do tries=$((tries + 1)); sleep 2; done
echo "proof: routes=$(ip -4 route show default | tr '\n' ';')." >/dev/ttyS0
'''
# Prints the tagged devices of both metadata documents and, for each NIC and disk, where the system has it.
DEVICES = r'''#!/bin/sh
cut_out() { sed 's/.*"devices": *\(.*\), *"dedicated_cpus".*/\1/'; }
places() {
    for each in /sys/class/net/eth* /sys/block/vd*; do
        at=$(readlink -f $each/device)
        echo "$(cat $each/address $each/serial 2>/dev/null)=$(basename $(dirname $at))"
        echo "/dev/$(basename $each)=$(basename $(dirname $at))"
    done | xargs
}
(while sleep 3; do
    echo "proof: places=$(places)."
    echo "proof: drive=$(cut_out </run/config/openstack/latest/meta_data.json)."
    echo "proof: service=$(wget -q -O - http://169.254.169.254/openstack/latest/meta_data.json | cut_out)."
done) >/dev/console 2>/dev/null &
'''
DONE = 'touch /root/marker; sync; echo "proof: done=yes." >/dev/ttyS0'
# At each boot: whether the disk is the one that the first boot has marked, and the endorsement key of the TPM.
MARK = 'sleep 1; [ -e /root/marker ] && m=yes || m=no; echo "proof: marked=$m." >/dev/ttyS0'
KEY = r'''
import hashlib, struct
public = bytes.fromhex('0023000b00030072000000060080004300100003001000000000')
body = bytes.fromhex('4000000b' '00000009' '400000090000000000' '000400000000')
body += struct.pack('!H', len(public)) + public + bytes.fromhex('0000' '00000000')
try:
    with open('/dev/tpm0', 'r+b', buffering=0) as device:
        device.write(struct.pack('!HII', 0x8002, len(body) + 10, 0x131) + body)
        reply = device.read(4096)
    code, = struct.unpack('!I', reply[6:10])
    size = 0 if code else struct.unpack('!H', reply[18:20])[0]
    found = f'error {code:x}' if code else hashlib.sha256(reply[20:20 + size]).hexdigest()[:16]
except OSError as error:
    found = str(error)
open('/dev/ttyS0', 'w').write(f'\nproof: key={found}.\n')
'''
RESOLVER = r'''
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
int main(int count, char **names) {
    for (int at = 1; at < count; at++) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
        char text[64];
        int code = getaddrinfo(names[at], 0, &hints, &found);
        if (code) { printf("proof: %s=%s.\n", names[at], gai_strerror(code)); continue; }
        getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, 0, 0, NI_NUMERICHOST);
        printf("proof: %s=%s.\n", names[at], text);
    }
}
'''
# 16 bits, at 0x7c00: writes its text to the first serial port, and stops.
TEXT = b'\r\nproof: medium=boots.\r\n\0'


def boot_code():
    """Machine code for a BIOS, at 0x7c00, that prints TEXT."""
    start = b'\xfa\x31\xc0\x8e\xd8\xbe'         # cli; ds = 0; si = the text, whose address follows
    loop = (b'\xac\x84\xc0\x74\x12'               # al = the next byte; at 0 go to the end
            b'\x88\xc4\xba\xfd\x03\xec\xa8\x20\x74\xfb'      # wait until the port takes a byte
            b'\xba\xf8\x03\x88\xe0\xee'           # send it
            b'\xeb\xe9')                          # again
    end = b'\xf4\xeb\xfd'                          # hlt, for ever
    return start + (0x7c00 + len(start) + 2 + len(loop + end)).to_bytes(2, 'little') + loop + end + TEXT


def medium(path):
    """An ISO image that a BIOS boots."""
    made = pycdlib.PyCdlib()
    made.new()
    source = path.with_suffix('.boot')
    source.write_bytes(boot_code().ljust(2048, b'\0'))
    made.add_file(str(source), '/BOOT.;1')
    made.add_eltorito('/BOOT.;1', boot_load_size=4)
    made.write(str(path))
    made.close()


# First process of the installer: copies the pieces of a disk, in blocks of 64 KiB, to the machine's blank root disk.
INSTALL = r'''#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
modprobe -a $(busybox cat /modules) 2>/dev/null
until busybox mount -t iso9660 /dev/sr0 /root; do sleep 1; done
echo 'proof: medium=boots.' >/dev/ttyS0
busybox gunzip -c /root/data | while read -r place count <&3; do
    busybox dd bs=64k iflag=fullblock conv=notrunc seek=$place count=$count of=/dev/vda 2>/dev/null
done 3</root/map
busybox sync
echo 'proof: copied=yes.' >/dev/ttyS0
busybox reboot -f
'''
ISOLINUX = ('SERIAL 0 115200\nDEFAULT install\nLABEL install\nKERNEL /kernel.img\nINITRD /ramdisk.img,/install.img\n'
            'APPEND console=ttyS0 quiet panic=5 tsc=unstable mitigations=off\n')
BLOCK = 64 * 1024


def pieces(disk):
    """[(first block, number of blocks)] of a raw disk's parts that have data."""
    found = json.loads(subprocess.run(['qemu-img', 'map', '-f', 'raw', '--output=json', disk], check=True,
                                      capture_output=True).stdout)
    used = sorted({block for each in found if each['data'] and not each['zero']
                   for block in range(each['start'] // BLOCK, -(-(each['start'] + each['length']) // BLOCK))})
    breaks = [(before, block) for before, block in itertools.pairwise(used) if block != before + 1]
    starts, ends = [used[0], *(block for _, block in breaks)], [*(before for before, _ in breaks), used[-1]]
    return [(first, last - first + 1) for first, last in zip(starts, ends, strict=True)]


def installer(path, image, guest, isolinux):
    """An ISO image with isolinux that writes the content of an image to the machine's blank disk and restarts it.

    :param guest: directory of the small guest's kernel and ramdisk
    :param isolinux: root directory of the packages isolinux and syslinux-common
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        work = pathlib.Path(directory)
        subprocess.run(['qemu-img', 'convert', '-O', 'raw', image, work / 'disk'], check=True)
        listed = pieces(work / 'disk')
        with open(work / 'disk', 'rb') as disk, gzip.open(work / 'data', 'wb', 6) as data:
            for first, count in listed:
                disk.seek(first * BLOCK)
                for _ in range(count):
                    data.write(disk.read(BLOCK).ljust(BLOCK, b'\0'))
        (work / 'map').write_text(''.join(f'{first} {count}\n' for first, count in listed))
        (work / 'init').write_text(INSTALL)
        (work / 'init').chmod(0o755)
        (work / 'install').write_bytes(subprocess.run(['cpio', '--quiet', '-o', '-H', 'newc'], input=b'init\n',
                                                      cwd=work, check=True, capture_output=True).stdout)
        (work / 'isolinux.cfg').write_text(ISOLINUX)
        made = pycdlib.PyCdlib()
        made.new(interchange_level=3, rock_ridge='1.09')
        for source, name in ((isolinux / 'usr/lib/ISOLINUX/isolinux.bin', 'isolinux.bin'),
                             (isolinux / 'usr/lib/syslinux/modules/bios/ldlinux.c32', 'ldlinux.c32'),
                             (work / 'isolinux.cfg', 'isolinux.cfg'), (guest / 'guest-kernel', 'kernel.img'),
                             (guest / 'guest-ramdisk', 'ramdisk.img'), (work / 'install', 'install.img'),
                             (work / 'map', 'map'), (work / 'data', 'data')):
            stem, dot, suffix = name.upper().partition('.')
            made.add_file(str(source), f'/{stem}.{suffix};1', rr_name=name)
        made.add_eltorito('/ISOLINUX.BIN;1', bootcatfile='/BOOT.CAT;1', rr_bootcatname='boot.cat', boot_load_size=4,
                          boot_info_table=True)
        made.write(str(path))
        made.close()


def resolver(root):
    """The program of RESOLVER, linked with musl; raises CalledProcessError."""
    library, include = root / 'usr/lib/x86_64-linux-musl', root / 'usr/include/x86_64-linux-musl'
    with tempfile.TemporaryDirectory() as directory:
        made = pathlib.Path(directory) / 'resolve'
        subprocess.run(['gcc', '-Os', '-s', '-static', '-nostdinc', '-isystem', include, '-nostdlib', '-no-pie',
                        '-fno-pie', '-fno-stack-protector', library / 'crt1.o', library / 'crti.o',
                        '-x', 'c', '-', '-x', 'none', library / 'libc.a', '-lgcc', library / 'crtn.o', '-o', made],
                       input=RESOLVER, check=True, text=True)
        return made.read_bytes()


def text64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def cloud_config(script):
    return '#cloud-config\n' + json.dumps({
        'bootcmd': [['sh', '-c', MARK], ['python3', '-c', KEY]], 'runcmd': [['sh', '-c', script]]})


class Wrong(Exception):
    """A check failed; the sentence says how."""


def check(condition, sentence):
    if not condition:
        raise Wrong(sentence)


class Cloud:
    """The APIs of a cloud, as an administrator; what it makes is deleted by ``clear``."""

    def __init__(self, clouds_yaml, name, seconds):
        entry = yaml.safe_load(pathlib.Path(clouds_yaml).read_text())['clouds'][name]
        auth, self.seconds, self.made = entry['auth'], seconds, []
        self.session = requests.Session()
        self.session.trust_env, self.session.verify = False, entry.get('cacert') or entry.get('verify', True)
        answer = self.session.post(auth['auth_url'].rstrip('/') + '/auth/tokens', json={'auth': {
            'identity': {'methods': ['password'], 'password': {'user': {
                'name': auth['username'], 'password': auth['password'],
                'domain': {'id': auth.get('user_domain_id', 'default')}}}},
            'scope': {'project': {'name': auth['project_name'],
                                  'domain': {'id': auth.get('project_domain_id', 'default')}}}}})
        answer.raise_for_status()
        self.session.headers.update({'X-Auth-Token': answer.headers['X-Subject-Token'],
                                     'OpenStack-API-Version': f'compute {VERSION}'})
        self.urls = {service['type']: endpoint['url'].rstrip('/') for service in answer.json()['token']['catalog']
                     for endpoint in service['endpoints'] if endpoint['interface'] == 'public'}
        self.urls['network'] += '/v2.0'
        self.urls['image'] += '/v2'
        self.urls['volume'] = next(self.urls[kind] for kind in ('block-storage', 'volumev3', 'volume')
                                   if kind in self.urls)

    def ask(self, method, service, path, body=None, **more):
        return self.session.request(method, self.urls[service] + path, json=body, **more)

    def make(self, service, path, body, delete=True):
        """Create a resource with POST and record its deletion."""
        answer = self.ask('POST', service, path, body)
        check(answer.status_code < 300, f'POST {path}: {answer.status_code} {answer.text[:300]}')
        found = next(iter(answer.json().values())) if service != 'image' else answer.json()
        if delete:
            self.made.append((service, f'{path}/{found["id"]}'))
        return found

    def image(self, path, disk_format, **properties):
        made = self.make('image', '/images', {'name': f'proof-{disk_format}', 'disk_format': disk_format,
                                              'container_format': 'bare', **properties})
        with open(path, 'rb') as file:
            answer = self.ask('PUT', 'image', f'/images/{made["id"]}/file', data=file,
                              headers={'Content-Type': 'application/octet-stream'})
        check(answer.status_code == 204, f'upload: {answer.status_code} {answer.text[:300]}')
        return made['id']

    def flavor(self, ram, disk, **specs):
        made = self.make('compute', '/flavors', {'flavor': {
            'name': 'proof-' + uuid.uuid4().hex[:8], 'vcpus': 1, 'ram': ram, 'disk': disk}})
        if specs:
            self.ask('POST', 'compute', f'/flavors/{made["id"]}/os-extra_specs', {'extra_specs': specs})
        return made['id']

    def network(self, cidr, dhcp=True, **more):
        made = self.make('network', '/networks', {'network': {'name': 'proof', **more}})
        self.make('network', '/subnets', {'subnet': {
            'network_id': made['id'], 'cidr': cidr, 'ip_version': 4, 'enable_dhcp': dhcp}}, delete=False)
        return made['id']

    def boot(self, name, image, flavor, networks, user_data=None, **more):
        plugs = [each if isinstance(each, dict) else {'uuid': each} for each in networks] or 'none'
        body = {'name': name, 'imageRef': image, 'flavorRef': flavor, 'networks': plugs, 'config_drive': True, **more}
        if user_data:
            body['user_data'] = text64(user_data)
        return self.make('compute', '/servers', {'server': body})['id']

    def server(self, ident):
        return self.ask('GET', 'compute', f'/servers/{ident}').json()['server']

    def settled(self, ident, *statuses):
        """The server once it has one of these statuses, or ERROR, and no task."""
        def look():
            row = self.server(ident)
            return row if row['OS-EXT-STS:task_state'] is None and row['status'] in (*statuses, 'ERROR') else None
        return self.until(look, f'status {" or ".join(statuses)}')

    def wait(self, ident, status):
        """The server in a status."""
        found = self.settled(ident, status)
        check(found['status'] == status, f"{found['status']}: {found.get('fault', {}).get('message')}")
        return found

    def until(self, look, what):
        deadline = time.monotonic() + self.seconds
        while not (found := look()):
            check(time.monotonic() < deadline, f'{what}: not within {self.seconds} s')
            time.sleep(POLL_S)
        return found

    def act(self, ident, name, body=None):
        return self.ask('POST', 'compute', f'/servers/{ident}/action', {name: body})

    def console(self, ident):
        answer = self.act(ident, 'os-getConsoleOutput', {})
        return answer.json().get('output', '') if answer.status_code == 200 else ''

    def printed(self, ident, name):
        """[value] that a guest printed under a name."""
        return re.findall(rf'proof: {re.escape(name)}=(.*)\.\r?$', self.console(ident), re.MULTILINE)

    def says(self, ident, name):
        """The first value that a guest prints under a name."""
        return self.until(lambda: self.printed(ident, name), f'"proof: {name}=" on the console')[0]

    def clear(self, keep=0):
        """Delete what was made, but the first so many."""
        for service, path in reversed(self.made[keep:]):
            self.ask('DELETE', service, path)
            if path.startswith('/servers'):
                self.until(lambda: self.ask('GET', service, path).status_code == 404, f'deletion of {path}')
        del self.made[keep:]


class Proof:
    """
    cloud   Cloud
    own     id of the small image
    debian  id of the Debian image for a BIOS; None in the short form
    """

    def __init__(self, cloud, arguments, directory):
        self.cloud, self.directory, self.musl = cloud, directory, pathlib.Path(arguments.musl)
        self.own_file, self.guest, self.isolinux = arguments.own, arguments.guest, pathlib.Path(arguments.isolinux)
        self.own = cloud.image(arguments.own, 'qcow2', hw_rng_model='virtio')
        self.debian_file = arguments.debian
        self.debian = cloud.image(arguments.debian, 'qcow2', hw_qemu_guest_agent='yes') if arguments.debian else None
        self.small, self.large = cloud.flavor(128, 1), cloud.flavor(768, 4)
        self.lan = cloud.network('10.99.0.0/24', dns_domain=DOMAIN + '.')
        self.iso = None

    def medium(self):
        if self.iso is None:
            medium(self.directory / 'medium.iso')
            self.iso = self.cloud.image(self.directory / 'medium.iso', 'iso', hw_rescue_device='cdrom',
                                        hw_rescue_bus='ide')
        return self.iso

    def address(self, ident):
        return next(ip['addr'] for each in self.cloud.wait(ident, 'ACTIVE')['addresses'].values() for ip in each)

    # ---- B1

    def names(self):
        """B1 names: of a neighbour, bare and with the search domain, by musl and by systemd-resolved"""
        program = text64(gzip.compress(resolver(self.musl)))
        wanted = ['alpha', f'alpha.{DOMAIN}', 'beta', f'beta.{DOMAIN}']
        script = (f'#!/bin/sh\nbase64 -d >/tmp/resolve.gz <<TEXT\n{program}\nTEXT\ngunzip /tmp/resolve.gz\n'
                  f'chmod 755 /tmp/resolve\n/tmp/resolve {" ".join(wanted)}\n')
        alpha = self.cloud.boot('alpha', self.debian or self.own, self.large if self.debian else self.small, [self.lan],
                                cloud_config(SEEN) if self.debian else None)
        address = self.address(alpha)
        beta = self.cloud.boot('beta', self.own, self.small, [self.lan], script)
        own = self.address(beta)
        found = {name: self.cloud.says(beta, name) for name in wanted}
        expected = dict(zip(wanted, [address, address, own, own], strict=True))
        check(found == expected, f'musl: {found} in place of {expected}')
        if self.debian:
            neighbour, domains = self.cloud.says(alpha, 'neighbour'), self.cloud.says(alpha, 'domains')
            check(own in neighbour.split() and DOMAIN in domains,
                  f'systemd-resolved: {neighbour!r}, domains {domains!r}')
            return f'musl and systemd-resolved: {len(wanted)} names, domain {DOMAIN}'
        return f'musl: {len(wanted)} names'

    # ---- B2

    def agent(self):
        """B2 actions without a guest agent are refused with the reason"""
        ident = self.cloud.boot('silent', self.own, self.small, [])
        strict = self.cloud.boot('strict', self.cloud.image(self.own_file, 'qcow2', **QUIESCE), self.small, [])
        for server, name, body in ((ident, 'changePassword', {'adminPass': 'secret'}),
                                   (strict, 'createImage', {'name': 'proof-copy'})):
            self.cloud.wait(server, 'ACTIVE')
            answer = self.cloud.act(server, name, body)
            check(answer.status_code == 409 and 'hw_qemu_guest_agent' in answer.text,
                  f'{name}: {answer.status_code} {answer.text[:200]}')
        if not self.debian:
            return 'changePassword and createImage: 409, hw_qemu_guest_agent'
        answered = self.cloud.boot('answering', self.cloud.image(
            self.debian_file, 'qcow2', hw_qemu_guest_agent='yes', **QUIESCE), self.large, [], cloud_config(DONE))
        self.cloud.wait(answered, 'ACTIVE')
        self.cloud.says(answered, 'done')
        self.cloud.until(lambda: self.cloud.act(answered, 'changePassword', {'adminPass': 'secret'}).status_code == 202,
                         'changePassword with an agent')
        self.cloud.wait(answered, 'ACTIVE')
        self.snapshot(answered)
        return 'changePassword and createImage: 409 without hw_qemu_guest_agent, done by the agent of Debian'

    def snapshot(self, ident):
        """The id of an image of a server, once it is active."""
        answer = self.cloud.act(ident, 'createImage', {'name': 'proof-copy'})
        check(answer.status_code == 202, f'{answer.status_code} {answer.text[:200]}')
        image = answer.json()['image_id']
        self.cloud.made.append(('image', f'/images/{image}'))
        self.cloud.until(lambda: self.cloud.ask('GET', 'image', f'/images/{image}').json().get('status') != 'queued'
                         and self.cloud.server(ident)['OS-EXT-STS:task_state'] is None, 'the snapshot')
        status = self.cloud.ask('GET', 'image', f'/images/{image}').json().get('status')
        check(status == 'active', f'the image is {status}')
        return image

    # ---- B4, B5

    def cdrom(self):
        """B4 a server of an ISO image boots it as a CD-ROM"""
        ident = self.cloud.boot('disc', self.medium(), self.small, [])
        self.cloud.wait(ident, 'ACTIVE')
        return 'medium ' + self.cloud.says(ident, 'medium')

    def installed(self):
        """B4 Debian is installed from an ISO image on the flavor's blank disk, and boots from it"""
        path = self.directory / 'installer.iso'
        installer(path, self.debian_file, self.guest, self.isolinux)
        ident = self.cloud.boot('new', self.cloud.image(path, 'iso'), self.large, [self.lan], cloud_config(DONE))
        self.cloud.wait(ident, 'ACTIVE')
        said = [self.cloud.says(ident, name) for name in ('medium', 'copied', 'marked', 'done')]
        check(said == ['boots', 'yes', 'no', 'yes'], f'the console: {said}')
        return 'installed, booted from the root disk'

    def rescue_iso(self):
        """B5 rescue with an ISO image"""
        ident = self.cloud.boot('rescued', self.own, self.small, [])
        self.cloud.wait(ident, 'ACTIVE')
        answer = self.cloud.act(ident, 'rescue', {'rescue_image_ref': self.medium()})
        check(answer.status_code == 200, f'{answer.status_code} {answer.text[:300]}')
        self.cloud.wait(ident, 'RESCUE')
        found = self.cloud.says(ident, 'medium')
        check(self.cloud.act(ident, 'unrescue').status_code == 202, 'unrescue is refused')
        self.cloud.wait(ident, 'ACTIVE')
        return 'medium ' + found

    def rescue_own(self):
        """B5 rescue with the server's own image: the rescue system boots, with UEFI"""
        image = self.cloud.image(self.debian_file, 'qcow2', hw_machine_type='q35', hw_firmware_type='uefi')
        ident = self.cloud.boot('rescued', image, self.large, [], cloud_config(DONE))
        self.cloud.wait(ident, 'ACTIVE')
        self.cloud.says(ident, 'done')
        answer = self.cloud.act(ident, 'rescue', {'rescue_image_ref': image})
        check(answer.status_code == 200, f'{answer.status_code} {answer.text[:300]}')
        self.cloud.wait(ident, 'RESCUE')
        found = self.cloud.says(ident, 'marked')
        check(found == 'no', 'the guest boots its own root disk, not the rescue disk')
        return 'the rescue disk is the root'

    # ---- B6, B7

    def tpm(self):
        """B6, B7 a TPM guest starts; its state is kept, or the action is refused"""
        flavor = self.cloud.flavor(768 if self.debian else 128, 4 if self.debian else 1,
                                   **{'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'})
        ident = self.cloud.boot('trusted', self.debian or self.own, flavor, [],
                                cloud_config('true') if self.debian else None)
        self.cloud.wait(ident, 'ACTIVE')
        before, said = self.cloud.says(ident, 'key') if self.debian else None, []
        for name, body in (('createImage', {'name': 'proof-copy'}), ('shelve', None)):
            answer = self.cloud.act(ident, name, body)
            check(answer.status_code == 409 and 'TPM' in answer.text,
                  f'{name}: {answer.status_code} {answer.text[:200]}')
            said.append(f'{name} 409')
        answer = self.cloud.act(ident, 'rebuild', {'imageRef': self.debian or self.own})
        if answer.status_code == 409:
            return ', '.join([*said, 'rebuild 409'])
        check(answer.status_code == 202, f'rebuild: {answer.status_code} {answer.text[:200]}')
        self.cloud.wait(ident, 'ACTIVE')
        if before:
            after = self.cloud.says(ident, 'key')
            check(after == before and ' ' not in after, f'rebuild: the key of the TPM was {before} and is {after}')
            said.append('rebuild keeps the key')
        return ', '.join(said)

    def stopped(self):
        """B6 a snapshot of a stopped server; one of Debian boots with the data of the first"""
        ident = self.cloud.boot('stopped', self.debian or self.own, self.large if self.debian else self.small, [],
                                cloud_config(DONE) if self.debian else None)
        self.cloud.wait(ident, 'ACTIVE')
        if self.debian:
            self.cloud.says(ident, 'done')
        self.cloud.act(ident, 'os-stop')
        self.cloud.wait(ident, 'SHUTOFF')
        image = self.snapshot(ident)
        if not self.debian:
            return 'active'
        copy = self.cloud.boot('copy', image, self.large, [], cloud_config(DONE))
        self.cloud.wait(copy, 'ACTIVE')
        check(self.cloud.says(copy, 'marked') == 'yes', 'the copy lacks the marker of the stopped server')
        return 'active, and its guest has the marker'

    # ---- B9

    def routes(self):
        """B9 two interfaces by config drive: default routes of different metric"""
        networks = [self.cloud.network(f'10.9{number}.0.0/24', dhcp=False) for number in (7, 8)]
        script = "#!/bin/sh\necho \"proof: routes=$(ip -4 route show default | tr '\\n' ';').\"\n"
        ident = self.cloud.boot('two', self.debian or self.own, self.large if self.debian else self.small, networks,
                                script.replace('."', '." >/dev/ttyS0') if self.debian else script)
        self.cloud.wait(ident, 'ACTIVE')
        found = [each for each in self.cloud.says(ident, 'routes').split(';') if each.strip()]
        metrics = [(re.search(r'metric (\d+)', each) or [0, '0'])[1] for each in found]
        check(found and len(set(metrics)) == len(metrics), f'default routes: {found}')
        return f'metrics {", ".join(metrics)}'

    def dhcp_routes(self):
        """B9 two interfaces by DHCP: both have a default route; netplan gives both the same metric"""
        networks = [self.cloud.network(f'10.9{number}.0.0/24') for number in (5, 6)]
        ident = self.cloud.boot('twice', self.debian, self.large, networks, TWO_ROUTES)
        self.cloud.wait(ident, 'ACTIVE')
        found = [each for each in self.cloud.says(ident, 'routes').split(';') if each.strip()]
        metrics = [re.search(r'metric (\d+)', each)[1] for each in found]
        check(len(found) == 2, f'default routes: {found}')
        return f'metrics {", ".join(metrics)}'

    def device(self):
        """B9 the device name of an attachment is the one that the guest has"""
        script = ('#!/bin/sh\n(while sleep 2; do echo "proof: disks=$(ls /sys/block | grep ^vd | xargs)."; done) '
                  '>/dev/console &\n')
        ident = self.cloud.boot('disks', self.own, self.small, [], script)
        self.cloud.wait(ident, 'ACTIVE')
        before = set(self.cloud.says(ident, 'disks').split())
        volume = self.volume()
        path = f'/servers/{ident}/os-volume_attachments'
        answer = self.cloud.ask('POST', 'compute', path, {'volumeAttachment': {
            'volumeId': volume, 'device': '/dev/vdz'}})
        if answer.status_code in (400, 409):
            return f'refused: {answer.status_code}'
        check(answer.status_code in (200, 202), f'{answer.status_code} {answer.text[:200]}')

        def added():
            return set(self.cloud.printed(ident, 'disks')[-1].split()) - before
        in_guest, = self.cloud.until(added, 'a disk in the guest')
        shown = self.cloud.ask('GET', 'compute', f'{path}/{volume}').json()['volumeAttachment']['device']
        self.cloud.ask('DELETE', 'compute', f'{path}/{volume}')
        self.cloud.until(lambda: self.cloud.ask('GET', 'volume', f'/volumes/{volume}').json()['volume']['status']
                         == 'available', 'the detachment')
        check(shown == f'/dev/{in_guest}', f'the API says {shown}, the guest has /dev/{in_guest}')
        return shown

    def tagged(self):
        """B9 bus and address of tagged devices in the metadata are those of the guest"""
        first, second = self.volume(), self.volume()
        ident = self.cloud.boot('tagged', self.own, self.small, [
            {'uuid': self.lan, 'tag': 'front'}], DEVICES, block_device_mapping_v2=[
            {'boot_index': 0, 'uuid': self.own, 'source_type': 'image', 'destination_type': 'local', 'tag': 'system'},
            {'boot_index': -1, 'uuid': first, 'source_type': 'volume', 'destination_type': 'volume', 'tag': 'data'}])
        self.cloud.wait(ident, 'ACTIVE')
        self.cloud.says(ident, 'drive')
        said = [self._told(ident, 'drive', {'front', 'system', 'data'})]
        path = f'/servers/{ident}/os-volume_attachments'
        answer = self.cloud.ask('POST', 'compute', path, {'volumeAttachment': {'volumeId': second, 'tag': 'later'}})
        check(answer.status_code == 200, f'{answer.status_code} {answer.text[:200]}')
        self.cloud.until(lambda: 'later' in self.cloud.printed(ident, 'service')[-1], 'the tag of a new volume')
        said.append(self._told(ident, 'service', {'front', 'system', 'data', 'later'}))
        return f'drive {said[0]}; service {said[1]}'

    def _told(self, ident, document, tags):
        """The text of what a metadata document of a guest says of its devices, which the guest has there."""
        devices = {device['tags'][0]: device for device in json.loads(self.cloud.printed(ident, document)[-1])}
        check(devices.keys() == tags, f'{document}: the tags are {sorted(devices)}')

        def places():
            return dict(each.split('=') for each in self.cloud.printed(ident, 'places')[-1].split() if each[0] != '=')
        for device in devices.values():
            name = device.get('mac') or device.get('serial', '')[:20] or device['path']
            found = self.cloud.until(lambda name=name: places().get(name), f'{name} in the guest')
            check((device['bus'], device['address']) == ('pci', found), f'{document}: {device}; the guest: {places()}')
        return ' '.join(f'{tag}={device["address"]}' for tag, device in sorted(devices.items()))

    def volume(self):
        made = self.cloud.make('volume', '/volumes', {'volume': {'size': 1}})['id']
        self.cloud.until(lambda: self.cloud.ask('GET', 'volume', f'/volumes/{made}').json()['volume']['status']
                         == 'available', 'the volume')
        return made

    def pages(self):
        """B9 large pages are offered where guests can have them"""
        flavor = self.cloud.flavor(128, 1, **{'hw:mem_page_size': 'large'})
        ident = self.cloud.boot('pages', self.own, flavor, [])
        found = self.cloud.settled(ident, 'ACTIVE')
        if found['status'] == 'ACTIVE':
            return 'offered'
        message = found['fault']['message']
        check(message.startswith('No valid host') and 'tried' not in message, f'the build failed: {message}')
        return 'not offered'


CHECKS = (('B1', Proof.names, False), ('B2', Proof.agent, False), ('B4', Proof.cdrom, False),
          ('B4', Proof.installed, True), ('B5', Proof.rescue_iso, False), ('B5', Proof.rescue_own, True),
          ('B6', Proof.stopped, False), ('B7', Proof.tpm, False), ('B9', Proof.routes, False),
          ('B9', Proof.dhcp_routes, True), ('B9', Proof.device, False), ('B9', Proof.tagged, False),
          ('B9', Proof.pages, False))


def one(proof, function):
    """Print the line of one check; whether it is right."""
    began = time.monotonic()
    try:
        verdict, detail = 'right', function(proof)
    except Wrong as error:
        verdict, detail = 'WRONG', str(error)
    except (subprocess.CalledProcessError, OSError, KeyError, ValueError) as error:
        verdict, detail = 'WRONG', f'{type(error).__name__}: {error}'
    print(f'{verdict}  {function.__doc__:<78} {detail} ({time.monotonic() - began:.0f} s)', flush=True)
    return verdict == 'right'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('clouds_yaml')
    parser.add_argument('--cloud', default='nova-admin')
    parser.add_argument('--own', required=True)
    parser.add_argument('--debian')
    parser.add_argument('--guest', type=pathlib.Path)
    parser.add_argument('--musl', default='/')
    parser.add_argument('--isolinux', default='/')
    parser.add_argument('--only', action='append')
    parser.add_argument('--seconds', type=int, default=1800)
    arguments = parser.parse_args()
    if arguments.debian and not arguments.guest:
        parser.error('--debian needs --guest')
    wrong, cloud = 0, Cloud(arguments.clouds_yaml, arguments.cloud, arguments.seconds)
    with tempfile.TemporaryDirectory() as directory:
        try:
            proof = Proof(cloud, arguments, pathlib.Path(directory))
            kept = len(cloud.made)
            for part, function, needs_debian in CHECKS:
                if needs_debian and not arguments.debian or arguments.only and not (
                        {part, function.__name__} & {*arguments.only}):
                    continue
                wrong += not one(proof, function)
                cloud.clear(kept)
                proof.iso = None
        finally:
            cloud.clear()
    print(f'{wrong} wrong')
    return int(bool(wrong))


if __name__ == '__main__':
    sys.exit(main())
