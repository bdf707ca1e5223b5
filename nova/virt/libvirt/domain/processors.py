"""Choose the processor model of guests from the configuration and libvirt's domain capabilities."""
from collections.abc import Iterable
import dataclasses
from xml.etree import ElementTree as etree

from oslo_config.cfg import ConfigOpts

from nova import exception

CUSTOM = 'custom'


@dataclasses.dataclass(frozen=True)
class Processor:
    """Processor that guests see.

    mode    value of [libvirt] cpu_mode; None: the default for the domain type
    model   libvirt's name of the processor model if the mode is custom
    flags   processor features: 'name' adds a feature, '-name' removes it
    """

    mode: str | None = None
    model: str | None = None
    flags: tuple[str, ...] = ()


def choose(conf: ConfigOpts, capabilities: Iterable[etree.Element]) -> Processor:
    """Return the configured processor.

    :param capabilities: root elements of the domain capabilities
    :raises VirtError: the options contradict each other, or the host supports none of the models
    """
    options = conf.libvirt
    mode, models, flags = options.cpu_mode, options.cpu_models, tuple(options.cpu_model_extra_flags)
    if (mode == CUSTOM) != bool(models):
        raise _refusal('[libvirt] cpu_mode = custom and cpu_models must be set together')
    if mode == 'none' and flags:
        raise _refusal('[libvirt] cpu_model_extra_flags needs a cpu_mode other than none')
    if mode != CUSTOM:
        return Processor(mode, None, flags)
    usable = {model.text for root in capabilities
              for model in root.findall("./cpu/mode[@name='custom']/model[@usable='yes']")}
    found = next((model for model in models if model in usable), None)
    if found is None:
        raise _refusal(f'this host supports none of [libvirt] cpu_models: {", ".join(models)}')
    return Processor(mode, found, flags)


def add(cpu: etree.Element, processor: Processor) -> None:
    """Add model and features to the element of the processor."""
    if processor.model is not None:
        cpu.set('match', 'exact')
        etree.SubElement(cpu, 'model', fallback='forbid').text = processor.model
    for flag in processor.flags:
        etree.SubElement(cpu, 'feature', policy='disable' if flag.startswith('-') else 'require',
                         name=flag.lstrip('+-'))


def _refusal(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='give guests a processor', reason=reason)
