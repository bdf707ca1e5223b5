"""What nova.runtime.hooks.pymysql_answers reads is what PyMySQL reads: the same bytes are given to both."""
import itertools
import socket
import struct
import threading

import pytest

from nova.runtime.hooks import pymysql_answers
from pymysql import connections
from pymysql import err
from pymysql.constants import FIELD_TYPE

BINARY, UTF8 = 63, 45
MORE_RESULTS = 8
COLUMNS = (('id', FIELD_TYPE.LONGLONG, BINARY), ('name', FIELD_TYPE.VAR_STRING, UTF8),
           ('raw', FIELD_TYPE.BLOB, BINARY), ('share', FIELD_TYPE.DOUBLE, BINARY),
           ('price', FIELD_TYPE.NEWDECIMAL, BINARY), ('made', FIELD_TYPE.DATETIME, BINARY),
           ('day', FIELD_TYPE.DATE, BINARY), ('took', FIELD_TYPE.TIME, BINARY), ('document', FIELD_TYPE.JSON, BINARY),
           ('bits', FIELD_TYPE.BIT, BINARY), ('year', FIELD_TYPE.YEAR, BINARY))
ROWS = [
    (b'1', 'Größe \U0001f600'.encode(), b'\0\xff\xfe', b'1.5', b'10.20', b'2026-01-01 12:00:00', b'2026-01-01',
     b'25:06:17', b'{"a": 1}', b'\x05', b'2026'),
    (b'-9223372036854775808', b'', b'', b'-1e-7', b'-0.00', b'2026-01-01 12:00:00.120000', b'0000-00-00',
     b'-25:06:17.5', b'null', b'\0' * 8, b'0'),
    (None,) * len(COLUMNS),
    (b'2', b'x' * 251, b'y' * 300, None, None, b'0000-00-00 00:00:00', None, None, b'[]', None, None),
    (b'3', b'x' * 70_000, b'y' * 65_535, b'0', b'1', b'2026-02-31 00:00:00', None, None, None, None, None)]


def sized(value):
    """A value with its length in front."""
    if value is None:
        return b'\xfb'
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    return (b'\xfc' + struct.pack('<H', size) if size < 1 << 16 else b'\xfd' + struct.pack('<I', size)[:3]) + value


def column(name, kind, charset):
    text = name.encode()
    return (b''.join(map(sized, (b'def', b'db', b'rows', b'rows', text, text))) + b'\x0c'
            + struct.pack('<HIBHBxx', charset, 80, kind, 0, 0))


def packets(payloads, first=1):
    return b''.join(struct.pack('<I', len(payload))[:3] + bytes([number & 255]) + payload
                    for number, payload in enumerate(payloads, first))


def end(status=0):
    return b'\xfe' + struct.pack('<HH', 0, status)


def payloads(rows=ROWS, columns=COLUMNS, status=0):
    return [bytes([len(columns)]), *(column(*each) for each in columns), end(),
            *(b''.join(map(sized, row)) for row in rows), end(status)]


def read(kind, chunks, answers=1):
    """What a connection reads of chunks of bytes, each sent when it has read the ones before or waits."""
    ours, its = socket.socketpair()
    connection = kind(defer_connect=True, charset='utf8mb4', read_timeout=20)
    connection._sock, connection._rfile, connection._current_timeout = ours, ours.makefile('rb'), None

    def send():
        for chunk in chunks:
            its.sendall(chunk)
        its.close()
    sender = threading.Thread(target=send)
    sender.start()
    found = []
    try:
        for _ in range(answers):
            if not found:
                connection._next_seq_id = 1
            try:
                count = connection._read_query_result()
                result = connection._result
                found.append((count, result.rows, result.description, bool(result.has_next), connection._next_seq_id,
                              result.warning_count))
            except err.Error as error:
                found.append((type(error), error.args))
    finally:
        connection._force_close()
        ours.close()
        sender.join()
    return found


def same(chunks, answers=1):
    """What both read."""
    found, expected = (read(kind, chunks, answers) for kind in (pymysql_answers._Connection, connections.Connection))
    assert found == expected
    return found


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(pymysql_answers, '_known', {})


