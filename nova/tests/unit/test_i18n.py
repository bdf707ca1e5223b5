"""Texts for users in their language; those of the log stay English."""
import importlib.util
import logging
import pathlib
import re
import sys

import oslo_i18n
import pytest

from nova import exception
from nova import i18n
from nova.api import faults

TREE = pathlib.Path(__file__).resolve().parents[3]
GERMAN = 'Die Instanz a wurde nicht gefunden.'


@pytest.mark.parametrize('accept, language', [
    ('', 'en'), ('de', 'de'), ('de-AT', 'de'), ('DE-de;q=0.5', 'de'), ('fr, de;q=0.3', 'de'), ('en, de', 'en'),
    ('de;q=0.4, en;q=0.9', 'en'), ('de;q=0', 'en'), ('*', 'en'), ('de;q=x', 'en'), ('de;q=nan', 'en'),
    (';;,,=', 'en'), ('x' * 5000, 'en'), ('../../etc', 'en'), ('d\0e', 'en')])
def test_best_language_follows_accept_language(accept, language):
    assert i18n.best_language(accept) == language


def test_fault_has_the_language_of_the_request():
    error = exception.InstanceNotFound(instance_id='a')
    code, headers, body = faults.answer(error, 'req-1', 'de-DE, en;q=0.5')
    assert (code, body['itemNotFound']['message']) == (404, GERMAN)
    assert ('Content-Language', 'de') in headers and ('Vary', 'Accept-Language') in headers
    code, headers, body = faults.answer(error, 'req-1')
    assert body['itemNotFound']['message'] == 'Instance a could not be found.' == error.message
    assert ('Content-Language', 'en') in headers and ('Vary', 'Accept-Language') in headers


def test_errors_from_rpc_are_translated_and_custom_messages_are_not():
    sent = exception.InstanceNotFound('Instance a could not be found.', instance_id='a')
    assert faults.answer(sent, 'r', 'de')[2]['itemNotFound']['message'] == GERMAN
    code, headers, body = faults.answer(exception.NotFound('Nobody translated 100 % of this.'), 'r', 'de')
    assert body['itemNotFound']['message'] == 'Nobody translated 100 % of this.'
    assert ('Content-Language', 'en') in headers
    told = exception.BadRequest('Malformed request body: it is not JSON.')
    assert faults.answer(told, 'r', 'de')[2]['badRequest']['message'].startswith('Fehlerhafter')
    # facts are no templates
    odd = exception.InstanceNotFound(instance_id='%(x)s %d')
    assert faults.answer(odd, 'r', 'de')[2]['itemNotFound']['message'] == 'Die Instanz %(x)s %d wurde nicht gefunden.'


def test_the_log_stays_english(caplog):
    with caplog.at_level(logging.WARNING):
        _code, _headers, body = faults.answer(exception.HostUnavailable(host='h'), 'req-1', 'de')
        assert 'antwortet nicht' in body['serviceUnavailable']['message']
        faults.answer(ValueError('canary'), 'req-2', 'de')
    assert 'does not answer' in caplog.text and 'antwortet' not in caplog.text and 'failed unexpectedly' in caplog.text


def test_marked_texts_are_translated_when_it_is_known_who_reads():
    i18n.enable_lazy()
    try:
        text = i18n._('The resource could not be found.')
        assert isinstance(text, str) and i18n.translate(text, 'de') == 'Die Ressource wurde nicht gefunden.'
        assert faults.answer(exception.NotFound(text), 'r', 'de')[2]['itemNotFound']['message'].startswith('Die ')
        assert oslo_i18n.translate(text, 'de').startswith('Die ')
    finally:
        i18n.enable_lazy(False)
    for mark in (i18n._LI, i18n._LW, i18n._LE, i18n._LC):
        assert mark('words') == 'words'
    assert 'de' in i18n.get_available_languages()


def _templates():
    return {kind.template for kind in vars(exception).values()
            if isinstance(kind, type) and issubclass(kind, exception.NovaException) and kind.code != 500}


def test_the_german_catalog_has_nearly_every_error_with_the_same_facts():
    missing = [text for text in _templates() if i18n.translate(text, 'de') == text]
    assert len(missing) <= len(_templates()) // 10, missing
    for text in _templates():
        facts = re.findall(r'%\((\w+)\)', text)
        assert set(re.findall(r'%\((\w+)\)', i18n.translate(text, 'de'))) <= set(facts), text


def test_catalogs_are_compiled_and_the_code_can_be_extracted():
    pytest.importorskip('babel')
    if not (TREE / 'tools' / 'messages.py').exists():
        pytest.skip('tools/messages.py is not part of an installed nova')
    spec = importlib.util.spec_from_file_location('messages', TREE / 'tools' / 'messages.py')
    messages = sys.modules['messages'] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(messages)
    try:
        found = {message.id for message in messages.extracted()}
        assert _templates() <= found and faults.UNEXPECTED in found
        for language, path in messages.files().items():
            assert not messages.stale(path, language)
            assert [error for message in messages.read(path, language) for error in message.check()] == []
    finally:
        del sys.modules['messages']
