#!/usr/bin/env python3
"""How fast llama.cpp and Tandem are on models of the same shape, side by side, on this processor.

    python3 -m venv peers && peers/bin/pip install xllamacpp gguf numpy
    peers/bin/python test/peers/llama_cpp.py [--shape 0.8b|4b] [--threads 1,2] [--prompt 512] [--tokens 64] [--repeat 5]
                                             [--activations int8,default]

llama.cpp comes from PyPI as xllamacpp, which has it compiled; llama-cpp-python only has sources. Its model is a GGUF file of
architecture qwen35 with random blocks: Q4_0 for what its own converter and quantizer make Q4_0, Q6_K for the embedding, which
is the head too, f32 for the rest. Ours is `qcompile --synthetic-weights` of the same shape: 4 bits, groups of 32, and the head
in bf16, with int8 searched in codes of 8 bits. Time does not depend on what weights say.

Runs take turns; what is printed are medians, and the ratio of ours to theirs (above 1: we are faster).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

SHAPES = {
    # hidden, layers, heads, key/value heads, intermediate, delta key heads, delta value heads
    "0.8b": (1024, 24, 8, 2, 3584, 16, 16),
    "4b": (2560, 32, 16, 4, 9216, 16, 32),
}
VOCABULARY = 248320
HEAD_DIM = 256
DELTA_DIM = 128
TAPS = 4
INTERVAL = 4


def write_config(folder, shape):
    """The config.json that --synthetic-weights needs."""
    hidden, layers, heads, kv_heads, intermediate, key_heads, value_heads = SHAPES[shape]
    config = {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_DIM,
        "intermediate_size": intermediate,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "attn_output_gate": True,
        "full_attention_interval": INTERVAL,
        "linear_conv_kernel_dim": TAPS,
        "linear_key_head_dim": DELTA_DIM,
        "linear_value_head_dim": DELTA_DIM,
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
        },
        "tie_word_embeddings": True,
        "eos_token_id": 248044,
        "dtype": "bfloat16",
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*linear_attn\\.in_proj_a$", "re:.*linear_attn\\.in_proj_b$",
                       "re:.*linear_attn\\.conv1d$"],
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                                "group_size": 32},
                }
            },
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))


def random_blocks(random, outputs, columns, kind):
    """Packed rows of a quantized GGUF tensor, with scales that keep numbers small."""
    import numpy as np

    size, values = {"Q4_0": (18, 32), "Q6_K": (210, 256)}[kind]
    blocks = random.integers(0, 256, (outputs, columns // values, size), dtype=np.uint8)
    scale = np.frombuffer(np.float16(0.02 if kind == "Q4_0" else 0.0005).tobytes(), np.uint8)
    at = 0 if kind == "Q4_0" else size - 2
    blocks[:, :, at:at + 2] = scale
    return blocks.reshape(outputs, -1)


def write_gguf(path, shape):
    """A random model of llama.cpp's architecture qwen35."""
    import gguf
    import numpy as np

    hidden, layers, heads, kv_heads, intermediate, key_heads, value_heads = SHAPES[shape]
    inner = value_heads * DELTA_DIM
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "qwen35")
    writer.add_block_count(layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(intermediate)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000000.0)
    writer.add_rope_dimension_count(HEAD_DIM // 4)
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_ssm_conv_kernel(TAPS)
    writer.add_ssm_state_size(DELTA_DIM)
    writer.add_ssm_group_count(key_heads)
    writer.add_ssm_time_step_rank(value_heads)
    writer.add_ssm_inner_size(inner)
    writer.add_uint32("qwen35.full_attention_interval", INTERVAL)
    # Nobody reads the text: bytes, and names for all other tokens.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    tokens = [bytes([i]).decode("latin1") for i in range(33, 127)]
    tokens += [f"<{i}>" for i in range(len(tokens), VOCABULARY)]
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * VOCABULARY)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(248044)

    def add(name, outputs, columns, kind="Q4_0"):
        writer.add_tensor(name, random_blocks(random, outputs, columns, kind),
                          raw_dtype=getattr(gguf.GGMLQuantizationType, kind))

    def add_floats(name, shape, value=1.0):
        writer.add_tensor(name, np.full(shape, value, np.float32))

    add("token_embd.weight", VOCABULARY, hidden, "Q6_K")
    add_floats("output_norm.weight", (hidden,))
    for layer in range(layers):
        prefix = f"blk.{layer}."
        add_floats(prefix + "attn_norm.weight", (hidden,))
        add_floats(prefix + "post_attention_norm.weight", (hidden,))
        if (layer + 1) % INTERVAL == 0:
            add(prefix + "attn_q.weight", 2 * heads * HEAD_DIM, hidden)
            add(prefix + "attn_k.weight", kv_heads * HEAD_DIM, hidden)
            add(prefix + "attn_v.weight", kv_heads * HEAD_DIM, hidden)
            add(prefix + "attn_output.weight", hidden, heads * HEAD_DIM)
            add_floats(prefix + "attn_q_norm.weight", (HEAD_DIM,))
            add_floats(prefix + "attn_k_norm.weight", (HEAD_DIM,))
        else:
            channels = 2 * key_heads * DELTA_DIM + inner
            add(prefix + "attn_qkv.weight", channels, hidden)
            add(prefix + "attn_gate.weight", inner, hidden)
            add(prefix + "ssm_beta.weight", value_heads, hidden)
            add(prefix + "ssm_alpha.weight", value_heads, hidden)
            add(prefix + "ssm_out.weight", hidden, inner)
            add_floats(prefix + "ssm_conv1d.weight", (channels, TAPS), 0.25)
            add_floats(prefix + "ssm_dt.bias", (value_heads,), 0.1)
            add_floats(prefix + "ssm_a", (value_heads,), -1.0)
            add_floats(prefix + "ssm_norm.weight", (DELTA_DIM,))
        add(prefix + "ffn_gate.weight", intermediate, hidden)
        add(prefix + "ffn_up.weight", intermediate, hidden)
        add(prefix + "ffn_down.weight", hidden, intermediate)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run_llama(path, threads, prompt, tokens):
    """Prompt and decode rates of llama.cpp, in this process: called in one of its own."""
    import xllamacpp as llama

    params = llama.CommonParams()
    params.model.path = str(path)
    params.n_ctx = prompt + tokens + 64
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.warmup = True
    server = llama.Server(params)
    request = {
        "prompt": [1000 + i * 7 % 5000 for i in range(prompt)],
        "n_predict": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "cache_prompt": False,
    }
    answer = server.handle_completions(request)
    if isinstance(answer, str):
        answer = json.loads(answer)
    timings = answer["timings"]
    print(json.dumps({"prompt": timings["prompt_per_second"], "decode": timings["predicted_per_second"]}))
    sys.stdout.flush()
    os._exit(0)


