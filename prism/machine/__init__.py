"""The machine that a run happens on: randomness, devices, files, locks, executors, progress and memory."""
