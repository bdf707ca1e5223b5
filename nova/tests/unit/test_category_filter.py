"""The filter of instance categories: what a category requires against what hosts are, can, and have as metadata."""
import numpy as np
import pytest

from nova import conf as nova_conf
from nova.scheduler import filters
from nova.scheduler import placement_request
from nova.scheduler.filters import categories
from nova.tests.support import scheduler as test_scheduler

CAPABILITIES = ({'sriov': True}, {'sriov': False, 'nic_speed': 10000}, {})
METADATA = ([{'local_ssd': 'true', 'rack': 'a'}, {'rack': 'b'}], [], [{'nic_speed': '40000'}])


@pytest.fixture
def hosts():
    return test_scheduler.hosts(*({'capabilities': capabilities, 'aggregates': [
        {'id': index, 'uuid': str(index), 'name': str(index), 'metadata': each} for index, each in enumerate(metadata)]}
        for capabilities, metadata in zip(CAPABILITIES, METADATA, strict=True)))


def ask(hosts, **requirements):
    made = categories.CategoryRequirementsFilter(None)
    request = placement_request.Request(resources={}, requirements=requirements)
    return made.mask(hosts, request), made, request


@pytest.mark.parametrize(('requirements', 'expected'), [
    ({'sriov': 'true'}, [True, False, False]), ({'sriov': 'True'}, [True, False, False]),
    ({'capabilities:sriov': 'true'}, [True, False, False]),
    ({'local_ssd': 'true'}, [True, False, False]), ({'rack': 'b'}, [True, False, False]),
    ({'rack': '<or> b <or> c'}, [True, False, False]),
    ({'nic_speed': '>= 10000'}, [False, True, True]), ({'nic_speed': '>= 20000'}, [False, False, True]),
    ({'sriov': 'true', 'local_ssd': 'true'}, [True, False, False]),
    ({'sriov': 'true', 'nic_speed': '>= 1'}, [False, False, False]),
    ({'unknown': 'x'}, [False, False, False]), ({'nic_speed': '>= much'}, [False, False, False]),
])
def test_category_filter_keeps_hosts_that_meet_the_requirements(hosts, requirements, expected):
    assert list(ask(hosts, **requirements)[0]) == expected


def test_a_regular_server_costs_nothing(hosts):
    assert ask(hosts)[0] is hosts.all_pass


def test_the_reason_names_what_is_missing(hosts):
    mask, made, request = ask(hosts, sriov='true', nic_speed='>= 10000')
    assert 'category (nic_speed, sriov)' in made.reason(hosts, request, np.flatnonzero(~mask))
    assert 'category (nic_speed)' in made.reason(hosts, request, np.array([0]))


def test_category_filter_is_always_enabled():
    names = [each.name for each in filters.load(nova_conf.new(files=[]), [])]
    assert 'CategoryRequirementsFilter' in names
