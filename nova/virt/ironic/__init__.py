"""Bare metal servers through the Bare Metal service (Ironic): ADR 0022."""
