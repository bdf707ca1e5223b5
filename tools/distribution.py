"""Print the packages of this machine's distribution that meet requirements.

usage: distribution.py REQUIREMENT...      package names, separated by spaces
       distribution.py --name              the distribution and its release, as /etc/os-release states them

The table is ``distributions.tsv``. No other file of the tree depends on a release. Standard library only.
"""
import pathlib
import platform
import re
import sys

TABLE = pathlib.Path(__file__).with_name('distributions.tsv')
OS_RELEASE = pathlib.Path('/etc/os-release')
SAME, NOTHING, ANY = '=', '-', 'any'
CODENAME = 'codename'                    # the row of names that derivatives have for the release
ARCHITECTURES = {'x86_64': 'amd64', 'aarch64': 'arm64'}


class Unknown(Exception):
    """The table has no column or no row for what was asked; the text is a sentence."""


def parse_os_release(text):
    """Return {key: value} of an os-release file."""
    rows = (line.split('=', 1) for line in text.splitlines() if '=' in line and not line.startswith('#'))
    return {key: value.strip().strip('"\'') for key, value in rows}


def parse_table(text):
    """Return the names of the distributions and the rows (requirement, architecture, [packages of each]).

    The last comment with tabs names the columns.
    """
    columns, rows = [], []
    for line in filter(None, text.splitlines()):
        cells = line.split('\t')
        if line.startswith('#'):
            if len(cells) > 1:
                columns = cells[2:]
            continue
        requirement, architecture, *cells = cells
        if len(cells) != len(columns):
            raise ValueError(f'{requirement}: {len(cells)} columns, {len(columns)} expected')
        packages = []
        for cell in cells:
            packages.append(packages[-1] if cell == SAME else [] if cell == NOTHING else cell.split())
        rows.append((requirement, architecture, packages))
    return columns, rows


def column_of(os_release, columns, rows):
    """Return the column of a distribution.

    A derivative has the column of the release that it is made from. An unknown release has the newest column of its
    family that is not newer, or the oldest one.

    :param os_release: of ``parse_os_release``
    :param columns: of ``parse_table``, oldest release of a family first
    :raises Unknown: the family has no column
    """
    families = [os_release.get('ID', ''), *os_release.get('ID_LIKE', '').split()]
    own = f"{families[0]}-{os_release.get('VERSION_ID', '')}"
    if own in columns:
        return columns.index(own)
    codenames = next(packages for requirement, _architecture, packages in rows if requirement == CODENAME)
    for name in (os_release.get('UBUNTU_CODENAME'), os_release.get('DEBIAN_CODENAME')):
        if [name] in codenames:
            return codenames.index([name])
    release = _numbers(os_release.get('VERSION_ID', ''))
    for family in families:
        known = [index for index, name in enumerate(columns) if name.partition('-')[0] == family]
        if known:
            not_newer = [index for index in known if not release or _numbers(columns[index]) <= release]
            return not_newer[-1] if not_newer else known[0]
    raise Unknown(f'Package names of {name_of(os_release)} are unknown: tools/distributions.tsv has '
                  f"{', '.join(columns)}.")


def _numbers(text):
    return [int(number) for number in re.findall(r'\d+', text)]


def packages_for(requirements, os_release, architecture, table):
    """Return the package names that meet the requirements, each once, in order.

    :param architecture: 'amd64' or 'arm64'
    :param table: text of distributions.tsv
    :raises Unknown: for a requirement without a row, or a distribution without a column
    """
    columns, rows = parse_table(table)
    column, found = column_of(os_release, columns, rows), {}
    for requirement in requirements:
        if not any(row[0] == requirement for row in rows):
            raise Unknown(f"tools/distributions.tsv has no requirement '{requirement}'.")
        for name, of_architecture, packages in rows:
            if name == requirement and of_architecture in (ANY, architecture):
                found.update(dict.fromkeys(packages[column]))
    return list(found)


def name_of(os_release):
    return os_release.get('PRETTY_NAME') or os_release.get('ID') or 'this distribution'


def main(arguments):
    if not arguments or arguments[0] in ('-h', '--help'):
        print(__doc__.partition('\n\n')[2].partition('\n\n')[0], file=sys.stderr)
        return 2
    try:
        os_release = parse_os_release(OS_RELEASE.read_text()) if OS_RELEASE.exists() else {}
        if arguments == ['--name']:
            print(name_of(os_release))
        else:
            architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
            print(*packages_for(arguments, os_release, architecture, TABLE.read_text()))
    except Unknown as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
