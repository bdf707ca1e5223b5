"""One-time codes by the clock."""
import pytest

from nova.identity import totp


def test_totp_codes_match_rfc_6238():
    """RFC 6238, appendix B, the last 6 of its 8 digits."""
    secret = b'12345678901234567890'
    for moment, digits in ((59, '287082'), (1111111109, '081804'), (1111111111, '050471'), (1234567890, '005924'),
                           (2000000000, '279037'), (20000000000, '353130')):
        assert totp.code(secret, moment // 30) == digits
        assert totp.step_of([b'x' * 20, secret], digits, moment) == moment // 30


@pytest.mark.parametrize('text', ['GEZDGNBVGY3TQOJQGEZDGNBVGY', 'gezdgnbvgy3tqojqgezdgnbvgy',
                                  'GEZDGNBVGY3TQOJQGEZDGNBVGY======'])
def test_secret_is_accepted_in_several_forms(text):
    assert totp.secret_of(text) == b'1234567890123456'
