"""TLS encryption of live migrations by QEMU: requirement and ability of this host, and agreement of two hosts.

https://libvirt.org/kbase/secureusage.html and qemu.conf name the files.
"""
from __future__ import annotations

import os

from nova import exception

DIRECTORY = '/etc/pki/qemu'              # default of qemu.conf
DIRECTORIES = ('migrate_tls_x509_cert_dir', 'default_tls_x509_cert_dir')
# A host is the server for incoming guests and the client for outgoing ones.
FILES = ('ca-cert.pem', 'server-cert.pem', 'server-key.pem', 'client-cert.pem', 'client-key.pem')


def able(wanted: bool | None, settings: dict[str, str]) -> bool:
    """Return whether guests can migrate encrypted in both directions.

    :param wanted: [libvirt] live_migration_with_native_tls
    :param settings: the readable settings of qemu.conf
    """
    if wanted is not None:
        return wanted
    places = [settings[name].strip() for name in DIRECTORIES if settings.get(name, '').strip()]
    return all(os.path.exists(os.path.join((*places, DIRECTORY)[0], name)) for name in FILES)


def agreed(wanted: bool | None, here: bool, demanded: bool, there: bool) -> bool:
    """Return whether a migration is encrypted, which requires that both hosts support it.

    :param wanted: the option of this host
    :param here: whether this host supports encryption
    :param demanded: whether the destination requires encryption
    :param there: whether the destination supports encryption
    :raises MigrationPreCheckError: one host requires encryption and the other does not support it
    """
    if (wanted or demanded) and not (here and there):
        raise exception.MigrationPreCheckError(
            reason='[libvirt] live_migration_with_native_tls is on at one of the hosts alone, and the other has no '
                   'certificates for it, or has it off')
    return here and there
