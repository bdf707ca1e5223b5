"""Requests made of our own OpenAPI document by schemathesis, and what their answers must be.

Every operation of every version gets its turn in rounds, a few requests each, until the time is over: requests that
fit the document, and ones that break it somewhere. No answer may be a 5xx that is not a documented 501; its code, its
headers and its body must be as the document says for that code.
"""
import collections
import dataclasses
import time

import hypothesis
import requests
import schemathesis
from schemathesis.specs.openapi import checks

from nova.api import app
from nova.api import response_types
from nova.api import openapi
from nova.api import versions
from nova.tests.fuzz import world as worlds

VERSIONS = (1, 26, 53, 75, 104)
PER_TURN = 3                      # requests of one operation at a time
REFRESH = 100                     # requests after which the world is looked after
TIMEOUT_S = 60
CHECKS = [checks.status_code_conformance, checks.content_type_conformance, checks.response_headers_conformance,
          checks.response_schema_conformance]


@dataclasses.dataclass
class Finding:
    """What is wrong with an answer; ``count`` times in the same way."""

    operation: str
    version: int
    status: int
    what: str
    request: str
    answer: str
    count: int = 1

    def __str__(self):
        return (f'{self.operation} at {versions.text(self.version)}: {self.status}, {self.what} ({self.count}×)\n'
                f'    {self.request}\n    {self.answer}')


