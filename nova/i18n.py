"""Translation of messages, with oslo.i18n.

    from nova.i18n import _
    raise exception.BadRequest(_('Invalid service catalogue'))

``nova.api.faults`` translates error messages for users: the templates of ``nova.exception`` and texts marked with
``_()``. Catalogs are in ``nova/locale``; ``tools/messages.py`` extracts, updates and compiles them. Log messages are
not translated, so that operators can search for the English text.
"""
from __future__ import annotations

import functools
import gettext
import os
import pathlib

import oslo_i18n

DOMAIN = 'nova'
LOCALES = pathlib.Path(__file__).parent / 'locale'
DEFAULT = 'en'                   # language of the texts in the code

# oslo.i18n finds the directory of the catalogs only through this environment variable.
os.environ.setdefault('NOVA_LOCALEDIR', str(LOCALES))

_translators = oslo_i18n.TranslatorFactory(domain=DOMAIN)

_ = _translators.primary                 # messages for users
_LI = _translators.log_info              # log messages by level; DEBUG is not translated
_LW = _translators.log_warning
_LE = _translators.log_error
_LC = _translators.log_critical


def enable_lazy(enable: bool = True) -> None:
    """Defer the translation of ``_()`` texts until the reader's language is known."""
    oslo_i18n.enable_lazy(enable)


def get_available_languages() -> list[str]:
    """Return the languages that have a catalog, and the language of the code."""
    return oslo_i18n.get_available_languages(DOMAIN)


@functools.cache
def languages() -> dict[str, str]:
    """Return {language in lower case with hyphens: name of its catalog}."""
    found = {path.parents[1].name for path in LOCALES.glob(f'*/LC_MESSAGES/{DOMAIN}.mo')}
    return {name.replace('_', '-').lower(): name for name in found} | {DEFAULT: DEFAULT}


@functools.lru_cache(maxsize=256)
def best_language(accept: str) -> str:
    """Return the best available language for an Accept-Language header (RFC 9110), or DEFAULT."""
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
            name = name.rpartition('-')[0]               # de-at falls back to de
    return DEFAULT


@functools.cache
def _catalog(language: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, LOCALES, [language], fallback=True)


def translate(text: str, language: str) -> str:
    """Return the translation of a text, or the text itself if it has no translation."""
    if language == DEFAULT or not text:
        return str(text)
    if hasattr(text, 'translation'):                     # a message object of oslo.i18n, not a plain text
        return oslo_i18n.translate(text, language)
    return _catalog(language).gettext(text)
