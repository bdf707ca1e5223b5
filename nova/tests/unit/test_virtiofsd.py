"""nova-virtiofsd, as far as it goes without root: which directory it serves, and what it mounts there."""
import dataclasses
import json
import uuid
from xml.etree import ElementTree as etree

import pytest

from nova.tests.unit import test_libvirt_xml as guests
from nova.virt import share_exports
from nova.virt import virtiofsd
from nova.virt.libvirt import xml

SHARE = str(uuid.uuid4())


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / f'share-{SHARE}'
    made.mkdir()
    return made


def test_the_command_mounts_what_the_file_says(directory):
    (directory.parent / (directory.name + '.json')).write_text(json.dumps(
        {'protocol': 'NFS', 'export_location': '[2001:db8::1]:/a b'}))
    found = virtiofsd.source(['--fd=31', '-o', f'source={directory},cache=auto'])
    assert found == str(directory)
    assert share_exports.mount(*virtiofsd.described(found), found) == [
        'mount', '-t', 'nfs', '-o', share_exports.OPTIONS, '--', '[2001:db8::1]:/a b', found]


@pytest.mark.parametrize('arguments', [[], ['-o', 'source=relative'], ['-o', 'source=/etc'], ['-o', 'cache=auto']])
def test_only_directories_of_shares_are_served(arguments, capsys):
    with pytest.raises(ValueError):
        virtiofsd.source(arguments)
    assert virtiofsd.main(arguments) == 1 and 'share' in capsys.readouterr().err


def test_a_link_is_no_directory_of_a_share(directory):
    link = directory.parent / f'share-{uuid.uuid4()}'
    link.symlink_to(directory)
    with pytest.raises(ValueError):
        virtiofsd.source(['-o', f'source={link}'])
    (directory.parent / (directory.name + '.json')).symlink_to('/etc/hostname')
    with pytest.raises(OSError):
        virtiofsd.described(str(directory))


@pytest.mark.parametrize('protocol, location', [
    ('CIFS', '//host/x'), ('NFS', 'host'), ('NFS', '-o:/x'), ('NFS', 'host:x'), ('NFS', 'host:/a\nb'), ('NFS', None),
    ('NFS', 'host:/' + 'x' * share_exports.MOST_LOCATION), (None, 'host:/x')])
def test_what_is_no_export_is_refused(protocol, location):
    with pytest.raises(ValueError):
        share_exports.mount(protocol, location, '/mnt')


def test_the_program_is_the_one_of_the_host(tmp_path):
    with pytest.raises(ValueError, match='no virtiofsd'):
        virtiofsd.server(str(tmp_path / '*.json'))
    (tmp_path / 'a.json').write_text(json.dumps({'type': 'gpu', 'binary': '/bin/true'}))
    (tmp_path / 'b.json').write_text(json.dumps({'type': 'fs', 'binary': '/bin/sh'}))
    assert virtiofsd.server(str(tmp_path / '*.json')) == '/bin/sh'


def test_the_domain_has_the_share_and_memory_that_virtiofsd_reads():
    guest = guests.guest(shares=[{'share_id': SHARE, 'tag': 'a<b', 'directory': '/d', 'program': '/p'}])
    root = etree.fromstring(xml.domain(guest))
    found = root.find('./devices/filesystem')
    assert (found.find('driver').get('type'), found.find('binary').get('path')) == ('virtiofs', '/p')
    assert (found.find('source').get('dir'), found.find('target').get('dir')) == ('/d', 'a<b')
    assert root.find('./memoryBacking/source').get('type') == 'memfd'
    assert root.find('./memoryBacking/access').get('mode') == 'shared'
    assert xml.Guest.from_dict(dataclasses.asdict(guest)).shares == guest.shares
