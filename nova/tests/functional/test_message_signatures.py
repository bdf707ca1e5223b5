"""Messages over a broker and who has sent them: a real conductor, real keys, the broker of oslo.messaging's own tests.

What an attacker can do there: send to every queue, read what others send and send it again, say anything of himself.
"""
import base64
import datetime
import os
import stat
import threading
import time

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import utils
from nova.cloud import assembly
from nova.cmd import command_line
from nova.cmd.manage import hosts as manage_host
from nova.compute import interface as compute_interface
from nova.conductor import interface as conductor_interface
from nova.conductor.hosts import trusted_keys
from nova.db.services import message_keys
from nova.db.tables import api as tables_api
from nova.rpc import bus as rpc_bus
from nova.rpc import enrolment
from nova.rpc import serializer
from nova.rpc import signatures
from nova.tests.support import waiting
from nova.tests.support.message_signatures import Fleet
from nova.tests.support.message_signatures import URL
from nova.tests.support.message_signatures import ask
from nova.tests.support.message_signatures import conductor_of
from nova.tests.support.message_signatures import ignored_raw
from nova.tests.support.message_signatures import refused
from nova.tests.support.message_signatures import refused_raw
from nova.tests.support.message_signatures import sending_conf


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path, 'require')
    yield made
    made.close()


# ---- joining

def test_a_host_joins_with_a_token(fleet):
    bus, _part = fleet.joined('host1')
    assert ask(bus) == []
    assert fleet.rows() == [('host1', 'approved')]
    path = fleet.path / 'host1' / 'services' / 'message-key.host1'
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    pinned = (fleet.path / 'host1' / 'services' / 'deployment-key.host1').read_text()
    assert base64.b64decode(pinned) == fleet.control.signatures.key.public


def test_a_token_is_for_one_host(fleet):
    token = fleet.token()
    for name in ('host1', 'host2'):
        _bus, part = fleet.host(name, token)
        part._keys.key = part._own()
        state = part._ask(part._keys.key)
        assert state == ('approved' if name == 'host1' else 'pending')
    refused(lambda: ask(fleet.hosts['host2'], 'host2'), 'not approved: key')


@pytest.mark.parametrize('token', ['0123456789abcdef.' + '0' * 48, 'expired'])
def test_a_wrong_token_approves_nothing(fleet, token):
    bus, part = fleet.host('host1', fleet.core.api_db.run(message_keys.new_token, -1) if token == 'expired' else token)
    part._keys.key = part._own()
    assert part._ask(part._keys.key) == 'pending' and not part._deployment
    refused(lambda: ask(bus), 'not approved: key')


def test_a_token_takes_no_name_from_a_host(fleet):
    """An operator decides whether host1 is another machine now."""
    fleet.joined('host1')
    _bus, part = fleet.host('host1', fleet.token(), state='copy')
    part._keys.key = part._own()
    assert part._ask(part._keys.key) == 'pending'
    assert sorted(fleet.rows()) == [('host1', 'approved'), ('host1', 'pending')]


def test_an_operator_approves(fleet):
    bus, part = fleet.host('host1')
    part._keys.key = part._own()
    assert part._ask(part._keys.key) == 'pending'
    refused(lambda: ask(bus), 'not approved: key')
    fleet.core.api_db.run(message_keys.set_state, part._keys.key.id, message_keys.APPROVED)
    assert ask(bus) == []


def test_keys_that_wait_for_approval_are_limited(fleet, monkeypatch):
    """Anybody who sends messages could fill the table, the list of the operator, and the record of numbers."""
    monkeypatch.setattr(message_keys, 'MAX_PENDING', 3)
    parts = [fleet.host(f'new{number}')[1] for number in range(4)]
    for part in parts:
        part._keys.key = part._own()
    assert [part._ask(part._keys.key) for part in parts] == ['pending'] * 3 + [None]
    assert parts[0]._ask(parts[0]._keys.key) == 'pending'        # it asks every 2 s
    assert not fleet.control.signatures._replays
    fleet.joined('host1')                                        # a token needs no approval
    column = tables_api.message_keys.c
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().where(column.host.in_(['new0', 'new1'])).values(
            created_at=utils.utcnow() - datetime.timedelta(days=2)))
    assert parts[3]._ask(parts[3]._keys.key) == 'pending'
    assert fleet.rows() == [('host1', 'approved'), ('new2', 'pending'), ('new3', 'pending')]
    assert [part._ask(part._keys.key) for part in parts[:2]] == ['pending', None]


