"""Console proxies between WebSockets and hypervisors."""
