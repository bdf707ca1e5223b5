"""Decisions on views that are made here: nothing is read, written or changed."""
import uuid as uuidlib

from nova import conf as nova_conf
from nova import exception
from nova.scheduler import decision
from nova.scheduler import filters
from nova.scheduler import weights
from nova.tests import placement


class Failing(filters.Filter):
    def mask(self, hosts, request):
        if request.spec.user_id == 'bad':
            raise ValueError('bad')
        return hosts.all_pass


def rules(*more):
    conf = nova_conf.new(files=[])
    return decision.Rules((*filters.load(conf, ['RamFilter']), *(each(conf) for each in more)), weights.load(conf))


def demand(count=1, **values):
    return decision.Demand(placement.request(**values), [str(uuidlib.uuid4()) for _ in range(count)])


def test_each_demand_sees_what_those_before_it_chose_and_the_view_stays():
    hosts = placement.hosts({'memory_mb_used': 8192 - 512}, {'memory_mb_used': 8192 - 1024})
    before = hosts.used['memory_mb'].copy()
    plan = decision.decide(hosts, [demand(), demand(2), demand(), demand()], rules())
    assert [len(each.chosen) for each in plan] == [1, 2, 0, 0]
    assert all((each.rankings is None) == (each.no_candidates is not None) for each in plan)
    assert (hosts.used['memory_mb'] == before).all() and hosts.placed == ()


def test_one_demand_that_finds_no_host_says_why():
    found, = decision.decide(placement.hosts({'memory_mb_used': 8192}), [demand()], rules())
    try:
        decision.rankings_of(found)
    except exception.NoValidHost as error:
        assert 'too little free memory' in error.message
    else:
        raise AssertionError('it found a host')


def test_a_filter_that_fails_fails_its_demand_alone():
    plan = decision.decide(placement.hosts({}, {}), [demand(), demand(user_id='bad'), demand()], rules(Failing))
    assert [type(each.error) for each in plan] == [type(None), ValueError, type(None)]
    assert plan[0].chosen and plan[2].chosen and not plan[1].chosen
