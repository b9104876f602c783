"""What a node has, and who is on it: processes, ports, GPUs, and locks on them."""
