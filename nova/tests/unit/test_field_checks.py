"""The check field:RESOURCE:NAME=VALUE."""
import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import policies
from nova import policy
from nova.policies import checks


@pytest.mark.parametrize(('match', 'target', 'passes'), [
    ('networks:shared=True', {'shared': 'True'}, True), ('networks:shared=true', {'shared': 'True'}, True),
    ('networks:shared=True', {'shared': 'False'}, False), ('networks:shared=True', {}, False),
    ('networks:router:external=True', {'router:external': 'True'}, True),
    ('port:device_owner=~^network:', {'device_owner': 'network:dhcp'}, True),
    ('port:device_owner=~^network:', {'device_owner': 'compute:nova'}, False),
    ('rbac_policy:target_tenant=*', {'target_tenant': '*'}, True),
    ('rbac_policy:target_tenant=*', {'target_tenant': 'p'}, False)])
def test_field_check_compares_the_target_field(match, target, passes):
    assert checks.FieldCheck('field', match)(target, {}, None) is passes


@pytest.mark.parametrize('text', ['field:networks', 'field:networks:shared', 'field:port:device_owner=~['])
def test_an_invalid_check_is_refused_with_the_file(tmp_path, text):
    path = tmp_path / 'image.yaml'
    path.write_text(f'"get_image": "{text}"\n')
    with pytest.raises(exception.InvalidInput, match='image.yaml has an invalid check'):
        policy.Policy(nova_conf.new(files=[], image__policy_file=str(path)), policies.IMAGE)


def test_compared_attributes_of_a_rule_include_those_of_its_base_rules(tmp_path):
    path = tmp_path / 'image.yaml'
    path.write_text('"get_image": "rule:mine or field:images:visibility=public"\n"mine": "user_id:%(user_id)s"\n')
    rules = policy.Policy(nova_conf.new(files=[], image__policy_file=str(path)), policies.IMAGE)
    assert rules.compares('get_image') == {'visibility', 'user_id'}
    caller = context.RequestContext(user_id='u', project_id='p', roles=[], overwrite=False)
    assert rules.allows(caller, 'get_image', {'visibility': 'public'})
    assert rules.allows(caller, 'get_image', {'visibility': 'private', 'user_id': 'u'})
    assert not rules.allows(caller, 'get_image', {'visibility': 'private', 'user_id': 'v'})
