"""The Guru Meditation Report of a process: its version, its current work and its configuration.

It contains the sections of oslo.reports (package, threads, green threads, processes), the health, the work of each
service, and the configuration with masked secrets.

A manager may report its work with a method ``in_progress()`` -> {text: value}.
"""
from collections.abc import Iterable, Mapping
import threading

from oslo_config.cfg import ConfigOpts
from oslo_reports import guru_meditation_report as gmr
from oslo_reports import opts
from oslo_reports.generators import conf as conf_generator
from oslo_reports.models import with_default_views

from nova import version
from nova.runtime import health
from nova.runtime import release


class _Version:
    """Product information for oslo.reports."""

    @staticmethod
    def vendor_string() -> str:
        return 'nova'

    product_string = vendor_string

    @staticmethod
    def version_string_with_package() -> str:
        return version.VERSION


def write(conf: ConfigOpts, binary: str, parts: Iterable[object], states: health.States) -> None:
    """Write the report to stderr, or to a file in [oslo_reports] log_dir.

    :param parts: parts of the process
    """
    opts.set_defaults(conf)
    gmr.TextGuruMeditation.persistent_sections = [
        ('nova health', lambda: _model({name: 'well' if well else f'not well {details}'
                                        for name, (well, details) in states.items()})),
        ('nova services', lambda: _model(_services(parts))),
        ('nova configuration', conf_generator.ConfigReportGenerator(conf))]
    gmr.TextGuruMeditation.handle_signal(_Version, binary, conf.oslo_reports.log_dir, None)


def _model(data: Mapping[str, object]) -> with_default_views.ModelWithDefaultViews:
    return with_default_views.ModelWithDefaultViews(data=data or {'none': ''})


def _services(parts: Iterable[object]) -> dict[str, object]:
    """Return {service: its current work}."""
    found: dict[str, object] = {'threads of this process': threading.active_count()}
    for part in parts:
        services = getattr(getattr(part, 'cloud', part), 'services', [part])
        for service in services:
            manager = getattr(service, 'manager', None)
            if manager is None:
                continue
            doing: dict[str, object] = {'version': release.VERSION}
            try:
                doing |= getattr(manager, 'in_progress', dict)()
            except Exception as error:                # continue: a report is most useful after failures
                doing['not known'] = repr(error)
            found[f'{service.binary} {service.host}'] = doing
    return found