def measure_llama(path, threads, prompt, tokens):
    command = [sys.executable, __file__, "--run-llama", str(path), str(threads), str(prompt), str(tokens)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])


def measure_ours(qrun, pair, threads, prompt, tokens):
    command = [qrun, "bench", pair, "--threads", str(threads), "--scenario", f"{prompt}/{tokens}", "--repeat", "1",
               "--json"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(output)
    scenario = result["scenarios"][0]
    return {"prompt": prompt / (scenario["prefill_ms"] / 1e3), "decode": scenario["plain"]["tokens_per_s"],
            "memory": result["memory_gb_per_s"], "bytes": scenario["plain"]["weight_bytes_per_round"]}


def main():
    if sys.argv[1:2] == ["--run-llama"]:
        run_llama(sys.argv[2], *map(int, sys.argv[3:6]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="0.8b")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--activations", default="int8,default", help="what linear layers multiply, or what qcompile chooses")
    parser.add_argument("--build", default=str(ROOT / "build" / "bin"))
    parser.add_argument("--work", help="folder that keeps the models")
    arguments = parser.parse_args()

    folder = pathlib.Path(arguments.work or tempfile.mkdtemp())
    gguf_file = folder / f"{arguments.shape}.gguf"
    write_config(folder / arguments.shape, arguments.shape)
    pairs = {}
    for activations in arguments.activations.split(","):
        pairs[activations] = folder / f"{arguments.shape}-{activations}.tandem"
        flags = [] if activations == "default" else ["--activations", activations]
        subprocess.run([f"{arguments.build}/qcompile", "--target", folder / arguments.shape, "--synthetic-weights", "1",
                        *flags, "--max-context", "8192", "-o", pairs[activations]], check=True)
    if not gguf_file.exists():
        write_gguf(gguf_file, arguments.shape)

    for threads in map(int, arguments.threads.split(",")):
        theirs, ours = [], {activations: [] for activations in pairs}
        for _ in range(arguments.repeat):
            theirs.append(measure_llama(gguf_file, threads, arguments.prompt, arguments.tokens))
            for activations, pair in pairs.items():
                ours[activations].append(
                    measure_ours(f"{arguments.build}/qrun", pair, threads, arguments.prompt, arguments.tokens))

        def median(runs, key):
            return statistics.median(run[key] for run in runs)

        for key, name in (("prompt", f"prompt of {arguments.prompt}"), ("decode", f"{arguments.tokens} tokens")):
            their = median(theirs, key)
            for activations, runs in ours.items():
                our = median(runs, key)
                print(f"{arguments.shape}, {threads} threads, {name}: llama.cpp {their:.1f} tokens/s, "
                      f"Tandem {activations} {our:.1f} tokens/s, {our / their:.2f}x", flush=True)
        read = median([run for runs in ours.values() for run in runs], "memory")
        print(f"  memory at {read:.1f} GB/s, a step reads " +
              ", ".join(f"{median(runs, 'bytes') / 1e6:.0f} MB ({activations})" for activations, runs in ours.items()) +
              f", their file has {gguf_file.stat().st_size / 1e6:.0f} MB, medians of {arguments.repeat}")


if __name__ == "__main__":
    main()
