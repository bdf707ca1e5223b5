"""Passphrases of backups: from a file, an environment variable or a prompt, never from a command line."""
import getpass
import os
import sys

from nova import exception

VARIABLE = 'NOVA_BACKUP_PASSPHRASE'
MIN_LENGTH, MAX_LENGTH = 12, 1024    # characters; the minimum is high, because a stolen backup can be attacked offline


def read_file(path: str) -> str:
    """Return the first line of a file.

    :raises InvalidInput: it cannot be read, others may read it, or it contains no passphrase
    """
    try:
        with open(path, encoding='utf-8') as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise exception.InvalidInput(f'Users other than its owner have access to {path}: chmod 600 {path}')
            return _checked(file.readline(MAX_LENGTH + 2).rstrip('\r\n'), path)
    except OSError as error:
        raise exception.InvalidInput(f'{path} cannot be read: {error.strerror}.') from None
    except UnicodeDecodeError:
        raise exception.InvalidInput(f'{path} does not contain UTF-8 text.') from None


def configured(path: str | None) -> str | None:
    """Return the passphrase in the file or, without ``path``, in the environment variable; None: not set."""
    if path is not None:
        return read_file(path)
    text = os.environ.get(VARIABLE)
    return None if text is None else _checked(text, VARIABLE)


def prompt(twice: bool) -> str:
    """Prompt the user for a passphrase.

    :raises InvalidInput: there is no terminal, or it is not a valid passphrase
    """
    if not sys.stdin.isatty():
        raise exception.InvalidInput(f'A passphrase is needed: use --passphrase-file, or set {VARIABLE}.')
    text = _checked(getpass.getpass('Passphrase: '), 'The passphrase')
    if twice and getpass.getpass('Again: ') != text:
        raise exception.InvalidInput('The passphrases are not the same.')
    return text


def _checked(text: str, what: str) -> str:
    if not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        raise exception.InvalidInput(
            f'{what} has {len(text)} characters: a passphrase has {MIN_LENGTH} to {MAX_LENGTH}.')
    return text
