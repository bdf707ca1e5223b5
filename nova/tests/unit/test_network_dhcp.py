"""Files that dnsmasq reads as nobody."""
import os

from nova.network.linux import dnsmasq_files


def test_a_daemons_strict_umask_does_not_lock_dnsmasq_out(tmp_path):
    """nova-all runs with umask 077: the directories were 0700, dnsmasq read no hosts and guests got no address."""
    before = os.umask(0o077)
    try:
        dnsmasq_files.make_directory(tmp_path / 'br-one' / 'br-one')
        dnsmasq_files.write(tmp_path / 'br-one' / 'br-one' / 'hosts', 'fa:16:3e:00:00:01,10.0.0.2\n')
    finally:
        os.umask(before)
    for path in ('br-one', 'br-one/br-one'):
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o755
    assert (tmp_path / 'br-one/br-one/hosts').stat().st_mode & 0o777 == 0o644
