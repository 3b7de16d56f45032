"""What the speed goals are measured with: `python -m benchmarks` from the project root."""
