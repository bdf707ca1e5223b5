"""Lists of a Block Storage and a Key Manager service that have several pages."""
import contextlib
import types

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.db.volumes import volumes
from nova.volume import barbican
from nova.volume import cinder

CTX = context.admin_context()


class Service:
    """A rest_client.Service with a list; it returns ``most`` rows of it at once, and counts the requests."""

    has_account = True

    def __init__(self, rows, most, ignores_markers=False):
        self.rows, self.most, self.count, self.ignores_markers = rows, most, 0, ignores_markers

    def endpoint(self):
        return 'http://service/v1'

    def own_project(self):
        return 'p'

    def fine(self, ctx, answer):
        return answer

    def request(self, ctx, method, address, headers, params):
        self.count += 1
        idents = [each.get('id') for each in self.rows]
        begin = params.get('offset', 0)
        if params.get('marker') and not self.ignores_markers:
            begin = idents.index(params['marker']) + 1
        page = self.rows[begin:begin + min(self.most, params['limit'])]
        return types.SimpleNamespace(status_code=200, json=lambda: {
            'secrets': page, 'volume_types': page, 'total': len(self.rows)})


@pytest.mark.parametrize('count, most, requests', [(0, 100, 1), (7, 100, 1), (250, 100, 3), (25, 10, 3), (20, 10, 2)])
def test_secrets_with_a_name_are_those_of_all_pages(count, most, requests):
    client = barbican.Barbican(nova_conf.new(files=[]))
    client._service = Service([{'secret_ref': f'http://service/v1/secrets/{number}'} for number in range(count)], most)
    assert client.named(CTX, 'volume x') == [str(number) for number in range(count)]
    assert client._service.count == requests


def test_passphrase_that_is_not_utf8_is_no_luks_key(monkeypatch):
    client = barbican.Barbican(nova_conf.new(files=[]))
    answer = types.SimpleNamespace(content=b'\xff', json=lambda: {'secret_type': 'passphrase'})
    monkeypatch.setattr(client, '_get', lambda *_words: answer)
    with pytest.raises(exception.InvalidVolume, match='not UTF-8'):
        client.passphrase(CTX, '12345678-1234-1234-1234-123456789012')


@pytest.mark.parametrize('name, ignores_markers, found', [
    ('type 0', False, True), ('i9', False, True), ('type 24', False, True), ('type 25', False, False),
    ('type 9', True, True), ('type 24', True, False)])
def test_volume_type_is_found_on_any_page(name, ignores_markers, found):
    client = cinder.CinderVolumes(nova_conf.new(files=[]))
    client._service = Service([{'id': f'i{number}', 'name': f'type {number}'} for number in range(25)], 10,
                              ignores_markers)
    with contextlib.nullcontext() if found else pytest.raises(exception.VolumeTypeNotFound):
        client.check_type(CTX, name)
    assert client._service.count <= 4


def test_page_without_a_limit_has_all_rows_after_its_offset():
    """It ended after 1000 rows."""
    table = sa.Table('numbers', sa.MetaData(), sa.Column('id', sa.Integer))
    with sa.create_engine('sqlite://').begin() as conn:
        table.create(conn)
        conn.execute(sa.insert(table), [{'id': number} for number in range(1100)])
        rows = volumes._page(conn, table, [], sort=[('id', 'asc')], offset=2)
        assert [row['id'] for row in rows] == list(range(2, 1100))
        rows = volumes._page(conn, table, [], sort=[('id', 'asc')], limit=2, offset=3)
        assert [row['id'] for row in rows] == [3, 4]
