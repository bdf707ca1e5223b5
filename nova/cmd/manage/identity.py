"""nova-manage identity: the token keys of the embedded identity service."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.identity.tokens import KeyRing



def key_ring(conf: cfg.ConfigOpts) -> KeyRing:
    """Return the token keys.

    :raises InvalidInput: Keystone has them, or no cloud has started here
    """
    import os

    from nova.identity import tokens
    from nova.runtime import host_identity
    if conf.identity.backend != 'embedded':
        raise exception.InvalidInput('This deployment uses tokens of Keystone. Rotate the keys of Keystone.')
    directory = os.path.join(host_identity.state_path(conf), 'keys')
    if not os.path.exists(os.path.join(directory, tokens.KEY_FILE)):
        raise exception.InvalidInput(f'There are no token keys in {directory}. The first start creates them.')
    return tokens.KeyRing(directory)


def _lifetime(conf: cfg.ConfigOpts) -> int:
    return conf.identity.token_expiration + conf.identity.allow_expired_window


def rotate_keys(conf: cfg.ConfigOpts) -> None:
    """Encrypt new tokens with a new key. Use it only if no other host has the keys. Existing tokens stay valid."""
    ring = key_ring(conf)
    ring.stage()
    ring.promote()
    print(f'A new key encrypts tokens. The processes of this host read it from {ring.path} automatically.\nTokens of '
          f'older keys expire within {_lifetime(conf)} s. Then run: nova-manage identity retire_keys')


def stage_key(conf: cfg.ConfigOpts) -> None:
    """Create the next key, which is not used for new tokens yet. This is the first step with several hosts."""
    path = key_ring(conf).stage()
    print(f'The next key is in {path}.\nCopy that file to the same path on each other host that has the keys, with '
          'the same owner and mode 0600. The processes read it automatically.\nThen run on this host: nova-manage '
          'identity promote_key')


def promote_key(conf: cfg.ConfigOpts) -> None:
    """Encrypt new tokens with the staged key. This is the second step, after every host has the key."""
    ring = key_ring(conf)
    ring.promote()
    print(f'The staged key now encrypts tokens.\nCopy {ring.path} to each other host, and remove {ring.path}.staged '
          f'there.\nTokens of older keys expire within {_lifetime(conf)} s. Then run on each host: nova-manage '
          'identity retire_keys')


def retire_keys(conf: cfg.ConfigOpts, force: bool = False) -> None:
    """Remove the keys that are older than the present key, if the tokens that they encrypted have expired.

    TOTP secrets in the database are first encrypted with the present key.
    """
    import functools

    from nova.cloud import assembly
    from nova.identity.embedded import credentials
    ring = key_ring(conf)
    api_db, _cell_db = assembly.open_databases(conf)
    gone = ring.retire(0 if force else _lifetime(conf), functools.partial(credentials.reseal, api_db))
    print(f'{gone} older keys were removed.')


def recover(conf: cfg.ConfigOpts, name: str) -> None:
    """Restore access of a user who has lost the password or the TOTP device, and print a new password.

    The user's tokens become invalid.
    """
    from nova.cloud import assembly
    from nova.identity.embedded import bootstrap
    key_ring(conf)                                  # check that the token keys of this deployment are on this host
    api_db, _cells = assembly.checked_databases(conf)
    print(bootstrap.recover(assembly.identity(conf, api_db, ''), name))


CHANGE_FILES = (rotate_keys, stage_key, promote_key, retire_keys)
COMMANDS = {'recover': recover, 'rotate_keys': rotate_keys,
            'stage_key': stage_key, 'promote_key': promote_key, 'retire_keys': retire_keys}
OPTIONS = {recover: {'name': {'metavar': 'USER', 'help': 'name of the user in the default domain; the roles do not '
                                                         'change'}},
           retire_keys: {'--force': {'action': 'store_true', 'help': 'retire the keys immediately, for example '
                                                                     'after a theft; their tokens become invalid'}}}
