"""nova-manage tls: the certificates that this deployment issues for its services."""
from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import tables

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.runtime import certificates


def _authority(conf: cfg.ConfigOpts, directory: str | None = None) -> certificates.Authority:
    from nova.runtime import certificates
    from nova.runtime import host_identity
    from nova.runtime import tls
    return certificates.Authority(directory or pathlib.Path(host_identity.state_path(conf)) / tls.DIRECTORY)


def status(conf: cfg.ConfigOpts, directory: str | None = None) -> int:
    """List the certificates with their hosts and expiry. Exit code 1: a certificate expires within 30 days."""
    import datetime

    from nova.runtime import certificates
    authority = _authority(conf, directory)
    rows = authority.status()
    uses = {certificates.SERVER: 'server', certificates.CLIENT: 'client'}
    tables.print_table(('Name', 'Use', 'Hosts', 'Ends (UTC)', 'SHA-256 fingerprint'), [
        (row.name, ', '.join(uses[use] for use in row.uses if use in uses) or None,
         ', '.join(row.hosts) or None, utils.isotime(row.ends_at), row.fingerprint) for row in rows],
        f'{authority.directory} has no certificates. nova-all creates them when it listens with TLS; nova-manage tls '
        'issue creates one for another server.')
    soon = utils.utcnow() + datetime.timedelta(days=certificates.RENEWAL_DAYS)
    return int(any(row.ends_at < soon for row in rows if row.hosts))


OF_CLIENT = '-client'              # suffix in the file names of a host's client certificate
# {purpose: (configuration lines of the server, configuration lines of its clients)}; {name} is the base name of the
# certificate's files. memcached and PostgreSQL read their files as separate users.
LINES: dict[str, tuple[str, ...]] = {
    'rabbitmq': ('''/etc/rabbitmq/rabbitmq.conf
listeners.tcp = none
listeners.ssl.default = 5671
ssl_options.cacertfile = /etc/rabbitmq/ca.pem
ssl_options.certfile = /etc/rabbitmq/{name}.pem
ssl_options.keyfile = /etc/rabbitmq/{name}.key
ssl_options.verify = verify_none''', '''nova.conf, with the port 5671 in transport_url
[oslo_messaging_rabbit]
ssl = true
ssl_ca_file = /etc/nova/ca.pem'''),
    'mariadb': ('''/etc/mysql/mariadb.conf.d/60-nova.cnf
[mysqld]
ssl_ca = /etc/mysql/ca.pem
ssl_cert = /etc/mysql/{name}.pem
ssl_key = /etc/mysql/{name}.key
require_secure_transport = ON''', '''nova.conf, at the end of each connection
?ssl_ca=/etc/nova/ca.pem'''),
    'postgresql': ('''postgresql.conf; in pg_hba.conf hostssl in the place of host
ssl = on
ssl_cert_file = '/etc/postgresql/{name}.pem'
ssl_key_file = '/etc/postgresql/{name}.key\'''', '''nova.conf, at the end of each connection
?sslmode=verify-full&sslrootcert=/etc/nova/ca.pem'''),
    'memcached': ('''/etc/memcached.conf
-Z
-o ssl_chain_cert=/etc/memcached/{name}.pem,ssl_key=/etc/memcached/{name}.key''', '''nova.conf
[keystone_authtoken]
memcache_tls_enabled = true
memcache_tls_cafile = /etc/nova/ca.pem'''),
    'api': ('''nova.conf of nova-api
[http]
tls = on
cert_file = /etc/nova/{name}.pem
key_file = /etc/nova/{name}.key''', '''haproxy.cfg, in the line of that server
ssl verify required ca-file /etc/nova/ca.pem verifyhost {name}'''),
    'hypervisor': ('''each compute host; server files are {name}.pem and {name}.key, client files those of {name}-client
/etc/pki/libvirt/servercert.pem, clientcert.pem and private/serverkey.pem, clientkey.pem; /etc/pki/CA/cacert.pem
/etc/pki/qemu/server-cert.pem, client-cert.pem, server-key.pem, client-key.pem (for the group of QEMU) and ca-cert.pem
/etc/libvirt/qemu.conf
default_tls_x509_cert_dir = "/etc/pki/qemu"
default_tls_x509_verify = 1
# then: systemctl stop libvirtd; systemctl enable --now libvirtd-tls.socket; systemctl start libvirtd''',
                   '''nova.conf of nova-compute, optional: QEMU encrypts if both
# hosts have these files; with this option it refuses other hosts
[libvirt]
live_migration_with_native_tls = true'''),
    'volumes': ('''the host of the embedded volumes, for the user of the daemon; ca.pem is ca-cert.pem there
/etc/nova/volumes-tls/ca-cert.pem, server-cert.pem and server-key.pem of {name}.pem and {name}.key
nova.conf of nova-volume, or of nova-all
[volume]
export_tls_dir = /etc/nova/volumes-tls''', '''each compute host: a certificate with its name, see --use hypervisor
/etc/libvirt/qemu.conf
default_tls_x509_cert_dir = "/etc/pki/qemu"'''),
    'client': ('''a client that a server knows by its certificate, such as a host at a broker or a console proxy at QEMU
nova.conf
[oslo_messaging_rabbit]
ssl_cert_file = /etc/nova/tls/{name}-client.pem
ssl_key_file = /etc/nova/tls/{name}-client.key
[console]
hypervisor_cert_file = /etc/nova/tls/{name}-client.pem
hypervisor_key_file = /etc/nova/tls/{name}-client.key''', '''configure ca.pem, and the verification of client
# certificates'''),
    'metadata': ('''nova.conf of nova-api-metadata
[metadata]
cert_file = /etc/nova/{name}.pem
key_file = /etc/nova/{name}.key''', '''metadata_agent.ini of the proxy
[DEFAULT]
nova_metadata_protocol = https
auth_ca_cert = /etc/nova/ca.pem
# nova.conf of a host whose nova-network is an agent; its metadata_host is in the certificate
[network]
metadata_ca_file = /etc/nova/ca.pem'''),
}


