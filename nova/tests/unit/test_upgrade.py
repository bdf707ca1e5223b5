"""Messages and objects between services of different releases, over the in-process bus; older peers are made of the
frozen rows of nova/tests/older_release, and of fields that a class of an older version has.
"""
import contextlib
import importlib
import itertools
import logging
import threading
import time

import pytest
from oslo_versionedobjects import base as vo_base
from oslo_versionedobjects import fields

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova.conductor import interface as conductor_interface
from nova.objects import base
from nova.rpc import bus
from nova.rpc import serializer
from nova.rpc import versions
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.rpc.interface import Newer
from nova.tests import older_release
from nova.tests.older_release import manifest
from nova.tests.support.waiting import wait_for

CTX = context.RequestContext(user_id='u', project_id='p', overwrite=False)
WORK = Interface('compute', '1.2',
                 Method('build', ('name', 'speed', 'colour'), call=True,
                        newer=(Newer('speed', '1.1', optional=True), Newer('colour', '1.2'))),
                 Method('paint', ('name',), call=True, since='1.1'),
                 Method('polish', ('name',), since='1.1', optional=True),
                 Method('give', (), call=True))
_names = itertools.count()


class Worker:
    """Answers with what it was asked."""

    def __init__(self):
        self.asked = []

    def build(self, ctx, name, speed='default', colour='default'):
        return [name, speed, colour]

    def paint(self, ctx, name):
        return name

    def polish(self, ctx, name):
        self.asked.append(name)

    def give(self, ctx):
        return objects.Selection(cell_uuid='c', host='h', node='n', availability_zone=None)


def make_bus(name=None, **options):
    """A bus that does not take all services for its own process's."""
    conf = nova_conf.new(files=[], **options)
    made = bus.Bus(conf, f'nova-inprocess:///{name or f"upgrade{next(_names)}"}')
    made.pins = versions.Pins(conf)
    return made


@contextlib.contextmanager
def served(transport, interface, manager):
    server = transport.serve(interface, manager, 'one')
    server.start()
    yield server
    server.stop()
    server.wait(20)


@pytest.fixture
def releases(monkeypatch):
    """Three of them: compute 1.0, 1.1 and 1.2."""
    def made(compute, selection):
        return versions.Release({'compute': compute, 'conductor': '1.1'}, {'Selection': selection})
    monkeypatch.setattr(versions, 'RELEASES', {1: made('1.0', '1.0'), 2: made('1.1', '1.0'), 3: made('1.2', '1.1')})
    monkeypatch.setattr(versions, 'VERSION', 3)
    monkeypatch.setattr(versions, 'OLDEST', 1)
    monkeypatch.setattr(versions, 'TOPICS', ('compute', 'conductor'))


# ---- pins

def test_arguments_unknown_to_older_receivers_are_omitted_or_refused(releases):
    transport = make_bus()
    client = transport.client(WORK)
    worker = Worker()
    with served(transport, WORK, worker):
        transport.pins.learn({'compute': 3})
        assert client.build(CTX, name='n', speed=1, colour='red') == ['n', 1, 'red']
        transport.pins.learn({'compute': 2})
        assert client.build(CTX, name='n', speed=1, colour=None) == ['n', 1, 'default']
        with pytest.raises(exception.Unsupported, match='build with colour needs services of a newer version'):
            client.build(CTX, name='n', colour='red')
        assert client.paint(CTX, name='n') == 'n'
        transport.pins.learn({'compute': 1})
        assert client.build(CTX, name='n', speed=1) == ['n', 'default', 'default']
        with pytest.raises(exception.Unsupported, match='paint needs services of a newer version'):
            client.paint(CTX, name='n')
        assert client.polish(CTX, name='n') is None
        time.sleep(0.05)
        assert worker.asked == []


