"""Names, types and defaults of the keystoneauth1 options, for each section that configures access to another service.

Importing keystoneauth1 would load ``requests`` and its dependencies (8 MB), even in daemons that call no other service.
Therefore this module defines the options without help texts, which only the sample generator reads from the library.
"""
from collections.abc import Iterable
import copy
import functools
from typing import Any

from oslo_config import cfg
from oslo_config import types

# typed as Any, because the annotations of oslo.config allow no other types than its own classes
_TEXT: Any = str

SESSION: tuple[cfg.Opt, ...] = (
    cfg.StrOpt('cafile'),
    cfg.StrOpt('certfile'),
    cfg.StrOpt('keyfile'),
    cfg.BoolOpt('insecure', default=False),
    cfg.FloatOpt('timeout'),
    cfg.BoolOpt('collect-timing', default=False),
    cfg.BoolOpt('split-loggers', default=False),
    cfg.StrOpt('tls-ciphers'),
    cfg.StrOpt('tls-min-version', choices=[None, '1.2', '1.3']),
)
LOGIN: tuple[cfg.Opt, ...] = (
    cfg.Opt('auth_type', type=_TEXT, deprecated_opts=[cfg.DeprecatedOpt('auth_plugin')]),
    cfg.Opt('auth_section', type=_TEXT),
)
# without the versions: each client names the version of its API
ADAPTER: tuple[cfg.Opt, ...] = (
    cfg.StrOpt('service-type'),
    cfg.StrOpt('service-name'),
    cfg.ListOpt('valid-interfaces'),
    cfg.StrOpt('region-name'),
    cfg.StrOpt('endpoint-override'),
    cfg.IntOpt('connect-retries'),
    cfg.FloatOpt('connect-retry-delay'),
    cfg.IntOpt('status-code-retries'),
    cfg.FloatOpt('status-code-retry-delay'),
    cfg.ListOpt('retriable-status-codes', item_type=types.Integer()),
)
SERVICE = (*SESSION, *LOGIN, *ADAPTER)


def register_newer(conf: cfg.ConfigOpts, section: str) -> None:
    """Register session options of the installed keystoneauth1 that are missing in SESSION."""
    from keystoneauth1 import loading
    conf.register_opts([option for option in loading.get_session_conf_options()
                        if option.dest not in conf[section]], group=section)


def described(options: Iterable[cfg.Opt]) -> list[cfg.Opt]:
    """Return the options of a section; the options in SERVICE have the help texts of keystoneauth1."""
    own = {id(option) for option in SERVICE}
    return [_library()[option.dest] if id(option) in own else option for option in options]


def logins(options: Iterable[cfg.Opt]) -> list[cfg.Opt]:
    """Return the options of the usual auth plugins for the sample configuration, or [] if the section has no login.

    At run time keystoneauth1 registers the options of the plugin in auth_type.
    """
    return list(_logins().values()) if any(option is LOGIN[0] for option in options) else []


@functools.cache
def _library() -> dict[str, cfg.Opt]:
    from keystoneauth1 import loading
    return _unique(loading.get_session_conf_options(), loading.get_auth_common_conf_options(),
                   loading.get_adapter_conf_options(include_deprecated=False))


@functools.cache
def _logins() -> dict[str, cfg.Opt]:
    from keystoneauth1 import loading
    return _unique(loading.get_auth_plugin_conf_options('password'), loading.get_auth_plugin_conf_options('none'))


def _unique(*groups: list[cfg.Opt]) -> dict[str, cfg.Opt]:
    options = {option.dest: copy.copy(option) for group in groups for option in group}
    for option in options.values():
        option.required = False          # the section is optional, so none of its options is required
    return options
