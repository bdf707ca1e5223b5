#!/usr/bin/env python3
"""Count the clicks and seconds of the ten commonest tasks in the dashboard, in Horizon and in Skyline, in Chromium,
each before an all-in-one with the fake driver.

    tools/dashboard_tasks.py [--pictures DIRECTORY] [product] [horizon] [skyline]

Each task begins on the first page after the login and ends when the page shows the result. A click is a press of the
mouse on a button, link, menu or field; a choice from a list is two. Typing is none, nor is a mouse that rests on
a menu. The seconds are those of the pages: the next step begins as soon as the page has what it needs.
"""
import argparse
import pathlib
import sys
import tempfile
import time

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]
import dashboards
import local_cloud
import skyline
import suites
from nova.tests.integration import browser as browsers

CLOUD = ['[network]', 'driver = fake']
STEP_S = 40
CLICKS = {'press': 1, 'last': 1, 'row': 1, 'drop': 1, 'hover': 0, 'over': 0, 'type': 1, 'pick': 1, 'control': 1,
          'choose': 2, 'file': 1, 'says': 0, 'shows': 0, 'gone': 0}
TASKS = ('log in', 'create a key pair', 'create a network', 'upload an image', 'create a server', 'stop the server',
         'create a volume', 'attach the volume', 'open a port', 'delete the server')
