"""tools/ceph.sh, on which the tests with Ceph stand."""
import subprocess

import pytest

from nova.tests import ceph as cephs

ceph = cephs.ceph


def test_rbd_images_survive_a_restart_of_the_cluster(ceph):
    ceph.rbd('create', '--size', '8M', 'image')
    ceph.stop()
    with pytest.raises(subprocess.TimeoutExpired):
        ceph.rbd('ls', timeout=2)
    ceph.start()
    assert ceph.images() == ['image']
    ceph.rbd('rm', '--no-progress', 'image')
    assert ceph.images() == []


def test_the_user_has_no_right_in_another_pool(ceph):
    subprocess.run(['ceph', '-c', ceph.conf, 'osd', 'pool', 'create', 'other'], check=True, timeout=cephs.COMMAND_S)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        ceph.rbd('create', '--size', '8M', 'image', pool='other')
    assert 'Operation not permitted' in refused.value.stderr


def test_a_directory_with_something_of_others_in_it_is_refused(tmp_path):
    if cephs.missing():
        pytest.skip(cephs.missing())
    (tmp_path / 'file').write_text('kept')
    done = subprocess.run([cephs.TOOL, 'start', tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and 'is not empty' in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ['file']


def test_without_ceph_its_tests_say_what_is_missing(monkeypatch, tmp_path):
    if not cephs.TOOL.exists():
        pytest.skip(cephs.missing())
    (tmp_path / 'bash').symlink_to('/usr/bin/bash')
    monkeypatch.setenv('PATH', str(tmp_path))
    monkeypatch.setattr(cephs.os, 'geteuid', lambda: 0)
    assert cephs.missing() == 'Ceph is not installed: there is no ceph-mon'
