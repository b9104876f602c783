"""Shipped fakes: a serving engine that runs on any machine. Its figures are simulated.

`python -m tuner.testing.engine vllm serve MODEL ...` is a real process on a real socket that takes the command
lines of vLLM, SGLang and TensorRT-LLM; `tuner.testing.standins` puts it on a search path under their names.
Nothing in `tuner` imports this package.
"""
