"""nova.audit_period."""
import datetime

import pytest

from nova.conf import audit_period

NOW = datetime.datetime(2026, 3, 10, 17, 30, 5, 7)


@pytest.mark.parametrize('period, begin, end', [
    ('hour', '2026-03-10 16:00:00', '2026-03-10 17:00:00'),
    ('hour@30', '2026-03-10 16:30:00', '2026-03-10 17:30:00'),
    ('hour@31', '2026-03-10 15:31:00', '2026-03-10 16:31:00'),
    ('day', '2026-03-09 00:00:00', '2026-03-10 00:00:00'),
    ('day@17', '2026-03-09 17:00:00', '2026-03-10 17:00:00'),
    ('day@18', '2026-03-08 18:00:00', '2026-03-09 18:00:00'),
    ('month', '2026-02-01 00:00:00', '2026-03-01 00:00:00'),
    ('month@10', '2026-02-10 00:00:00', '2026-03-10 00:00:00'),
    ('month@28', '2026-01-28 00:00:00', '2026-02-28 00:00:00'),
    ('year', '2025-01-01 00:00:00', '2026-01-01 00:00:00'),
    ('year@3', '2025-03-01 00:00:00', '2026-03-01 00:00:00'),
    ('year@4', '2024-04-01 00:00:00', '2025-04-01 00:00:00'),
])
def test_last_completed_audit_period_precedes_now(period, begin, end):
    assert audit_period.PATTERN.match(period)
    assert tuple(map(str, audit_period.last_completed(period, NOW))) == (begin, end)


def test_monthly_audit_period_crosses_the_year():
    begin, end = audit_period.last_completed('month', datetime.datetime(2026, 1, 1))
    assert (str(begin), str(end)) == ('2025-12-01 00:00:00', '2026-01-01 00:00:00')


def test_periods_follow_each_other():
    for period in ('hour@59', 'day@5', 'month@17', 'year@12'):
        begin, end = audit_period.last_completed(period, NOW)
        assert end <= NOW
        assert audit_period.last_completed(period, end) == (begin, end)
        assert audit_period.last_completed(period, begin)[1] == begin


@pytest.mark.parametrize('period', ['week', 'month@29', 'month@0', 'hour@60', 'day@24', 'year@13', 'month@', ''])
def test_malformed_audit_period_is_not_matched(period):
    assert not audit_period.PATTERN.match(period)


def test_audit_period_before_year_1_raises():
    for period in ('hour', 'day', 'month', 'year'):
        with pytest.raises((ValueError, OverflowError)):
            audit_period.last_completed(period, datetime.datetime.min)