# Files of libvirt and QEMU on a compute host, below PKI: (path, part of the certificate, mode). QEMU runs as a separate
# user; its group may read the keys.
PKI = 'etc/pki'
HYPERVISOR = (
    ('CA/cacert.pem', 'ca', 0o644), ('qemu/ca-cert.pem', 'ca', 0o644),
    ('libvirt/servercert.pem', 'certificate', 0o644), ('libvirt/clientcert.pem', 'client certificate', 0o644),
    ('qemu/server-cert.pem', 'certificate', 0o644), ('qemu/client-cert.pem', 'client certificate', 0o644),
    ('libvirt/private/serverkey.pem', 'key', 0o600), ('libvirt/private/clientkey.pem', 'client key', 0o600),
    ('qemu/server-key.pem', 'key', 0o640), ('qemu/client-key.pem', 'client key', 0o640),
)
DIRECTORIES = {'': 0o755, 'CA': 0o755, 'libvirt': 0o755, 'libvirt/private': 0o750, 'qemu': 0o755}
QEMU_GROUP = 'libvirt-qemu'


def _pack(path: str, parts: dict[str, pathlib.Path]) -> None:
    """Write an archive that root unpacks at / of a compute host.

    :param parts: {part of the certificate: path}
    """
    import os
    import tarfile
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), 'wb') as file, tarfile.open(
            fileobj=file, mode='w') as archive:
        for name, mode in DIRECTORIES.items():
            made = tarfile.TarInfo(f'{PKI}/{name}'.rstrip('/'))
            made.type, made.mode, made.uname, made.gname = tarfile.DIRTYPE, mode, 'root', 'root'
            archive.addfile(made)
        for name, part, mode in HYPERVISOR:
            made = tarfile.TarInfo(f'{PKI}/{name}')
            made.mode, made.uname, made.size = mode, 'root', os.path.getsize(parts[part])
            made.gname = QEMU_GROUP if name.startswith('qemu/') else 'root'
            with open(parts[part], 'rb') as contents:
                archive.addfile(made, contents)


