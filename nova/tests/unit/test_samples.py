"""The samples in etc/nova name every option and rule of the code; other packages' options change with them."""
import pathlib
import re

from nova import conf
from nova import policy

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


def test_every_rule_is_in_the_sample():
    found = set(re.findall(r'^#?"([^"]+)":', (ETC / 'policy.yaml.sample').read_text(), re.MULTILINE))
    declared = {rule.name for rule in policy.list_rules()}
    assert len(declared) > 100
    assert not declared - found, 'run: nova-manage policy sample > etc/nova/policy.yaml.sample'
