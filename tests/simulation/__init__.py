"""Deterministic simulation: whole worlds of processes, disks, servers and people, each decided by one seed."""
