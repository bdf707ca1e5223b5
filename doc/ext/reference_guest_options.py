"""The page of extra specs and image properties, from the table of nova/hardware/guest_option_rows.py."""
import re

import rst

from nova.hardware import guest_option_rows as rows

SECTIONS = (('Processors', rows.PROCESSOR), ('Memory', rows.MEMORY), ('Machine and firmware', rows.FIRMWARE),
            ('Devices', rows.DEVICES), ('Disks', rows.DISKS), ('Network', rows.NETWORK), ('Hosts', rows.HOSTS),
            ('Images', rows.IMAGES))
_WORDS = {rows.BOOLEAN: 'a boolean', rows.NUMBER: 'a number', rows.INTEGER: 'an integer',
          rows.POSITIVE: 'a number from 1', rows.ADDRESS_BITS: 'a number from 32 to 64',
          rows.CPUS: 'CPUs, as 0-3,^2', rows.ANY: 'text', rows.PAGE_SIZE: 'small, large, any, or a size as 2MB'}


def page():
    lines = [*rst.heading('Extra specs and image properties'),
             'What flavors and images may ask for. What no driver does is a bad request when a server is made of it, '
             'resized or rebuilt; a host that lacks a trait that a row needs gets no such server. A flavor and an '
             'image that contradict each other are a bad request, too.'
             ' Reasons: :doc:`/adr/0023-refuse-guest-options-that-no-host-carries-out`.']
    for title, options in SECTIONS:
        lines += [*rst.heading(title, '-'), *rst.table(
            ('Extra spec', 'Image property', 'Values', 'What it does', 'Carried out by', 'Traits of the host'),
            [_row(option) for option in options], '18 18 14 24 14 12')]
    return lines


def _row(option):
    refusals = [f'{"all else" if pattern == rows.ANY else _values(pattern)}: {why}.'
                for pattern, why in option.refused.items() if why]
    meaning = option.meaning if not refusals else f'{option.meaning}. Refused: {" ".join(refusals)}'
    return (rst.literal(_name(option.spec)), rst.literal(_name(option.prop)), rst.escaped(_values(option.values)),
            rst.escaped(meaning), option.by, ', '.join(rst.literal(trait) for trait in dict.fromkeys(
                option.traits.values())))


def _name(pattern):
    """A pattern as people write it."""
    text = (pattern or '').replace('.*', '*').replace(r'\.', '.').replace('[0-9]+', 'N')
    return text.replace(rows.GROUP, '').replace(rows.CLASS, 'NAME')


def _values(pattern):
    return _WORDS.get(pattern) or ('any that is on' if pattern == rows.TRUE else
                                   re.sub(r'\\', '', pattern).replace('|', ', '))
