"""Bare metal servers through the Bare Metal service (Ironic): doc/source/adr/0039-bare-metal.rst."""
