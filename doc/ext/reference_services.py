"""Reference pages of the APIs beside compute, from their Route rows."""
import http

import reference_api
import rst

from nova.identity.rest import handlers as identity_handlers
from nova.identity.rest import openapi as identity_openapi
from nova.image.rest import handlers as image_handlers
from nova.image.rest import openapi as image_openapi
from nova.keymanager.rest import handlers as key_handlers
from nova.keymanager.rest import openapi as key_openapi
from nova.network.rest import app as network_app
from nova.network.rest import openapi as network_openapi
from nova.volume.rest import handlers as volume_handlers
from nova.volume.rest import openapi as volume_openapi
from nova.web import openapi


def pages():
    """{name: lines} of one page an API."""
    return {'block-storage-api': _page(volume_openapi.DESCRIBER, volume_handlers.ROUTES, '/volume',
                                       volume_openapi.MICROVERSIONS.maximum),
            'identity-api': _page(identity_openapi.DESCRIBER, identity_handlers.ROUTES, '/identity'),
            'image-api': _page(image_openapi.DESCRIBER, image_handlers.ROUTES, '/image'),
            'key-manager-api': _page(key_openapi.DESCRIBER, key_handlers.ROUTES, '/key-manager',
                                     key_openapi.MICROVERSIONS.maximum),
            'network-api': _page(network_openapi.DESCRIBER, network_app.ROUTES, '/network')}


def _page(describer, rows, mount, newest=1):
    version = describer.version_text(newest)
    at, earlier = (f' at the newest microversion, {version}', '; it describes earlier microversions with '
                   f'``?microversion={version.partition(".")[0]}.N``') if describer.microversions else ('', '')
    lines = [*rst.heading(describer.title),
             f'Every operation with its rules, codes, parameters and fields{at}. The same for programs is '
             f'``GET {mount}/openapi.json``{earlier}.', '']
    for row in sorted(openapi.served(rows, newest), key=lambda row: (row.path, row.method, row.action or '')):
        lines += _operation(describer, row, newest)
    return lines


def _operation(describer, row, newest):
    answer = describer.schema(row, row.code(newest), newest)
    rules = dict.fromkeys(rule for rule in (row.policy, *row.checks) if rule)
    codes = (f'{code} {http.HTTPStatus(code).phrase}' for code in sorted(describer.errors_of(row)))
    query = {param.name: (reference_api.words(openapi.published(param.type.schema(newest))), param.required)
             for param in (row.query.params if row.query else ()) if param.at(newest)}
    return [*rst.heading(f'{row.method} {row.path}' + (f' ({row.action})' if row.action else ''), '-'),
            rst.escaped(describer.meaning(row)), '',
            *([f':Since: {describer.version_text(row.since)}'] if describer.microversions else []),
            f':Rules: {", ".join(map(rst.literal, rules)) or "none"}',
            f':Success: {row.code(newest)}', f':Errors: {", ".join(codes)}', '',
            *_fields('Query', query), *_fields('Body', row.body and reference_api.flattened(row.body.schema(newest))),
            *_fields('Answer', answer and reference_api.flattened(answer))]


def _fields(title, found):
    table = rst.table(('Name', 'Type', 'Required'), [
        (rst.literal(name), form, 'yes' if required else '') for name, (form, required) in (found or {}).items()],
        '40 48 12')
    return [f'**{title}**', *table] if table else []
