#!/usr/bin/env python3
"""Does each page of the built documentation fit on a phone? Opens all of them in Chromium and measures their width.

    tools/doc_pages.py DIRECTORY [--width 380]

Tables and commands may scroll within the page; the page itself may not. The exit code is 1 if a page is wider than the
window, or if a table or a command is cut off. Chromium and its driver are packages of Debian (chromium,
chromium-driver). Selenium is part of the test extra.
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

from selenium import webdriver

HEIGHT = 800
FLAGS = ('--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--allow-file-access-from-files')
# A box that is wider than what shows of it must scroll: the box itself, or one around it.
MEASURE = '''
const scrolls = element => {
    for (let box = element; box && box !== document.body; box = box.parentElement) {
        if (['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return true;
    }
    return false;
};
const cut = [...document.querySelectorAll('article table, article pre')]
    .filter(element => element.getBoundingClientRect().right > arguments[0] && !scrolls(element))
    .map(element => element.textContent.trim().slice(0, 60));
return [document.documentElement.scrollWidth, cut];
'''


def measure(driver: webdriver.Chrome, page: pathlib.Path, width: int) -> list[str]:
    """Return the parts that do not fit on a page, as sentences."""
    driver.get(page.as_uri())
    wide, cut = driver.execute_script(MEASURE, width)
    return ([f'is {wide} pixels wide'] if wide > width else []) + [f'cuts off {text!r}' for text in cut]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('directory', type=pathlib.Path, help='of the HTML pages')
    parser.add_argument('--width', type=int, default=380, help='pixels of the window (380)')
    parser.add_argument('--pictures', type=pathlib.Path, help='a directory for pages that do not fit')
    given = parser.parse_args()
    pages = sorted(given.directory.resolve().rglob('*.html'))
    if not pages:
        parser.error(f'{given.directory} has no HTML pages')
    wrong = 0
    with tempfile.TemporaryDirectory(prefix='nova-doc-pages.') as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which('chromium')
        for flag in (*FLAGS, f'--user-data-dir={profile}'):
            options.add_argument(flag)
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which('chromedriver')))
        try:
            driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
                'width': given.width, 'height': HEIGHT, 'deviceScaleFactor': 1, 'mobile': True})
            for page in pages:
                found = measure(driver, page, given.width)
                wrong += bool(found)
                for problem in found:
                    print(f'{page.relative_to(given.directory.resolve())} {problem}', flush=True)
                if found and given.pictures:
                    given.pictures.mkdir(parents=True, exist_ok=True)
                    driver.save_screenshot(str(given.pictures / f'{page.stem}.png'))
        finally:
            driver.quit()
    print(f'{len(pages)} pages at {given.width} pixels: {wrong} do not fit')
    return int(wrong > 0)


if __name__ == '__main__':
    sys.exit(main())
