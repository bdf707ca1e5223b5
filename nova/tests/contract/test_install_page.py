"""doc/source/admin/install-fleet.rst and messages.rst: options, commands and files in them are real ones."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from nova import conf as nova_conf
from nova.cmd.manage import main as manage
from nova.rpc import bus

TREE = pathlib.Path(__file__).resolve().parents[3]
ADMIN = TREE / 'doc' / 'source' / 'admin'
# of the plugin that auth_type names, which no sample lists
PLUGIN = {'auth_type', 'auth_url', 'username', 'password', 'project_name', 'user_domain_name', 'project_domain_name'}

pytestmark = pytest.mark.skipif(not ADMIN.exists(), reason='the documentation is not part of an installed nova')


def page(name):
    return (ADMIN / name).read_text()


def blocks(text, begin):
    """Indented blocks whose directive, or the line before ``::``, matches."""
    for found in re.finditer(begin + r'\n\n((?:[ ]{3,}.*\n|\n)+)', text):
        yield '\n'.join(line.strip() for line in found[1].splitlines())


def test_options_are_those_of_the_sample():
    sample = (TREE / 'etc' / 'nova' / 'nova.conf.sample').read_text()
    known = {}
    for group, text in re.findall(r'^\[(\w+)\]\n(.*?)(?=^\[|\Z)', sample, re.M | re.S):
        known[group] = set(re.findall(r'^#(\w+) = ?', text, re.M))
    known['DEFAULT'] |= {option.dest for module in nova_conf.modules() for option in getattr(module, 'CLI_OPTIONS', ())}
    wrong, seen = [], 0
    for block in blocks(page('install-fleet.rst'), r'\.\. code-block:: ini'):
        if 'listeners.tcp' in block or '[Service]' in block:         # the broker's, a unit's
            continue
        group = None
        for line in filter(None, block.splitlines()):
            if line.startswith('['):
                group = line.strip('[]')
                continue
            name = line.partition(' = ')[0]
            seen += 1
            if name not in known.get(group, ()) and name not in PLUGIN:
                wrong.append((group, name))
    assert wrong == [] and seen > 20


def test_the_broker_settings_are_our_defaults():
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    found = re.findall(r'``(\w+) = ([\w.]+)``', page('messages.rst').partition('Settings that matter')[2])
    assert len(found) >= 7
    for name, value in found:
        if name != 'ssl':
            assert str(conf.oslo_messaging_rabbit[name]).lower().removesuffix('.0') == value, name


@pytest.mark.parametrize('name', sorted(path.name for path in ADMIN.glob('*.rst')))
def test_commands_of_the_install_page_exist(name):
    for category, action in re.findall(r'nova-manage ([a-z_0-9][\w-]*) ([a-z_]+)', page(name)):
        if category in ('says', 'masks', 'has', 'and', 'prints', 'can'):                   # words of a sentence
            continue
        assert category in manage.COMMANDS, (category, action)
        assert callable(manage.COMMANDS[category]) or action in manage.COMMANDS[category], (category, action)


def test_the_units_and_files_that_are_installed_are_there():
    text = page('install-fleet.rst')
    for path in re.findall(r'(?<!/)\b(etc/(?:nova|systemd)/[\w./*-]+)', text):
        assert list(TREE.glob(path)), path
    for path in re.findall(r'``(nova/tests/[\w/.]+)``', text + page('messages.rst')):
        assert (TREE / path).exists(), path
    for unit in re.search(r'systemctl enable --now (nova.*?) +#', text)[1].split():
        assert (TREE / 'etc' / 'systemd' / f'{unit}.service').exists()


@pytest.mark.skipif(not shutil.which('haproxy', path=os.environ['PATH'] + ':/usr/sbin'), reason='no haproxy')
def test_haproxy_takes_its_file(tmp_path):
    found = re.search(r'code-block:: text\n\n((?:   .*\n|\n)+)', page('install-fleet.rst'))[1]
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'key', '-out', 'crt',
                    '-days', '2', '-subj', '/CN=x'], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / 'compute.pem').write_text((tmp_path / 'crt').read_text() + (tmp_path / 'key').read_text())
    text = re.sub(r'(server \S+) \S+:', r'\1 127.0.0.1:', found).replace('/etc/haproxy', str(tmp_path))
    (tmp_path / 'haproxy.cfg').write_text('\n'.join(line[3:] for line in text.splitlines()) + '\n')
    program = shutil.which('haproxy', path=os.environ['PATH'] + ':/usr/sbin')
    done = subprocess.run([program, '-c', '-f', tmp_path / 'haproxy.cfg'], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which('nft', path=os.environ['PATH'] + ':/usr/sbin')
                    or not shutil.which('unshare'), reason='nft looks at its rules as root')
def test_nftables_takes_its_file(tmp_path):
    found = re.search(r'the others alike::\n\n((?:    .*\n|\n)+)', page('install-fleet.rst'))[1]
    text = found.replace('ADMINISTRATORS', '192.0.2.1')
    for number in (1, 2, 3):
        text = text.replace(f'BROKER{number}', f'192.0.2.{number}')
    (tmp_path / 'nftables.conf').write_text(text)
    done = subprocess.run(['unshare', '--net', shutil.which('nft', path=os.environ['PATH'] + ':/usr/sbin'), '-c', '-f',
                           tmp_path / 'nftables.conf'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
