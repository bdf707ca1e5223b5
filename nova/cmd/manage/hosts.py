"""nova-manage host: which compute hosts belong to the deployment, by the keys that they sign their messages with."""
from nova.cmd import tables
from nova.cmd.command_line import Refused


def _api_db(conf):
    from nova.cloud import assembly
    return assembly.open_databases(conf)[0]


def token(conf, valid):
    """Print a token with which one host joins: see [messages] join_token_file."""
    from nova.db.services import message_keys
    if not 60 <= valid <= 30 * 86400:
        raise Refused('--valid is between 60 seconds and 30 days.', 1)
    print(_api_db(conf).run(message_keys.new_token, valid))


def keys(conf):
    """List the keys of all hosts, and the deployment's."""
    import base64

    from nova.db.services import message_keys
    from nova.rpc import signatures
    db = _api_db(conf)
    own = db.run(message_keys.deployment, signatures.Key)
    with db.reader() as conn:
        rows = message_keys.of_hosts(conn)
    print(f'The deployment has the key {signatures.fingerprint(base64.b64decode(own["public"]))}.')
    tables.print_table(('Host', 'Fingerprint', 'State', 'Since'),
                       [(row['host'], row['id'], row['state'], row['created_at'].isoformat(' ', 'seconds'))
                        for row in rows])


def approve(conf, name, fingerprint):
    """Take messages of a host that are signed with this key. Compare it with what the log of the host says."""
    from nova.db.services import message_keys

    def write(conn):
        row = message_keys.get(conn, fingerprint)
        if row is None or row['host'] != name:
            raise Refused(f'Host {name} has no key {fingerprint}.', 1)
        if row['state'] in (message_keys.REVOKED, message_keys.RETIRED):
            raise Refused(f'Key {fingerprint} is {row["state"]}: the host needs a new one.', 1)
        message_keys.set_state(conn, fingerprint, message_keys.APPROVED)
        message_keys.replace_others(conn, name, fingerprint)
    _api_db(conf).run(write)
    print(f'Host {name} is approved.')


def revoke(conf, name):
    """Take no message of a host any more: services notice within 10 seconds."""
    from nova.db.services import message_keys
    if not _api_db(conf).run(message_keys.revoke, name):
        raise Refused(f'Host {name} has no key.', 1)
    print(f'Host {name} is revoked.')


def rotate(conf, name):
    """Let a host make a new key; it does at its next look, within 5 minutes. The one before is good for an hour."""
    from nova.db.services import message_keys
    if not _api_db(conf).run(message_keys.renew, name):
        raise Refused(f'Host {name} has no key that is approved.', 1)
    print(f'Host {name} makes a new key.')


_NAME = {'name': {'metavar': 'HOST', 'help': 'its name, as in the service list'}}
COMMANDS = {'token': token, 'keys': keys, 'approve': approve, 'revoke': revoke, 'rotate': rotate}
OPTIONS = {
    token: {'--valid': {'metavar': 'SECONDS', 'type': int, 'default': 3600,
                        'help': 'how long it can be used; 3600 unless given'}},
    approve: {**_NAME, '--fingerprint': {'metavar': 'FINGERPRINT', 'required': True, 'help': 'of the key'}},
    revoke: _NAME, rotate: _NAME,
}
