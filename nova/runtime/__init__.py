"""Runtime of every process: HTTP server, threads, lifecycle, health and metrics."""
