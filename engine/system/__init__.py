"""The machine: processes, files, locks, clocks and the named points where a crash is rehearsed."""
