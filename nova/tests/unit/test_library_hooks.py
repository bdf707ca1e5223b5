"""Canaries: the private parts of libraries in nova/runtime/hooks are there, and do what they are used for.

A failure says what a new release of a library no longer has. Change the module of that library, or find a public way.
"""
import ast
import datetime
import importlib.metadata
import inspect
import pathlib
import re
import ssl
import sys
import threading
import types

import oslo_messaging
import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_context import context as oslo_context_context
from oslo_db.sqlalchemy import exc_filters
from oslo_messaging._drivers import amqpdriver
from oslo_messaging._drivers import common
from oslo_messaging._drivers import impl_rabbit
from oslo_messaging.rpc import dispatcher as rpc_dispatcher
from oslo_messaging.rpc import server as rpc_server
from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields as ovo_fields
from pymysql import connections as pymysql_connections
from stevedore import _cache

import nova
from nova import policy
from nova.rpc import bus
from nova.runtime import entry_points
from nova.runtime.hooks import keystonemiddleware
from nova.runtime.hooks import oslo_context
from nova.runtime.hooks import oslo_messaging as messaging_hooks
from nova.runtime.hooks import oslo_policy
from nova.runtime.hooks import oslo_versionedobjects
from nova.runtime.hooks import pymysql
from nova.runtime.hooks import pymysql_answers
from nova.runtime.hooks import sqlalchemy as sqlalchemy_hooks
from nova.runtime.hooks import stevedore as stevedore_hooks

PRIVATE = (          # object, its part, what is lost without it
    (amqpdriver, 'ACK_REQUEUE_EVERY_SECONDS_MIN', 'the driver of RabbitMQ wakes up a thousand times a second'),
    (common, '_RPC_ENVELOPE_VERSION', 'nova-rabbit does not know which messages it can read'),
    (common, 'ConfigOptsProxy', 'nova-rabbit does not read options from the transport URL'),
    (impl_rabbit, 'rabbit_opts', 'nova-rabbit has no options'),
    (rpc_server.RPCServer, '_process_incoming', 'signatures of messages are not checked'),
    (oslo_messaging.transport.RPCTransport, '_send', 'messages are not signed'),
    (ovo_base, '_get_attrname', 'objects do not know where they have their values'),
    (ovo_base.VersionedObject, '_obj_from_primitive', 'objects that come are made by several calls a field'),
    (pymysql_connections.Connection, '_create_ssl_ctx', 'each connection has the certificates of the system'),
    (pymysql_connections.Connection, '_read_query_result', 'PyMySQL reads answers packet by packet'),
    (pymysql_connections.MySQLResult, '_get_descriptions', 'columns are described anew with each answer'),
    (pymysql_connections.MySQLResult, '_read_rowdata_packet', 'rows are read value by value'),
    (sa.pool.QueuePool, 'recreate', 'the order of connections is lost with each dispose()'),
)


def transport_of(url):
    conf = cfg.ConfigOpts()
    bus.register_options(conf)
    conf([], default_config_files=[])
    return oslo_messaging.get_rpc_transport(conf, url)


@pytest.fixture
def transport():
    made = transport_of('kombu+memory:////')
    yield made
    made.cleanup()


def listener_of(transport):
    driver = messaging_hooks.driver_of(transport)
    return driver.listen(oslo_messaging.Target(exchange='nova', topic='compute', server='host1'), 1, 1)


@pytest.mark.parametrize('owner, name, lost', PRIVATE, ids=[row[1] for row in PRIVATE])
def test_patched_library_attributes_exist(owner, name, lost):
    assert hasattr(owner, name), f'{owner.__name__} has no {name} any more. Without it {lost}.'


# What a file has that the test below can find; to parse all of them takes ten times as long.
SUSPECT = re.compile(r'(?<!\bself)(?<!\bcls)\._[a-zA-Z]|\b(import|from)\s[^\n]*\b_[a-zA-Z]|\bimport\s*[(\\]')


