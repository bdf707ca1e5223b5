"""A copy of this tree as release 99.1.0, which can be installed, and copies whose upgrade fails in one of its steps.

The release differs in schema, records and messages: next_release.py.
"""
import shutil

from nova.tests.older_release import next_release
from nova.tests.older_release.tree import ROOT

NEXT = '99.1.0'
# A release that ends half a second after its start.
ENDS = '''
import os, threading
_started = _Announced.start
def _start_and_end(self):
    _started(self)
    threading.Timer(0.5, os._exit, (3,)).start()
_Announced.start = _start_and_end
'''
MIGRATION = '''
_sync = sync
def sync(db, branch):
    _sync(db, branch)
    raise OSError('no migration')
'''
# Failures of the next release: {pattern of the step: (file, text that is added to it)}
FAILURES = {
    'Change of the release': ('nova/cmd/all.py', "\ndef main():\n    raise SystemExit('no start')\n"),
    'Change of the release|Checks of the running cloud': ('nova/cmd/all.py', ENDS),      # by the speed of the machine
    'Python packages': ('setup.py', "\nraise SystemExit('no build')\n"),
    'Schema of the databases': ('nova/db/schema.py', MIGRATION),
    'Checks of the new release': ('nova/cmd/status.py', '\ndef main():\n    return 2\n'),
}


def tree(directory, failure=None):
    """Return the root of the copy, below a directory that does not exist.

    :param failure: a step of tools/quickstart.sh upgrade that fails, a key of FAILURES
    """
    root = next_release.made(directory)
    for name in ('setup.py', 'requirements.txt', 'README.rst', 'LICENSE', 'MANIFEST.in'):
        shutil.copy(ROOT / name, root)
    (root / 'nova/version.py').write_text(f"VERSION = '{NEXT}'\n")
    if failure:
        name, text = FAILURES[failure]
        with open(root / name, 'a') as file:
            file.write(text)
    return root
