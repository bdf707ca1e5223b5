"""Usage audit periods: hours, days, months or years, with an optional offset of their beginning."""
import datetime
import re

# unit@offset. A period begins at its offset: minute of an hour, hour of a day, day of a month or month of a year
PATTERN = re.compile(r'^(hour(@[0-5]?[0-9])?|day(@([01]?[0-9]|2[0-3]))?|month(@([1-9]|1[0-9]|2[0-8]))?'
                     r'|year(@([1-9]|1[0-2]))?)\Z')


def last_completed(period: str, before: datetime.datetime) -> tuple[datetime.datetime, datetime.datetime]:
    """Return (beginning, end) of the latest completed period.

    :param period: text that matches PATTERN, e.g. 'month', 'day@18'
    :param before: naive UTC datetime
    :raises ValueError, OverflowError: the period lies before year 1
    """
    unit, _, offset = period.partition('@')
    if unit in ('hour', 'day'):
        start = (before.replace(minute=int(offset or 0), second=0, microsecond=0) if unit == 'hour' else
                 before.replace(hour=int(offset or 0), minute=0, second=0, microsecond=0))
        length = datetime.timedelta(**{unit + 's': 1})
        ending = start if start <= before else start - length
        return ending - length, ending
    midnight = before.replace(hour=0, minute=0, second=0, microsecond=0)
    start = (midnight.replace(day=int(offset or 1)) if unit == 'month' else
             midnight.replace(day=1, month=int(offset or 1)))
    ending = start if start <= before else _earlier(start, unit)
    return _earlier(ending, unit), ending


def _earlier(moment: datetime.datetime, unit: str) -> datetime.datetime:
    """Return the same time one month or year earlier."""
    if unit == 'year':
        return moment.replace(year=moment.year - 1)
    if moment.month == 1:
        return moment.replace(year=moment.year - 1, month=12)
    return moment.replace(month=moment.month - 1)
