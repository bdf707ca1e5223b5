"""nova-manage host: approve and revoke the keys with which compute hosts sign their messages."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import utils
from nova.cmd import tables
from nova.cmd.command_line import Refused

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine

SECRET_BYTES = 24            # length of a password for the broker
STAGING_TIME_S = 600               # seconds: twice the interval in which hosts fetch the keys


def _api_db(conf: cfg.ConfigOpts) -> engine.Database:
    from nova.cloud import assembly
    return assembly.open_databases(conf)[0]


def token(conf: cfg.ConfigOpts, valid: int) -> None:
    """Print a token with which one host joins: see [messages] join_token_file."""
    from nova.db.services import message_keys
    if not 60 <= valid <= 30 * 86400:
        raise Refused('--valid must be between 60 seconds and 30 days.', 1)
    print(_api_db(conf).run(message_keys.new_token, valid))


def keys(conf: cfg.ConfigOpts) -> None:
    """List the keys of all hosts, and the deployment's."""
    import base64

    from nova.db.services import message_keys
    from nova.rpc import signatures
    db = _api_db(conf)
    db.run(message_keys.signing_key, signatures.Key)
    with db.reader() as conn:
        own, rows = message_keys.of_deployment(conn), message_keys.of_hosts(conn)
    for row in own:
        if message_keys.is_trusted(row):
            print(f'The deployment has the key {signatures.fingerprint(base64.b64decode(row["public"]))}: '
                  f'{row["state"]}.')
    tables.print_table(('Host', 'Fingerprint', 'State', 'Since'),
                       [(row['host'], row['id'], row['state'], row['created_at'].isoformat(' ', 'seconds'))
                        for row in rows])


def approve(conf: cfg.ConfigOpts, name: str, fingerprint: str) -> None:
    """Accept messages of a host that are signed with this key. Compare the fingerprint with that in the host's log.

    This also restores a host whose service was deleted or whose key was revoked. If the key may be compromised, first
    delete the file message-key.HOST on the host: it then creates a new key.
    """
    from nova.db.services import message_keys

    def write(conn: engine.Connection) -> None:
        row = message_keys.get(conn, fingerprint)
        if row is None or row['host'] != name:
            raise Refused(f'Host {name} has no key {fingerprint}.', 1)
        if row['state'] == message_keys.RETIRED:
            raise Refused(f'Key {fingerprint} is retired. Approve the key that replaced it. If the host does not have '
                          f'that key, remove its file message-key.{name}, and approve the key of its next start.', 1)
        message_keys.set_state(conn, fingerprint, message_keys.APPROVED)
        message_keys.replace_others(conn, name, fingerprint)
    _api_db(conf).run(write)
    print(f'Host {name} is approved.')


def revoke(conf: cfg.ConfigOpts, name: str) -> None:
    """Reject all messages of a host. Services apply this within 10 seconds."""
    from nova.db.services import message_keys
    if not _api_db(conf).run(message_keys.revoke, name):
        raise Refused(f'Host {name} has no key.', 1)
    print(f'Host {name} is revoked.')


def rotate(conf: cfg.ConfigOpts, name: str) -> None:
    """Request a new key of a host. The host creates it within 5 minutes, and its old key remains valid for an hour."""
    from nova.db.services import message_keys
    if not _api_db(conf).run(message_keys.renew, name):
        raise Refused(f'Host {name} has no approved key.', 1)
    print(f'Host {name} creates a new key.')


def stage_key(conf: cfg.ConfigOpts) -> None:
    """Create the next key of the deployment, unused before promote_key. Hosts fetch it within 5 minutes."""
    import base64

    from nova.db.services import message_keys
    from nova.rpc import join_tokens
    from nova.rpc import signatures

    def write(conn: engine.Connection) -> str:
        if any(row['state'] == message_keys.PENDING for row in message_keys.of_deployment(conn)):
            raise Refused('The next key is already staged. To use it, run: nova-manage host promote_key', 1)
        own, key = signatures.Key(base64.b64decode(message_keys.signing_key(conn, signatures.Key)['private'])), (
            signatures.Key())
        message_keys.stage(conn, key, own.id, own.sign(join_tokens.succession(key.public)))
        return key.id
    print(f'The next key of the deployment is {_api_db(conf).run(write)}. Promote it in 10 minutes at the earliest.')