# {dashboard: {task: steps}}; a step is a key of CLICKS, what it is done to, and a value
STEPS = {
    'product': {
        'log in': (('type', 'User', '{user}'), ('type', 'Password', '{password}'), ('press', 'Log in'),
                   ('says', 'Recently changed')),
        'create a key pair': (
            ('press', 'Key pairs'), ('press', 'Create or import'), ('type', 'Name', 'key'),
            ('press', 'Create or import'), ('says', 'Key pair key created')),
        'create a network': (
            ('press', 'Networks'), ('press', 'Create network'), ('type', 'Name', 'front'),
            ('type', 'Addresses', '10.20.0.0/24'), ('press', 'Create network'), ('says', 'Network front created')),
        'upload an image': (
            ('press', 'Images'), ('press', 'Upload image'), ('type', 'Name', 'debian'), ('file', 'File'),
            ('choose', 'Format', 'raw'), ('press', 'Upload image'), ('shows', 'debian')),
        'create a server': (
            ('press', 'Create server'), ('type', 'Name', 'web'), ('choose', 'Image', 'debian'),
            ('press', 'Create server'), ('says', 'ACTIVE')),
        'stop the server': (
            ('press', 'Actions of web'), ('press', 'Stop'), ('press', 'Stop'), ('says', 'SHUTOFF')),
        'create a volume': (
            ('press', 'Volumes'), ('press', 'Create volume'), ('type', 'Name', 'data'), ('press', 'Create volume'),
            ('says', 'Volume data is being created')),
        'attach the volume': (
            ('press', 'Volumes'), ('press', 'Actions of data'), ('press', 'Attach to a server'),
            ('press', 'Attach to a server'), ('says', 'in-use')),
        'open a port': (
            ('press', 'Security groups'), ('press', 'default'), ('press', 'Add rule'), ('type', 'Ports', '443'),
            ('press', 'Add rule'), ('shows', '443')),
        'delete the server': (
            ('press', 'Actions of web'), ('press', 'Delete'), ('press', 'Delete'),
            ('says', 'There are no servers yet.')),
    },
    'horizon': {
        'log in': (('type', 'User Name', '{user}'), ('type', 'Password', '{password}'), ('press', 'Sign In'),
                   ('says', 'Limit Summary')),
        'create a key pair': (
            ('press', 'Key Pairs'), ('press', 'Create Key Pair'), ('type', 'Key Pair Name', 'key'),
            ('choose', 'Key Type', 'SSH Key'), ('press', 'Create Key Pair'), ('shows', 'key')),
        'create a network': (
            ('press', 'Network'), ('press', 'Networks'), ('press', 'Create Network'), ('type', 'Network Name', 'front'),
            ('press', 'Subnet'), ('type', 'Network Address', '10.20.0.0/24'), ('press', 'Subnet Details'),
            ('press', 'Create'),
            ('shows', 'front')),
        'upload an image': (
            ('press', 'Images'), ('press', 'Create Image'), ('type', 'Image Name', 'debian'), ('file', 'File'),
            ('choose', 'Format', 'Raw'), ('press', 'Create Image'), ('shows', 'debian')),
        'create a server': (
            ('press', 'Instances'), ('press', 'Launch Instance'), ('type', 'Instance Name', 'web'),
            ('press', 'Source'), ('row', 'debian'), ('press', 'Flavor'), ('row', 'm1.tiny'),
            ('press', 'Networks'), ('row', 'private'), ('press', 'Launch Instance'), ('says', 'Running')),
        'stop the server': (
            ('press', 'Instances'), ('drop', 'web'), ('row', 'web', 'Shut Off Instance'),
            ('press', 'Shut Off Instance'), ('says', 'Shutoff')),
        'create a volume': (
            ('press', 'Volumes'), ('last', 'Volumes'), ('press', 'Create Volume'), ('type', 'Volume Name', 'data'),
            ('press', 'Create Volume'), ('says', 'Available')),
        'attach the volume': (
            ('press', 'Volumes'), ('last', 'Volumes'), ('drop', 'data'), ('row', 'data', 'Manage Attachments'),
            ('press', 'Select an instance'), ('pick', 'web ('),
            ('press', 'Attach Volume'), ('says', 'In-use')),
        'open a port': (
            ('press', 'Network'), ('press', 'Security Groups'), ('row', 'default', 'Manage Rules'),
            ('press', 'Add Rule'), ('type', 'Port', '443'), ('press', 'Add'), ('shows', '443')),
        'delete the server': (
            ('press', 'Instances'), ('drop', 'web'), ('row', 'web', 'Delete Instance'),
            ('press', 'Delete Instance'), ('gone', 'web')),
    },
    'skyline': {
        'log in': (('type', 'Username', '{user}'), ('type', 'Password', '{password}'), ('press', 'Log in'),
                   ('says', 'Quota Overview')),
        'create a key pair': (
            ('press', 'Compute'), ('press', 'Key Pairs'), ('press', 'Create Keypair'), ('type', 'Name', 'key'),
            ('press', 'OK'), ('shows', 'key')),
        'create a network': (
            ('press', 'Networks'), ('press', 'Create Network'), ('type', 'Network Name', 'front'),
            ('control', 'Available Zone'), ('pick', 'nova'), ('control', 'Create Subnet'),
            ('type', 'Subnet Name', 'front'), ('type', 'CIDR', '10.20.0.0/24'), ('press', 'OK'), ('shows', 'front')),
        'upload an image': (
            ('press', 'Compute'), ('press', 'Images'), ('press', 'Create Image'), ('type', 'Name', 'debian'),
            ('file', 'File'), ('control', 'Format'), ('pick', 'RAW'), ('control', 'OS'), ('pick', 'CentOS'),
            ('type', 'OS Version', '12'), ('type', 'OS Admin', 'root'), ('press', 'Confirm'), ('shows', 'debian')),
        'create a server': (
            ('press', 'Instances'), ('press', 'Create Instance'), ('row', 'm1.tiny'), ('row', 'debian'),
            ('control', 'System Disk'), ('pick', '__DEFAULT__'), ('press', 'Next: Network Config'), ('row', 'front'),
            ('row', 'default'), ('press', 'Next: System Config'), ('type', 'Name', 'web'), ('row', 'key'),
            ('press', 'Next: Confirm Config'), ('last', 'Confirm'), ('says', 'Active')),
        'stop the server': (
            ('press', 'Instances'), ('hover', 'web', 'More'), ('over', 'Instance Status'), ('press', 'Stop'),
            ('press', 'Confirm'), ('says', 'Shutoff')),
        'create a volume': (
            ('press', 'Volumes'), ('press', 'Create Volume'), ('type', 'Name', 'data'), ('press', 'Confirm'),
            ('says', 'Available')),
        'attach the volume': (
            ('press', 'Volumes'), ('hover', 'data', 'More'), ('over', 'Instance Related'), ('press', 'Attach'),
            ('row', 'web'), ('press', 'OK'), ('says', 'In-use')),
        'open a port': (
            ('press', 'Network'), ('press', 'Security Groups'), ('row', 'default', 'Create Rule'),
            ('control', 'Ether Type'), ('pick', 'IPv4'), ('type', 'Source Port', '443'),
            ('type', 'Remote IP Prefix', '0.0.0.0/0'), ('press', 'OK'), ('says', 'successfully')),
        'delete the server': (
            ('press', 'Instances'), ('hover', 'web', 'More'), ('press', 'Delete'), ('press', 'Confirm'),
            ('gone', 'web')),
    },
}
BUTTON = ("*[self::button or self::a or self::summary or @role='menuitem' or @role='option' or self::input]"
          '[not(@disabled)][normalize-space()={0} or @aria-label={0} or @value={0} or @title={0}]')
