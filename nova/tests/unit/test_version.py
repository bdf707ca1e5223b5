"""The version of the product: one place, shown by every program."""
import configparser
import pathlib

import pytest

from nova import conf as nova_conf
from nova import version
from nova.cmd import policy
from nova.cmd import rootwrap
from nova.cmd import status
from nova.cmd.manage import main as manage
from nova.network.linux import dhcpbridge
from nova.virt import virtiofsd

TREE = pathlib.Path(__file__).resolve().parents[3]


def test_package_takes_the_version_of_the_code():
    setup = configparser.ConfigParser()
    setup.read(TREE / 'setup.cfg')
    assert setup['metadata']['version'] == 'attr: nova.version.VERSION'


@pytest.mark.parametrize('name, main', [
    ('nova-manage', manage.main), ('nova-policy', policy.main), ('nova-status', status.main),
    ('nova-dhcpbridge', dhcpbridge.main), ('nova-rootwrap', rootwrap.main), ('nova-virtiofsd', virtiofsd.main)])
def test_program_prints_its_version(name, main, capsys):
    try:
        code = main(['--version'])
    except SystemExit as ended:
        code = ended.code
    assert (code, capsys.readouterr().out) == (0, f'{name} {version.VERSION}\n')


def test_daemon_prints_its_version(monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', ['/usr/bin/nova-compute', '--version'])
    with pytest.raises(SystemExit) as ended:
        nova_conf.new(['--version'])
    assert (ended.value.code, capsys.readouterr().out) == (0, f'nova-compute {version.VERSION}\n')
