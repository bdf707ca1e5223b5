"""Namespaces, routers and the metadata relay of a host after a step of their set-up failed."""
import dataclasses
import os
import types

import pytest

from nova import conf as configuration
from nova import exception
from nova.network import relay
from nova.network.host import state as host_state
from nova.network.linux import driver
from nova.network.linux import metadata
from nova.network.linux import namespaces
from nova.network.linux import router
from nova.network.linux import runner

ROUTER = host_state.Router(id='r', up=True, internal=[], external=None, gateway=None, snat=True, routes=[],
                           floating_ips=[], port_forwardings=[])
STEPS = ['ip netns add', 'lo up', 'accept_ra', 'sleep infinity', 'ip_forward']


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host whose commands are recorded in ``ran``. A command that contains ``failing`` fails."""
    found = types.SimpleNamespace(ran=[], failing='', exists=False)

    def call(self, *words, check=True, **_more):
        text = ' '.join(words)
        if 'show' in words or 'list' in words:
            return '[{"ifname": "lo"}]' if found.exists and 'link' in words else ''
        found.ran.append(text)
        if found.failing and found.failing in text:
            raise exception.NetworkPlumbingError(reason=text)
        if text.startswith('ip netns add'):
            found.exists = True
            (names / 'space').touch()
        return f"{os.getpid()} {os.stat('/proc/self/ns/net').st_ino}" if 'sleep infinity' in text else ''
    names = tmp_path / 'netns'
    names.mkdir()
    monkeypatch.setattr(runner.Runner, '__call__', call)
    monkeypatch.setattr(namespaces, 'NAMES', names)
    monkeypatch.setattr(namespaces, 'HOLDERS', tmp_path / 'holders')
    found.plumbing = lambda: router.RouterPlumbing(runner.Runner(), 'space', tmp_path)
    return found


def steps(host):
    done = [step for text in host.ran for step in STEPS if step in text]
    del host.ran[:]
    return done


@pytest.mark.parametrize('restarted', [False, True])
@pytest.mark.parametrize('step', STEPS)
def test_router_whose_creation_was_interrupted_is_completed(host, step, restarted):
    plumbing, host.failing = host.plumbing(), step
    with pytest.raises(exception.NetworkPlumbingError):
        plumbing.apply(ROUTER)
    assert steps(host) == STEPS[:STEPS.index(step) + 1]
    host.failing = ''
    if restarted:
        plumbing = host.plumbing()
    assert plumbing.apply(ROUTER) == (step == STEPS[0])
    expected = STEPS if step == STEPS[0] else STEPS[4:] if step == STEPS[4] else STEPS[1:]
    assert steps(host) == expected
    assert not plumbing.apply(ROUTER) and steps(host) == []


PRESENT = {
    4: [{'dst': 'default', 'gateway': '10.0.0.9'}, {'dst': '10.9.9.9', 'gateway': '10.0.0.5'},
        {'dst': '10.8.0.0/16', 'nexthops': [{'gateway': '10.0.0.6'}, {'gateway': '10.0.0.5'}]}],
    6: [{'dst': 'default', 'gateway': 'fd00::9'}, {'dst': 'fd01::1', 'gateway': 'fd00::5'}]}
WANTED = [('0.0.0.0/0', '10.0.0.9'), ('10.9.9.9/32', '10.0.0.5'), ('10.8.0.0/16', '10.0.0.5'),
          ('10.8.0.0/16', '10.0.0.6'), ('::/0', 'fd00::9'), ('fd01::1/128', 'fd00::5')]


@pytest.mark.parametrize('version', [4, 6])
def test_routes_that_the_kernel_has_are_left_alone(version):
    assert namespaces.route_commands(version, PRESENT[version], WANTED) == []


def test_route_with_several_next_hops_is_set_as_one():
    wanted = [('0.0.0.0/0', '10.0.0.9'), ('10.8.0.0/16', '10.0.0.7'), ('10.8.0.0/16', '10.0.0.5')]
    assert namespaces.route_commands(4, PRESENT[4], wanted) == [
        (['del', '10.9.9.9/32', 'proto', 'static'], False),
        (['replace', '10.8.0.0/16', 'proto', 'static', 'nexthop', 'via', '10.0.0.5', 'nexthop', 'via', '10.0.0.7'],
         True)]


def test_default_route_of_a_user_takes_precedence_over_the_external_gateway(host):
    own = [{'destination': '0.0.0.0/0', 'nexthop': '10.0.0.5'}]
    for routes, hop in ((own, '10.0.0.5'), ([], '172.24.4.1')):
        host.plumbing().apply(dataclasses.replace(ROUTER, gateway='172.24.4.1', routes=routes))
        assert [line for line in host.ran if ' route replace ' in line] == [
            f'ip -4 route replace 0.0.0.0/0 proto static via {hop}']
        del host.ran[:]


def test_relay_listens_again_after_a_failed_set_up():
    relays, listening = metadata.MetadataRelay(runner.Runner()), []
    relays.process = types.SimpleNamespace(control=object())
    relays._listen = lambda run, kind, ident, address, port: (
        listening.append(ident), relays._served.update({(kind, ident): (address, port)}))
    space = types.SimpleNamespace(run=lambda *words, **more: metadata.LOCAL)
    for _ in range(2):
        relays.serve(space, 'router', 'r', False)
    assert listening == ['r']
    relays.distrust('r')
    for _ in range(2):
        relays.serve(space, 'router', 'r', False)
    assert listening == ['r', 'r']


def test_relay_gets_its_settings_again_if_they_were_not_sent():
    relays, answers, sent = metadata.MetadataRelay(runner.Runner()), [False, True], []
    relays.process = types.SimpleNamespace(ended=lambda: None, is_alive=lambda: True,
                                           send=lambda message: sent.append(message) or answers.pop(0))
    for _ in range(3):
        relays.configure('host1', 'ab', ('192.0.2.1', 8775), '')
    assert sent == [{'settings': ['host1', 'ab', '192.0.2.1', 8775, '']}] * 2


def test_ca_bundle_that_does_not_fit_into_a_message_is_refused(tmp_path):
    file = tmp_path / 'ca.pem'
    linux = driver.LinuxDriver(configuration.new(files=[], network__metadata_ca_file=str(file)))
    file.write_text('certificate')
    assert linux._authority() == 'certificate'
    file.write_text('x' * (relay.MAX_CONTROL_MESSAGE - 100))
    with pytest.raises(exception.NetworkPlumbingError, match='more than 60 KiB'):
        linux._authority()


def test_without_a_readable_ca_certificate_only_the_relay_is_off(tmp_path, caplog):
    linux = driver.LinuxDriver(configuration.new(
        files=[], network__metadata_ca_file=str(tmp_path / 'missing'), network__metadata_host='192.0.2.1'))
    state = types.SimpleNamespace(networks=[])
    assert linux._relay_target(None) == (None, '') and not caplog.messages
    assert linux._relay_target(state) == (None, '')
    assert caplog.messages[0].startswith('The metadata relay is off: ') and 'metadata_ca_file' in caplog.messages[0]
    (tmp_path / 'missing').write_text('certificate')
    assert linux._relay_target(state) == (('192.0.2.1', 8775), 'certificate')