OPTION = "*[self::a or contains(@class, 'ant-select-item-option')][starts-with(normalize-space(), '{}')]"
# of Skyline's forms: the list or the box of a field, which is no field of HTML
CONTROL = ("*[contains(concat(@class, ' '), 'ant-form-item ')][.//label[starts-with(normalize-space(), '{}')]]"
           "//*[contains(@class, 'ant-select-selector') or contains(@class, 'ant-checkbox-wrapper')]")
OPEN_MENU = '.ant-dropdown:not(.ant-dropdown-hidden):not([class*=ant-slide])'          # that does not move any more
# where a name is looked for first: dialogs and menus are above the page
PLACES = ('//dialog[@open]', "//*[contains(@class, 'modal-dialog') or contains(@class, 'ant-modal-content')]",
          "//*[@role='menu']", '//main', '//body')


class Hand:
    """Does steps in a browser, and counts clicks."""

    def __init__(self, browser, file):
        self._browser, self._file = browser, str(file)
        self.clicks = 0

    def do(self, kind, name, value=''):
        step = getattr(self, kind)
        self._browser.until(lambda: step(name, value), f'{kind} {name!r} {value!r} cannot be done', STEP_S)
        self.clicks += CLICKS[kind]

    def _find(self, what):
        return self._browser.one(*(f'{place}//{what}' for place in PLACES))

    def _click(self, found):
        if found is None:
            return False
        try:
            found.click()
        except browsers.exceptions.ElementClickInterceptedException:     # a bar lies over the edge of the page
            self._browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
            return False
        return True

    def press(self, name, _value):
        found = self._find(BUTTON.format(f"'{name}'"))
        return self._click(found)

    def pick(self, beginning, _value):
        found = self._browser.one('//' + OPTION.format(beginning))
        return self._click(found)

    def control(self, name, _value):
        found = self._find(CONTROL.format(name))
        return self._click(found)

    def last(self, name, _value):
        found = [each for each in self._browser.driver.find_elements('xpath', '//' + BUTTON.format(f"'{name}'"))
                 if each.is_displayed()]
        return self._click(found[-1] if found else None)

    def row(self, name, label):
        button = BUTTON.format(f"'{label}'") if label else '*[self::button or self::label]'
        found = self._find(f"tr[.//*[normalize-space()='{name}']]//{button}")
        return self._click(found)

    def hover(self, name, label):
        button = self._find(f"tr[.//*[normalize-space()='{name}']]//" + BUTTON.format(f"'{label}'"))
        return self._rest(button) and bool(self._browser.css(OPEN_MENU))

    def over(self, name, _value):
        found = self._browser.one(f"//*[@title='{name}'][@aria-haspopup]")
        return self._rest(found) and found.get_attribute('aria-expanded') == 'true'

    def _rest(self, found):
        if found is not None:
            browsers.webdriver.ActionChains(self._browser.driver).move_to_element(found).perform()
        return found is not None

    def drop(self, name, _value):
        found = self._find(f"tr[.//*[normalize-space()='{name}']]//*[contains(@class, 'dropdown-toggle')]")
        return self._click(found)

    def _field(self, name):
        labels = f"//label[starts-with(normalize-space(), '{name}')]"
        return (self._find(f'*[@id = {labels}/@for]') or self._find(f"*[@aria-label='{name}' or @placeholder='{name}']")
                or self._find(f'*[self::input or self::select][preceding-sibling::{labels[2:]}]'))

    def type(self, name, text):
        found = self._field(name)
        if found is None:
            return False
        found.clear()
        found.send_keys(text)
        return True

    def choose(self, name, option):
        found = self._field(name)
        for each in browsers.Select(found).options if found is not None and found.tag_name == 'select' else ():
            if each.text.startswith(option):
                each.click()
                return True
        return False

    def file(self, _name, _value):
        found = self._browser.css('input[type=file]')
        return bool(found) and (found[-1].send_keys(self._file) or True)

    def says(self, text, _value):
        return text in self._browser.text()

    def shows(self, text, _value):
        return self._browser.one(f"//*[self::td or self::a or ancestor::td][normalize-space()='{text}']") is not None

    def gone(self, text, _value):
        return self._browser.one(f"//td[normalize-space()='{text}']") is None