def test_an_old_server_takes_what_a_pinned_client_sends(releases):
    """The true proof: a server of interface 1.0 would refuse a message of any other version."""
    transport = make_bus()
    older = Interface('compute', '1.0', Method('build', ('name',), call=True))
    client = transport.client(WORK)

    class Old:
        def build(self, ctx, name):
            return name
    with served(transport, older, Old()):
        transport.pins.learn(None)                # its conductor does not even say
        assert client.build(CTX, name='n', speed=1) == 'n'
        transport.pins.learn({})                  # pinned too high
        with pytest.raises(exception.Unsupported, match='newer version'):
            client.build(CTX, name='n', speed=1)


def test_nobody_has_said_yet_is_the_oldest(releases):
    transport = make_bus()
    assert transport.pins.of('compute').interface == (1, 0)
    assert transport.pins.of('something else') == versions.NEWEST


def test_pins_follow_the_rows_by_themselves(releases, monkeypatch, caplog):
    monkeypatch.setattr(versions, 'REFRESH_S', 0.5)
    caplog.set_level(logging.INFO)
    pins = versions.Pins(nova_conf.new(files=[]))
    rows, looked = {'compute': 1}, []

    def look():
        looked.append(1)
        return dict(rows)
    pins.follow(look)
    assert pins.of('compute').interface == (1, 0) and len(looked) == 1
    rows['compute'] = 3
    for _ in range(100):                          # messages do not look
        pins.of('compute')
    assert len(looked) <= 2
    wait_for(lambda: pins.of('compute') == versions.NEWEST)
    assert 'Messages to compute use the newest version, 1.2' in caplog.text
    rows['compute'] = 2                           # somebody went back
    wait_for(lambda: pins.of('compute').interface == (1, 1))


def test_a_look_that_fails_changes_nothing(releases, monkeypatch):
    pins = versions.Pins(nova_conf.new(files=[]))
    answers = iter([{'compute': 2}])
    pins.follow(lambda: next(answers))
    pins.refresh()
    assert pins.of('compute').interface == (1, 1)


def test_a_written_pin_wins_and_is_read_again(releases, tmp_path):
    file = tmp_path / 'nova.conf'
    file.write_text('[upgrade_levels]\ncompute = 1.1\n')
    conf = nova_conf.new(files=[str(file)])
    pins = versions.Pins(conf)
    pins.follow(lambda: {'compute': 3})
    assert pins.of('compute').interface == (1, 1)
    for text, wanted in (('compute = 1.0', (1, 0)), ('compute = 7.7', (1, 0)), ('compute = auto', None)):
        file.write_text(f'[upgrade_levels]\n{text}\n')
        conf.mutate_config_files()
        pins.reload()
        assert pins.of('compute').interface == wanted


def test_a_pin_that_cannot_be_is_told_once(releases, tmp_path, caplog):
    file = tmp_path / 'nova.conf'
    file.write_text('')
    conf = nova_conf.new(files=[str(file)])
    pins = versions.Pins(conf)
    pins.follow(lambda: {'compute': 3})

    def told():
        conf.mutate_config_files()
        pins.reload()
        pins.learn({'compute': 3})
        return sum('[upgrade_levels]' in record.message for record in caplog.records)
    counts = []
    for level in ('7.7', '7.7', '8.8', 'auto', '8.8'):
        file.write_text(f'[upgrade_levels]\ncompute = {level}\n')
        counts.append(told())
    assert counts == [1, 1, 2, 2, 3]


def test_an_unknown_pin_is_refused_at_the_start():
    with pytest.raises(exception.InvalidInput, match=r'compute is 9.9; known are auto, '):
        make_bus(upgrade_levels__compute='9.9')


def _interface(topic):
    module, name = manifest.TOPICS[topic]
    return getattr(importlib.import_module(f'nova.{module}.interface'), name)


# ---- the frozen interface of the oldest supported release

