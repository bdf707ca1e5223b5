"""Whether QEMU encrypts what a live migration sends: what this host demands and can, and what two hosts agree on.

https://libvirt.org/kbase/secureusage.html and qemu.conf name the files.
"""
from __future__ import annotations

import os

from nova import exception

DIRECTORY = '/etc/pki/qemu'              # unless qemu.conf names another one
DIRECTORIES = ('migrate_tls_x509_cert_dir', 'default_tls_x509_cert_dir')
# A host is server of the guests that come and client for those that leave.
FILES = ('ca-cert.pem', 'server-cert.pem', 'server-key.pem', 'client-cert.pem', 'client-key.pem')


def able(wanted: bool | None, settings: dict[str, str]) -> bool:
    """Whether guests can leave and come encrypted.

    :param wanted: [libvirt] live_migration_with_native_tls
    :param settings: of qemu.conf, as far as they are for our eyes
    """
    if wanted is not None:
        return wanted
    places = [settings[name].strip() for name in DIRECTORIES if settings.get(name, '').strip()]
    return all(os.path.exists(os.path.join((*places, DIRECTORY)[0], name)) for name in FILES)


def agreed(wanted: bool | None, here: bool, demanded: bool, there: bool) -> bool:
    """Whether a migration is encrypted: where both hosts can.

    :param wanted: the option here; ``demanded``: whether the destination insists
    :param here: whether this host can; ``there``: the destination
    :raises MigrationPreCheckError: one of them insists, and the other cannot
    """
    if (wanted or demanded) and not (here and there):
        raise exception.MigrationPreCheckError(
            reason='[libvirt] live_migration_with_native_tls is on at one of the hosts alone, and the other has no '
                   'certificates for it, or has it off')
    return here and there
