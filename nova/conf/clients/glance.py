"""[glance]: the Image service, when [image]/backend is glance. The names are those of keystoneauth1."""
from __future__ import annotations

import copy

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'glance'


def _unique(*groups: list[cfg.Opt]) -> list[cfg.Opt]:
    options = {option.dest: copy.copy(option) for group in groups for option in group}
    for option in options.values():
        option.required = False          # nothing of it is needed by the embedded images
    return list(options.values())


OPTIONS = _unique(
    loading.get_session_conf_options(),
    loading.get_auth_common_conf_options(),
    loading.get_adapter_conf_options(include_deprecated=False),
)
# of the ways to log in that most use; keystoneauth1 registers those of the way that auth_type names
SAMPLE_OPTIONS = _unique(
    loading.get_auth_plugin_conf_options('password'),
    loading.get_auth_plugin_conf_options('none'),
)
