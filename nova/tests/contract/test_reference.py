"""The reference pages of the documentation are made of the rows, and none is forgotten."""
import importlib
import pathlib
import re
import sys

import pytest

from nova import actions
from nova import conf as nova_conf
from nova import policies
from nova import states
from nova.api import app
from nova.api import versions
from nova.ec2 import table as ec2
from nova.ec2 import unsupported
from nova.identity.rest import handlers as identity_handlers
from nova.image.rest import handlers as image_handlers
from nova.rpc import interface as rpc_interface
from nova.runtime import monitoring
from nova.volume.rest import handlers as volume_handlers

EXTENSION = pathlib.Path(__file__).parents[3] / 'doc' / 'ext'
NOVA = pathlib.Path(app.__file__).parents[1]


@pytest.fixture(scope='module')
def pages(tmp_path_factory):
    """{name: text} of the pages."""
    folder = tmp_path_factory.mktemp('doc')
    sys.path.insert(0, str(EXTENSION))
    try:
        import reference
        reference.write(type('Sphinx', (), {'srcdir': str(folder)}))
    finally:
        sys.path.remove(str(EXTENSION))
    return {page.stem: page.read_text() for page in (folder / 'reference').glob('*.rst')}


def test_every_operation_has_a_section_on_a_page_of_the_index(pages):
    operations = '\n'.join(text for name, text in pages.items() if name.startswith('api-'))
    for row in app.all_routes():
        if row.api:
            assert f'{row.method} {row.path}' + (f' ({row.action})' if row.action else '') + '\n---' in operations
    listed = set(re.findall(r'^   (api-\S+)$', pages['api'], re.M))
    assert listed == {name for name in pages if name.startswith('api-')}


def test_fields_and_parameters_have_their_versions(pages):
    servers = pages['api-servers']
    assert re.search(r'``servers\[\]\.locked``\n     - 2\.9 on\n     - boolean\n     - yes', servers)
    assert re.search(r'``server\.personality``\n     - until 2\.56', servers)
    assert re.search(r'``not-tags-any``\n     - 2\.26 on', servers)
    assert ':Rules: ``os_compute_api:servers:index``' in servers


def test_block_storage_has_every_operation_with_its_fields(pages):
    page = pages['block-storage-api']
    for row in volume_handlers.ROUTES:
        assert f'{row.method} {row.path}' + (f' ({row.action})' if row.action else '') + '\n---' in page
    assert '   block-storage-api' in pages['index']
    assert re.search(r'``volume\.size``\n     - integer', page) and ':Rules: ``volume:get_all``' in page


def test_identity_has_every_operation_with_its_fields(pages):
    page = pages['identity-api']
    for row in identity_handlers.ROUTES:
        assert f'{row.method} {row.path}\n---' in page
    assert '   identity-api' in pages['index'] and ':Since:' not in page
    assert re.search(r'``project\.enabled``\n     - boolean', page) and ':Rules: ``identity:list_projects``' in page


def test_images_have_every_operation_with_its_fields(pages):
    page = pages['image-api']
    for row in image_handlers.ROUTES:
        assert f'{row.method} {row.path}\n---' in page
    assert '   image-api' in pages['index'] and ':Since:' not in page
    assert re.search(r'``min_disk``\n     - integer', page) and ':Rules: ``get_images``, ``get_image``' in page


def test_every_version_option_rule_and_action_is_there(pages):
    for minor, name, _text in versions.HISTORY:
        assert f'   * - 2.{minor}\n     - ``{name}``' in pages['microversions']
    assert 'Gone: ' in pages['microversions'] and '``GET /os-hosts``' in pages['microversions']
    for module in nova_conf.modules():
        for option in module.OPTIONS:
            assert f'   * - ``{option.dest}``' in pages['options']
    for rule, *_ in (row for service in policies.SERVICES for row in (*service.base, *service.rules)):
        assert f'   * - ``{rule}``' in pages['policies']
    for action in actions.ACTIONS.values():
        assert f'   * - ``{action.name}``' in pages['states']


def test_the_diagram_shows_every_change(pages):
    picture = pages['states']
    assert picture.count('<ellipse') == len(states.VM_STATES) - 1            # all but what is gone
    changes = {(before, action.outcome.after) for action in (actions.BUILD, *actions.ACTIONS.values())
               for before in action.conditions.vm_states or ()
               if action.outcome.after not in (None, before, states.DELETED)}
    assert picture.count('<path d="M ') >= len(changes) > 10


def test_filters_and_weighers_are_on_a_page(pages):
    from nova.scheduler import filters
    from nova.scheduler import weights
    page = pages['placement']
    assert [name for name in filters.builtin_filters() if f'``{name}``' not in page] == []
    assert [name for name, option, _ in weights.WEIGHERS if f'``{name}``' not in page or option not in page] == []
    assert '``AllHostsFilter``\n     - Every host.\n     - when it is enabled' in page


def test_the_pages_of_ec2_name_every_operation_once(pages):
    """What works stands in the guide's table, what is refused on a page that is made of the rows."""
    guide = (EXTENSION.parent / 'source' / 'user' / 'ec2.rst').read_text()
    rows = guide.partition('.. list-table::')[2].partition('is refused with ``UnsupportedOperation``')[0]
    cells = [cell for row in rows.split('   * - ')[2:] for cell in row.split('     - ')[1:2]]
    listed = [name for cell in cells for name in re.findall(r'[A-Z]\w+', cell)]
    assert sorted(listed) == sorted(ec2.OPERATIONS)
    assert set(unsupported.OF) <= set(re.findall(r'[A-Z]\w+', pages['ec2-refused']))


def test_every_rpc_method_is_listed_with_its_meaning(pages):
    interfaces = [value for path in sorted(NOVA.glob('*/interface.py')) if path.parent.name != 'rpc'
                  for value in vars(importlib.import_module(f'nova.{path.parent.name}.interface')).values()
                  if isinstance(value, rpc_interface.Interface)]
    assert len(interfaces) == len({each.topic for each in interfaces}) == 6
    for interface in interfaces:
        section = pages['rpc'].split(f'\n{interface.topic} {interface.version}\n---', 1)[1]
        for row in interface.methods.values():
            assert row.doc and f'``{row.name}``' in section, (interface.topic, row.name)


def test_every_port_of_metrics_is_listed(pages):
    for name, port in monitoring.PORTS.items():
        assert f'   * - ``{name}``\n     - {port}\n' in pages['metrics']
