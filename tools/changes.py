#!/usr/bin/env python3
"""Changelog fragments: check the files of doc/changes, and move them into CHANGELOG.rst at a release.

    tools/changes.py check
    tools/changes.py release 1.1.0 2027-03-01

doc/changes/README.rst has the form of a fragment.
"""
import argparse
import datetime
import pathlib
import re
import sys
import textwrap

TREE = pathlib.Path(__file__).resolve().parents[1]
KINDS = {'upgrade': 'Before you upgrade', 'security': 'Security', 'feature': 'New', 'change': 'Changed', 'fix': 'Fixed'}
NAME = re.compile(r'(?P<topic>[a-z0-9]+(-[a-z0-9]+)*)\.(?P<kind>[a-z]+)\.rst')
VERSION = re.compile(r'[0-9]+\.[0-9]+(\.[0-9]+)?')
VERSION_FILE, OF_CODE = 'nova/version.py', re.compile(r"^VERSION = '(?P<version>.*)'$", re.MULTILINE)
# A paragraph alone: no list, heading, directive, literal block or field.
NOT_A_PARAGRAPH = re.compile(r'^\s*([*+-] |\.\. |[0-9]+\. |:\w+:|([=\-~^"])\2{2,}\s*$)', re.MULTILINE)
LARGEST, LONGEST_SENTENCE, COLUMNS = 500, 25, 120
TITLE = 'Changes\n=======\n'
NOT_RELEASED = 'not released'        # instead of the date in the heading of a section that was begun by hand


def fragments(folder: pathlib.Path) -> list[pathlib.Path]:
    """The fragments, by kind in the order of KINDS and by name."""
    found = (path for path in folder.iterdir() if path.name != 'README.rst' and not path.name.startswith('.'))
    order = list(KINDS)
    return sorted(found, key=lambda path: (order.index(kind) if (kind := kind_of(path)) else -1, path.name))


def kind_of(path: pathlib.Path) -> str | None:
    """The kind in the name of a fragment, or None if the name has another form."""
    match = NAME.fullmatch(path.name)
    return match['kind'] if match and match['kind'] in KINDS else None


def problems(path: pathlib.Path) -> list[str]:
    """Deviations of a fragment from the form, as sentences."""
    text = path.read_text()
    words = re.sub(r'``[^`]*``|`[^`]*`', 'literal', text)
    found = []
    if kind_of(path) is None:
        found.append(f'the name must be <topic>.<kind>.rst; kinds are {", ".join(KINDS)}')
    if not text.endswith('.\n') or text != text.strip() + '\n':
        found.append('the text must end with a period and one newline')
    if len(text) > LARGEST:
        found.append(f'the text has {len(text)} characters; at most {LARGEST} are allowed')
    if '\n\n' in text or NOT_A_PARAGRAPH.search(text) or '::' in words:
        found.append('the text must be one paragraph without lists, headings and blocks')
    found += [f'a sentence has {len(sentence.split())} words; at most {LONGEST_SENTENCE} are allowed: {sentence[:60]}'
              for sentence in re.split(r'(?<=[.:])\s+', words) if len(sentence.split()) > LONGEST_SENTENCE]
    return [f'{path.name}: {problem}' for problem in found]


def section(version: str, date: datetime.date, paths: list[pathlib.Path]) -> str:
    """The section of a release in the changelog.

    :param paths: as fragments() returns them
    """
    heading = f'{version} ({date.isoformat()})'
    lines = [heading, '-' * len(heading), '']
    for kind, title in KINDS.items():
        texts = [' '.join(path.read_text().split()) for path in paths if kind_of(path) == kind]
        if texts:
            lines += [f'{title}:', '']
            lines += [textwrap.fill(text, COLUMNS, initial_indent='* ', subsequent_indent='  ', break_long_words=False,
                                    break_on_hyphens=False) for text in texts]
            lines.append('')
    return '\n'.join(lines) + '\n'


def check_version(tree: pathlib.Path, version: str) -> None:
    """Check that a version is that of the code.

    :raises ValueError: it is another one
    """
    found = OF_CODE.search((tree / VERSION_FILE).read_text())
    if found is None or found['version'] != version:
        raise ValueError(f'{VERSION_FILE} has version {found and found["version"]}: set it to {version} first')


def release(tree: pathlib.Path, version: str, date: datetime.date) -> None:
    """Write the section of a release into the changelog, and remove the fragments.

    A section of this version with the heading "1.1.0 (not released)" gets the date, and the fragments before its text.

    :raises ValueError: there is no fragment, one has another form, the changelog has another title, or it has a section
        of this version with a date
    """
    changelog, paths = tree / 'CHANGELOG.rst', fragments(tree / 'doc/changes')
    wrong = [problem for path in paths for problem in problems(path)]
    if wrong or not paths:
        raise ValueError('\n'.join(wrong) or 'doc/changes has no fragment')
    text = changelog.read_text()
    if not text.startswith(TITLE):
        raise ValueError(f'{changelog} does not begin with the title {TITLE.splitlines()[0]!r}')
    begun = f'{version} ({NOT_RELEASED})'
    text = text.removeprefix(TITLE).lstrip().removeprefix(f'{begun}\n{"-" * len(begun)}\n\n')
    if re.search(rf'^{re.escape(version)} \(', text, re.MULTILINE):
        raise ValueError(f'{changelog} has a section of {version} already')
    changelog.write_text(f'{TITLE}\n{section(version, date, paths)}{text}')
    for path in paths:
        path.unlink()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    commands = parser.add_subparsers(dest='command', required=True)
    commands.add_parser('check', help='print deviations from the form; exit code 1 if there are any')
    making = commands.add_parser('release', help='move the fragments into CHANGELOG.rst')
    making.add_argument('version')
    making.add_argument('date', type=datetime.date.fromisoformat, help='YYYY-MM-DD')
    given = parser.parse_args(arguments)
    if given.command == 'check':
        found = [problem for path in fragments(TREE / 'doc/changes') for problem in problems(path)]
        print('\n'.join(found), end='\n' if found else '')
        return int(bool(found))
    if not VERSION.fullmatch(given.version):
        parser.error(f'{given.version} is no version: expected numbers such as 1.1.0')
    try:
        check_version(TREE, given.version)
        release(TREE, given.version, given.date)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
