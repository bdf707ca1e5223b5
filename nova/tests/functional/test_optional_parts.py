"""Optional parts are loaded only by the processes whose configuration enables them."""
import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.api.documents import removed
from nova.cloud import optional_parts
from nova.runtime import entry_points

PACKAGES = ('nova.cert', 'nova.ec2', 'nova.legacy_network', 'nova.objectstore', 'nova.virt.ironic', 'nova.vpn')
CLOUD = """
import json, pathlib, sys
from nova import conf as nova_conf
from nova.cloud import all_in_one
conf = nova_conf.new(files=[], compute_driver='fake', state_path=sys.argv[1], http__port=0)
for each in sys.argv[2:]:
    name, value = each.split('=')
    group, option = name.split('.')
    conf.set_override(option, value == 'on', group=group)
cloud = all_in_one.Cloud(conf, ['host1'])
cloud.start()
try:
    print(json.dumps(sorted(sys.modules)))
finally:
    cloud.stop(5)
"""


def loaded(tmp_path, *options):
    """The optional packages among sys.modules of an all-in-one that serves, with these options set."""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', CLOUD, tmp_path / 'state', *options], check=True,
                          capture_output=True, text=True)
    modules = json.loads(done.stdout.splitlines()[-1])
    return {package for package in PACKAGES if any(f'{name}.'.startswith(f'{package}.') for name in modules)}


def test_a_deployment_without_optional_parts_loads_none(tmp_path):
    assert loaded(tmp_path, 'ec2.enabled=off') == set()


def test_a_deployment_loads_the_parts_that_it_enables(tmp_path):
    found = loaded(tmp_path, 'objectstore.enabled=on', 'api.nova_network_resources=on')
    assert found == set(PACKAGES) - {'nova.virt.ironic'}            # [ec2] enabled is on by default


def test_missing_part_is_refused_with_its_option(monkeypatch):
    monkeypatch.setattr(entry_points, 'installed', lambda group: {})
    with pytest.raises(exception.InvalidOption, match=r'\[ec2\] enabled: the optional part ec2 is not installed'):
        optional_parts.ec2('[ec2] enabled')


def test_part_that_cannot_be_imported_is_refused_with_its_option(monkeypatch):
    point = importlib.metadata.EntryPoint('ec2', 'nova.tests.no_such_module', optional_parts.GROUP)
    monkeypatch.setattr(entry_points, 'installed', lambda group: {'ec2': point})
    with pytest.raises(exception.InvalidOption, match=r'\[ec2\] enabled: the optional part ec2 .*No module named'):
        optional_parts.ec2('[ec2] enabled')


@pytest.mark.parametrize('value, reason', [
    ('nova.tests.no_such_module', 'could not be loaded .*No module named'), ('nova.utils', 'has no function serve')])
def test_a_broken_part_of_removed_operations_is_refused_with_its_option(monkeypatch, value, reason):
    """The first request would fail otherwise."""
    conf = nova_conf.new(files=[], api__nova_network_resources=True)
    point = importlib.metadata.EntryPoint('cloudpipe', value, removed.PARTS)
    monkeypatch.setattr(entry_points, 'installed', lambda group: {'cloudpipe': point})
    with pytest.raises(exception.InvalidOption, match=r'\[api\] nova_network_resources: cloudpipe .*' + reason):
        removed.check(conf)
    conf.clear_override('nova_network_resources', 'api')
    removed.check(conf)                      # disabled: it is not loaded


def test_command_that_cannot_be_loaded_stops_no_other_command(tmp_path):
    metadata = tmp_path / 'broken-1.0.dist-info'
    metadata.mkdir()
    (metadata / 'METADATA').write_text('Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n')
    (metadata / 'entry_points.txt').write_text('[nova.manage]\nbroken = nova.tests.no_such_module\n')
    code = 'import sys\nfrom nova.cmd.manage.main import main\nsys.exit(main())'
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code, 'bash-completion'], text=True,
                          capture_output=True, env={**os.environ, 'PYTHONPATH': path})
    assert done.returncode == 0 and 'cert' in done.stdout.split() and 'broken' not in done.stdout
    assert 'nova-manage: the optional command broken (nova.tests.no_such_module) cannot be loaded' in done.stderr
