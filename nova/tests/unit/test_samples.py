"""The samples in etc/nova say of every option and rule what the code does; other packages' options change with them."""
import io
import pathlib
import re

from nova import conf
from nova import policies
from nova import policy
from nova.cmd import policy as policy_command
from nova.cmd import samples
from nova.identity import auth
from nova.rpc import bus
from nova.runtime import log

ETC = pathlib.Path(__file__).resolve().parents[3] / 'etc/nova'


def test_every_option_is_in_the_sample():
    found, group = set(), None
    for line in (ETC / 'nova.conf.sample').read_text().splitlines():
        if match := re.fullmatch(r'\[(\w+)\]', line):
            group = match.group(1)
        elif match := re.match(r'#(\w+) =', line):
            found.add((group, match.group(1)))
    declared = {(group, option.dest) for group, options in conf.list_opts() for option in options}
    assert not declared - found, 'run: nova-manage config sample > etc/nova/nova.conf.sample'


def test_our_options_stand_there_with_their_texts_and_defaults():
    out, sample = io.StringIO(), (ETC / 'nova.conf.sample').read_text()
    samples.configuration(out, ['nova'])
    written = {block.strip('\n') for block in sample.split('\n\n')}
    blocks = [block for block in out.getvalue().split('\n\n') if re.search(r'^#\w+ = ', block, re.M)]
    assert len(blocks) > 150
    assert [block for block in blocks if block.strip('\n') not in written] == [], (
        'run: nova-manage config sample > etc/nova/nova.conf.sample')


def test_sample_shows_the_defaults_that_nova_sets_for_libraries():
    made = conf.new(files=[])
    bus.register_options(made)
    defaults = {(group or 'DEFAULT', name): made[group][name] if group else made[name] for group, name in bus.DEFAULTS}
    defaults |= {('keystone_authtoken', 'http_connect_timeout'): auth.KEYSTONE_S,
                 ('DEFAULT', 'default_log_levels'): ','.join(log.LEVELS)}
    assert (defaults['oslo_messaging_rabbit', 'rabbit_quorum_queue'], defaults['DEFAULT', 'transport_url'],
            defaults['DEFAULT', 'control_exchange']) == (True, None, 'nova')
    out = io.StringIO()
    samples.configuration(out)
    for text in (out.getvalue(), (ETC / 'nova.conf.sample').read_text()):
        sections = dict(re.findall(r'^\[(\w+)\]\n(.*?)(?=^\[|\Z)', text, re.M | re.S))
        for (group, name), value in defaults.items():
            shown = '<None>' if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            assert re.findall(rf'^#{name} = (.*)', sections[group], re.M) == [shown], name


def test_every_rule_is_in_the_sample():
    for service in policies.SERVICES:
        file = f'{service.file}.sample'
        found = set(re.findall(r'^#?"([^"]+)":', (ETC / file).read_text(), re.MULTILINE))
        declared = {rule.name for rule in policy.list_rules(policy_command.documented(service))}
        assert len(declared) > 10
        assert declared == found, f'run: nova-manage policy sample --service "{service.name}" > etc/nova/{file}'
