"""Filters by capabilities, image properties and traits of hosts."""
import collections.abc
import re
import typing

import numpy as np

from nova.hardware import guest_option_rows
from nova.hardware import guest_options
from nova.scheduler import host_view
from nova.scheduler.filters import attributes
from nova.scheduler.filters import base
from nova.scheduler.filters import operators
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request

# (image property, former name of the property, index of its value in the entries of supported_instances)
_IMAGE = (('hw_architecture', 'architecture', 0), ('img_hv_type', 'hypervisor_type', 1), ('hw_vm_mode', 'vm_mode', 2))
_VERSION = ('img_hv_requested_version', 'hypervisor_version_requires')
_ALIASES = {'amd64': 'x86_64', 'x64': 'x86_64', 'x86': 'i686', 'i386': 'i686', 'i486': 'i686', 'i586': 'i686',
            'arm64': 'aarch64', 'pv': 'xen', 'hv': 'hvm', 'xapi': 'xen'}
_COMPARED = re.compile(r'\s*(==|!=|>=|<=|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,2})\s*')
_TRAIT = re.compile(r'trait(?:[1-9][0-9]*|_[a-zA-Z0-9_-]{1,64})?:(.*)', re.DOTALL)


class ComputeCapabilitiesFilter(base.Filter):
    """Hosts that satisfy the flavor's extra specs with the scope ``capabilities`` or without a scope.

    Example: ``capabilities:cpu_info:features = <all-in> aes avx``. The key contains the path to a host attribute, and
    the value begins with an operator.
    """

    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        specs = request_fields.extra_specs(request)
        requirements = request_fields.scoped(specs, 'capabilities') if specs else {}
        if not requirements:
            return hosts.all_pass
        mask = np.ones(len(hosts), dtype=bool)
        for key, requirement in requirements.items():
            mask &= satisfying(hosts, key, str(requirement))
        return mask

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        requirements = request_fields.scoped(request_fields.extra_specs(request), 'capabilities')
        missing = [key for key, requirement in requirements.items()
                   if not satisfying(hosts, key, str(requirement))[removed].all()]
        return f"does|do not satisfy the flavor's extra specs ({', '.join(sorted(missing))})"


def satisfying(hosts: host_view.Hosts, key: str, requirement: str) -> np.ndarray:
    """Return a mask of the hosts with an attribute or capability that satisfies a requirement (see operators.py).

    :param key: name, or path separated by colons
    """
    attribute, rest = attributes.find(key.split(':'))
    if not attribute.fixed:
        return _judge(hosts, attribute, rest, requirement)
    return hosts.cached(('capability', key, requirement), lambda: _judge(hosts, attribute, rest, requirement))


def _judge(hosts: host_view.Hosts, attribute: attributes.Attribute, rest: typing.Sequence[str],
           requirement: str) -> np.ndarray:
    matches = operators.matcher(requirement)
    if attribute.column is not None:
        return hosts.match_column(attribute.column, lambda value: matches(attributes.under(value, rest)))
    compared = operators.comparison(requirement)
    if rest or compared and compared[1] is None:
        return np.zeros(len(hosts), dtype=bool)
    array = attribute.read(hosts)
    if compared:
        return np.asarray(compared[0](array, compared[1]))
    values, codes = np.unique(array, return_inverse=True)
    return np.array([bool(matches(value)) for value in values.tolist()], dtype=bool)[codes]


class ImagePropertiesFilter(base.CachedFilter):
    """Hosts that support the architecture, hypervisor type, VM mode and hypervisor version of the image."""

    def key(self, request: Request) -> tuple[typing.Any, ...]:
        properties = request_fields.properties(request)
        if not properties:
            return ()
        guest = [_first(properties, names) for *names, _ in _IMAGE]
        version = _first(properties, _VERSION)
        return (*map(_canonical, guest), version) if version or any(guest) else ()

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        *guest, version = self.key(request)

        def runs(supported: list[list[str]] | None) -> bool:
            return any(all(need is None or need == _canonical(have) for need, have in zip(guest, line, strict=False))
                       for line in supported or ())
        mask = np.ones(len(hosts), dtype=bool)
        if any(guest):
            mask &= hosts.match_column('supported_instances', runs)
        if version:
            mask &= hosts.match_column('hypervisor_version', lambda number: _version_fits(number, version))
        return mask

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        *guest, version = self.key(request)
        text = ', '.join(f'{words} {value}' for words, value in zip(
            ('architecture', 'hypervisor type', 'VM mode', 'hypervisor version'), (*guest, version), strict=True)
            if value)
        return f'does|do not run guests of the image ({text})'


def _first(properties: dict[str, typing.Any], names: collections.abc.Iterable[str]) -> str | None:
    return next((str(properties[name]) for name in names if properties.get(name)), None)


def _canonical(text: str | None) -> str | None:
    return None if text is None else _ALIASES.get(str(text).lower(), str(text).lower())


def _version_fits(number: int | None, requirement: str) -> bool:
    """Tell whether a version such as 7002000 (7.2.0) satisfies a text such as '>=7.0, <8'; malformed text: False."""
    number = number or 0
    version = (number // 1000000, number // 1000 % 1000, number % 1000)
    for part in requirement.split(','):
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


class TraitsFilter(base.CachedFilter):
    """Hosts with the traits that the flavor or the image requires (``trait:NAME=required``), without forbidden traits.

    The filter also checks traits in numbered groups, and traits that other extra specs and properties need
    (nova/hardware/guest_options.py). No option can disable the filter, because traits may be a security requirement.
    """

    def key(self, request: Request) -> frozenset[tuple[str, str]]:
        sources = request_fields.extra_specs(request), request_fields.properties(request)
        found = ((_TRAIT.fullmatch(key), value) for items in sources
                 for key, value in items.items() if key.startswith('trait'))
        needed = guest_options.traits(*sources)
        if request_fields.trusted_certificates(request):
            needed |= {guest_option_rows.TRUSTED_CERTIFICATES}
        return frozenset({*((key[1], str(value)) for key, value in found if key),
                          *((name, 'required') for name in needed)})

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        required, forbidden = self._traits(request)
        return hosts.match_column('traits', lambda traits: required <= set(traits or ())
                                  and not forbidden & set(traits or ()))

    def _traits(self, request: Request) -> tuple[set[str], set[str]]:
        """Return (required, forbidden) traits. To be safe, all values other than ``forbidden`` mean required."""
        found = self.key(request)
        return ({name for name, value in found if value != 'forbidden'},
                {name for name, value in found if value == 'forbidden'})

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        required, forbidden = self._traits(request)
        if required and forbidden:
            return (f'does|do not satisfy the traits (required: {", ".join(sorted(required))}; forbidden: '
                    f'{", ".join(sorted(forbidden))})')
        if required:
            return f'lacks|lack the required traits {", ".join(sorted(required))}'
        return f'has|have one of the forbidden traits {", ".join(sorted(forbidden))}'


FILTERS = (ComputeCapabilitiesFilter, ImagePropertiesFilter)
