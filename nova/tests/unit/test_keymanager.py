"""Payloads, generated keys, queries and names of the embedded key manager."""
import base64
import datetime

from cryptography.hazmat.primitives import serialization
import pytest

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.key_manager import records
from nova.db.tables import key_manager as t
from nova.keymanager import generation
from nova.keymanager import payloads
from nova.keymanager import store
from nova.keymanager.rest import forms
from nova.keymanager.rest import resources
from nova.tests import schemas

A = '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00'


def _document(payload, kind, encoding=None):
    return payloads.of_document({'payload': payload, 'payload_content_type': kind,
                                 'payload_content_encoding': encoding})


@pytest.mark.parametrize('payload, kind, encoding, expected', [
    ('wörds', 'text/plain', None, ('wörds'.encode(), payloads.TEXT)),
    ('x', 'Text/Plain; charset=UTF-8', None, (b'x', payloads.TEXT)),
    ('AAEC\n/w==', 'application/octet-stream', 'base64', (b'\0\1\2\xff', payloads.OCTETS)),
    ('AAEC', 'application/pkcs8', 'base64', (b'\0\1\2', payloads.PKCS8)),
    (None, None, None, None)])
def test_payload_of_a_document_is_decoded(payload, kind, encoding, expected):
    assert _document(payload, kind, encoding) == expected


@pytest.mark.parametrize('payload, kind, encoding, why', [
    ('x', None, None, 'needs payload_content_type'), (None, 'text/plain', None, 'need a payload'),
    ('x', 'text/html', None, 'text/html'), ('eA==', 'text/plain', 'base64', 'must not have payload_content_encoding'),
    ('eA==', 'application/octet-stream', None, 'needs payload_content_encoding base64'),
    ('###', 'application/octet-stream', 'base64', 'not valid base64'), ('', 'text/plain', None, 'empty')])
def test_payload_of_a_document_that_does_not_fit_is_refused(payload, kind, encoding, why):
    with pytest.raises(exception.BadRequest, match=why):
        _document(payload, kind, encoding)


@pytest.mark.parametrize('accept, asked', [
    ('', False), ('*/*', False), ('text/plain', True), ('text/*', True), ('application/octet-stream;q=0.5', True),
    ('application/pkcs8', True), ('text/plain, application/json', False), ('text/html', False),
    ('text/html,*/*', False), ('application/vnd.api+json', False), ('application/problem+json, text/plain', True)])
def test_only_an_accept_header_with_a_type_of_payloads_asks_for_the_payload(accept, asked):
    assert payloads.asks_for_payload(accept) is asked


def test_payload_has_at_most_20000_bytes():
    most = base64.b64encode(b'x' * payloads.MAX_BYTES).decode()
    assert len(_document(most, payloads.OCTETS, 'base64').content) == 20000
    with pytest.raises(exception.TooLarge):
        _document('x' * 20001, 'text/plain')
    with pytest.raises(exception.TooLarge):
        payloads.of_body(b'x' * 20001, payloads.OCTETS, False)


def test_payload_of_a_body_is_decoded():
    assert payloads.of_body(b'words', '', False) == (b'words', payloads.TEXT)
    assert payloads.of_body(b'AAEC', payloads.OCTETS, True) == (b'\0\1\2', payloads.OCTETS)
    assert payloads.of_body(b'\0\xff', payloads.OCTETS, False) == (b'\0\xff', payloads.OCTETS)
    with pytest.raises(exception.UnsupportedMediaType):
        payloads.of_body(b'{}', 'application/json', False)
    with pytest.raises(exception.BadRequest, match='UTF-8'):
        payloads.of_body(b'\xff', 'text/plain', False)
    with pytest.raises(exception.BadRequest, match='Content-Encoding'):
        payloads.of_body(b'eA==', 'text/plain', True)


@pytest.mark.parametrize('accept, stored, expected', [
    ('', payloads.TEXT, payloads.TEXT), ('*/*', payloads.OCTETS, payloads.OCTETS),
    ('text/plain', payloads.TEXT, payloads.TEXT), ('text/*;q=0.5', payloads.TEXT, payloads.TEXT),
    ('application/octet-stream', payloads.TEXT, payloads.OCTETS),
    ('text/plain', payloads.OCTETS, payloads.TEXT), ('text/html, application/octet-stream', payloads.PKCS8,
                                                     payloads.OCTETS)])
def test_accept_header_selects_the_media_type(accept, stored, expected):
    assert payloads.chosen(accept, payloads.Payload(b'words', stored)) == expected


def test_media_type_that_a_payload_does_not_have_is_refused():
    for accept, stored in (('text/plain', payloads.OCTETS), ('application/json', payloads.TEXT)):
        with pytest.raises(exception.NotAcceptable, match=stored):
            payloads.chosen(accept, payloads.Payload(b'\xff', stored))


def test_accept_header_selects_metadata_or_payload():
    assert [payloads.asks_for_payload(accept) for accept in (
        '', '*/*', 'application/json', 'text/plain, */*', 'text/plain', 'application/octet-stream')] == [
            False, False, False, False, True, True]


def test_generated_keys_have_the_requested_length():
    assert len(generation.random_key(256)) == 32 and generation.random_key(256) != generation.random_key(256)
    private, public = (load(text) for load, text in zip(
        (lambda text: serialization.load_pem_private_key(text, None), serialization.load_pem_public_key),
        generation.rsa_pair(2048), strict=True))
    assert private.key_size == 2048 and private.public_key().public_numbers() == public.public_numbers()


