"""Versioned objects; importing the package registers all of them."""
from nova.objects.base import NovaObject
from nova.objects.instance import Instance
from nova.objects.migration import Migration
from nova.objects.request_spec import RequestSpec
from nova.objects.request_spec import Selection

__all__ = ('Instance', 'Migration', 'NovaObject', 'RequestSpec', 'Selection')