def test_a_host_does_not_renew_its_key_without_end(fleet, monkeypatch):
    monkeypatch.setattr(message_keys, 'MAX_RENEWALS', 3)
    bus, part = fleet.joined('host1')

    def renew():
        fleet.core.api_db.run(message_keys.renew, 'host1')
        return part.renew_if_asked()
    assert renew() and renew() and renew()
    with pytest.raises(exception.TooManyHostKeys):
        renew()
    assert ask(bus) == []
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().where(tables_api.message_keys.c.state == 'retired').values(
            expires_at=utils.utcnow() - datetime.timedelta(days=2)))
    assert renew() and ask(bus) == []
    assert sorted(fleet.rows()) == [('host1', 'approved'), ('host1', 'retired')]


def test_a_file_of_another_deployment_is_not_replaced(fleet):
    """Who answers in its place later is not believed."""
    _bus, part = fleet.joined('host1')
    before = part._deployment
    part._enroll(part._keys.key, None)
    fleet.core.api_db.run(message_keys.set_state, message_keys.DEPLOYMENT_ID, 'approved')
    assert part._deployment == before


# ---- forged and repeated

def test_unsigned_message_is_refused(fleet):
    bus, _part = fleet.joined('host1')
    bus.signatures.key = None
    refused(lambda: ask(bus), 'it is not signed')


