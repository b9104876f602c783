"""tuner: finds the launch command that serves a language model fastest on your node of GPUs."""
