"""Which signed requests to the object store are recent."""
import datetime
import email.utils

import pytest

from nova.objectstore import errors
from nova.objectstore import signing

NOW = datetime.datetime(2026, 5, 1, 12)


def request(form, made, header=None, **params):
    """(WSGI environment, parameters) of a request that names this time; its signature is not looked at here."""
    parts = {'Credential': f'{"a" * 32}/{made[:8]}/RegionOne/s3/aws4_request', 'Signature': '0' * 64,
             'SignedHeaders': 'host;x-amz-content-sha256;x-amz-date'}
    environ = {'REQUEST_METHOD': 'GET', 'PATH_INFO': '/b/k', 'HTTP_HOST': 'cloud.example'}
    if form == 'version 2':
        environ |= {'HTTP_AUTHORIZATION': 'AWS abc:' + 'A' * 28, 'HTTP_DATE': made}
    elif form == 'version 2 in the query':
        params |= {'AWSAccessKeyId': 'abc', 'Signature': 'A' * 28, 'Expires': made}
    elif form == 'version 4':
        environ |= {'HTTP_X_AMZ_DATE': made, 'HTTP_X_AMZ_CONTENT_SHA256': '0' * 64, 'HTTP_AUTHORIZATION': (
            'AWS4-HMAC-SHA256 ' + ','.join(f'{name}={value}' for name, value in parts.items()))}
    else:
        params = {'X-Amz-Algorithm': 'AWS4-HMAC-SHA256', 'X-Amz-Date': made, 'X-Amz-Expires': '604800',
                  **{f'X-Amz-{name}': value for name, value in (parts | {'SignedHeaders': 'host'}).items()}, **params}
    return environ | ({f'HTTP_{header[0].upper().replace("-", "_")}': header[1]} if header else {}), params


def refused(form, made, header=None, **params):
    with pytest.raises(errors.S3Error) as refusal:
        signing.signed_of(*request(form, made, header, **params), NOW)
    return refusal.value.code


FORMS = {  # form: a time as it is written there
    'version 2': lambda moment: email.utils.format_datetime(moment.replace(tzinfo=datetime.UTC), usegmt=True),
    'version 2 in the query': lambda moment: str(int(moment.replace(tzinfo=datetime.UTC).timestamp())),
    'version 4': lambda moment: moment.strftime('%Y%m%dT%H%M%SZ'),
    'version 4 in the query': lambda moment: moment.strftime('%Y%m%dT%H%M%SZ')}


@pytest.mark.parametrize('form', FORMS)
def test_unsigned_date_does_not_make_an_old_request_recent(form):
    write = FORMS[form]
    assert signing.signed_of(*request(form, write(NOW + datetime.timedelta(minutes=1))), NOW).access
    old = write(NOW - datetime.timedelta(days=30))
    assert refused(form, old) in ('RequestTimeTooSkewed', 'AccessDenied')
    for name in ('Date', 'X-Amz-Date') if form.endswith('query') else ('Date',) if form == 'version 4' else ():
        for other in FORMS.values():
            assert refused(form, old, (name, other(NOW))) in ('RequestTimeTooSkewed', 'AccessDenied')
    if form == 'version 2':                    # the string to sign of this request has an empty date
        assert refused(form, write(NOW), ('X-Amz-Date', '')) == 'AccessDenied'


@pytest.mark.parametrize('form', ['version 4', 'version 4 in the query'])
@pytest.mark.parametrize('made', ['00010101T000000Z', '99991231T235959Z'])
def test_a_date_at_the_end_of_the_calendar_is_refused(form, made):
    assert refused(form, made) in ('RequestTimeTooSkewed', 'AccessDenied')


@pytest.mark.parametrize('form', ['version 4', 'version 4 in the query'])
def test_request_must_have_the_day_of_its_credential_scope(form):
    environ, params = request(form, FORMS[form](NOW))
    for values in (environ, params):
        values.update({name: value.replace('/20260501/', '/20260430/') for name, value in values.items()})
    with pytest.raises(errors.S3Error) as refusal:
        signing.signed_of(environ, params, NOW)
    assert str(refusal.value) == 'The date of the request is not the day 20260430 of its credential scope.'


@pytest.mark.parametrize('made', ['Mon, 01 Jan 0001 00:00:00 GMT', 'Mon, 01 Jan 2020 00:00:00 +99999999999999',
                                  'Mon, 01 Jan 99999999999999999999 00:00:00 GMT', 'Fri, 31 Dec 9999 23:59:59 -2359'])
@pytest.mark.parametrize('header', ['Date', 'X-Amz-Date'])
def test_a_date_that_cannot_be_read_is_refused(made, header):
    assert refused('version 2', 'x', (header, made)) in ('RequestTimeTooSkewed', 'AccessDenied')