def issue(conf: cfg.ConfigOpts, name: str, host: list[str], use: str | None = None, directory: str | None = None,
          archive: str | None = None) -> None:
    """Issue or renew a server certificate: NAME.pem and NAME.key, with ca.pem for its clients.

    Servers are brokers, databases, proxies, nova-api and hypervisors. --use client issues NAME-client.pem and
    NAME-client.key for a client with that name. --use hypervisor issues both.
    """
    from nova.runtime import certificates
    if archive and use != 'hypervisor':
        raise exception.InvalidInput('--archive needs --use hypervisor: other servers store their files elsewhere.')
    authority = _authority(conf, directory)
    wanted = {} if use == 'client' else {name: certificates.SERVER}
    if use in ('client', 'hypervisor'):
        wanted[name + OF_CLIENT] = certificates.CLIENT
    for row in authority.status():
        if row.name in wanted and row.name != authority.trusted.stem and wanted[row.name] not in row.uses:
            raise exception.InvalidInput(
                f'Cannot issue {row.name}: {authority.directory}/{row.name}.pem is a certificate for the other use, '
                'server or client. Choose another name, or remove that file.')
    pairs = [authority.renew(file, host, use_of, name) for file, use_of in wanted.items()]
    pair, client = pairs[0], pairs[-1]
    if archive:
        _pack(archive, {'ca': authority.trusted, 'certificate': pair.certificate, 'key': pair.key,
                        'client certificate': client.certificate, 'client key': client.key})
        print(f'{archive} has the files of host {name}, its private key among them. As root on that host:\n'
              f'  tar -C / -xpf {archive}\n'
              '  systemctl stop libvirtd; systemctl enable --now libvirtd-tls.socket; systemctl start libvirtd\n'
              'Guests keep running. Remove the archive afterwards.')
        return
    print(f'Certificate  {pair.certificate}\nPrivate key  {pair.key}\nAuthority    {authority.trusted}\n'
          f'Copy the first two to the server, the third one to its clients; none of them needs {authority.directory}/'
          'ca.key.')
    for who, lines in zip(('client', 'server') if use == 'client' else ('server', 'clients'), LINES.get(use or '', ())):
        print(f'\n# {who}: {lines.format(name=name)}')


def renew(conf: cfg.ConfigOpts, authority: bool = False, directory: str | None = None) -> None:
    """Renew all certificates, with new keys. Running daemons load them on SIGHUP."""
    from nova.runtime import certificates
    there = _authority(conf, directory)
    if authority:
        there.renew_authority()
        print(f'A new CA issues certificates from now on. Distribute {there.trusted} to the clients; it contains the '
              'old CA until that expires.')
    for row in there.status():
        if row.hosts and row.uses == (certificates.CLIENT,):
            print(there.renew(row.name, row.hosts, certificates.CLIENT, row.subject).certificate)
        elif row.hosts:
            print(there.renew(row.name, row.hosts).certificate)


_DIRECTORY = {'--directory': {'metavar': 'DIRECTORY', 'help': 'directory of the certificates (default: tls below '
                                                              'the state directory)'}}

COMMANDS = {'status': status, 'issue': issue, 'renew': renew}
OPTIONS = {
    status: _DIRECTORY,
    issue: {'name': {'metavar': 'NAME', 'help': 'base name of the files'},
            '--host': {'action': 'append', 'required': True, 'metavar': 'HOST',
                       'help': 'name or address under which clients reach the server; may be repeated'},
            '--use': {'choices': tuple(LINES), 'help': 'kind of server: prints the configuration lines for it and '
                                                       'its clients'},
            '--archive': {'metavar': 'FILE', 'help': 'with --use hypervisor: write a tar archive of the files with '
                                                     'the paths that libvirt and QEMU expect'}, **_DIRECTORY},
    renew: {'--authority': {'action': 'store_true', 'help': 'create a new CA first'}, **_DIRECTORY},
}
EXIT_CODES = {status: {1: 'a certificate expires within 30 days'}}
