"""nova-compute: the guests of one host. It needs no database.

If root starts it, it has two processes. One process keeps root's rights and runs the steps that
nova.virt.libvirt.privileged.remote lists. The other runs as an ordinary user.
"""
from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.runtime import service
    from nova.runtime.privileges import Helper

LOG = logging.getLogger(__name__)


def split(conf: cfg.ConfigOpts) -> Helper | None:
    """Switch to [privileges] user. Return the Helper, a process that keeps root's rights, or None if there is none."""
    from nova.cmd import ordinary

    user = ordinary.prepare(conf, 'nova-compute')
    if user is None:
        return None
    helper = None
    if ordinary.runs_guests(conf, 'nova-compute'):
        helper = ordinary.guest_helper(conf, user)
        helper.fork()
    ordinary.become(conf, 'nova-compute', user, (conf.monitoring.port,))
    return helper


def parts(conf: cfg.ConfigOpts, helper: Helper | None) -> list[service.Part]:
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus
    from nova.runtime import stored_files

    stored_files.convert(conf)
    if helper is not None:
        LOG.info('Process %s runs privileged operations for this process, which has uid %s.', helper.pid, os.geteuid())
    bus = rpc_bus.Bus(conf)
    return [*([helper] if helper else ()), assembly.needs(bus), assembly.enrolled(conf, bus),
            assembly.compute(conf, bus, conf.host, assembly.remote_images(conf), helper)]


def main() -> int:
    return common.run('nova-compute', parts, split=split)
