"""Filters by what hosts are and can: capabilities, images' properties, traits."""
import re

import numpy as np

from nova.scheduler.filters import asked
from nova.scheduler.filters import attributes
from nova.scheduler.filters import base
from nova.scheduler.filters import operators

# an image's property, with the name that it had before, and its place in a line of supported_instances
_IMAGE = (('hw_architecture', 'architecture', 0), ('img_hv_type', 'hypervisor_type', 1), ('hw_vm_mode', 'vm_mode', 2))
_VERSION = ('img_hv_requested_version', 'hypervisor_version_requires')
_ALIASES = {'amd64': 'x86_64', 'x64': 'x86_64', 'x86': 'i686', 'i386': 'i686', 'i486': 'i686', 'i586': 'i686',
            'arm64': 'aarch64', 'pv': 'xen', 'hv': 'hvm', 'xapi': 'xen'}
_COMPARED = re.compile(r'\s*(==|!=|>=|<=|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,2})\s*')
_TRAIT = re.compile(r'trait(?:[1-9][0-9]*|_[a-zA-Z0-9_-]{1,64})?:(.*)', re.DOTALL)


class ComputeCapabilitiesFilter(base.Filter):
    """Hosts that satisfy the flavor's extra specs of the scope ``capabilities``, or of none.

    ``capabilities:cpu_info:features = <all-in> aes avx``: a path of a host's attributes, and a value with an operator.
    """

    rebuild = False

    def mask(self, hosts, request):
        specs = asked.extra_specs(request)
        wanted = asked.scoped(specs, 'capabilities') if specs else {}
        if not wanted:
            return hosts.everything
        mask = np.ones(len(hosts), dtype=bool)
        for key, requirement in wanted.items():
            mask &= satisfying(hosts, key, str(requirement))
        return mask

    def reason(self, hosts, request, removed):
        wanted = asked.scoped(asked.extra_specs(request), 'capabilities')
        missing = [key for key, requirement in wanted.items()
                   if not satisfying(hosts, key, str(requirement))[removed].all()]
        return f"does|do not satisfy the flavor's extra specs ({', '.join(sorted(missing))})"


def satisfying(hosts, key, requirement):
    """The mask of the hosts of which an attribute, or a capability, meets a value with an operator.

    :param key: its name, or the path to it with colons
    """
    attribute, rest = attributes.find(key.split(':'))
    if not attribute.fixed:
        return _judge(hosts, attribute, rest, requirement)
    return hosts.once(('capability', key, requirement), lambda: _judge(hosts, attribute, rest, requirement))


def _judge(hosts, attribute, rest, requirement):
    matches = operators.matcher(requirement)
    if attribute.column is not None:
        return hosts.each(attribute.column, lambda value: matches(attributes.under(value, rest)))
    compared = operators.comparison(requirement)
    if rest or compared and compared[1] is None:
        return np.zeros(len(hosts), dtype=bool)
    array = attribute.read(hosts)
    if compared:
        return compared[0](array, compared[1])
    values, codes = np.unique(array, return_inverse=True)
    return np.array([bool(matches(value)) for value in values.tolist()], dtype=bool)[codes]


class ImagePropertiesFilter(base.Remembered):
    """Hosts that run guests of the architecture, hypervisor type, virtual machine mode and hypervisor version that the
    image's properties name."""

    def key(self, request):
        properties = asked.properties(request)
        if not properties:
            return None
        wanted = [_first(properties, names) for *names, _ in _IMAGE]
        version = _first(properties, _VERSION)
        return (*map(_canonical, wanted), version) if version or any(wanted) else None

    def judge(self, hosts, request):
        *wanted, version = self.key(request)

        def runs(supported):
            return any(all(want is None or want == _canonical(have) for want, have in zip(wanted, line, strict=False))
                       for line in supported or ())
        mask = np.ones(len(hosts), dtype=bool)
        if any(wanted):
            mask &= hosts.each('supported_instances', runs)
        if version:
            mask &= hosts.each('hypervisor_version', lambda number: _version_fits(number, version))
        return mask

    def reason(self, hosts, request, removed):
        *wanted, version = self.key(request)
        text = ', '.join(f'{words} {value}' for words, value in zip(
            ('architecture', 'hypervisor type', 'VM mode', 'hypervisor version'), (*wanted, version), strict=True)
            if value)
        return f'does|do not run guests of the image ({text})'


def _first(properties, names):
    return next((str(properties[name]) for name in names if properties.get(name)), None)


def _canonical(text):
    return None if text is None else _ALIASES.get(str(text).lower(), str(text).lower())


def _version_fits(number, wanted):
    """Whether version 7002000, which is 7.2.0, fits text like '>=7.0, <8'; text without a meaning fits nothing."""
    number = number or 0
    version = (number // 1000000, number // 1000 % 1000, number % 1000)
    for part in wanted.split(','):
        found = _COMPARED.fullmatch(part)
        if not found:
            return False
        other = tuple(int(digits) for digits in found[2].split('.'))
        here = version[:len(other)] if found[1] in ('==', '!=') else version
        other = other if found[1] in ('==', '!=') else other + (0,) * (3 - len(other))
        if not {'==': here == other, '!=': here != other, '>=': here >= other, '<=': here <= other,
                '>': here > other, '<': here < other}[found[1]]:
            return False
    return True


class TraitsFilter(base.Remembered):
    """Hosts with the traits that the flavor or the image requires (``trait:NAME=required``), and without those that
    either forbids; those of a numbered group, too. It is always asked: who requires a trait relies on it."""

    def key(self, request):
        found = ((_TRAIT.fullmatch(key), value) for items in (asked.extra_specs(request), asked.properties(request))
                 for key, value in items.items() if key.startswith('trait'))
        return frozenset((key[1], str(value)) for key, value in found if key) or None

    def judge(self, hosts, request):
        required, forbidden = self._wanted(request)
        return hosts.each('traits', lambda traits: required <= set(traits or ()) and not forbidden & set(traits or ()))

    def _wanted(self, request):
        """What is neither required nor forbidden is asked for of nobody: no host passes by mistake."""
        wanted = self.key(request)
        return ({name for name, value in wanted if value != 'forbidden'},
                {name for name, value in wanted if value == 'forbidden'})

    def reason(self, hosts, request, removed):
        required, forbidden = self._wanted(request)
        if required and forbidden:
            return (f'lacks|lack one of the traits {", ".join(sorted(required))}, or has one of the forbidden '
                    f'{", ".join(sorted(forbidden))}')
        if required:
            return f'lacks|lack the required traits {", ".join(sorted(required))}'
        return f'has|have one of the forbidden traits {", ".join(sorted(forbidden))}'


FILTERS = (ComputeCapabilitiesFilter, ImagePropertiesFilter)
