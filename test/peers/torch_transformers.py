#!/usr/bin/env python3
"""How fast PyTorch decodes a model of the shape of Qwen3.5-4B in bf16: what `qrun bench` is compared with on a GPU.

    python3 test/peers/torch_transformers.py [--config FOLDER] [--scenario 64/128,2048/256,8192/256] [--repeat 3] [--tokens 24]

The model is Hugging Face transformers' own (Qwen3_5ForCausalLM), with random weights, one sequence, greedy. Modes, each from
a warm state:

    eager      the model as it is called, a cache that grows
    graph      a decoding step captured as a CUDA graph, a static cache; every replay computes the same token again
    compiled   torch.compile of the decoding step with CUDA graphs ("reduce-overhead") and a static cache

A mode that the installed versions cannot run is named with the reason. Prefill is one call with all tokens of the prompt;
a token is the median of --tokens decoding steps behind the prompt; a request is prefill and answer by these medians.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_model(folder, device):
    """A model of the folder's configuration with random bf16 weights."""
    import torch
    import transformers

    values = json.loads((folder / "config.json").read_text())
    text = values.get("text_config", values)
    text.pop("quantization_config", None)
    text.setdefault("tie_word_embeddings", values.get("tie_word_embeddings", True))
    config = transformers.AutoConfig.for_model(**text)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()


class Run:
    """One prompt behind the model, and the steps that follow."""

    def __init__(self, model, tokens, cache):
        self.model, self.tokens, self.cache = model, tokens, cache
        self.position = 0

    def call(self, step, ids):
        """The likeliest token behind ids."""
        import torch

        count = ids.shape[1]
        positions = torch.arange(self.position, self.position + count, device=ids.device)
        self.position += count
        result = step(input_ids=ids, past_key_values=self.cache, use_cache=True, position_ids=positions[None],
                      logits_to_keep=1)
        self.cache = result.past_key_values
        return result.logits[:, -1].argmax(-1, keepdim=True)


def timed(device, body):
    """Milliseconds that body() takes, the device included, and its result."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = body()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3, result


def make_cache(model, mode, length):
    import transformers

    if mode == "eager":
        return transformers.DynamicCache(config=model.config)
    return transformers.StaticCache(config=model.config, max_cache_len=length)


def capture(run, model, token):
    """A decoding step of run as a CUDA graph, in the form of call(): what that is given is ignored."""
    import torch

    ids = token.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run.call(model, ids)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run.call(model, ids)

    def replay():
        graph.replay()
        return result

    return replay


def measure(model, mode, device, prompt, answer, repeat, steps):
    """Medians of a prefill and of a decoding step in milliseconds."""
    import torch

    step = torch.compile(model, mode="reduce-overhead") if mode == "compiled" else model
    prefills, decodes = [], []
    # The first run warms up: it compiles and captures.
    for number in range(repeat + 1):
        ids = torch.randint(0, model.config.vocab_size, (1, prompt), device=device)
        run = Run(model, ids, make_cache(model, mode, prompt + answer + 8))
        prefill, token = timed(device, lambda: run.call(model, ids))
        replay = capture(run, model, token) if mode == "graph" else None
        times = []
        for _ in range(min(steps, answer - 1) + 3):
            if mode == "compiled":
                torch.compiler.cudagraph_mark_step_begin()
            elapsed, token = timed(device, replay or (lambda: run.call(step, token.clone())))
            times.append(elapsed)
        if number:
            prefills.append(prefill)
            # The first steps of a mode still choose kernels.
            decodes.extend(times[3:])
    return statistics.median(prefills), statistics.median(decodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "test/Inputs/qwen3.5-4b/target-w4a16")
    parser.add_argument("--scenario", default="64/128,2048/256,8192/256", help="prompt/answer tokens, with commas")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=24, help="decoding steps measured a run")
    parser.add_argument("--mode", default="eager,graph,compiled")
    arguments = parser.parse_args()
    try:
        scenarios = [tuple(int(n) for n in s.split("/")) for s in arguments.scenario.split(",")]
        if any(len(s) != 2 or min(s) < 1 for s in scenarios):
            raise ValueError
    except ValueError:
        parser.error(f"--scenario: expected PROMPT/ANSWER[,...], but got '{arguments.scenario}'")
    try:
        import torch
        import transformers
    except ImportError as missing:
        sys.exit(f"torch_transformers.py: needs the Python packages torch and transformers: {missing}")

    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "the processor"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {name}")
    model = load_model(arguments.config, device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.2f} G parameters, bf16")
    print(f"{'mode':10} {'prompt':>7} {'answer':>7} {'prefill ms':>11} {'token ms':>9} {'request ms':>11}")
    measured = False
    with torch.inference_mode():
        for mode in arguments.mode.split(","):
            for prompt, answer in scenarios:
                try:
                    prefill, token = measure(model, mode, device, prompt, answer, arguments.repeat, arguments.tokens)
                except Exception as error:  # Whatever the installed versions cannot do.
                    reason = (str(error).splitlines() or [type(error).__name__])[0]
                    print(f"{mode:10} {prompt:7} {answer:7} cannot run: {reason[:160]}", flush=True)
                    continue
                measured = True
                print(f"{mode:10} {prompt:7} {answer:7} {prefill:11.2f} {token:9.3f} "
                      f"{prefill + token * (answer - 1):11.1f}", flush=True)
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
