"""Translations of the dashboard's texts from nova/locale."""
import re
import typing

from nova import i18n
from nova.json_types import JsonDocument
from nova.web import static

# translatable texts in the JavaScript modules: t('text'); values of keys, as in label: 'text'; and the label in a pair
# [label, value] at the beginning of a line, as in ['Id', row.id]
_KEYS = rb'label|title|help|empty|ask|done|find|none|note'
_MARKED = re.compile(rb"""\bt\(\s*'((?:[^'\\\n]|\\.)+)'|\b(?:""" + _KEYS + rb"""): '((?:[^'\\\n]|\\.)+)'"""
                     rb"""|^\s+\['([A-Z][^'\\\n]*)', """, re.MULTILINE)


def translatable(source: bytes) -> typing.Iterator[str]:
    """Yield the translatable texts of a module."""
    for match in _MARKED.finditer(source):
        yield match[match.lastindex or 0].decode().replace("\\'", "'")


def texts_of(files: static.Files) -> list[str]:
    """Return all texts of the page."""
    modules = (file.body for name, file in files.files.items() if name.endswith('.js'))
    return sorted({text for module in modules for text in translatable(module)})


def catalog(language: str, files: static.Files) -> JsonDocument:
    """Return {'language': code of the language, 'texts': {text: translation}}, without untranslated texts."""
    found = {text: i18n.translate(text, language) for text in texts_of(files)}
    return {'language': language.replace('_', '-'),
            'texts': {text: translated for text, translated in found.items() if translated != text}}
