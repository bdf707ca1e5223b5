"""What tests share with nova/tests/integration/test_libvirt_encryption.py."""
import os
import pathlib
import secrets

import pytest

from nova.tests.support import libvirt as base

libvirt = base.libvirt
state_path, module_rig, rig = base.state_path, base.module_rig, base.rig
LUKS = b'LUKS\xba\xbe'
MARK = 'written-in-plain-text'
FLAVOR = {'name': 'sealed', 'swap': 16, 'extra_specs': {'hw:ephemeral_encryption': 'true'}}


@pytest.fixture
def keys(rig):
    """{uuid: passphrase}; each guest gets one when it asks."""
    made = {}
    rig.driver.use_keys(lambda uuid: made.setdefault(uuid, secrets.token_hex(32)))
    return made


@pytest.fixture
def instance(rig, keys):
    made = base.make_instance(flavor=FLAVOR, image_properties={})
    yield made
    rig.driver.destroy(None, made, [])
    assert not rig.leftovers(made.uuid)


def libvirt_secrets():
    connection = libvirt.open(base.URI)
    try:
        return {secret.UUIDString(): secret for secret in connection.listAllSecrets()}
    finally:
        connection.close()


def everything_said(rig, instance):
    """What a host's users may see of a guest: its definition, the command line of its QEMU, and its records."""
    connection = libvirt.open(base.URI)
    text = connection.lookupByUUIDString(instance.uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)
    connection.close()
    lines = [path.read_bytes() for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')
             if os.access(path, os.R_OK) and instance.uuid.encode() in _read(path)]
    assert lines
    record = pathlib.Path(rig.driver.storage.path(instance.uuid, 'guest.json')).read_bytes()
    return b'\n'.join([text.encode(), record, *lines])


def _read(path):
    try:
        return path.read_bytes()
    except OSError:                      # it has ended
        return b''