def test_all_column_types_decode_like_pymysql():
    (count, rows, description, *_), = same([packets(payloads())])
    assert count == len(ROWS) == len(rows) and [each[0] for each in description] == [each[0] for each in COLUMNS]
    assert rows[0][1] == 'Größe \U0001f600' and rows[3][5] == '0000-00-00 00:00:00'


def test_equal_descriptions_are_cached():
    data = packets(payloads())
    same([data])
    assert len(pymysql_answers._known) == 1
    assert same([data]) == same([data[:300], data[300:]])


@pytest.mark.parametrize('size', [1, 3, 5, 64, 1000])
def test_answers_in_pieces_decode_like_pymysql(size):
    data = packets(payloads(ROWS[:4]))
    for _ in range(2):                                       # at first descriptions are unknown
        same(list(map(bytes, _batched(data, size))))


def _batched(data, size):
    source = iter(data)
    return iter(lambda: list(itertools.islice(source, size)), [])


def test_sequence_numbers_wrap_around():
    (count, *_), = same([packets(payloads([(b'%d' % number,) for number in range(5_000)], COLUMNS[:1]))])
    assert count == 5_000


def test_empty_result_decodes_like_pymysql():
    assert same([packets(payloads([]))])[0][:2] == (0, ())


def test_several_answers_in_one_read_are_separated():
    first = payloads(ROWS[:2], status=MORE_RESULTS)
    done = same([packets(first) + packets(payloads(ROWS[2:4], COLUMNS), len(first) + 1)], 2)
    assert [each[0] for each in done] == [2, 2] and [each[3] for each in done] == [True, False]


def test_row_longer_than_a_packet_is_joined():
    long = b'x' * ((1 << 24) + 10)
    payload = sized(b'1') + b'\xfe' + struct.pack('<Q', len(long)) + long
    limit = (1 << 24) - 1
    parts = [payload[:limit], payload[limit:]]
    columns = COLUMNS[:2]
    given = payloads([(b'0', b'a')], columns)
    (count, rows, *_), = same([packets([*given[:-1], *parts, *given[-2:]])])
    assert count == 3 and len(rows[1][1]) == len(long) and rows[2] == (0, 'a')


def test_row_that_starts_like_an_end_packet_is_a_row():
    long = b'x' * (1 << 16)
    payload = b'\xfe' + struct.pack('<Q', len(long)) + long
    given = payloads([], COLUMNS[1:2])
    (count, rows, *_), = same([packets([*given[:-1], payload, given[-1]])])
    assert (count, rows) == (1, ((long.decode(),),))


@pytest.mark.parametrize('place', [13, 14, 15])
def test_error_packet_between_rows_raises(place):
    failure = b'\xff' + struct.pack('<H', 1969) + b'#70100Query execution was interrupted'
    given = [*payloads(ROWS[:3])[:place], failure]
    for _ in range(2):
        (kind, arguments), = same([packets(given)])
        assert issubclass(kind, err.Error) and arguments[0] == 1969
        same([packets(payloads())])


@pytest.mark.parametrize('place', [1, 4, 30, 300, 700, 1200])
def test_lost_connection_raises_operational_error(place):
    data = packets(payloads())
    for _ in range(2):
        (kind, _arguments), = same([data[:place]])
        assert kind is err.OperationalError
        same([data])


def test_packets_in_the_wrong_order_raise_internal_error():
    given = payloads(ROWS[:3])
    wrong = packets(given[:14]) + packets(given[14:], 17)
    (kind, _arguments), = same([wrong])
    assert kind is err.InternalError


def test_status_packet_without_rows_is_decoded_like_pymysql():
    same([packets([b'\0\x01\x05' + struct.pack('<HH', 2, 0)])])


def test_descriptions_do_not_grow_without_end(monkeypatch):
    monkeypatch.setattr(pymysql_answers, 'MAX_DESCRIPTIONS', 3)
    for number in range(9):
        same([packets(payloads([(b'1',)], [(f'c{number}', FIELD_TYPE.LONG, BINARY)]))])
    assert len(pymysql_answers._known) <= 3