def test_only_the_hooks_import_private_modules_or_read_private_parts():
    """Of modules that a file imports; what an object of theirs holds is found by reading alone."""
    root = pathlib.Path(nova.__file__).parent
    found = []
    for path in root.rglob('*.py'):
        place = path.relative_to(root)
        if place.parts[0] == 'tests' or place.parts[:2] == ('runtime', 'hooks'):
            continue
        text = path.read_text()
        if not SUSPECT.search(text):
            continue
        tree = ast.parse(text)
        imported = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {(alias.asname or alias.name).partition('.')[0]: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {alias.asname or alias.name: f'{node.module}.{alias.name}' for alias in node.names}
        foreign = {name: full for name, full in imported.items()
                   if full.partition('.')[0] not in ('nova', '__future__', '_typeshed')}        # public names of stubs
        found += [f'{place}: {full}' for full in foreign.values() if any(
            part.startswith('_') and not part.startswith('__') for part in full.split('.'))]
        found += [f'{place}:{node.lineno}: {ast.unparse(node)}' for node in ast.walk(tree)
                  if isinstance(node, ast.Attribute) and node.attr.startswith('_') and not node.attr.startswith('__')
                  and ast.unparse(node.value).partition('.')[0] in foreign and ast.unparse(node) != 'os._exit']
    assert found == [], 'Private parts of libraries belong into nova/runtime/hooks.'


def test_oslo_messaging_takes_the_executor_that_a_server_was_given():
    started = []

    class Executor:
        def __init__(self, **options):
            started.append(options)

        def shutdown(self, wait=True):
            started.append('ended')

    server = messaging_hooks.Server(
        transport_of('nova-inprocess://hooks'), oslo_messaging.Target(topic='t', server='host1'),
        rpc_dispatcher.RPCDispatcher([], None), Executor, lambda message: None, ValueError, KeyError)
    server.start()
    server.stop()
    server.wait()
    assert started == [{'max_workers': 64}, 'ended'], (
        'oslo.messaging does not make its executor by MessageHandlingServer._executor_cls(max_workers=…) any more: '
        'RPC methods have no pools of their own.')


def test_oslo_messaging_lets_a_server_refuse_a_message_before_it_is_dispatched():
    done = []

    class Incoming:
        ctxt, message, client_timeout, msg_id = {}, {'method': 'work', 'args': {}, 'version': '1.0'}, None, '1'

        def acknowledge(self):
            done.append('acknowledged')

        def reply(self, reply=None, failure=None):
            done.append(failure and failure[0])

    class Endpoint:
        target = oslo_messaging.Target(version='1.0')

        def work(self, _context):
            done.append('dispatched')

    for error, expected in ((LookupError(), ['acknowledged', LookupError]), (KeyError(), ['acknowledged']),
                            (None, ['acknowledged', 'dispatched', None])):
        def check(message, error=error):
            if error is not None:
                raise error

        server = messaging_hooks.Server(
            transport_of('nova-inprocess://hooks'), oslo_messaging.Target(topic='t', server='host1'),
            rpc_dispatcher.RPCDispatcher([Endpoint()], None), None, check, LookupError, KeyError)
        done.clear()
        server._process_incoming([Incoming()])
        assert done == expected, 'RPCServer._process_incoming has changed: signatures of messages are not checked.'


def test_the_sender_of_a_call_is_not_sent_heartbeats_by_a_thread_of_its_own():
    """nova.rpc.keepalive sends them for all; RPCDispatcher starts no thread where ``client_timeout`` is None."""
    others, seen = threading.active_count(), []

    class Endpoint:
        target = oslo_messaging.Target(version='1.0')

        def work(self, _context):
            seen.append(threading.active_count())

    rpc_dispatcher.RPCDispatcher([Endpoint()], None).dispatch(types.SimpleNamespace(
        client_timeout=None, ctxt={}, message={'method': 'work', 'args': {}, 'version': '1.0'}))
    assert seen == [others], 'RPCDispatcher.dispatch does not look at client_timeout any more.'


def test_oslo_messaging_asks_a_transport_for_its_context(transport, monkeypatch):
    sent = []
    monkeypatch.setattr(messaging_hooks.driver_of(transport), 'send',
                        lambda target, context, message, **options: sent.append((context, message)))
    signed = messaging_hooks.Transport(transport, lambda target, context, message: {
        **context, 'signed': message['method']})
    client = oslo_messaging.get_rpc_client(signed, oslo_messaging.Target(topic='compute'))
    client.cast({'request_id': 'req-1'}, 'work')
    context, message = sent[0]
    assert context == {'request_id': 'req-1', 'signed': 'work'} and message['method'] == 'work', (
        'RPCClient does not send by RPCTransport._send any more: messages are not signed.')


def test_the_driver_of_rabbitmq_names_its_queue_for_replies_as_it_was_told(transport):
    driver = messaging_hooks.driver_of(transport)
    assert hasattr(driver, '_q_manager'), (
        'The driver of RabbitMQ has no _q_manager any more: queues for replies do not have the name of the host, and a '
        'broker cannot keep other hosts from reading them.')
    messaging_hooks.name_replies(driver, types.SimpleNamespace(get=lambda: 'host1:0'))
    assert driver._get_reply_q().endswith('host1:0')


def test_the_driver_of_rabbitmq_has_its_consumers_where_they_are_looked_for(transport):
    listener = listener_of(transport)
    consumers = messaging_hooks.consumers_of(listener)
    assert len(consumers) == 3 and all(consumers.values()), (
        'A listener has no _poll_style_listener.conn._consumers = {consumer: tag} any more: messages are lost when a '
        'service stops, and nobody hears that a queue was declared again.')
    for consumer in consumers:
        assert callable(consumer.callback) and list(inspect.signature(consumer.declare).parameters) == ['conn']
        assert list(inspect.signature(consumer.cancel).parameters) == ['tag']
    listener.cleanup()
    assert messaging_hooks.consumers_of(object()) == {}                  # another driver's, or none


def test_the_driver_of_rabbitmq_does_not_wake_up_many_times_behind_each_message():
    pauses = []

    def consume(timeout):
        pauses.append(timeout)
        if len(pauses) == 6:
            listener._shutdown.set()
        raise common.Timeout

    listener = amqpdriver.RpcAMQPListener(types.SimpleNamespace(prefetch_size=1),
                                          types.SimpleNamespace(consume=consume))
    listener.poll()
    assert pauses[0] == 0.5 and sum(pauses) > 15


def test_oslo_context_has_one_context_a_thread_and_logs_read_it():
    def found():
        return oslo_context.current()
    before = oslo_context.current()
    try:
        made = oslo_context_context.RequestContext(overwrite=True)
        assert oslo_context.current() is made is oslo_context_context.get_current()
        oslo_context.become(None)
        assert oslo_context_context.get_current() is None
        oslo_context.become(made)
        assert oslo_context_context.get_current() is made
        seen = []
        thread = threading.Thread(target=lambda: seen.append(found()))
        thread.start()
        thread.join()
        assert seen == [None]
    finally:
        oslo_context.become(before)


def test_the_options_that_oslo_messaging_registers_globally_are_on_a_private_configuration(transport):
    conf = transport.conf
    assert conf.oslo_messaging_tracing.tracing_enabled is False and conf.oslo_messaging_metrics.metrics_enabled is False


def test_sqlalchemy_calls_the_methods_of_a_dialect_that_were_replaced():
    engine = sa.create_engine('sqlite://', poolclass=sa.pool.QueuePool, pool_pre_ping=True)
    called = []
    for name in ('do_begin', 'do_ping', 'do_rollback'):
        before = sqlalchemy_hooks.replace_method(
            engine, name, lambda connection, name=name: called.append(name) or True)
        assert callable(before)
    for _ in range(2):
        with engine.connect() as conn:
            conn.execute(sa.select(1))
    assert set(called) == {'do_begin', 'do_ping', 'do_rollback'}, (
        'A pool or a connection does not call these methods of engine.dialect any more: transactions of SQLite do not '
        'begin when they should, and servers are asked more than needed.')
    engine.dispose()


def test_oslo_db_reads_errors_by_one_function_of_its_own():
    engine = sa.create_engine('sqlite://')
    exc_filters.register_engine(engine)
    assert sa.event.contains(engine, 'handle_error', exc_filters.handler), (
        'exc_filters.handler is not what oslo.db registers: values of statements reach the log.')
    engine.dispose()


def test_a_connection_of_pymysql_has_its_socket():
    from pymysql import connections
    connection = connections.Connection(defer_connect=True)
    assert hasattr(connection, '_sock'), 'Connections of PyMySQL have no _sock any more: no keepalive is set on them.'
    connection._sock = types.SimpleNamespace(fileno=lambda: 7, close=lambda: None)
    assert pymysql.descriptor_of(connection) == 7
    connection._sock = None
    assert pymysql.descriptor_of(types.SimpleNamespace(fileno=lambda: 8)) == 8        # mysqlclient's


def test_a_sample_of_a_rule_is_a_comment_of_yaml():
    lines = oslo_policy.sample_of(policy.list_rules()[0]).splitlines()
    assert lines and all(line.startswith('#') or not line for line in lines)


def test_auth_token_has_its_options():
    from keystonemiddleware import auth_token
    protocol = auth_token.AuthProtocol(lambda environ, start_response: [], {
        'memcached_servers': '192.0.2.1:11211', 'token_cache_time': '17', 'auth_type': 'none'})
    assert keystonemiddleware.option(protocol, 'memcached_servers') == ['192.0.2.1:11211']
    assert int(keystonemiddleware.option(protocol, 'token_cache_time')) == 17, (
        'AuthProtocol has no _conf any more: how long a token is kept is not known.')


def test_auth_token_asks_keystone_past_its_cache():
    from keystonemiddleware import auth_token
    protocol = auth_token.AuthProtocol(lambda environ, start_response: [], {'auth_type': 'none'})
    asked = []

    class Server:
        def verify_token(self, token):
            asked.append(token)
            return {'token': {'roles': [{'name': 'reader'}]}}
    assert callable(protocol._identity_server.verify_token), (
        'AuthProtocol has no _identity_server any more: streams are not ended when Keystone revokes a token.')
    protocol._identity_server = Server()
    assert [keystonemiddleware.verify(protocol, 'token') for _ in range(2)] == [['reader']] * 2
    assert asked == ['token'] * 2


def test_auth_token_says_who_calls_by_these_keys():
    from keystonemiddleware import auth_token
    keys = keystonemiddleware.keys_of_caller()
    assert {'HTTP_X_ROLES', 'HTTP_X_USER_ID', 'HTTP_X_IDENTITY_STATUS', 'HTTP_X_SERVICE_ROLES', 'HTTP_X_TENANT',
            'HTTP_X_IS_ADMIN_PROJECT', 'keystone.token_auth'} <= set(keys), (
        '_AuthTokenRequest._all_auth_headers does not list what auth_token sets any more: a known token has not all.')
    protocol = auth_token.AuthProtocol(lambda environ, start_response: [], {
        'www_authenticate_uri': 'http://keystone.test', 'auth_type': 'none'})
    assert keystonemiddleware.challenge(protocol) == [('WWW-Authenticate', 'Keystone uri="http://keystone.test"')]


FIELDS = {
    'name': ovo_fields.StringField(), 'uuid': ovo_fields.UUIDField(), 'host': ovo_fields.StringField(nullable=True),
    'size': ovo_fields.IntegerField(), 'locked': ovo_fields.BooleanField(), 'unset': ovo_fields.StringField(),
    'made': ovo_fields.DateTimeField(tzinfo_aware=False)}
VALUES = {'name': 7, 'uuid': 'c1fcfcbd-2a51-4d0a-9aa3-21b4b9d0f1a6', 'host': None, 'size': '3', 'locked': False,
          'made': datetime.datetime(2026, 1, 2, 3, 4, 5)}


def test_an_object_is_what_the_library_makes_of_it():
    """Places of values are private to the library: what it reads by its own ways is what we have put there."""
    theirs, ours = (type('Thing', bases, {'fields': dict(FIELDS), 'VERSION': '1.3'}) for bases in (
        (ovo_base.VersionedObject, ovo_base.VersionedObjectDictCompat), (oslo_versionedobjects.Object,)))
    for kind in (theirs, ours):
        ovo_base._make_class_properties(kind)
    sent = theirs(**VALUES).obj_to_primitive()
    changes = sent.pop('versioned_object.changes')
    assert sorted(changes) == sorted(VALUES)
    made = ours(**VALUES)
    assert made.obj_to_primitive() == made.obj_to_primitive('1.3') == sent, (
        'oslo.versionedobjects has the values of an object elsewhere: nova/runtime/hooks puts them where it had them.')
    for came in (ours._obj_from_primitive(None, '1.3', sent),
                 ours._obj_from_primitive(None, '1.3', {**sent, 'versioned_object.changes': changes})):
        assert (came.name, came.size, came.host, came.made) == ('7', 3, None, VALUES['made'])
        assert came.as_dict() == dict(theirs(**VALUES).items()) and came.obj_what_changed() == set()
        assert not came.obj_attr_is_set('unset') and 'unset' not in came and 'host' in came
    with pytest.raises(ValueError):
        ours(name=None)
    with pytest.raises(NotImplementedError):
        str(made.unset)
    with pytest.raises(AttributeError):
        made.obj_attr_is_set('other')


def test_connections_without_options_for_tls_share_a_context_without_certificates(monkeypatch):
    """Each connection to MariaDB had a context with all certificates of the system: 27 ms and 0.8 MB."""
    theirs = pymysql_connections.Connection(defer_connect=True).ctx
    monkeypatch.setattr(ssl.SSLContext, 'load_default_certs', None)
    first, second = (pymysql_answers.connect(defer_connect=True) for _ in range(2))
    assert first.ssl and first.ctx is second.ctx, 'PyMySQL makes its context elsewhere.'
    # Neither looks at a certificate: their verify_flags, which differ since Python 3.13, mean nothing.
    assert theirs.verify_mode == ssl.CERT_NONE
    for name in ('options', 'verify_mode', 'check_hostname', 'minimum_version', 'maximum_version'):
        assert getattr(first.ctx, name) == getattr(theirs, name), name
    assert first.ctx.get_ciphers() == theirs.get_ciphers()
    with pytest.raises(FileNotFoundError):
        pymysql_answers.connect(defer_connect=True, ssl_ca='/nowhere')


def test_stevedore_finds_the_same_entry_points_with_one_search(monkeypatch):
    assert _cache._build_cacheable_data.__module__ == _cache.__name__, 'The hook is in the place of their search.'
    searches, found = _cache._build_cacheable_data(), []
    original = importlib.metadata.entry_points
    monkeypatch.setattr(_cache, '_build_cacheable_data', _cache._build_cacheable_data)
    monkeypatch.setattr(importlib.metadata, 'entry_points', lambda **group: found.append(group) or original(**group))
    monkeypatch.setattr(sys, 'path', [*sys.path, '/nonexistent'])          # nothing is known of this path
    stevedore_hooks.search_once()
    cache = _cache.Cache('/nonexistent')
    for group, points in searches['groups'].items():
        assert [(point.name, point.value, point.group) for point in cache.get_group_all(group)] == points
    assert entry_points.installed('oslo.messaging.drivers')['nova-inprocess'].value and found == [{}]
