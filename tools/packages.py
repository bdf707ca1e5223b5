"""Install Python packages into a virtual environment: by uv within seconds, by pip where uv cannot be had.

usage: python3 tools/packages.py [--packaged] DIRECTORY REQUIREMENT...

Modules that the distribution has compiled for its own Python (libvirt) are linked into the environment.
--packaged: for a folder of a Debian package, without these links, bytecode, and links to the cache.
Settings of pip (pip.conf, PIP_* variables) also apply to uv. Variables of uv take precedence.
Standard library only.
"""
import ast
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

TREE = pathlib.Path(__file__).resolve().parents[1]
INDEXES = ('index-url', 'extra-index-url')
# setting of pip -> variable of uv
VARIABLES = {
    'index-url': 'UV_DEFAULT_INDEX',
    'extra-index-url': 'UV_INDEX',
    'find-links': 'UV_FIND_LINKS',
    'trusted-host': 'UV_INSECURE_HOST',
    'constraint': 'UV_CONSTRAINT',
    'cert': 'SSL_CERT_FILE',
    'client-cert': 'SSL_CLIENT_CERT',
    'default-timeout': 'UV_HTTP_TIMEOUT',
    'timeout': 'UV_HTTP_TIMEOUT',
    'no-cache-dir': 'UV_NO_CACHE',
}
# Modules of Debian's packages that PyPI has as source only: {distribution: pattern of its files}
COMPILED = {'libvirt_python': 'libvirt*'}
DEBIAN_MODULES = pathlib.Path('/usr/lib/python3/dist-packages')
# settings of pip that do not change what is installed
HARMLESS = {'break-system-packages', 'cache-dir', 'config-file', 'disable-pip-version-check', 'log', 'no-color',
            'no-input', 'no-warn-script-location', 'prefer-binary', 'progress-bar', 'quiet', 'require-virtualenv',
            'retries', 'root-user-action', 'verbose'}


def install(directory, requirements, packaged=False):
    """Make the environment if it is not there and install these requirements into it.

    :param packaged: the environment becomes a folder of a Debian package
    :raises subprocess.CalledProcessError: it cannot be made, or pip failed
    """
    if not (directory / 'bin' / 'python').exists():
        subprocess.run([sys.executable, '-m', 'venv', directory], check=True)
    python = directory / 'bin' / 'python'
    if sys.base_prefix == '/usr' and not packaged:
        link_compiled(DEBIAN_MODULES, pathlib.Path(sysconfig.get_path(
            'purelib', 'venv', {'base': str(directory), 'installed_base': str(directory)})))
    install_by_pip = [python, '-m', 'pip', 'install', '--disable-pip-version-check', '--quiet']
    how = ['--link-mode', 'copy'] if packaged else ['--compile-bytecode']
    how_by_pip = ['--no-compile'] if packaged else []
    environ, uv = uv_environ(pip_settings(python), os.environ), None
    if environ is None:
        print('pip is set to do what uv does not: pip installs the packages.', flush=True)
    else:
        uv = find_uv(directory)
        if uv is None and not subprocess.run([*install_by_pip, 'uv']).returncode:
            uv = find_uv(directory)
        if uv is None:
            print('uv cannot be had: pip installs the packages.', flush=True)
    if uv is not None:
        # compiled, as pip does it: who runs them may not be allowed to write next to them
        command = [uv, 'pip', 'install', '--quiet', *how, '--python', python, *requirements]
        if not subprocess.run(command, env=environ).returncode:
            return
        print('uv has failed: pip installs the packages.', flush=True)
    subprocess.run([*install_by_pip, *how_by_pip, *requirements], check=True)


def link_compiled(source, site):
    """Link the distribution's compiled modules into an environment that has no own build of them.

    An installer recognizes a distribution by its metadata, which it does not follow through a link: these are copied.

    :param source: Path of the distribution's modules
    :param site: Path of the environment's site-packages
    """
    for distribution, pattern in COMPILED.items():
        metadata = next(source.glob(f'{distribution}-*-info'), None)
        if metadata is None or any(not (path / 'LINKED').exists() for path in site.glob(f'{distribution}-*-info')):
            continue
        for path in site.glob(f'{distribution}-*-info'):
            shutil.rmtree(path)
        for path in source.glob(pattern):
            if path.suffix in ('.py', '.so'):
                (site / path.name).unlink(missing_ok=True)
                (site / path.name).symlink_to(path)
        shutil.copytree(metadata, site / metadata.name)
        (site / metadata.name / 'LINKED').write_text(f'{source}\n')


def pip_settings(python):
    """Return the output of ``pip config list``: a line for each setting.

    :raises subprocess.CalledProcessError: pip does not run
    """
    command = [python, '-m', 'pip', '--disable-pip-version-check', 'config', 'list']
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def find_uv(directory):
    """The path of a uv that runs: of the search path, this tree's environment or ``directory``; None: there is none."""
    tree = pathlib.Path(os.environ.get('NOVA_VENV') or TREE / '.venv')
    for found in (shutil.which('uv'), tree / 'bin' / 'uv', directory / 'bin' / 'uv'):
        if found and os.access(found, os.X_OK) and _runs(found):
            return found
    return None


def _runs(uv):
    """A shim of pyenv may be there, and no uv behind it."""
    return subprocess.run([uv, '--version'], capture_output=True).returncode == 0


def uv_environ(settings, environ):
    """The environment of uv that does what pip is set to do.

    :param settings: of ``pip_settings``
    :param environ: {variable: value} of the caller
    :returns: {variable: value}; None: pip has a setting that uv would not obey
    """
    found = dict.fromkeys(VARIABLES)
    rows = [line.partition('=') for line in settings.splitlines() if '=' in line]
    for section in ('global', 'install', ':env:'):                          # the last one wins
        for key, _, value in rows:
            if key.rpartition('.')[0] == section:
                name = key.rpartition('.')[2]
                if name not in VARIABLES and name not in HARMLESS:
                    return None
                found[name] = ast.literal_eval(value)
    made = {name: value for name, value in environ.items() if name != 'UV_SYSTEM_PYTHON'}
    if {'UV_DEFAULT_INDEX', 'UV_INDEX_URL', 'UV_INDEX', 'UV_EXTRA_INDEX_URL'} & set(environ):
        found.update(dict.fromkeys(INDEXES))
    for name, variable in VARIABLES.items():
        if found[name]:
            words = found[name].split()
            made.setdefault(variable, (',' if name == 'find-links' else ' ').join(words))
    if found['extra-index-url']:
        made.setdefault('UV_INDEX_STRATEGY', 'unsafe-best-match')           # the newest of all indexes, as pip does
    return made


def main():
    words = [word for word in sys.argv[1:] if word != '--packaged']
    if len(words) < 2:
        print(__doc__.splitlines()[2], file=sys.stderr)
        return 2
    try:
        install(pathlib.Path(words[0]).absolute(), words[1:], '--packaged' in sys.argv)
    except subprocess.CalledProcessError as error:
        if 'venv' in error.cmd:
            print('python3 -m venv failed; on Debian install python3-venv.', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
