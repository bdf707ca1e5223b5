"""QR codes of the dashboard, in Node. The checksums are of codes that an independent reader (zxing-cpp) has read."""
import hashlib
import json
import pathlib
import shutil
import subprocess

import pytest

from nova.api.dashboard import app

pytestmark = pytest.mark.skipif(shutil.which('node') is None, reason='node is not installed')
# length of the text: (modules of a side, checksum)
LENGTHS = {17: (21, '7b6bb027b806fc88'), 32: (25, '64997c12baa49ac3'), 53: (29, 'a6bae862acb405b5'),
           78: (33, 'd8e16ec2f050c710'), 106: (37, '9226d8629857b876'), 134: (41, '912aaea970c40fae')}
TEXT = 'otpauth://totp/localhost:demo?secret=ABCDEFGHIJKLMNOPQRSTUVWXYZ234567&issuer=localhost&more=' + 'x' * 42


def modules(*texts):
    path = pathlib.Path(app.STATIC, 'parts', 'qr.js')
    program = (f'import {{modules}} from {json.dumps(path.as_uri())};'
               f'console.log(JSON.stringify({json.dumps(texts)}.map(text => modules(text))))')
    done = subprocess.run(['node', '--no-warnings', '--input-type=module', '-e', program], capture_output=True,
                          text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_codes_are_those_that_a_reader_has_read():
    found = modules(*(TEXT[:length] for length in LENGTHS))
    assert [(len(rows), hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]) for rows in found] == [
        *LENGTHS.values()]


def test_a_text_that_is_too_long_has_none():
    assert modules('x' * 135, 'ä' * 68) == [None, None]
