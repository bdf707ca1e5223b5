"""Texts in other languages, through oslo.i18n.

    from nova.i18n import _
    raise exception.BadRequest(_('Invalid service catalogue'))

What a user reads of an error is put into the language of the request once, in ``nova.api.faults``: the templates of
``nova.exception`` and texts marked with ``_()``. Catalogs are in ``nova/locale``; ``tools/messages.py`` extracts,
updates and compiles them. The log stays English: one language to search in.
"""
from __future__ import annotations

import functools
import gettext
import os
import pathlib
from typing import Any

import oslo_i18n

DOMAIN = 'nova'
LOCALES = pathlib.Path(__file__).parent / 'locale'
DEFAULT = 'en'                   # the language that texts of the code are in

# Where oslo.i18n looks for catalogs; only the environment sets it.
os.environ.setdefault('NOVA_LOCALEDIR', str(LOCALES))

_translators = oslo_i18n.TranslatorFactory(domain=DOMAIN)

_ = _translators.primary                 # texts for users
_LI = _translators.log_info              # texts of the log, by level; DEBUG is not translated
_LW = _translators.log_warning
_LE = _translators.log_error
_LC = _translators.log_critical


def enable_lazy(enable: bool = True) -> None:
    """Keep what ``_()`` marks translatable until it is known who reads it."""
    oslo_i18n.enable_lazy(enable)


def get_available_languages() -> list[str]:
    """Languages with a catalog, and that of the code."""
    return oslo_i18n.get_available_languages(DOMAIN)


@functools.cache
def languages() -> dict[str, str]:
    """{name as clients write it, in small letters: name of a catalog}"""
    found = {path.parents[1].name for path in LOCALES.glob(f'*/LC_MESSAGES/{DOMAIN}.mo')}
    return {name.replace('_', '-').lower(): name for name in found} | {DEFAULT: DEFAULT}


@functools.lru_cache(maxsize=256)
def best_language(accept: str) -> str:
    """The language that an Accept-Language header (RFC 9110) likes best of those there are; the code's otherwise."""
    wanted = []
    for place, item in enumerate((accept or '')[:1000].split(',')):
        name, _sep, parameter = item.partition(';')
        try:
            quality = float(parameter.strip().removeprefix('q=') or 1) if parameter.strip() else 1.0
        except ValueError:
            continue
        if 0 < quality <= 1:
            wanted.append((-quality, place, name.strip().lower()))
    have = languages()
    for _quality, _place, name in sorted(wanted):
        while name:
            if name in have:
                return have[name]
            name = name.rpartition('-')[0]               # de-at is understood as de
    return DEFAULT


@functools.cache
def _catalog(language: str) -> Any:
    return gettext.translation(DOMAIN, LOCALES, [language], fallback=True)


def translate(text: Any, language: str) -> str:
    """A text in a language; itself where no catalog has it."""
    if language == DEFAULT or not text:
        return str(text)
    if hasattr(text, 'translation'):                     # a message of oslo.i18n
        return oslo_i18n.translate(text, language)
    return _catalog(language).gettext(text)
