#!/usr/bin/env python3
"""Measures what an event of libvirt and the start of a guest cost on a host that has many guests defined.

usage: tools/bench/full_host.py [--guests 500] [--running 20] [--json]

Guests are domains of libvirt's own driver for tests, which is in this process: a libvirtd adds the way to it to each
call. So the calls are counted, too. Prints the median of an event and of the choice of a place for a guest that starts,
in milliseconds, libvirt's calls and the records that are read for each. Run it with the Python in which nova is
installed.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys
import tempfile
import time
import types
import uuid

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))        # a nova of PYTHONPATH comes first

DOMAIN = '''<domain type='test'><name>{name}</name><uuid>{name}</uuid><memory>1024</memory><os><type>hvm</type></os>
<metadata><o:owner xmlns:o='urn:nova:libvirt:owner:1' directory='{owner}'/></metadata></domain>'''
CALLS = {'virConnect': ('listAllDomains', 'lookupByUUIDString'),
         'virDomain': ('metadata', 'state', 'OSType', 'hasManagedSaveImage', 'UUIDString')}


class Counter:
    """How often functions of modules and classes are called."""

    def __init__(self):
        self.counts = collections.Counter()

    def watch(self, owner, name, counted):
        usual = getattr(owner, name)

        def call(*args, **kwargs):
            self.counts[counted] += 1
            return usual(*args, **kwargs)
        setattr(owner, name, call)

    def taken(self):
        found = dict(self.counts)
        self.counts.clear()
        return found


def made(directory, count, running):
    """(Guests with the records and definitions of guests, uuids of those that run)"""
    import libvirt

    from nova import conf as nova_conf
    from nova.virt.libvirt import guests
    from nova.virt.libvirt import host
    from nova.virt.libvirt import platform
    from nova.virt.libvirt.local_disks import storage
    from nova.virt.libvirt import xml

    host._open = lambda uri, mailbox: libvirt.open(uri)          # the driver for tests keeps nothing alive
    conf = nova_conf.new(files=[])
    stored = storage.Storage(directory, None, None, host='host1')
    hypervisor = host.Host('test:///default', directory, lambda ident: None)
    found = guests.Guests(conf, 'host1', stored, hypervisor, None, platform.Platform(conf), None, None, None)
    idents = []
    for number in range(count):
        ident = str(uuid.uuid4())
        path = pathlib.Path(directory, ident)
        path.mkdir()
        found.storage.save(xml.Guest(
            uuid=ident, name=f'instance-{number}', owner=directory, virt_type='qemu', vcpus=1, memory_mb=512,
            console_log=f'{path}/console.log',
            interfaces=[xml.Interface(f'52:54:00:00:{number // 256:02x}:{number % 256:02x}', 'br', f'tap{number}')],
            disks=[xml.Disk(f'{path}/disk', 'qcow2', 'vda', backing_file=f'{directory}/_base/image.qcow2')]))
        idents.append(ident)

    def define(connection):
        for number, ident in enumerate(idents):
            domain = connection.defineXML(DOMAIN.format(name=ident, owner=directory))
            if number < running:
                domain.create()
    found.hypervisor.run('define the guests', define)
    return found, idents[:running]


def measure(count, running):
    import libvirt

    from nova.compute import power_states
    from nova.virt.libvirt.local_disks import records

    counter = Counter()
    for kind, names in CALLS.items():
        for name in names:
            counter.watch(getattr(libvirt, kind), name, 'calls')
    counter.watch(records, 'read', 'records')
    with tempfile.TemporaryDirectory() as directory:
        found, idents = made(directory, count, running)
        driver = types.SimpleNamespace(guests=found.hypervisor.guests, guest_state=found.hypervisor.guest_state)
        compute = types.SimpleNamespace(driver=driver, power_states={}, name='host1', conductor=types.SimpleNamespace(
            report_power_states=lambda ctx, host, states: None))
        states = power_states.PowerStates(compute, None, None)
        rows = {'event': lambda ident: states._report_changed(ident),
                'start': lambda ident: found.domain_xml(found.storage.load(ident))}
        measured = {}
        for name, function in rows.items():
            counter.taken()
            taken = []
            for ident in idents:
                began = time.perf_counter()
                function(ident)
                taken.append(1000 * (time.perf_counter() - began))
            counts = counter.taken()
            measured[name] = {'ms': round(statistics.median(taken), 2),
                           'calls': round(counts.get('calls', 0) / running, 1),
                           'records': round(counts.get('records', 0) / running, 1)}
        return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--guests', type=int, default=500)
    parser.add_argument('--running', type=int, default=20)
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    found = measure(given.guests, given.running)
    if given.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        print(f'{name}  {row["ms"]} ms, {row["calls"]} calls of libvirt, {row["records"]} records read')


if __name__ == '__main__':
    main()