def test_forged_messages_with_many_method_names_leave_each_a_single_warning(caplog, monkeypatch):
    """With a full memory of warnings each further message was a warning."""
    monkeypatch.setattr(signatures, 'MAX_NOTED', 5)
    receiver = signatures.Signatures('require')
    for method in [f'forged{number}' for number in range(7)] + ['build'] * 20:
        with pytest.raises(exception.MessageRefused):
            receiver.check('conductor', 'one', conductor_interface.INTERFACE, {'sender_host': 'host1'},
                           {'method': method})
    told = [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']
    assert len(told) == 8 and told[-1].startswith('The message build that names host host1: ')


def test_a_host_is_who_its_key_says(fleet):
    """host2 signs, and says that it is host1, or the control plane."""
    fleet.joined('host1')
    bus, _part = fleet.joined('host2')
    for said in (bus.of_host('host1'), bus.of_host(None)):
        with pytest.raises(exception.HostForbidden, match='Host host2'):
            ask(said, 'host1')
    with pytest.raises(exception.HostForbidden, match='only services of the control plane'):
        conductor_of(bus.of_host(None)).check_and_live_migrate(context.admin_context(), instance_uuid='u')


def test_a_key_of_its_own_making_is_nobody_s(fleet):
    bus, _part = fleet.joined('host2')
    bus.signatures.key = signatures.Key()
    refused(lambda: ask(bus, 'host2'), 'not approved: key')


@pytest.mark.parametrize('change', [
    lambda ctxt, message: message['args'].update(host='host2'),
    lambda ctxt, message: message.update(method='list_evacuated'),
    lambda ctxt, message: message.update(version='1.1'),
    lambda ctxt, message: ctxt.update(is_admin=not ctxt['is_admin']),
    lambda ctxt, message: ctxt.update(roles=['service']),
    lambda ctxt, message: ctxt.update(user_id='somebody'),
    lambda ctxt, message: ctxt.update(request_id='req-other'),
    lambda ctxt, message: ctxt.update(sender_host='host2'),
    lambda ctxt, message: ctxt.pop('sender_host'),
    lambda ctxt, message: ctxt['signature'].__setitem__(0, ctxt['signature'][0] + 1),
    lambda ctxt, message: ctxt['signature'].__setitem__(1, '0' * 24),
    lambda ctxt, message: ctxt['signature'].__setitem__(3, 'control')])
def test_changed_message_is_refused(fleet, change):
    bus, _part = fleet.joined('host1')
    ask(bus)
    target, ctxt, message = bus._transport.seen[-1]
    change(ctxt, message)
    refused_raw(bus, target, ctxt, message, 'the signature of key')


def test_a_message_comes_once(fleet):
    bus, _part = fleet.joined('host1')
    ask(bus)
    target, ctxt, message = bus._transport.seen[-1]
    ignored_raw(bus, target, ctxt, message)


def test_a_message_comes_once_even_after_a_restart_of_its_receiver(fleet):
    """Who can read a queue could repeat a cast of the last day otherwise."""
    bus, _part = fleet.joined('host1')
    ask(bus)
    target, ctxt, message = bus._transport.seen[-1]
    fleet.servers[0].stop()
    fleet.servers[0].wait(10)
    again = fleet._bus('control')
    trusted_keys.TrustedKeys(fleet.core.api_db).use(again.signatures)
    fleet.serve(again, conductor_interface.INTERFACE, fleet.core.conductor, 'control', fleet.core.conductor.admission())
    ignored_raw(bus, target, ctxt, message)
    assert ask(bus) == []


@pytest.mark.parametrize('age, good', [(0, True), (-3600, True), (3600, False)])
def test_a_cast_waits_and_a_call_does_not(fleet, age, good, monkeypatch):
    """A conductor that was down for an hour takes what hosts have cast to it."""
    keys, key = signatures.Signatures('require'), signatures.Key()
    keys.key, keys.trusted = key, lambda ident: signatures.Trusted('host1', key.public)
    now = time.time()
    for method, is_call in (('image_cached', False), ('instances_on_host', True)):
        monkeypatch.setattr(signatures.time, 'time', lambda: now + age)
        message = {'method': method, 'args': {'host': 'host1'}, 'version': '1.0'}
        ctxt = keys.signed('conductor', None, {'request_id': 'req-1'}, message)
        monkeypatch.setattr(signatures.time, 'time', lambda: now)
        if good and not (is_call and age):
            keys.check('conductor', 'control', conductor_interface.INTERFACE, ctxt, message)
            assert ctxt[serializer.SENDER_HOST] == 'host1'
        else:
            with pytest.raises(exception.MessageRefused, match='its time has expired'):
                keys.check('conductor', 'control', conductor_interface.INTERFACE, ctxt, message)


@pytest.mark.parametrize('signature', [None, 1, 'x', [], [1, 2, 3, 4], [1, 'n' * 24, 'k', '', '?'],
                                       [True, {}, [], '', None], [1, 'n' * 24, 'k', 'x', 'aa==']])
def test_malformed_signatures_are_refused(signature):
    keys = signatures.Signatures('require')
    with pytest.raises(exception.MessageRefused):
        keys.check('conductor', 'c', conductor_interface.INTERFACE, {'signature': signature, 'sender_host': 'h'}, {
            'method': 'ping', 'args': {}})


@pytest.mark.parametrize('host', [None, '', {'host': 1}, 7])
def test_key_registration_requires_the_name_of_a_host(host):
    keys, key = signatures.Signatures('require'), signatures.Key()
    keys.enrolling, keys.key = 'enroll_host', key
    message = {'method': 'enroll_host', 'args': {'public': base64.b64encode(key.public).decode()}, 'version': '1.0'}
    ctxt = keys.signed('conductor', None, {'sender_host': host}, message)
    with pytest.raises(exception.MessageRefused, match='not approved'):
        keys.check('conductor', 'control', conductor_interface.INTERFACE, ctxt, message)


# ---- computes

def test_a_host_takes_messages_of_the_control_plane_alone(fleet):
    bus, _part = fleet.joined('host1')
    other, _ = fleet.joined('host2')
    fleet.serve(bus, compute_interface.INTERFACE, fleet.core.computes['host1'], 'host1')
    assert fleet.control.client(compute_interface.INTERFACE).ping(context.admin_context(), server='host1') == 'pong'
    for said in (other, other.of_host(None), other.of_host('host1')):
        refused(lambda said=said: said.client(compute_interface.INTERFACE).ping(context.admin_context(),
                                                                                server='host1'), 'not approved')
    # what was meant for host1 is nothing for host2
    fleet.serve(other, compute_interface.INTERFACE, fleet.core.computes['host2'], 'host2')
    target, ctxt, message = fleet.control._transport.seen[-1]
    refused_raw(other, target(server='host2'), ctxt, message, 'it is for compute host1')


def test_a_host_hears_itself(fleet):
    """The proof behind its heartbeat."""
    bus, _part = fleet.joined('host1')
    server = bus.serve(compute_interface.INTERFACE, fleet.core.computes['host1'], 'host1')
    came = []
    server.on_probe(came.append)
    server.start()
    fleet.servers.append(server)
    server.probe(context.admin_context(), 'token')
    deadline = time.monotonic() + 120
    while not came and time.monotonic() < deadline:
        time.sleep(0.02)
    assert came == ['token']


# ---- revoked and renewed

def test_revoked_host_is_refused(fleet, monkeypatch):
    bus, part = fleet.joined('host1')
    assert ask(bus) == []
    assert fleet.core.api_db.run(message_keys.revoke, 'host1') == 1
    monkeypatch.setattr(trusted_keys, 'CACHE_LIFETIME_S', 0)
    refused(lambda: ask(bus), 'not approved: key')
    with pytest.raises(exception.HostKeyRefused, match='revoked'):
        part._ask(part._keys.key)
    with pytest.raises(exception.HostKeyRefused):                # nor with a new token
        part._enroll(part._keys.key, tuple(fleet.token().split('.')))


def test_a_host_whose_service_was_deleted_starts_after_an_approval(fleet, monkeypatch):
    fleet.joined('host1')
    fleet.core.api_db.run(message_keys.revoke, 'host1')                  # as DELETE /os-services does it
    bus, part = fleet.host('host1')
    monkeypatch.setattr(trusted_keys, 'CACHE_LIFETIME_S', 0)
    monkeypatch.setattr(manage_host, '_api_db', lambda conf: fleet.core.api_db)
    with pytest.raises(exception.HostKeyRefused) as refusal:
        part.start()
    ident = part._keys.key.id
    assert f'nova-manage host approve host1 --fingerprint {ident}' in refusal.value.message
    manage_host.approve(None, 'host1', ident)
    part.start()
    part.stop(0)
    assert ask(bus) == []


@pytest.mark.parametrize('name', ['', ' '])
def test_commands_refuse_the_empty_host_name_of_the_deployment(fleet, name, monkeypatch):
    """``host revoke "$HOST"`` with an unset variable revoked the deployment's key: no service started again."""
    api_db = fleet.core.api_db
    monkeypatch.setattr(manage_host, '_api_db', lambda conf: api_db)
    api_db.run(message_keys.signing_key, signatures.Key)
    manage_host.stage_key(None)

    def rows():
        with api_db.reader() as conn:
            return message_keys.of_deployment(conn)
    before = rows()
    assert [row['state'] for row in before] == ['approved', 'pending']
    for command, words in ((manage_host.revoke, ()), (manage_host.rotate, ()),
                           (manage_host.approve, (before[1]['id'],))):
        with pytest.raises((exception.HostKeyRefused, command_line.Refused)):
            command(None, name, *words)
        assert rows() == before


@pytest.mark.parametrize('state', [message_keys.PENDING, message_keys.APPROVED])
def test_keys_that_earlier_releases_stored_for_the_empty_host_name_are_ignored(fleet, monkeypatch, state):
    """The planted key was trusted as the next key of the deployment, and promoted instead of that key."""
    api_db, planted = fleet.core.api_db, signatures.Key()
    monkeypatch.setattr(manage_host, '_api_db', lambda conf: api_db)
    first = api_db.run(message_keys.signing_key, signatures.Key)
    with api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.message_keys).values(
            id=planted.id, host='', public=base64.b64encode(planted.public).decode(), private=None, state=state,
            created_at=utils.utcnow() - datetime.timedelta(days=2), expires_at=None))
        assert message_keys.get(conn, planted.id)['state'] == state
        assert not message_keys.is_trusted(message_keys.get(conn, planted.id))
        assert message_keys.signing_key(conn, signatures.Key)['id'] == first['id']
    trusted = trusted_keys.TrustedKeys(api_db)
    assert trusted.of(planted.id) is None
    manage_host.stage_key(None)
    manage_host.promote_key(None, True)
    with api_db.writer() as conn:
        assert [(row['id'] == first['id'], row['state']) for row in message_keys.of_deployment(conn)] == [
            (True, 'retired'), (False, 'approved')]
        assert message_keys.signing_key(conn, signatures.Key)['private'] is not None
        other = signatures.Key()
        message_keys.add(conn, 'host7', other.id, other.public, message_keys.PENDING)
        assert message_keys.get(conn, planted.id) is None           # the next key of a host removes it


