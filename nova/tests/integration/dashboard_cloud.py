"""Fixtures and steps of the dashboard's tests: a cloud, a browser, and users of every role."""
import os
import pathlib
import shutil
import time

import pytest
import yaml

pytest.importorskip('selenium', reason='selenium is not installed')

from nova.tests.support import waiting
from nova.tests.functional import callers
from nova.tests.functional import cloud as clouds
from nova.tests.integration import browser as browsers

NEEDS_CHROMIUM = [
    pytest.mark.skipif(not (shutil.which('chromium') and shutil.which('chromedriver')),
                       reason='chromium and chromium-driver are not installed')]


@pytest.fixture(scope='module')
def modules():
    return browsers.packages(browsers.kept())


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    hosts = ['host1', 'host2', 'host3']
    with clouds.running(tmp_path_factory.mktemp('dashboard'), hosts, api__event_streams=16,
                        objectstore__enabled=True, image__import_networks='127.0.0.1/32') as made:
        yield made


@pytest.fixture(scope='module')
def demo(cloud):
    """A client of the demo project with some servers."""
    found = cloud.client(version='2.96')
    found.image = found.upload_image(name='small')
    found.servers = [found.boot(found.image, name, networks='auto')['id']
                     for name in ('alpha', 'web-1', 'web-2', 'db-1')]
    for server in found.servers:
        found.wait_for(server)
    return found


@pytest.fixture(scope='module')
def browser(cloud, tmp_path_factory):
    made = browsers.Browser(cloud.url, tmp_path_factory.mktemp('profile'))
    yield made
    made.quit()


@pytest.fixture
def user(browser, cloud, demo):
    """The browser of the demo project's user."""
    return logged_in(browser, *credentials(cloud, 'demo'))


@pytest.fixture
def admin(browser, cloud, demo):
    return logged_in(browser, *credentials(cloud, 'admin'))


@pytest.fixture(scope='module')
def reader_login(cloud, demo):
    """Name and password of a user with the role reader in the demo project."""
    name, password, _user = callers.Identity(cloud.admin()).user(f'/projects/{demo.project_id}', 'reader')
    return name, password


@pytest.fixture
def reader(browser, reader_login):
    return logged_in(browser, *reader_login)


def credentials(cloud, name):
    found = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds'][f'nova-{name}']['auth']
    return found['username'], found['password']


def logged_in(browser, name, password):
    browser.open()
    browser.driver.execute_script('sessionStorage.clear(); localStorage.clear()')
    browser.complaints(), browser.requests()
    browser.login(name, password)
    return browser


def picture(browser, name):
    """Save a picture where NOVA_TEST_PICTURES names a directory."""
    if os.environ.get('NOVA_TEST_PICTURES'):
        browser.settled()
        time.sleep(0.3)                               # of motion
        browser.picture(pathlib.Path(os.environ['NOVA_TEST_PICTURES'], f'{name}.png'))


def wait(ask, timeout=60):
    waiting.wait_for(ask, timeout, 'what the browser asked for')


def confirm(browser, label):
    """Press the button of the open dialog, and wait until the dialog is closed."""
    browser.press(label, within='//dialog[@open]')
    browser.until(lambda: not browser.css('dialog[open]'), f'the dialog {label} stays open')


def sound(browser, modules):
    """Check the page: no finding of axe-core, no refusal, no message in the console."""
    assert browser.axe(modules) == []
    assert browser.complaints() == []
    assert not browser.css('.refusal'), browser.text()
