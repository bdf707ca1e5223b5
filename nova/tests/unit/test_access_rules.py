"""Patterns of access rules."""
import time

import pytest

from nova.identity import access_rules


@pytest.mark.parametrize('path, pattern, expected', [
    ('/v2.1/servers', '/v2.1/servers', True), ('/v2.1/servers', '/v2.1/server', False),
    ('/v2x1/servers', '/v2.1/servers', False), ('/v2.1/servers/a', '/v2.1/servers/*', True),
    ('/v2.1/servers/a/b', '/v2.1/servers/*', False), ('/v2.1/servers/', '/v2.1/servers/*', False),
    ('/v2.1/servers/a', '/v2.1/servers/{server_id}', True), ('/v2.1/servers/a/b', '/v2.1/servers/{x}/b', True),
    ('/v2.1/servers/a/b', '/v2.1/**', True), ('/v3/x', '/v2.1/**', False), ('/a\nb', '/**', True),
    ('/a\n', '/a', False), ('/a/b\n', '/a/b', False), ('/(a|b)', '/(a|b)', True), ('/a', '/(a|b)', False)])
def test_access_rule_pattern_matches_its_paths_only(path, pattern, expected):
    assert access_rules.matches(path, pattern) is expected


def test_a_pattern_cannot_take_long():
    before = time.process_time()
    assert not access_rules.matches('/' + 'a' * 8000, '/' + '**a' * 42 + 'b')
    assert time.process_time() - before < 1