def test_keys_of_hosts_that_send_are_looked_up_again_in_one_statement(fleet, monkeypatch):
    """Each host's heartbeat looked up its key: ten thousand hosts were a thousand statements a second."""
    api_db = fleet.core.api_db
    idents = [signatures.Key() for _ in range(6)]
    with api_db.writer() as conn:
        for number, key in enumerate(idents):
            message_keys.add(conn, f'many{number}', key.id, key.public, message_keys.APPROVED)
    idents = [key.id for key in idents]
    known, now, asked = trusted_keys.TrustedKeys(api_db), [1000.0], []
    monkeypatch.setattr(trusted_keys.time, 'monotonic', lambda: now[0])
    sa.event.listen(api_db.engine, 'before_cursor_execute', lambda *args: asked.append(args[2]))

    def looks(*which):
        asked.clear()
        found = [known.of(idents[each]) for each in which]
        assert [each and each.host for each in found] == [f'many{each}' for each in which]
        return len([each for each in asked if 'message_keys' in each])

    assert looks(0, 1, 2, 3, 4, 5) == 6 and looks(0, 1, 2, 3, 4) == 0
    now[0] += trusted_keys.CACHE_LIFETIME_S
    assert looks(0) == 1 and looks(1, 2, 3, 4, 5) == 0           # each had sent a message
    now[0] += trusted_keys.CACHE_LIFETIME_S / 2
    api_db.run(message_keys.revoke, 'many1')
    assert looks(0, 1, 2) == 0                                   # for LOOK_S at most
    now[0] += trusted_keys.CACHE_LIFETIME_S / 2
    assert looks(2) == 1                                         # with it all the others
    assert known.of(idents[1]) is None and looks(0) == 0
    now[0] += trusted_keys.CACHE_LIFETIME_S
    assert looks(0) == 1 and looks(3, 4) == 2                    # of these no message had come


