"""Consoles of guests for their users: proxies between WebSockets and the hypervisors."""
