"""The fleet that tools/cluster.sh builds: ``parts`` are its processes as rows, ``prepare`` makes what they need."""
