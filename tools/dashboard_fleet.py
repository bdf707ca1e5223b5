#!/usr/bin/env python3
"""Walk the dashboard of a fleet in Chromium: it logs in at Keystone, asks Glance, and Neutron where there is one, at
addresses of their own, makes a server, and deletes it.

    tools/cluster.sh up [--libvirt 1 --network neutron]
    .venv/bin/python tools/dashboard_fleet.py [--pictures DIRECTORY]

chromium and chromium-driver are Debian's; selenium comes with the test extra. The exit code is 1 when something fails.
"""
import argparse
import pathlib
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]
from cluster import settings
from nova.tests.integration import browser as browsers
from nova.tests.support import dashboard as test_dashboard

ACTIVE_S = 120                 # a real guest on a busy machine
PLAIN = 'Cross-Origin-Opener-Policy'          # what the browser says of every page that comes without TLS
STORAGE = {'volumes', 'snapshots'}           # a fleet has no block storage


class Walk:
    """What was seen, page after page."""

    def __init__(self, browser, pictures):
        self.browser, self._pictures, self.wrong, self.seen = browser, pictures, 0, 0

    def look(self, name, step):
        """Do a step, and print what became of it."""
        self.seen += 1
        try:
            step()
            complaints = [line for line in self.browser.complaints() if PLAIN not in line]
            refused = [element.text for element in self.browser.css('.refusal')]
            found = '; '.join(refused + complaints)
        except AssertionError as error:
            found = str(error)
        if self._pictures:
            self.browser.picture(self._pictures / f'fleet-{name.replace(" ", "-").replace("/", "-")}.png')
        self.wrong += bool(found)
        print(f'{"FAILED" if found else "ok    "} {name} {found[:300]}', flush=True)

    def pages(self, pages):
        for path, heading in pages.items():
            if path not in STORAGE:
                self.look(f'page {path or "overview"}', lambda path=path, heading=heading: self.browser.go(
                    f'/{path}', heading))

    def life(self, flavor, image):
        """Make a server, stop it and delete it."""
        user = self.browser

        def make():
            user.go('/create', 'Create server')
            user.type('Name', 'by-browser')
            user.choose('Flavor', flavor)
            user.choose('Image', image)
            user.press('Create server')
            user.heading('by-browser')
            user.until(lambda: user.css('.page-head .badge.good'), 'it does not become active', ACTIVE_S)

        def stop():
            user.press('Actions')
            user.press('Stop', within="//*[@role='menu']")
            user.press('Stop', within='//dialog[@open]')
            user.until(lambda: 'SHUTOFF' in user.text(), 'it is not stopped')

        def delete():
            user.press('Actions')
            user.press('Delete')
            user.press('Delete', within='//dialog[@open]')
            user.heading('Servers')
        for name, step in (('make a server', make), ('stop it', stop), ('delete it', delete)):
            self.look(name, step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--pictures', type=pathlib.Path, help='a directory for a screenshot of each page')
    given = parser.parse_args()
    fleet = settings.load()
    with tempfile.TemporaryDirectory(prefix='nova-dashboard-fleet.') as profile:
        browser = browsers.Browser(settings.url('haproxy'), profile)
        walk = Walk(browser, given.pictures)
        try:
            walk.look('log in', lambda: browser.login('demo', fleet.passwords['demo']))
            walk.pages(test_dashboard.USER_PAGES)
            # Neutron binds ports of hosts with Open vSwitch alone: those with real guests
            walk.life(*(('real.nano', 'guest') if fleet.libvirt else ('m1.nano', 'small')))
            walk.look('log out', lambda: (browser.press('Log out'), browser.heading('Cloud dashboard')))
            walk.look('log in as administrator', lambda: browser.login('admin', fleet.passwords['admin']))
            walk.pages(test_dashboard.ADMIN_PAGES)
        finally:
            browser.quit()
    print(f'\n{walk.seen} steps: {walk.seen - walk.wrong} passed, {walk.wrong} failed')
    return 1 if walk.wrong else 0


if __name__ == '__main__':
    sys.exit(main())
