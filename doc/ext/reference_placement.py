"""The page of filters and weighers, from the classes and rows of nova/scheduler."""
import inspect
import re

import rst

from nova import conf as nova_conf
from nova.scheduler import filters
from nova.scheduler import weights
from nova.scheduler.filters import attributes
from nova.scheduler.filters import operators


def page():
    conf = nova_conf.new(files=[])
    enabled = conf.filter_scheduler.enabled_filters
    always = [cls.__name__ for cls in filters.always()]
    lines = [*rst.heading('Filters and weighers'),
             'What they are for, and how they are configured, is on the page about the scheduler.']
    lines += [*rst.heading('Filters', '-'), *rst.table(('Filter', 'Lets through', 'Applied'), [
        (rst.literal(name), rst.escaped(_doc(cls)), _when(name, cls, enabled, always))
        for name, cls in sorted(filters.builtin_filters().items())], '30 50 20')]
    lines += [*rst.heading('Weighers', '-'), *rst.table(('Weigher', 'Multiplier', 'Default'), [
        (rst.literal(each.name), rst.literal(_option(each)), each.multiplier) for each in weights.load(conf)])]
    lines += [*rst.heading('Operators of extra specs', '-'), ', '.join(map(rst.literal, operators.OPERATORS)) + '.']
    lines += [*rst.heading('Attributes of hosts', '-'), ', '.join(map(rst.literal, attributes.ATTRIBUTES)) + '.']
    return lines


def _doc(cls):
    text = re.sub(r'\s+', ' ', inspect.getdoc(cls) or '')
    return text.replace('``', '')


def _when(name, cls, enabled, always):
    words = ['always' if name in always else 'by default' if name in enabled else 'when it is enabled']
    if cls.checks_capacity or cls.selects_hosts:
        words.append('also for a forced host')
    if cls.run_on_rebuild:
        words.append('also for another image')
    return ', '.join(words)


def _option(weigher):
    if weigher.name == weights.METRICS:
        return '[metrics] weight_multiplier'
    return f'[filter_scheduler] {weigher.key}'
