"""The commands of documentation pages run on a cloud with the fake driver, and print what their page shows."""
import contextlib
import re
import shutil

import pytest

from nova.tests import documentation
from nova.tests.functional import cloud as clouds
from nova.tests.functional import page_cloud

pytestmark = [pytest.mark.timeout(documentation.SECONDS + 60),
              pytest.mark.skipif(not documentation.PAGES.exists(), reason='the documentation is not installed')]

# Pages for administrators; the user nova-admin is the default in them.
ADMIN = ('admin/first-day', 'admin/failures')
PAGES = [*sorted(f'user/{path.stem}' for path in (documentation.PAGES / 'user').glob('*.rst')), *ADMIN]
# nova/tests/integration/test_automation_clients.py runs these pages, with programs that are not installed everywhere
ELSEWHERE = ('user/ansible', 'user/terraform')

# Commands that do not run here: (page, expression of the command, reason and the test that has the subject)
NOT_RUN = (
    ('user/client', r'python3 -m venv |\S+/pip install ', 'packages come from an index: test_fresh_machine.py'),
    ('user/client', r'.*--os-cloud work|chmod 600 ', 'a second machine'),
    ('admin/first-day', r'nova-manage image prepare ', 'a cloud image of a distribution: test_image_prepare.py'),
    ('user/ec2-images', r'curl |euca-bundle-image |aws ', 'euca2ools make the bundle: test_ec2_bundles.py'),
    ('user/secrets', r'openstack (secret|acl) ', 'a plug-in of the client: test_keymanager_clients.py'),
    ('user/images', r'openstack image .*\btrixie\b', 'a server on the internet: test_image_import.py'),
    ('user/passwords', r'.*v3multifactor', 'a device makes the code: test_identity_clients.py'),
)
GUEST = 'a guest that runs: test_cloud_init.py, test_libvirt_rescue.py'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp('pages')
    with clouds.running(directory / 'state', hosts=['host1', 'host2'], objectstore__enabled=True) as running:
        made = page_cloud.PageCloud(running, directory)
        with contextlib.closing(made.programs):
            yield made


def reason(page, command):
    """Why a command of a page does not run here; None: it runs."""
    if command.place == 'guest':
        return GUEST
    return next((text for where, pattern, text in NOT_RUN if where == page and re.match(pattern, command.text)), None)


def commands(page):
    return [command for command in documentation.commands(documentation.read(page)) if not reason(page, command)]


@pytest.mark.parametrize('page', [page for page in PAGES if page not in ELSEWHERE
                                  and 'code-block:: console' in documentation.read(page)])
def test_the_commands_of_a_page_do_what_the_page_shows(page, cloud):
    wanted = commands(page)
    text = '\n'.join(command.text for command in wanted)
    for program in ('aws', 'qemu-img', 'curl'):
        if re.search(rf'\b{program} ', text) and not shutil.which(program, path='/usr/bin:/bin'):
            pytest.skip(f'{program} is not installed')
    results = cloud.run(page, wanted, 'nova-admin' if page in ADMIN else 'nova-demo')
    faults = [f'{result.command.text}\n{result.fault()}\n{result.printed}' for result in results if result.fault()]
    assert faults == [], '\n'.join(faults)
    assert len(results) == len(wanted), f'the shell stopped at: {wanted[len(results)].text}'


@pytest.mark.parametrize('page', PAGES)
def test_the_commands_of_a_page_are_in_console_blocks(page):
    assert documentation.unmarked(documentation.read(page)) == []


def test_each_row_of_the_table_names_a_command():
    for page, pattern, _text in NOT_RUN:
        found = documentation.commands(documentation.read(page))
        assert any(re.match(pattern, command.text) for command in found), (page, pattern)
