"""Privileged operations of the driver, in a separate process."""
