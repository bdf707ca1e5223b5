"""A copy of this tree as a next release could be: one more field in records, objects and a table.

``made(directory)`` copies the tree and applies EDITS. The changes follow doc/source/contributor/records.rst and
checklists.rst: each raises a version, and the release before can read what the next release writes.

===================================  =================================================================================
record of a server (fake and real)   field ``mood``, version 2
record of a simulated guest          field ``mood``, version 2
record of a guest (libvirt)          field ``mood``, version 2
objects.Instance in messages         field ``mood``, next minor version, and a row of RELEASES
table ``instances``                  column ``mood``, with a revision that tools/new_migration.py writes
===================================  =================================================================================
"""
import pathlib
import re
import shutil
import subprocess
import sys

from nova.tests.older_release import tree

UPGRADE = "version=2, upgrades={1: lambda values: {'mood': 'upgraded', **values}}, "

# (file, regular expression that occurs once, replacement)
EDITS = (
    ('nova/runtime/release.py', r'(?m)^VERSION = (\d+)$', lambda found: f'VERSION = {int(found[1]) + 1}'),
    ('nova/rpc/versions.py', r'(?m)^VERSION, OLDEST = ', lambda found: (
        'from nova import objects\n'
        'RELEASES[release.VERSION] = Release(RELEASES[release.VERSION - 1].interfaces, {\n'
        "    **RELEASES[release.VERSION - 1].objects, 'Instance': objects.Instance.VERSION})\n" + found[0])),
    ('nova/objects/instance.py', r"    VERSION = '(\d+)\.(\d+)'\n    ADDED = \{", lambda found: (
        f"    VERSION = '{found[1]}.{int(found[2]) + 1}'\n"
        f"    ADDED = {{'{found[1]}.{int(found[2]) + 1}': ('mood',), ")),
    ('nova/objects/instance.py', r'    uuid: base.Uuid\n', lambda found: found[0] + '    mood: str | None\n'),
    ('nova/db/tables/cell.py', r"        sa\.Column\('task_state', sa\.String\(32\)\),\n",
     lambda found: found[0] + "        sa.Column('mood', sa.String(32)),\n"),
    ('nova/compute/records.py', r'    disputed: bool = False\n', lambda found: found[0] + "    mood: str = 'new'\n"),
    ('nova/compute/records.py', r"name='record of a server', ", lambda found: found[0] + UPGRADE),
    ('nova/virt/fake/machine.py', r"name='record of a simulated guest', ", lambda found: found[0] + UPGRADE),
    ('nova/virt/fake/machine.py', r"fields=frozenset\(\{\n        'console'", lambda found: found[0] + ", 'mood'"),
    ('nova/virt/fake/machine.py', r"\{'console': \[\]\}", lambda found: "{'console': [], 'mood': 'new'}"),
    ('nova/virt/libvirt/local_disks/records.py', r"    name='record of a guest',\n",
     lambda found: found[0] + f'    {UPGRADE}\n'),
    ('nova/virt/libvirt/xml.py', r'    source_directory: str \| None = None\n',
     lambda found: found[0] + "    mood: str = 'new'\n"),
)


def made(directory):
    """Return the root of the copy, below a directory.

    :raises ValueError: the code has changed, and EDITS has not
    """
    root = pathlib.Path(directory)
    for name in ('nova', 'etc', 'tools'):
        shutil.copytree(tree.ROOT / name, root / name, ignore=shutil.ignore_patterns('__pycache__', '.mypy_cache'))
    shutil.copy(tree.ROOT / 'setup.cfg', root)
    for name, pattern, edit in EDITS:
        path = root / name
        text, count = re.subn(pattern, edit, path.read_text())
        if count != 1:
            raise ValueError(f'{name} has {count} times {pattern}: adapt EDITS of {__name__}.')
        path.write_text(text)
    subprocess.run([sys.executable, 'tools/new_migration.py', 'cell', 'Moods'], cwd=root, check=True,
                   env={**tree.environment(), 'PYTHONPATH': str(root)}, capture_output=True)
    return root
