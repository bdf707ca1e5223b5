"""nova-manage shell: Python with this deployment's databases and images loaded."""
from __future__ import annotations

import code
import importlib.util
import runpy
import sys
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from oslo_config import cfg

WORDS = ('conf, the configuration; api_db and db, the databases (with db.reader() as conn: …); cells; images; ctx, '
         'the system as caller')
_BETTER = ('bpython', 'ipython', 'python')          # in order of preference: the first that is installed is used
_MODULES = {'bpython': 'bpython', 'ipython': 'IPython', 'python': 'code'}


def bpython(conf: cfg.ConfigOpts) -> None:
    """Start bpython, or ipython or python if it is not installed."""
    _interact(conf, 'bpython')


def ipython(conf: cfg.ConfigOpts) -> None:
    """Start ipython, or python if it is not installed."""
    _interact(conf, 'ipython')


def python(conf: cfg.ConfigOpts) -> None:
    """Start python."""
    _interact(conf, 'python')


def run(conf: cfg.ConfigOpts) -> None:
    """Start the best shell that is installed: bpython, ipython or python."""
    _interact(conf, next(name for name in _BETTER if _installed(name)))


def script(conf: cfg.ConfigOpts, path: str) -> None:
    """Run a script with the same predefined names as in a shell."""
    runpy.run_path(path, _names(conf), '__main__')


def _installed(name: str) -> bool:
    return importlib.util.find_spec(_MODULES[name]) is not None


def _interact(conf: cfg.ConfigOpts, wanted: str) -> None:
    chosen = next(name for name in _BETTER[_BETTER.index(wanted):] if _installed(name))
    if chosen != wanted:
        print(f'nova-manage: {wanted} is not installed; this is {chosen}.', file=sys.stderr)
    names, banner = _names(conf), f'Python of nova-manage. Available names: {WORDS}.'
    if chosen == 'bpython':
        import bpython as shell
        shell.embed(locals_=names, banner=banner)
    elif chosen == 'ipython':
        import IPython
        IPython.embed(user_ns=names, banner1=banner, colors='neutral')
    else:
        code.interact(banner, local=names, exitmsg='')


def _names(conf: cfg.ConfigOpts) -> dict[str, Any]:
    from nova import context
    from nova.cloud import assembly
    api_db, cells = assembly.checked_databases(conf)
    return {'conf': conf, 'api_db': api_db, 'cells': cells, 'db': cells.default.db, 'ctx': context.admin_context(),
            'images': assembly.images(conf, api_db)}


COMMANDS = {'bpython': bpython, 'ipython': ipython, 'python': python, 'run': run, 'script': script}
OPTIONS = {script: {'path': {'metavar': 'PATH', 'help': 'path of a Python file'}}}
