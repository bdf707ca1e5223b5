"""A compute control plane: api, conductor, scheduler, compute and network daemons."""