@pytest.mark.parametrize('kind, algorithm, bits, why', [
    ('key', 'aes', 13, 'Supported lengths: 128, 192, 256'), ('key', 'rsa', 2048, 'support aes'),
    ('key', 'hmacsha256', 4104, 'multiples of 8'), ('asymmetric', 'dsa', 2048, 'support rsa'),
    ('asymmetric', 'rsa', 1024, '2048, 3072, 4096'), ('asymmetric', 'rsa', 8192, '2048, 3072, 4096')])
def test_key_that_cannot_be_generated_is_refused(kind, algorithm, bits, why):
    with pytest.raises(exception.BadRequest, match=why):
        generation.check(kind, algorithm, bits)


def test_expiration_is_converted_to_utc_and_must_be_in_the_future():
    assert forms.expiration('2049-01-01T01:01:01+05:45') == datetime.datetime(2048, 12, 31, 19, 16, 1)
    assert forms.expiration(None) is forms.expiration('') is None
    for text, why in (('2010-01-01T00:00:00', 'in the future'), ('tomorrow', 'ISO 8601')):
        with pytest.raises(exception.BadRequest, match=why):
            forms.expiration(text)


def test_secret_id_is_read_from_urls_of_secrets_only():
    for ref in (f'http://h:1/key-manager/v1/secrets/{A}', f'https://h/v1/secrets/{A}/', f'v1/secrets/{A}'):
        assert forms.secret_id(ref) == A
    for ref in ('nonsense', A, f'http://h/v1/containers/{A}', f'http://h/v1/secrets/{A}/acl', f'http://h/v1/secrets/{A}\n'):
        with pytest.raises(exception.BadRequest, match='URL of a secret'):
            forms.secret_id(ref)


def test_time_filters_are_parsed():
    moments = [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 2, 1)]
    assert forms.comparisons('created', 'created_at', 'gte:2026-01-01T00:00:00,lt:2026-02-01') == [
        ('created_at', 'gte', moments[0]), ('created_at', 'lt', moments[1])]
    assert forms.comparisons('created', 'created_at', '2026-01-01T00:00:00') == [('created_at', 'eq', moments[0])]
    for text, why in (('xx:2026-01-01', 'ISO 8601'), ('nonsense', 'ISO 8601'),
                      (','.join(['2026-01-01'] * 9), 'at most')):
        with pytest.raises(exception.BadRequest, match=why):
            forms.comparisons('created', 'created_at', text)


def test_sort_keys_of_a_list_are_parsed():
    assert forms.order(resources.SECRET, 'name:desc,created') == [('name', True), ('created_at', False)]
    assert forms.order(resources.SECRET, '') == [('created_at', False)]
    for text in ('nothing', 'name:up', 'creator_id'):
        with pytest.raises(exception.BadRequest, match='Cannot sort by'):
            forms.order(resources.SECRET, text)


@pytest.mark.parametrize('kind, names, why', [
    ('generic', ['x', 'x'], 'unique'), ('generic', ['', ''], 'unique'), ('rsa', ['public_key'], 'needs secrets'),
    ('rsa', ['public_key', 'private_key', 'x'], 'only'), ('certificate', ['private_key'], 'needs secrets')])
def test_names_that_do_not_fit_the_type_of_a_container_are_refused(kind, names, why):
    with pytest.raises(exception.BadRequest, match=why):
        store.check_names(kind, [(name, str(number)) for number, name in enumerate(names)])


def test_names_that_fit_the_type_of_a_container():
    for kind, names in (('generic', ['x', '']), ('rsa', ['public_key', 'private_key']), ('rsa', []),
                        ('certificate', ['certificate', 'intermediates'])):
        store.check_names(kind, [(name, str(number)) for number, name in enumerate(names)])
    with pytest.raises(exception.BadRequest, match='unique'):
        store.check_names('generic', [('x', A), ('y', A)])


def test_digest_of_a_consumer_does_not_depend_on_the_order_of_its_keys():
    assert records.digest({'name': 'n', 'URL': 'u'}) == records.digest({'URL': 'u', 'name': 'n'})
    assert records.digest({'name': 'n', 'URL': 'u'}) != records.digest({'name': 'u', 'URL': 'n'})


def test_expired_secrets_beyond_one_deletion_and_their_consumers_use_no_quota(tmp_path):
    db, now = engine.Database(f'sqlite:///{tmp_path}/api.sqlite'), utils.utcnow()
    schemas.create(db, 'api')
    stamps = {'project_id': 'p', 'created_at': now}
    with db.writer() as conn:
        conn.execute(t.key_secrets.insert(), [{
            **stamps, 'id': str(number), 'creator_id': 'c', 'secret_type': 'opaque', 'metadata': {}, 'updated_at': now,
            'project_access': True, 'expires_at': now - datetime.timedelta(days=1)} for number in range(1002)])
        conn.execute(t.key_consumers.insert(), [{
            **stamps, 'target_id': str(number), 'digest': 'd', 'document': {}} for number in range(1002)])
    db.run(records.use, 'p', 1, {'secrets': 1, 'consumers': 1})
    with pytest.raises(exception.QuotaExceeded, match='Requested 2, but already used 0 of 1'):
        db.run(records.use, 'p', 1, {'secrets': 2})
    db.dispose()