def test_keys_that_wait_for_approval_are_looked_up_again_in_one_statement(upgrading, monkeypatch):
    """Of 872 messages of boots and deletes on 20 hosts, whose keys waited, 366 cost a statement of their own."""
    api_db, now, asked = upgrading.core.api_db, [1000.0], []
    idents = [signatures.Key() for _ in range(6)]
    with api_db.writer() as conn:
        for number, key in enumerate(idents):
            message_keys.add(conn, f'many{number}', key.id, key.public, message_keys.PENDING)
    known = trusted_keys.TrustedKeys(api_db)
    known.use(upgrading.control.signatures)
    monkeypatch.setattr(trusted_keys.time, 'monotonic', lambda: now[0])
    sa.event.listen(api_db.engine, 'before_cursor_execute', lambda *args: asked.append(args[2]))
    for expected in (6, 1, 1):
        asked.clear()
        assert [known.of(key.id) for key in idents] == [None] * 6
        assert len([each for each in asked if 'message_keys' in each]) == expected
        now[0] += trusted_keys.UNKNOWN_CACHE_LIFETIME_S
    api_db.run(message_keys.set_state, idents[1].id, message_keys.APPROVED)
    assert known.of(idents[0].id) is None and known.of(idents[1].id).host == 'many1'


def test_renewed_key_replaces_the_old_one(fleet):
    bus, part = fleet.joined('host1')
    old = bus.signatures.key
    assert not part.renew_if_asked()
    fleet.core.api_db.run(message_keys.renew, 'host1')
    assert part.renew_if_asked()
    new = bus.signatures.key
    assert new.id != old.id and ask(bus) == []
    assert sorted(state for _host, state in fleet.rows()) == ['approved', 'retired']
    bus.signatures.key = old                                     # on its way when the key was renewed
    assert ask(bus) == []
    assert part._enroll(old, None)['state'] == 'renewing'        # as if stopped before it had kept the new one
    _again, again = fleet.host('host1')
    assert again._own().id == new.id


def test_key_is_renewed_after_an_error_of_the_system(fleet, monkeypatch):
    bus, part = fleet.joined('host1')
    old = bus.signatures.key
    fleet.core.api_db.run(message_keys.renew, 'host1')
    monkeypatch.setattr(enrolment, 'RENEWAL_CHECK_INTERVAL_S', 0.01)
    make_next, failures = part._next, [OSError(24, 'Too many open files')]

    def next_key():
        if failures:
            raise failures.pop()
        return make_next()
    monkeypatch.setattr(part, '_next', next_key)
    part._stopping.clear()
    thread = threading.Thread(target=part._follow)
    thread.start()
    try:
        waiting.wait_for(lambda: bus.signatures.key.id != old.id, 10, 'the new key')
    finally:
        part.stop(0)
        thread.join()