@pytest.mark.parametrize('topic', versions.RELEASES[versions.OLDEST].interfaces)
def test_the_oldest_release_takes_every_message_that_it_knows(topic):
    """A server made of the frozen rows: each message pinned to it arrives with the arguments that it knows."""
    frozen = older_release.read(versions.OLDEST)['interfaces'][topic]
    rows = [Method(name, tuple(argument for argument, _since in row['arguments']), call=row['call'],
                   since=row['since']) for name, row in frozen['methods'].items()]
    got, done = {}, threading.Semaphore(0)

    class Old:
        def __getattr__(self, name):
            def method(ctx, **arguments):
                got[name] = arguments
                done.release()
            return method
    transport = make_bus()
    transport.pins.learn(None)
    interface = _interface(topic)
    client = transport.client(interface)
    client._rpc.transport.conf.set_override('rpc_response_timeout', 5)
    with served(transport, Interface(topic, frozen['version'], *rows), Old()):
        sent = [name for name in interface.methods if name in frozen['methods']]
        for name in sent:
            row = interface.methods[name]
            if row.versions:
                continue                          # its answer is read
            getattr(client, name)(CTX, server='one', **dict.fromkeys(row.arguments))
            assert done.acquire(timeout=20)
            assert set(got[name]) == {argument for argument, _since in frozen['methods'][name]['arguments']}
    assert got


@pytest.mark.parametrize('topic', versions.RELEASES[versions.OLDEST].interfaces)
def test_messages_of_the_oldest_release_are_taken(topic):
    """The other way round: a client made of the frozen rows, and today's interface."""
    frozen = older_release.read(versions.OLDEST)['interfaces'][topic]
    interface = _interface(topic)
    got, done = {}, threading.Semaphore(0)

    class New:
        def __getattr__(self, name):
            def method(ctx, **arguments):
                got[name] = (ctx.sender_version, arguments)
                done.release()
            return method
    transport = make_bus()
    with served(transport, interface, New()):
        client = transport.client(Interface(topic, frozen['version'], *(
            Method(name, tuple(argument for argument, _since in row['arguments']), call=row['call'],
                   since=row['since']) for name, row in frozen['methods'].items())))
        for name, row in frozen['methods'].items():
            getattr(client, name)(CTX, server='one', **{argument: 1 for argument, _since in row['arguments']})
            assert done.acquire(timeout=20)
    assert got.keys() == frozen['methods'].keys()


def test_a_context_without_a_version_is_of_the_oldest_release():
    made = serializer.Serializer().deserialize_context(CTX.to_dict())
    assert made.sender_version == versions.OLDEST
    made = serializer.Serializer().deserialize_context(serializer.Serializer().serialize_context(CTX))
    assert made.sender_version == versions.VERSION


# ---- objects

@contextlib.contextmanager
def registered(kind):
    """A further version of an object, known for the time of a test."""
    known = vo_base.VersionedObjectRegistry.obj_classes()[kind.obj_name()]
    known.insert(0, kind)
    try:
        yield kind
    finally:
        known.remove(kind)


class Selection(objects.Selection):
    VERSION = '1.1'
    ADDED = {'1.1': ('mood',)}
    fields = {**objects.Selection.fields, 'mood': fields.StringField()}


class NextSelection(Selection):
    VERSION = '1.2'
    ADDED = {**Selection.ADDED, '1.2': ('temper',)}
    fields = {**Selection.fields, 'temper': base.JsonField()}


for _kind in (Selection, NextSelection):
    _kind.obj_name = classmethod(lambda cls: 'Selection')
    vo_base._make_class_properties(_kind)          # as registering does it


def a_selection(kind=NextSelection):
    made = kind(cell_uuid='c', host='h', node='n', availability_zone=None, mood='good')
    if kind is NextSelection:
        made.temper = {'hot': 1}
    return made


