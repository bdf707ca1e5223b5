"""A real browser, Debian's Chromium without a screen, at the dashboard of a cloud.

Its users are people: what is found is found by its name as screen readers say it.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest
from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from nova.tests.support import waiting

TOOLS = pathlib.Path(__file__).parents[3] / 'tools' / 'dashboard'
WAIT_S = 120                # on a busy machine
# Without a network of its own a browser asks for nothing but what it is told to.
FLAGS = ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
         '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
         '--lang=en')
DESK, PHONE = (1360, 860), (400, 840)
RULES = ('wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice')


def packages(directory):
    """node_modules of tools/dashboard, installed there; a test without npm is skipped.

    :param directory: kept between runs
    """
    if shutil.which('npm') is None:
        pytest.skip('npm is not installed')
    modules = directory / 'node_modules'
    if not modules.exists():
        for name in ('package.json', 'package-lock.json'):
            shutil.copy(TOOLS / name, directory / name)
        done = subprocess.run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], cwd=directory,
                              capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            pytest.skip(f'the npm registry cannot be reached: {done.stderr[-200:]}')
    return modules


def kept():
    """Where the packages of npm are kept between runs."""
    directory = pathlib.Path(tempfile.gettempdir(), f'nova-dashboard-tools.{os.getuid()}')
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


class Browser:
    """
    :param url: of the cloud
    :param dark: whether the system says that it is dark
    """

    def __init__(self, url, profile, size=DESK, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which('chromium')
        for flag in (*FLAGS, f'--user-data-dir={profile}'):
            options.add_argument(flag)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
        self.url = url
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which('chromedriver')))
        self.driver.set_page_load_timeout(WAIT_S)
        self.size(size)
        self.scheme('dark' if dark else 'light')

    def size(self, size):
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': size is PHONE})

    def scheme(self, name):
        """'dark' or 'light': what the system asks for."""
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': name}]})

    def quit(self):
        self.driver.quit()

    def processor_s(self):
        """Seconds of a processor that all processes of the browser, and this one with its cloud, have used until now.

        A full machine makes every clock of the wall slow, and these hardly.
        """
        ticks, level = 0, [self.driver.service.process.pid]
        while level:
            below = []
            for pid in level:
                with contextlib.suppress(OSError):                # it has ended
                    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
                    ticks += sum(map(int, fields[11:15]))         # of its own, and of children that have ended
                    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
                        below += map(int, (task / 'children').read_text().split())
            level = below
        return time.process_time() + ticks / os.sysconf('SC_CLK_TCK')

    # ---- what a person does

    def open(self):
        self.driver.get(self.url + '/dashboard/')

    def login(self, user, password):
        self.open()
        self.type('User', user)
        self.type('Password', password)
        self.press('Log in')
        self.heading('Overview')

    def go(self, path, heading=None):
        """A page, by its address behind the #."""
        self.driver.execute_script('location.hash = arguments[0]', '#' + path)
        if heading:
            self.heading(heading)
        self.settled()

    def press(self, name, within=''):
        """A button, a link or an item of a menu, by its name."""
        def click():
            found = self._named(name, within)
            return found is not None and (found.click() or True)
        self.until(click, f'nothing is called {name!r}, or something is before it')

    def type(self, label, text):
        field = self.field(label)
        field.clear()
        field.send_keys(text)

    def choose(self, label, text):
        """An option of a choice, by the beginning of its text, once it is there."""
        def pick():
            found = Select(self.field(label))
            for option in found.options:
                if option.text.startswith(text):
                    found.select_by_visible_text(option.text)
                    return True
            return False
        self.until(pick, f'{label} has no {text}')

    def keys(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def palette(self, text):
        webdriver.ActionChains(self.driver).key_down(Keys.CONTROL).send_keys('k').key_up(Keys.CONTROL).perform()
        self.until(lambda: self.css('dialog[open] [role=combobox]'), 'no palette')
        self.keys(text)

    # ---- what a person sees

    def field(self, label):
        labels = f'//label[starts-with(normalize-space(), {_quoted(label)})]'
        paths = [f'{place}//*[@id = {labels}/@for]' for place in ('//dialog[@open]', '//main')]
        paths += [f'{place}{labels}/*[self::input or self::select]' for place in ('//dialog[@open]', '')]
        paths.append(f'//*[@aria-label={_quoted(label)}]')
        return self.until(lambda: self.one(*paths), f'no field is called {label!r}')

    def text(self):
        return self.driver.find_element(By.TAG_NAME, 'body').text

    def says(self, text, timeout=WAIT_S):
        self.until(lambda: text in self.text(), f'the page does not say {text!r}', timeout)

    def heading(self, text):
        self.until(lambda: any(text in found.text for found in self.css('h1')), f'no heading {text!r}')

    def settled(self):
        """Nothing is being loaded."""
        self.until(lambda: not self.css('.loading'), 'it goes on loading')

    def css(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, *paths):
        for path in paths:
            for element in self.driver.find_elements(By.XPATH, path):
                if element.is_displayed():
                    return element
        return None

    def _named(self, name, within):
        said = _quoted(name)
        what = ("*[self::button or self::a or self::summary or @role='option']"
                f'[normalize-space()={said} or @aria-label={said}]')
        places = [within] if within else ['//dialog[@open]', "//*[@role='menu']", '//main', '//body']
        return self.one(*(f'{place}//{what}' for place in places))

    def until(self, ask, complaint, timeout=WAIT_S):
        limit = waiting.Limit(timeout)
        while True:
            with contextlib.suppress(exceptions.StaleElementReferenceException, exceptions.NoSuchElementException,
                                     exceptions.ElementClickInterceptedException):
                found = ask()
                if found:
                    return found
            assert not limit.is_over(), f'{complaint}; the page says: {self.text()[:1500]}'
            time.sleep(0.05)

    def picture(self, path):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))

    # ---- what a person does not see

    def axe(self, modules):
        """What axe-core finds wrong with the page, as lines."""
        source = (modules / 'axe-core' / 'axe.min.js').read_text()
        self.driver.execute_cdp_cmd('Runtime.evaluate', {'expression': source})
        found = self.driver.execute_async_script(
            'const done = arguments[arguments.length - 1];'
            'axe.run(document, {runOnly: arguments[0]}).then(found => done(found.violations));', list(RULES))
        return [f'{row["id"]}: {node["html"][:160]} ({node["failureSummary"][:200]})'
                for row in found for node in row['nodes']]

    def complaints(self):
        """What the browser's console says is wrong, refusals of the APIs left out."""
        return [entry['message'] for entry in self.driver.get_log('browser')
                if entry['level'] == 'SEVERE' and 'Failed to load resource' not in entry['message']]

    def requests(self):
        """(method, URL, headers) of what it has asked for since the last call."""
        found = []
        for entry in self.driver.get_log('performance'):
            message = json.loads(entry['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                request = message['params']['request']
                found.append((request['method'], request['url'], request['headers']))
        return found


def _quoted(text):
    return f'"{text}"' if '"' not in text else "concat('" + text.replace("'", "', \"'\", '") + "')"
