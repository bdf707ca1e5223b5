"""The samples in etc/nova say of every option and rule what the code does; other packages' options change with them."""
import io
import pathlib
import re

from nova import conf
from nova import policies
from nova import policy
from nova.cmd import policy as policy_command
from nova.cmd import samples

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


def test_every_rule_is_in_the_sample():
    for service in policies.SERVICES:
        file = f'{service.file}.sample'
        found = set(re.findall(r'^#?"([^"]+)":', (ETC / file).read_text(), re.MULTILINE))
        declared = {rule.name for rule in policy.list_rules(policy_command.documented(service))}
        assert len(declared) > 10
        assert declared == found, f'run: nova-manage policy sample --service "{service.name}" > etc/nova/{file}'