def test_a_pinned_message_has_objects_that_its_receiver_knows(releases):
    interface = Interface('compute', '1.0', Method('take', ('value',), call=True))
    transport = make_bus()
    got = []

    class Taker:
        def take(self, ctx, value):
            got.extend(value)
    with served(transport, interface, Taker()):
        transport.pins.learn({'compute': 2})
        transport.client(interface).take(CTX, value=[a_selection(Selection)])    # not registered: too new for it
    assert got[0].VERSION == '1.0' and type(got[0]) is objects.Selection and got[0].host == 'h'


def test_an_answer_has_objects_that_who_asks_knows(releases):
    answer = a_selection(Selection)
    old, new = (context.RequestContext(overwrite=False) for _ in range(2))
    old.sender_version, new.sender_version = 1, 3
    sent = serializer.Serializer().serialize_entity(old, [answer])[0]
    assert sent['nova_object.version'] == '1.0' and 'mood' not in sent['nova_object.data']
    assert 'mood' not in sent.get('nova_object.changes', ())
    assert serializer.Serializer().serialize_entity(new, [answer])[0]['nova_object.data']['mood'] == 'good'


def test_an_object_of_an_older_service_is_passed_on_as_it_is():
    old = objects.Selection(cell_uuid='c', host='h', node='n', availability_zone=None)
    assert serializer.to_primitive(old, {'Selection': '1.5'})['nova_object.version'] == '1.0'


class Conductor:
    """A conductor that has object_backport and nothing else; ``kinds`` are the objects that it knows."""

    def __init__(self, *kinds):
        self._kinds, self.backports = kinds, 0

    def object_backport(self, ctx, primitive, versions):
        self.backports += 1
        with contextlib.ExitStack() as stack:
            for kind in self._kinds:
                stack.enter_context(registered(kind))
            return serializer.object_backport(ctx, primitive, versions)


BACKPORT = Interface('conductor', conductor_interface.INTERFACE.version,
                     conductor_interface.INTERFACE.methods['object_backport'])
TAKE = Interface('compute', '1.0', Method('take', ('value',), call=True), Method('give', (), call=True))


class Taker:
    def take(self, ctx, value):
        return [value.VERSION, value.host, value.obj_attr_is_set('mood') if 'mood' in value.fields else None]

    def give(self, ctx):
        return a_selection()


def test_an_object_that_is_too_new_is_backported_by_the_conductor():
    """In an argument and in an answer; this code knows Selection 1.0."""
    transport = make_bus()
    transport.pins.learn({})
    conductor = Conductor(Selection, NextSelection)
    with served(transport, TAKE, Taker()), served(transport, BACKPORT, conductor):
        client = transport.client(TAKE)
        assert client.take(CTX, value=a_selection()) == ['1.0', 'h', None]
        assert client.give(CTX).VERSION == '1.0'
    assert conductor.backports == 2


def test_computes_of_n_minus_2_are_served_by_a_conductor_of_n(monkeypatch):
    """A compute that knows 1.1 where the release is at 1.2 gets 1.1, with the fields of 1.1."""
    transport = make_bus()
    transport.pins.learn({})
    release = versions.RELEASES[versions.VERSION]
    monkeypatch.setattr(versions, 'RELEASES', {**versions.RELEASES, versions.VERSION: versions.Release(
        release.interfaces, {**release.objects, 'Selection': '1.1'})})
    with served(transport, TAKE, Taker()), served(transport, BACKPORT, Conductor(NextSelection)), \
            registered(Selection):
        assert transport.client(TAKE).take(CTX, value=a_selection()) == ['1.1', 'h', True]


def test_a_conductor_that_is_older_says_so_and_does_not_ask_itself():
    transport = make_bus()
    transport.pins.learn({})
    conductor = Conductor()
    with served(transport, TAKE, Taker()), served(transport, BACKPORT, conductor), \
            pytest.raises(exception.Unsupported, match='does not know Selection 1.2: upgrade the conductors first'):
        transport.client(TAKE).give(CTX)
    assert conductor.backports == 1