def walk(browser, url, name, account, pictures):
    """Return {task: (clicks, seconds)}; a task that fails has None and its reason is printed."""
    hand, found = Hand(browser, account['file']), {}
    browser.driver.get(url)
    browser.driver.execute_script("localStorage.setItem('lang', 'en')")          # of Skyline
    first = url
    for task in TASKS:
        browser.driver.get(first)
        hand.clicks, begun = 0, time.monotonic()
        try:
            for kind, label, *value in STEPS[name][task]:
                hand.do(kind, label.format(**account), *(one.format(**account) for one in value))
            found[task] = hand.clicks, time.monotonic() - begun
        except AssertionError as error:
            found[task] = None
            print(f'{name}: {task}: {str(error)[:600]}', flush=True)
        if pictures:
            browser.picture(pictures / f'{name}-{task.replace(" ", "-")}.png')
        if task == 'log in':
            first = browser.driver.current_url
        print(f'{name}: {task}: {found[task]}', flush=True)
    return found


def table(results):
    """Return the results as a table; a task that did not end has the clicks of its steps in brackets."""
    width = max(map(len, TASKS))
    lines = [f'{"task":{width}}  ' + '  '.join(f'{name:>14}' for name in results)]
    for task in TASKS:
        cells = ['{} in {:.1f} s'.format(*row[task]) if row[task] else
                 f'({sum(CLICKS[kind] for kind, *_ in STEPS[name][task])})' for name, row in results.items()]
        lines.append(f'{task:{width}}  ' + '  '.join(f'{cell:>14}' for cell in cells))
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--pictures', type=pathlib.Path, help='a directory for a screenshot after each task')
    parser.add_argument('dashboards', nargs='*', metavar='DASHBOARD', help=f'{", ".join(STEPS)}; all')
    given = parser.parse_args()
    if unknown := sorted(set(given.dashboards) - STEPS.keys()):
        parser.error(f'{", ".join(unknown)} is none of {", ".join(STEPS)}.')
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-dashboard-tasks.'))
    (home / 'disk.raw').write_bytes(b'\1' * 1048576)
    results = {}
    for name in given.dashboards or STEPS:
        cloud, ends = local_cloud.LocalCloud('fake', CLOUD), []
        try:
            cloud.start()
            results[name] = walk(*begin(name, cloud, home, ends), given.pictures)
        finally:
            for end in reversed(ends):
                end()
            cloud.close()
    print(table(results))
    return int(any(None in row.values() for row in results.values()))


def begin(name, cloud, home, ends):
    """Start a dashboard; return (browser, URL, name, account)."""
    user, password = cloud.account('nova-demo')
    identity = f'http://127.0.0.1:{cloud.port}/identity/v3'
    url = f'http://127.0.0.1:{cloud.port}/dashboard/'
    if name == 'horizon':
        process, url = dashboards.serve(suites.install(dashboards.DIRECTORY, dashboards.PACKAGES), home, identity)
        ends.append(process.terminate)
        dashboards.wait(url)
    elif name == 'skyline':
        server = skyline.Server(suites.install(skyline.DIRECTORY, skyline.PACKAGES), home, identity,
                                *cloud.account('nova-admin'))
        ends.append(server.end)
        server.start()
        url = server.url
    browser = browsers.Browser(url, tempfile.mkdtemp(dir=home))
    ends.append(browser.quit)
    return browser, url, name, {'user': user, 'password': password, 'file': home / 'disk.raw'}


if __name__ == '__main__':
    sys.exit(main())