@pytest.mark.parametrize('registered', [True, False])
def test_a_host_that_stopped_while_it_renewed_its_key_starts_with_the_next_key(fleet, monkeypatch, registered):
    """An hour later its only key was retired, and no start succeeded."""
    bus, part = fleet.joined('host1')
    old = bus.signatures.key
    fleet.core.api_db.run(message_keys.renew, 'host1')
    with monkeypatch.context() as patch:
        patch.setattr(part, '_use_next' if registered else '_next', _power_fails)
        with pytest.raises(KeyboardInterrupt):
            part.renew_if_asked()
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().where(tables_api.message_keys.c.state == 'retired').values(
            expires_at=utils.utcnow() - datetime.timedelta(minutes=1)))
    again, part = fleet.host('host1')
    part.start()
    part.stop(0)
    assert (again.signatures.key.id != old.id) == registered and ask(again) == []
    assert part.renew_if_asked() == (not registered) and ask(again) == []
    assert sorted(state for _host, state in fleet.rows()) == ['approved', 'retired']
    assert not os.path.exists(part._next_path)


def _power_fails():
    raise KeyboardInterrupt


def test_a_next_key_of_an_interrupted_renewal_is_registered_by_the_next_one(fleet, monkeypatch):
    bus, part = fleet.joined('host1')
    fleet.core.api_db.run(message_keys.renew, 'host1')
    following = part._next()
    assert part.renew_if_asked() and bus.signatures.key.id == following.id and ask(bus) == []


def test_a_next_key_that_an_operator_has_revoked_is_not_tried_again(fleet):
    bus, part = fleet.joined('host1')
    following = part._next()
    fleet.core.api_db.run(message_keys.add, 'host1', following.id, following.public, message_keys.REVOKED)
    fleet.core.api_db.run(message_keys.renew, 'host1')
    with pytest.raises(exception.HostKeyRefused, match='it is revoked'):
        part.renew_if_asked()
    assert part.renew_if_asked() and bus.signatures.key.id != following.id and ask(bus) == []


def test_a_retired_key_without_a_successor_is_refused_with_the_way_out(fleet):
    _bus, part = fleet.joined('host1')
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().where(tables_api.message_keys.c.host == 'host1').values(
            state='retired', expires_at=utils.utcnow() - datetime.timedelta(minutes=1)))
    _bus, again = fleet.host('host1')
    with pytest.raises(exception.HostKeyRefused, match='Remove the file message-key.host1 on the host'):
        again.start()
    os.unlink(part._path)
    again._keys.key = again._own()
    assert again._ask(again._keys.key) == 'pending'


def test_a_host_cannot_renew_the_key_of_another_host(fleet):
    fleet.joined('host1')
    bus, part = fleet.joined('host2')
    key = signatures.Key()
    with pytest.raises(exception.HostForbidden, match='names another host, host1'):
        conductor_of(bus.of_host('host1')).enroll_host(
            context.admin_context(), host='host1', public=base64.b64encode(key.public).decode(), token_id=None,
            number='1', proof=None)
    assert part._keys.key.id != key.id


# ---- upgrades

@pytest.fixture
def upgrading(tmp_path):
    made = Fleet(tmp_path, 'accept')
    yield made
    made.close()


def test_unsigned_messages_are_accepted_during_an_upgrade(upgrading, caplog):
    bus, part = upgrading.host('host1')
    assert ask(bus) == [] and ask(bus.of_host(None)) == []
    part.start()                                                 # nobody has approved it: it works all the same
    part.stop(0)
    assert upgrading.rows() == [('host1', 'pending')] and ask(bus) == []
    told = [record.getMessage() for record in caplog.records if record.msg == '%s %s: %s']
    why = 'messages without a signature are accepted: [messages] signatures is accept'
    assert told == [f'A message that names {sender}: {why}' for sender in ('host host1', 'no host')]
    upgrading.core.api_db.run(message_keys.set_state, bus.signatures.key.id, message_keys.APPROVED)
    time.sleep(trusted_keys.UNKNOWN_CACHE_LIFETIME_S)
    assert ask(bus) == []
    target, ctxt, message = bus._transport.seen[-1]
    ctxt['is_admin'] = False
    ctxt['signature'][1] = '1' * 24
    refused_raw(bus, target, ctxt, message, 'the signature of key')


def test_key_of_a_host_without_a_name_is_refused(upgrading):
    """The empty name is the deployment's: its pending keys sign for the control plane."""
    bus, _part = upgrading.host('')
    key = signatures.Key()
    bus.signatures.key = None
    with pytest.raises(exception.HostKeyRefused, match="host '' is not accepted: the name of the host is empty"):
        conductor_of(bus).enroll_host(context.admin_context(), host='', token_id=None, number='1', proof=None,
                                      public=base64.b64encode(key.public).decode())
    assert trusted_keys.TrustedKeys(upgrading.core.api_db).of(key.id) is None
    with upgrading.core.api_db.reader() as conn:
        assert message_keys.get(conn, key.id) is None


