"""nova-manage tls: the certificates that this deployment makes for itself."""
import pathlib

from nova.cmd import tables


def _authority(conf, directory=None):
    from nova.db.cells import cells
    from nova.runtime import certificates
    from nova.runtime import tls
    return certificates.Authority(directory or pathlib.Path(cells.state_path(conf)) / tls.DIRECTORY)


def status(conf, directory=None):
    """List the certificates, for whom they are, and when they end: 1 when one ends within 30 days."""
    import datetime

    from nova import utils
    from nova.runtime import certificates
    authority = _authority(conf, directory)
    rows = authority.status()
    if not rows:
        print(f'{authority.directory} has no certificates. nova-all makes them when it listens with TLS; '
              'nova-manage tls issue makes one for another server.')
        return 0
    tables.print_table(('Name', 'Hosts', 'Ends (UTC)', 'SHA-256 fingerprint'), [
        (row.name, ', '.join(row.hosts) or None, utils.isotime(row.ends_at), row.fingerprint) for row in rows])
    soon = utils.utcnow() + datetime.timedelta(days=certificates.LEFT_DAYS)
    return int(any(row.ends_at < soon for row in rows if row.hosts))


def issue(conf, name, host, directory=None):
    """Make the certificate of a server, or renew it: NAME.pem and NAME.key, and ca.pem for its clients. For brokers,
    databases, proxies, nova-api and hypervisors of a fleet.
    """
    authority = _authority(conf, directory)
    pair = authority.renew(name, host)
    print(f'Certificate  {pair.certificate}\nPrivate key  {pair.key}\nAuthority    {authority.trusted}\n'
          f'Copy the first two to the server, the third one to its clients; none of them needs {authority.directory}/'
          'ca.key.')


def renew(conf, authority=False, directory=None):
    """Renew the certificates that are there, with new keys. SIGHUP lets running daemons use them."""
    there = _authority(conf, directory)
    if authority:
        there.renew_authority()
        print(f'A new authority signs from now on. Give {there.trusted} to the clients; the authority before stays in '
              'it until it ends.')
    for row in there.status():
        if row.hosts:
            print(there.renew(row.name, row.hosts).certificate)


_DIRECTORY = {'--directory': {'metavar': 'DIRECTORY', 'help': 'of the certificates; tls below the state directory '
                                                              'unless given'}}

COMMANDS = {'status': status, 'issue': issue, 'renew': renew}
OPTIONS = {
    status: _DIRECTORY,
    issue: {'name': {'metavar': 'NAME', 'help': 'of the files'},
            '--host': {'action': 'append', 'required': True, 'metavar': 'HOST',
                       'help': 'name or address by which clients reach the server; may be repeated'}, **_DIRECTORY},
    renew: {'--authority': {'action': 'store_true', 'help': 'make a new authority first'}, **_DIRECTORY},
}
EXIT_CODES = {status: {1: 'a certificate ends within 30 days'}}
