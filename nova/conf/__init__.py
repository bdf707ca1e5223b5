"""Configuration options, with one module for each group. ``new()`` returns a new configuration; there is no global one.

Code outside ``nova.cmd`` gets ``conf`` or single values as arguments, so that several clouds can run in one process.
"""
from collections.abc import Sequence
import contextlib
import functools
import importlib
import io
import pkgutil
import sys
from typing import Any

from oslo_config import cfg

from nova import version
from nova.conf import renamed
from nova.conf.clients import keystoneauth


@functools.cache
def modules() -> tuple[Any, ...]:
    """Return the option modules sorted by name; each has GROUP (None for [DEFAULT]) and OPTIONS."""
    names = sorted((module.name for module in pkgutil.walk_packages(__path__, f'{__name__}.')),
                   key=lambda name: name.rpartition('.')[2])
    return tuple(module for module in map(importlib.import_module, names) if hasattr(module, 'OPTIONS'))


def list_opts() -> list[tuple[Any, list[cfg.Opt]]]:
    """Return [(group, options)] for oslo-config-generator."""
    return [(module.GROUP or 'DEFAULT', [*keystoneauth.described(module.OPTIONS), *keystoneauth.logins(module.OPTIONS),
                                         *getattr(module, 'SAMPLE_OPTIONS', ())]) for module in modules()]


def valued_options() -> set[str]:
    """Return the command-line options that take a value, for example --config-file."""
    noting = _NotingOptions()
    _fill(noting, files=[])
    return {f'--{group + "-" if group else ""}{option.name}'.replace('_', '-') for option, group in noting.noted
            if not isinstance(option, cfg.BoolOpt)}


class _NotingOptions(cfg.ConfigOpts):
    """Configuration that records its command-line options in ``noted``: [(option, name of its group or None)]."""

    def __init__(self) -> None:
        self.noted: list[tuple[cfg.Opt, str | None]] = []
        super().__init__()

    def register_cli_opt(self, opt: cfg.Opt, group: cfg.OptGroup | str | None = None, **more: bool) -> bool:
        self.noted.append((opt, group.name if isinstance(group, cfg.OptGroup) else group))
        return super().register_cli_opt(opt, group, **more)


def new(args: Sequence[str] = (), files: list[str] | None = None, **overrides: object) -> cfg.ConfigOpts:
    """Return a configuration with every option registered and the files read.

    :param args: command line arguments
    :param files: configuration files; None looks in the usual places
    :param overrides: ``group__option=value`` or ``option=value``, above all files
    :raises oslo_config.cfg.Error: the arguments or files cannot be used, for example because they have an option by its
        old name
    """
    conf = cfg.ConfigOpts()
    _fill(conf, args, files)
    renamed.check(conf)
    for name, value in overrides.items():
        group, _, option = name.rpartition('__')
        conf.set_override(option, value, group=group or None)
    return conf


class UsageError(cfg.Error):
    """The command line cannot be parsed."""


def _fill(conf: cfg.ConfigOpts, args: Sequence[str] = (), files: list[str] | None = None) -> None:
    for module in modules():
        conf.register_opts(module.OPTIONS, group=module.GROUP)
        if getattr(module, 'CLI_OPTIONS', None):
            conf.register_cli_opts(module.CLI_OPTIONS, group=module.GROUP)
    from oslo_log import log
    log.register_options(conf)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            conf(list(args), project='nova', version=f'%(prog)s {version.VERSION}', default_config_files=files)
    except SystemExit as error:
        if not error.code:                # --help and --version
            raise
        # argparse prints its usage; only the last line is the error
        reason = printed.getvalue().strip().rpartition('\n')[2].partition(' error: ')[2]
        raise UsageError(f'{reason}; see {conf.prog} --help') from None
    sys.stderr.write(printed.getvalue())
