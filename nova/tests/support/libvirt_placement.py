"""What tests share with nova/tests/unit/test_libvirt_placement.py."""
import shutil
import subprocess

import pytest


def validate(tmp_path, text, schema):
    if not (shutil.which('virt-xml-validate') and shutil.which('xmllint')):
        pytest.skip('virt-xml-validate (libvirt-clients) or xmllint (libxml2-utils) is not installed')
    file = tmp_path / 'it.xml'
    file.write_text(text)
    done = subprocess.run(['virt-xml-validate', str(file), schema], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
