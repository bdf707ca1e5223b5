"""doc/ext/commands.py writes a man page for every program of setup.cfg."""
import configparser
import pathlib
import sys

import pytest

TREE = pathlib.Path(__file__).resolve().parents[3]
EXTENSION = TREE / 'doc' / 'ext'

pytestmark = pytest.mark.skipif(not EXTENSION.exists(), reason='the documentation is not part of an installed nova')


@pytest.fixture(scope='module')
def commands():
    sys.path.insert(0, str(EXTENSION))
    try:
        import commands
        return commands
    finally:
        sys.path.remove(str(EXTENSION))


def programs():
    parser = configparser.ConfigParser()
    parser.read(TREE / 'setup.cfg')
    rows = parser['options.entry_points']['console_scripts'].strip().splitlines()
    return sorted(row.partition('=')[0].strip() for row in rows)


def test_every_program_has_a_man_page(commands):
    built = {name for _file, name, *_ in commands.MAN_PAGES}
    assert [name for name in programs() if name not in built] == []
    assert built == commands.pages().keys() - {'index', 'exit-codes'}


@pytest.mark.parametrize('name', programs())
def test_a_man_page_has_a_synopsis_and_a_description(commands, name):
    text = '\n'.join(commands.pages()[name])
    assert text.startswith(f'{name}\n===') and f'\n    {name}' in text.replace('sudo ', '')
    assert '\nDescription\n---' in text and '\nSee also\n---' in text


def test_help_texts_are_expanded_as_argparse_does(commands):
    text = '\n'.join(commands.pages()['nova-manage'])
    assert '%(' not in text and '%%' not in text and '(default: compute)' in text