def test_a_key_that_is_not_approved_is_not_looked_up_for_each_message(upgrading, monkeypatch):
    bus, part = upgrading.host('host1')
    part.start()
    part.stop(0)
    looked_up, get, get_many = [], message_keys.get, message_keys.get_many
    monkeypatch.setattr(message_keys, 'get', lambda conn, key_id: looked_up.append(key_id) or get(conn, key_id))
    monkeypatch.setattr(message_keys, 'get_many', lambda conn, ids: looked_up.extend(ids) or get_many(conn, ids))
    began = time.monotonic()
    for _ in range(20):
        assert ask(bus) == []
    most = (time.monotonic() - began) / trusted_keys.UNKNOWN_CACHE_LIFETIME_S + 1
    assert 1 <= looked_up.count(bus.signatures.key.id) <= most


def test_signatures_can_be_disabled(tmp_path):
    fleet = Fleet(tmp_path, 'off')
    try:
        bus, part = fleet.host('host1')
        part.start()
        assert ask(bus) == [] and 'signature' not in bus._transport.seen[-1][1] and fleet.rows() == []
    finally:
        fleet.close()


@pytest.mark.parametrize('mode, warned', [('accept', True), ('require', False), ('off', False)])
def test_a_daemon_that_takes_anybody_s_messages_warns(mode, warned, caplog):
    signatures.Signatures(mode).warn()
    assert ('then set require' in caplog.text) == warned


# ---- where the configuration says nothing

@pytest.fixture
def new(tmp_path):
    """A deployment that this release makes, whose configuration does not name [messages] signatures."""
    made = Fleet(tmp_path, None)
    yield made
    made.close()


def made_by_an_older_release(fleet):
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().values(signatures_required=False))


def test_a_new_deployment_requires_signatures(new):
    assert new.control.signatures.mode == 'require'
    bus, _part = new.host('host1')                   # which has no key yet
    refused(lambda: ask(bus), 'it is not signed')
    joined, _part = new.joined('host2')
    assert joined.signatures.mode == 'require' and ask(joined, 'host2') == []


def test_a_deployment_of_an_older_release_goes_on_with_what_it_accepted(new, caplog):
    made_by_an_older_release(new)
    again = new._bus('again')
    trusted_keys.TrustedKeys(new.core.api_db).use(again.signatures)
    assert again.signatures.mode == 'accept' and 'an older release has made' in caplog.text
    conf = stage(new)                                # its next key says the same
    manage_host.promote_key(conf, True)
    with new.core.api_db.reader() as conn:
        assert not message_keys.requires_signatures(conn)
        assert [row['id'] for row in message_keys.of_deployment(conn) if row['state'] == 'approved'] != ['deployment']


@pytest.mark.parametrize('mode', ['off', 'accept', 'require'])
def test_a_mode_in_the_configuration_counts_in_any_deployment(new, tmp_path, mode):
    conf = nova_conf.new(files=[], state_path=str(tmp_path / 'other'), messages__signatures=mode)
    rpc_bus.register_options(conf)
    made = rpc_bus.Bus(conf, URL)
    assembly.sign_as_deployment(made, new.core.api_db)
    assert made.signatures.mode == mode
    made.close()


def test_a_host_that_an_older_release_has_made_accepts_what_is_not_signed(new):
    """It has a key, and no mark beside it; a new one requires signatures from its first start on."""
    bus, _part = new.joined('host1')
    assert bus.signatures.mode == 'require'
    again, part = new.host('host1')
    part.start()
    assert again.signatures.mode == 'require'
    key, _pinned = enrolment.paths(sending_conf(bus), 'host1')
    os.unlink(key + '.required')
    older, part = new.host('host1')
    part.start()
    assert older.signatures.mode == 'accept' and older.signatures.key.id == bus.signatures.key.id


# ---- rotation

def stage(fleet):
    conf = nova_conf.new(files=[], api_database__connection=str(fleet.core.api_db.url))
    manage_host.stage_key(conf)
    return conf