class Fuzz:
    """
    :param cloud: a running functional.cloud.Cloud with three hosts
    :param only: a text that operations must have in their name, or None for all of them
    """

    def __init__(self, cloud, seed=1, minors=VERSIONS, only=None):
        self.cloud, self.seed, self.minors = cloud, seed, minors
        self.world = worlds.World(cloud, seed)
        self.random = self.world.random
        self.requests, self.findings = 0, {}
        self.statuses, self.reached = collections.Counter(), collections.Counter()
        self.succeeded, self.gone = set(), set()
        self.operations = [(minor, operation) for minor in minors for operation in self._operations(minor)
                           if only is None or only in operation.label]
        self.random.shuffle(self.operations)
        self._session = requests.Session()
        self._session.trust_env = False

    @staticmethod
    def _operations(minor):
        rows = [row for row in app.all_routes() if response_types.media_type(openapi.operation_of(row)) is None]
        document = openapi.document(rows, minor, openapi.SPLIT)
        document['security'] = []                      # token and version are ours, not schemathesis's to make
        for item in document['paths'].values():
            for method in item.keys() - {'parameters'}:
                item[method]['parameters'].remove(openapi.VERSION)
        schema = schemathesis.openapi.from_dict(document)
        return [result.ok() for result in schema.get_all_operations()]

    def run(self, seconds):
        """Send requests for so long; every operation has its turn at least once, however long that takes."""
        end, turn = time.monotonic() + seconds, 0
        self.world.refresh()
        while turn < len(self.operations) or time.monotonic() < end:
            minor, operation = self.operations[turn % len(self.operations)]
            if operation.label in self.gone:
                turn += 1
                continue
            self._turn(minor, operation, self.seed * 1000003 + turn, PER_TURN if time.monotonic() < end else 1)
            if set(operation.responses.status_codes) & {'410'}:       # removed for good: once is enough
                self.gone.add(operation.label)
            turn += 1
        return list(self.findings.values())

    def _turn(self, minor, operation, seed, count):
        broken = seed % 4 == 0
        mode = schemathesis.GenerationMode.NEGATIVE if broken else schemathesis.GenerationMode.POSITIVE
        strategy = operation.as_strategy(generation_mode=mode)

        @hypothesis.seed(seed)
        @hypothesis.settings(max_examples=count, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(strategy)
        def send(case):
            self._send(minor, case, broken)
        try:
            send()
        except hypothesis.errors.Unsatisfiable:        # nothing in this operation can be broken
            if broken:
                self._turn(minor, operation, seed + 1, count)

    def _chance(self, part):
        return lambda: self.random.random() < part

    def _prepare(self, case, broken):
        """Let the case name what is there, and leave out some of what is optional."""
        names = worlds.names_of(case.path)
        if names and self._chance(.9)():
            case.path_parameters = {**case.path_parameters, **self.world.parts(case.path, names)}
        if not broken and isinstance(case.body, dict):
            schema = case.operation.body[0].definition.get('schema', {}) if case.operation.body else {}
            body = worlds.thin(case.body, schema, self._chance(.7))
            case.body = worlds.filled(body, self.world, self._chance(.8))
        if not broken and case.query and self._chance(.6)():
            case.query = {name: value for name, value in case.query.items() if self._chance(.3)()}

    def _send(self, minor, case, broken):
        if self.requests % REFRESH == REFRESH - 1:
            self.world.refresh()
        self._prepare(case, broken)
        caller = self.world.member if self._chance(.15)() else self.world.admin
        headers = {'X-Auth-Token': caller.token, versions.HEADER: f'compute {versions.text(minor)}'}
        for name in ('Idempotency-Key', 'X-OpenStack-Request-ID'):
            if not broken and name in case.headers and self._chance(.8)():
                del case.headers[name]
        self.requests += 1
        try:
            response = case.call(base_url=self.cloud.url + '/compute/v2.1', session=self._session, headers=headers,
                                 timeout=TIMEOUT_S)
        except requests.RequestException as error:
            if isinstance(error, requests.Timeout):
                self._found(minor, case, 0, f'no answer in {TIMEOUT_S} s', '')
            return                                     # what cannot be written as a request
        self.last = response.text[:300]
        self.statuses[response.status_code] += 1
        label = case.operation.label
        self.reached[label, minor] += 1
        if response.status_code < 400:
            self.succeeded.add((label, minor))
            if case.method == 'DELETE' and case.path_parameters:
                self.world.forget(str(list(case.path_parameters.values())[-1]))
        for what in self._problems(case, response):
            self._found(minor, case, response.status_code, what, response.text[:1500])

    @staticmethod
    def _problems(case, response):
        documented = case.operation.responses.status_codes
        if response.status_code >= 500 and not (response.status_code == 501 and '501' in documented):
            yield 'a failure of the service'
            return
        try:
            case.validate_response(response, checks=CHECKS)
        except schemathesis.errors.SchemathesisError as error:
            yield f'{type(error).__name__}: {error}'
        except BaseExceptionGroup as group:
            for failure in group.exceptions:
                yield f'{failure.title}: {failure.message}'
        definition = case.operation.definition.raw['responses'].get(str(response.status_code), {})
        if response.content and '$ref' not in definition and 'content' not in definition:
            yield 'a body where none is documented'

    def _found(self, minor, case, status, what, answer):
        key = case.operation.label, status, what.split('\n')[0][:120]
        if key in self.findings:
            self.findings[key].count += 1
            return
        request = f'{case.method} {case.formatted_path} {dict(case.query or {})} {_cut(repr(case.body))}'
        self.findings[key] = Finding(case.operation.label, minor, status, what[:600], request, _cut(answer))

    def summary(self):
        """What was done, in lines."""
        labels = {(operation.label, minor) for minor, operation in self.operations}
        codes = ', '.join(f'{code}: {count}' for code, count in sorted(self.statuses.items()))
        names = {label for label, _minor in labels}
        never = sorted(names - {label for label, _minor in self.succeeded} - self.gone)
        return [f'{self.requests} requests, {len(names)} operations, {len(labels)} with versions, seed {self.seed}',
                f'answers: {codes}', f'never successful: {", ".join(never) or "none"}',
                f'{len(self.findings)} findings', *sorted(set(self.world.problems))[:10]]


def _cut(text, length=500):
    return text if len(text) <= length else text[:length] + '…'
