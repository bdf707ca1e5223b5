"""The documented example of an out-of-tree driver: it is loaded by its entry point and boots a server."""
import pathlib
import sys
import tomllib

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.cloud import assembly
from nova.tests.functional import cloud as cloud_fixture
from nova.virt import driver as virt
from nova.virt.fake import driver as fake

EXAMPLE = pathlib.Path(__file__).parents[3] / 'doc' / 'source' / 'contributor' / 'driver'

needs_documentation = pytest.mark.skipif(
    not EXAMPLE.exists(), reason='the documentation is not part of an installed nova')


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the example as an installer does: its module, and the entry points of its project file."""
    project = tomllib.loads((EXAMPLE / 'pyproject.toml').read_text())['project']
    site = tmp_path / 'site'
    metadata = site / f'{project["name"].replace("-", "_")}-{project["version"]}.dist-info'
    metadata.mkdir(parents=True)
    (metadata / 'METADATA').write_text(
        f'Metadata-Version: 2.1\nName: {project["name"]}\nVersion: {project["version"]}\n')
    (metadata / 'entry_points.txt').write_text('\n'.join(
        f'[{group}]\n' + '\n'.join(f'{name} = {value}' for name, value in points.items())
        for group, points in project['entry-points'].items()))
    (site / 'memory_driver.py').write_text((EXAMPLE / 'memory_driver.py').read_text())
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop('memory_driver', None)


@needs_documentation
def test_a_cloud_runs_servers_with_the_example_driver(installed, tmp_path):
    with cloud_fixture.running(tmp_path / 'state', compute_driver='memory') as cloud:
        demo = cloud.client(version='2.90')
        ident = demo.boot(demo.upload_image(), networks='none')['id']
        assert demo.wait_for(ident)['OS-EXT-STS:power_state'] == 1
        assert demo.post(f'/servers/{ident}/action', {'pause': None}).status_code == 202
        assert demo.wait_for(ident, 'PAUSED')['OS-EXT-STS:power_state'] == 3
        assert demo.post(f'/servers/{ident}/action', {'unpause': None}).status_code == 202
        demo.wait_for(ident)
        refused = demo.post(f'/servers/{ident}/action', {'suspend': None})
        assert refused.status_code in (409, 501), refused.text


class _WithoutSpawn(fake.FakeDriver):
    spawn = virt.ComputeDriver.spawn


class _WithHalfAFeature(fake.FakeDriver):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.features[virt.Suspend] = object()


@pytest.mark.parametrize(('kind', 'missing'), [
    (_WithoutSpawn, 'does not implement spawn\\.'),
    (_WithHalfAFeature, 'does not implement Suspend\\.suspend, Suspend\\.resume\\.')])
def test_a_driver_without_a_required_method_is_refused_by_its_name(kind, missing):
    conf = nova_conf.new(files=[], compute_driver=f'{__name__}.{kind.__name__}')
    with pytest.raises(exception.InvalidOption, match=missing):
        assembly.virt_driver(conf, 'host1', None)