def promote_key(conf: cfg.ConfigOpts, force: bool) -> None:
    """Make the services sign with the next key, within a minute. Messages with the old key remain valid for a day."""
    import datetime

    from nova.db.services import message_keys
    from nova.rpc import signatures

    def write(conn: engine.Connection) -> str:
        staged = next((row for row in message_keys.of_deployment(conn) if row['state'] == message_keys.PENDING), None)
        if staged is None:
            raise Refused('No next key is staged. First run: nova-manage host stage_key', 1)
        wait_s = STAGING_TIME_S - (utils.utcnow() - staged['created_at']).total_seconds()
        if wait_s > 0 and not force:
            raise Refused(f'Some hosts may still lack the next key: wait {wait_s:.0f} s, or use --force.', 1)
        message_keys.promote(conn, staged['id'], utils.utcnow() + datetime.timedelta(seconds=signatures.CAST_S))
        return staged['id']
    print(f'The deployment now uses the key {_api_db(conf).run(write)}.')


def rabbitmq(conf: cfg.ConfigOpts, name: str, virtual_host: str, certificate: bool) -> None:
    """Print commands that create a RabbitMQ user with access to a host's own queues only, and the host's options."""
    import secrets
    import shlex

    from nova.cmd.manage import tls
    from nova.rpc import broker_rights
    from nova.rpc import bus
    bus.register_options(conf)
    password = secrets.token_urlsafe(SECRET_BYTES)
    print('# on a broker\n' + shlex.join(['rabbitmqctl', 'add_user', name]) + f' <<<{shlex.quote(password)}')
    for words in (*([['clear_password', name]] if certificate else []),
                  *broker_rights.commands(name, name, conf.control_exchange, virtual_host)):
        print(shlex.join(['rabbitmqctl', *words]))
    path = '' if virtual_host == '/' else virtual_host
    driver = (conf.transport_url or 'nova-rabbit:').partition(':')[0]
    print('\n# nova.conf of the host\n[DEFAULT]')
    if not certificate:
        print(f'transport_url = {driver}://{name}:{password}@BROKER:5671/{path}')
    else:
        print(f'transport_url = {driver}://{name}@BROKER:5671/{path}')
    print('[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = /etc/nova/ca.pem')
    if certificate:
        print(f'rabbit_login_method = EXTERNAL\nssl_cert_file = /etc/nova/tls/{name}{tls.OF_CLIENT}.pem\n'
              f'ssl_key_file = /etc/nova/tls/{name}{tls.OF_CLIENT}.key')


_NAME = {'name': {'metavar': 'HOST', 'help': 'name of the host, as in service list'}}
COMMANDS = {'token': token, 'keys': keys, 'approve': approve, 'revoke': revoke, 'rotate': rotate,
            'stage_key': stage_key, 'promote_key': promote_key, 'rabbitmq': rabbitmq}
OPTIONS = {
    token: {'--valid': {'metavar': 'SECONDS', 'type': int, 'default': 3600,
                        'help': 'validity of the token in seconds (default: 3600)'}},
    approve: {**_NAME, '--fingerprint': {'metavar': 'FINGERPRINT', 'required': True, 'help': 'fingerprint of the '
                                                                                             'key'}},
    revoke: _NAME, rotate: _NAME,
    rabbitmq: {**_NAME,
               '--virtual-host': {'metavar': 'NAME', 'default': '/', 'help': 'virtual host (default: /)'},
               '--certificate': {'action': 'store_true', 'help': 'the user authenticates with a certificate of '
                                                                 'this name, without a password'}},
    promote_key: {'--force': {'action': 'store_true', 'help': 'do not wait: hosts without the new key reject '
                                                              'messages until they read it, within 5 minutes'}},
}
