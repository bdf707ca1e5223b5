"""Tools of the documentation that need a browser: the width of pages, and the picture of the README."""
import pathlib
import shutil
import subprocess
import sys

import pytest

from nova.tests import long_runs

pytest.importorskip('selenium', reason='selenium is not installed')

TOOLS = pathlib.Path(__file__).parents[3] / 'tools'
HEAD = '<html><head><meta name="viewport" content="width=device-width"></head>'
PAGE = HEAD + '<body><article>{}</article></body></html>'
CUT = HEAD + '<body style="overflow: hidden"><article><pre style="width: 900px">a command</pre></article></body></html>'
LONG = 'openstack server create ' + '--property key=value ' * 20
pytestmark = pytest.mark.skipif(not (shutil.which('chromium') and shutil.which('chromedriver')),
                                reason='chromium and chromium-driver are not installed')


def check(directory, **pages):
    for name, text in pages.items():
        (directory / f'{name}.html').write_text(text)
    return subprocess.run([sys.executable, TOOLS / 'doc_pages.py', directory], capture_output=True, text=True,
                          timeout=200, check=False)


def test_pages_fit_if_commands_and_tables_scroll_in_their_boxes(tmp_path):
    done = check(
        tmp_path, command=PAGE.format(f'<pre style="overflow-x: auto">{LONG}</pre>'),
        table=PAGE.format('<div style="overflow-x: auto"><table style="width: 900px"><td>x</td></table></div>'))
    assert (done.returncode, done.stdout) == (0, '2 pages at 380 pixels: 0 do not fit\n'), done.stderr


def test_wide_pages_and_cut_commands_are_named(tmp_path):
    done = check(
        tmp_path, cut=CUT, wide=PAGE.format('<p style="width: 900px">text</p>'))
    assert done.returncode == 1, done.stderr
    assert "cut.html cuts off 'a command'\n" in done.stdout and 'wide.html is 9' in done.stdout


@long_runs.only
def test_picture_of_the_readme_is_made(tmp_path):
    picture = tmp_path / 'dashboard.png'
    done = subprocess.run([sys.executable, TOOLS / 'dashboard_picture.py', '--output', picture], capture_output=True,
                          text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b'\x89PNG')