def test_a_key_is_renewed_when_it_is_old(fleet):
    bus, part = fleet.joined('host1')
    old = bus.signatures.key.id
    assert not part.renew_if_asked()
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().where(tables_api.message_keys.c.host == 'host1').values(
            created_at=utils.utcnow() - datetime.timedelta(days=91)))
    assert part.renew_if_asked() and bus.signatures.key.id != old
    assert ask(bus) == [] and not part.renew_if_asked()


def test_the_services_of_a_host_share_its_key(fleet):
    """nova-compute and nova-network: who renews it, and who finds it renewed."""
    bus, part = fleet.joined('host1')
    other, network = fleet.host('host1')
    network.start()
    network.stop(0)
    assert other.signatures.key.id == bus.signatures.key.id and len(fleet.rows()) == 1
    fleet.core.api_db.run(message_keys.renew, 'host1')
    assert part.renew_if_asked() and network.renew_if_asked()
    assert other.signatures.key.id == bus.signatures.key.id
    who = {'host': 'host1', 'topic': 'network', 'version': 1}
    assert conductor_of(other).report_service(context.admin_context(), binary='nova-network', **who)
    with pytest.raises(exception.HostForbidden, match='it reports nova-scheduler'):
        conductor_of(other).report_service(context.admin_context(), binary='nova-scheduler', **who)


def test_the_deployment_gets_a_new_key_without_an_outage(fleet, monkeypatch):
    bus, part = fleet.joined('host1')
    sleeper, asleep = fleet.joined('host2')                       # does not run while the key is rotated
    computes = compute_interface.INTERFACE
    for name, each in (('host1', bus), ('host2', sleeper)):
        fleet.serve(each, computes, fleet.core.computes[name], name)

    def ping(name):
        return fleet.control.client(computes).ping(context.admin_context(), server=name)
    old = fleet.control.signatures.key
    conf = stage(fleet)
    with pytest.raises(command_line.Refused, match='already staged'):
        manage_host.stage_key(conf)
    with pytest.raises(command_line.Refused, match='may still lack the next key'):
        manage_host.promote_key(conf, False)
    assert not part.renew_if_asked() and ping('host1') == 'pong'
    manage_host.promote_key(conf, True)
    monkeypatch.setattr(signatures, 'KEY_CHECK_INTERVAL_S', 0)
    fleet.control.signatures.follow(fleet.control.signatures._look)
    new = fleet.control.signatures.key
    assert new.id != old.id and ping('host1') == 'pong' and ask(bus) == []
    refused(lambda: ping('host2'), 'not approved: key')
    assert not asleep.renew_if_asked() and ping('host2') == 'pong'
    for signing in (old, new):                                    # messages on their way are good for a day
        fleet.control.signatures._look = None
        fleet.control.signatures.key = signing
        assert ping('host1') == 'pong'
    later = utils.utcnow() + datetime.timedelta(days=2)
    monkeypatch.setattr(message_keys.utils, 'utcnow', lambda: later)
    part.renew_if_asked()
    fleet.control.signatures.key = old
    refused(lambda: ping('host1'), 'not approved: key')
    with fleet.core.api_db.reader() as conn:
        rows = conn.execute(tables_api.message_keys.select().where(tables_api.message_keys.c.host == '')).all()
    assert sorted((row.state, row.private is None) for row in rows) == [('approved', False), ('retired', True)]


@pytest.mark.parametrize('change', [
    {'key_signature': base64.b64encode(bytes(64)).decode()}, {'key_signature': None}, {'signed_by': 'f' * 40},
    {'signed_by': ''}])
def test_a_host_believes_no_key_that_the_deployment_has_not_signed(fleet, change):
    """Answers are not signed: who forges one does not become the control plane by it."""
    _bus, part = fleet.joined('host1')
    stage(fleet)
    manage_host.promote_key(nova_conf.new(files=[], api_database__connection=str(fleet.core.api_db.url)), True)
    with fleet.core.api_db.writer() as conn:
        conn.execute(tables_api.message_keys.update().where(tables_api.message_keys.c.key_signature.is_not(None)).values(
            **change))
    before = part._deployment
    part._enroll(part._keys.key, None)
    assert part._deployment == before


def test_a_host_asks_conductors_that_sign_nothing_yet(tmp_path):
    fleet = Fleet(tmp_path, 'accept')
    try:
        with fleet.core.api_db.writer() as conn:                 # as if it had never signed
            conn.execute(tables_api.message_keys.delete())
        _bus, part = fleet.host('host1')
        part._keys.key = part._own()
        assert part._ask(part._keys.key) == 'pending' and part._deployment
    finally:
        fleet.close()
