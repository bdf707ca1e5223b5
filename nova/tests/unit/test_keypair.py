"""Public keys that users bring."""
import pytest

from nova import exception
from nova.objects import keypair


def test_a_compressed_point_is_a_damaged_key():
    """The library says NotImplementedError for it, which was a failure of the service."""
    key = ('ecdsa-sha2-nistp256 '
           'AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBXwRYIbAC26J3JRqdGOty1ccg9O/gIbOAKcAX'
           '2HE0CJO+eyPsEtZ6U4U035ti9j//WGaGnATxJd7Rwxu+lUDlnyNj')
    with pytest.raises(exception.KeypairInvalid, match='damaged'):
        keypair.fingerprint(key)
