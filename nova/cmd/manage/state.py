"""nova-manage state: backup and restore of the control plane."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.cmd.command_line import flag

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cloud import state_backup


def backup(conf: cfg.ConfigOpts, file: str, images: bool, encrypt: bool, passphrase_file: str | None) -> None:
    """Back up the control plane of a running cloud, consistently, to a file (mode 0600).

    It contains databases, keys, certificates, policy and configuration, but no disks of servers and volumes.
    """
    from nova.cloud import assembly
    from nova.cloud import state_backup
    from nova.runtime import passphrases
    passphrase = passphrases.configured(passphrase_file)
    if passphrase is None and encrypt:
        passphrase = passphrases.prompt(twice=True)
    api_db, cells = assembly.checked_databases(conf)
    made = state_backup.create(conf, api_db, cells, file, passphrase, images)
    print(f'{file} has {made.row_count} rows{f", {made.image_count} images" if images else ""} and {made.size} bytes.')
    for data_id in made.lost_images:
        print(f'The backup does not contain the image data {data_id}: it was deleted, or its upload was not complete.')
    if passphrase is None:
        print('The backup is not encrypted and gives access to everything in this cloud, including encrypted disks. '
              'Store it where only you can read it.')


def _refuse_plain(file: str, passphrase_file: str | None) -> None:
    """Refuse an unencrypted file if a passphrase is configured: only encryption proves the origin of a backup."""
    from nova.runtime import backup_file
    from nova.runtime import passphrases
    try:
        plain = passphrases.configured(passphrase_file) is not None and not backup_file.is_encrypted(file)
    except OSError as error:
        raise exception.InvalidInput(f'{file} cannot be read: {error.strerror}.') from None
    if plain:
        raise exception.InvalidInput(f'{file} is not encrypted although a passphrase was given, so it may be forged.')


def check(conf: cfg.ConfigOpts, file: str, passphrase_file: str | None) -> None:
    """Check a whole backup and print a summary of its content, without changes."""
    from nova.cloud import state_backup
    _refuse_plain(file, passphrase_file)
    try:
        with open(file, 'rb') as opened:
            _describe(state_backup.examine(conf, opened, lambda: _passphrase(passphrase_file)))
    except OSError as error:
        raise exception.InvalidInput(f'{file} cannot be read: {error.strerror}.') from None


def restore(conf: cfg.ConfigOpts, file: str, passphrase_file: str | None, replace_existing_state: bool) -> None:
    """Restore the control plane from a backup on this machine, while no service runs.

    The whole file is checked before the first change. Existing state is replaced only with --replace-existing-state.
    """
    import functools

    from nova.cloud import state_backup
    _refuse_plain(file, passphrase_file)
    done = state_backup.restore(conf, file, functools.cache(lambda: _passphrase(passphrase_file)),
                                replace_existing_state)
    _describe(done.content)
    if done.replaced:
        print('The previous data was moved to: ' + ', '.join(map(str, done.replaced)))
    if done.configuration is not None:
        print(f'The configuration files of the backup are in {done.configuration}. Compare them with yours; their '
              'original paths were:')
        for member, origin in sorted(done.content.manifest['configuration'].items()):
            print(f'  {member.partition("/")[2]}  {origin}')
    if done.images_without_data:
        print(f'{len(done.images_without_data)} images have no data, '
              'because it is not in the backup. Upload it again: ' + ', '.join(done.images_without_data[:20]))
    print('Start the services. Servers whose guests do not run become SHUTOFF, or ERROR if a disk is missing.')


def _passphrase(path: str | None) -> str:
    from nova.runtime import passphrases
    return passphrases.configured(path) or passphrases.prompt(twice=False)


def _describe(content: state_backup.Content) -> None:
    manifest = content.manifest
    cells = [database['cell'] for database in manifest['databases'] if database['cell']]
    print(f'The backup of {manifest["created_at"]} (release {manifest["release"]}, host {manifest["host"]}) has '
          f'{content.row_count} rows, the cells {", ".join(map(str, cells))}, {len(content.files)} files of keys and '
          f'certificates, and the data of {len(content.images)} images.')


_FILE = {'metavar': 'FILE', 'help': 'backup file'}
_PASSPHRASE = {'metavar': 'FILE', 'help': 'file whose first line is the passphrase (default: NOVA_BACKUP_PASSPHRASE '
                                          'in the environment, or a prompt)'}
CHANGE_FILES = (backup, restore)
COMMANDS = {'backup': backup, 'check': check, 'restore': restore}
OPTIONS: dict[Any, Any] = {
    backup: {'file': {'metavar': 'FILE', 'help': 'file to write; an existing file is replaced when the backup is '
                                                 'complete'},
             '--images': flag('include the data of images in the embedded image store'),
             '--encrypt': flag('encrypt with a passphrase; implied if the environment or a file provides one'),
             '--passphrase-file': _PASSPHRASE},
    check: {'file': _FILE, '--passphrase-file': _PASSPHRASE},
    restore: {'file': _FILE, '--passphrase-file': _PASSPHRASE,
              '--replace-existing-state': flag('replace existing databases, keys and certificates; changes since '
                                               'the backup are lost')},
}
