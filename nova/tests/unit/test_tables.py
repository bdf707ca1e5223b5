"""What commands print on a terminal."""
import json
import pathlib
import re
import sys

import pytest

import nova.cmd
from nova.cmd import status
from nova.cmd import tables
from nova.cmd.manage import main


@pytest.mark.parametrize('text, shown', [
    ('web-1 größe 日本 é', 'web-1 größe 日本 é'), ('a\u00a0b', 'a\u00a0b'),
    ('\x1b[2J', '\\x1b[2J'), ('\x9b31m', '\\x9b31m'),
    ('a\x00b\x7f', 'a\\x00b\\x7f'), ('a\nb\tc\r', 'a\\x0ab\\x09c\\x0d'),
    ('\u202eexe', '\\u202eexe'), ('\u2066x\u2069', '\\u2066x\\u2069'), ('\u200e\u200f\u061c', '\\u200e\\u200f\\u061c'),
    ('\u200b\ufeff', '\\u200b\\ufeff'), ('\u2028\u2029', '\\u2028\\u2029'), ('\ud800', '\\ud800'),
    ('\U000e0041', '\\U000e0041')])
def test_characters_that_command_a_terminal_are_escaped(capsys, text, shown):
    assert tables.escaped(text) == shown
    tables.print_table(('Name',), [(text,), (None,)])
    assert capsys.readouterr().out == f'Name\n{shown}\n-\n'
    tables.print_framed(('Name',), [(text,)])
    assert f'| {shown} ' in capsys.readouterr().out
    assert shown.split()[0] in status.table([('Check', status.Code.SUCCESS, text)]) or '\n' in text


def test_rows_are_printed_for_programs_and_sentences_to_people(capsys):
    def command():
        print('First sentence.')
        tables.print_table(('Memory (MB)', 'In use'), [('a\tb\x1b', None), (1, True)])
    with tables.formatted('json'):
        command()
    shown = capsys.readouterr()
    assert json.loads(shown.out) == [{'memory_mb': 'a\tb\x1b', 'in_use': None}, {'memory_mb': 1, 'in_use': True}]
    assert shown.err == 'First sentence.\n' and '\x1b' not in shown.out
    with tables.formatted('value'):
        command()
    assert capsys.readouterr() == ('a\\x09b\\x1b\t\n1\ttrue\n', 'First sentence.\n')


def test_the_openapi_document_is_printed_by_lines(capsys):
    with tables.formatted('value'):
        main.COMMANDS['api']['openapi'](None, 'latest')
    assert json.loads(capsys.readouterr().out)['openapi'].startswith('3.1')


def test_an_empty_list_of_values_prints_nothing(capsys):
    with tables.formatted('value'):
        tables.print_document({'rows': []}, lambda: None, [])
    assert capsys.readouterr().out == ''


@pytest.mark.parametrize(('form', 'out'), [('table', 'Nothing.\n'), ('json', '[]\n'), ('value', '')])
def test_a_table_without_rows_is_a_sentence_for_people(capsys, form, out):
    with tables.formatted(form):
        tables.print_table(('Name',), [], 'Nothing.')
    assert capsys.readouterr() == (out, '')


def test_sentences_alone_are_the_output(capsys):
    with tables.formatted('json'):
        print('4711')
    assert json.loads(capsys.readouterr().out) == {'output': ['4711']}
    with tables.formatted('value'):
        print('4711')
    assert capsys.readouterr().out == '4711\n'


def test_the_table_of_a_command_that_fails_is_printed(capsys):
    with pytest.raises(RuntimeError), tables.formatted('json'):
        tables.print_table(('Name',), [('one',)])
        raise RuntimeError
    assert json.loads(capsys.readouterr().out) == [{'name': 'one'}]
    with pytest.raises(RuntimeError), tables.formatted('json'):
        raise RuntimeError
    assert capsys.readouterr().out == ''


def test_sentences_of_commands_are_escaped(capsys):
    with tables.escaping():
        print('one\x1b[2J', end='\r\n')
        print('two\u202e\r', file=sys.stderr)
    assert capsys.readouterr() == ('one\\x1b[2J\r\n', 'two\\u202e\\x0d\r\n'.replace('\\x0d\r\n', '\\x0d\n'))
    print('\x1b', end='')
    assert capsys.readouterr().out == '\x1b'


def test_every_command_of_an_operator_prints_through_it():
    """A new main function that prints tables is found here, and so is a table that is made by hand."""
    folder = pathlib.Path(nova.cmd.__file__).parent
    commands = [folder / 'manage/main.py', folder / 'status.py', folder / 'policy.py']
    assert all('@tables.escaping()\ndef main(' in path.read_text() for path in commands)
    for path in folder.rglob('*.py'):
        assert path.name == 'tables.py' or not re.search(r'\.[lr]just\(', path.read_text()), path
