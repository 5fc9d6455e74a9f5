#!/usr/bin/env python3
"""Whether Tandem reads checkpoints that the formats' own libraries write.

    test/peers/checkpoint_formats.py [FORMAT...] [--build build] [--keep FOLDER]

The tiny pair is written in every format by the library that the format is of: it packs codes, it writes `quantization_config`.
Then qcompile imports the files, every packed weight is multiplied with the identity, and what comes out has to be the
number, bit for bit, that the library says the file holds; and the pair has to score and write what the same weights do as f32
matrices. One line a pair; exit status 1 when anything differs.

Formats that have room for the tiny pair's codes get those. Where a scale is for a whole row, block or tensor, which the tiny pair's
codes have no scale for, the library rounds the dense tiny pair by its own rule.

The libraries go into .cache/formats, a virtual environment of 6 GB, on the first run: PyTorch is among them. No GPU is needed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".cache/formats"
PACKAGES = ["torch==2.15.0", "compressed-tensors==0.20.1", "gptqmodel==7.7.0"]
# What they ask for is older than what the others ask for. Their packing needs nothing of it.
ALONE = ["autoawq==0.2.9", "auto-gptq==0.7.1"]


def enter_environment():
    """Goes on in the virtual environment, which is made when it is missing or another."""
    stamp = VENV / "installed.txt"
    wanted = "\n".join(PACKAGES + ALONE)
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"installing into {VENV}: {' '.join(PACKAGES + ALONE)}", file=sys.stderr)
        pip = [VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([*pip, *PACKAGES], check=True)
        subprocess.run([*pip, "--no-deps", *ALONE], check=True)
        stamp.write_text(wanted)
    if pathlib.Path(sys.prefix) != VENV:
        python = VENV / "bin/python"
        os.execv(python, [python, *sys.argv])


if __name__ == "__main__":
    enter_environment()

import numpy as np
import torch
from safetensors.torch import load_file, save_file


@contextlib.contextmanager
def quietly():
    """Nothing of what libraries print."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def import_submodule(package, name):
    """Module PACKAGE.NAME without what `import PACKAGE` would drag in: loaders for models that need older libraries."""
    parts = [package, *name.split(".")[:-1]]
    for count in range(1, len(parts) + 1):
        parent = ".".join(parts[:count])
        if parent not in sys.modules:
            module = types.ModuleType(parent)
            [folder] = (VENV / "lib").glob(f"python*/site-packages/{'/'.join(parts[:count])}")
            module.__path__ = [str(folder)]
            sys.modules[parent] = module
    __import__(f"{package}.{name}")
    return sys.modules[f"{package}.{name}"]


#
# The tiny pair.
#


class Linear:
    """A weight of small codes: VALUES [rows, columns] times SCALES [rows, groups], both without rounding."""

    def __init__(self, module, tensors):
        from compressed_tensors.compressors.pack_quantized import unpack_from_int32

        shape = torch.Size(tensors[module + ".weight_shape"].tolist())
        self.values = unpack_from_int32(tensors[module + ".weight_packed"], 4, shape).float()
        self.scales = tensors[module + ".weight_scale"].float()
        self.group = shape[1] // self.scales.shape[1]
        self.weight = self.values * self.scales.repeat_interleave(self.group, 1)
        # Zero points that leave room for the values in 4 bits, other ones for every group.
        random = np.random.default_rng(list(module.encode()))
        parts = self.values.reshape(shape[0], -1, self.group).numpy()
        low = np.maximum(0, -parts.min(2)).astype(int)
        high = np.minimum(15, 15 - parts.max(2)).astype(int)
        self.zeros = torch.from_numpy(random.integers(low, high, endpoint=True))

    def place_zeros(self, bits, symmetric):
        """Zero points as GPTQ counts them."""
        if symmetric:
            return torch.full_like(self.zeros, 1 << bits - 1)
        return self.zeros if bits == 4 else self.zeros * 15 + 8

    def make_module(self):
        module = torch.nn.Linear(self.weight.shape[1], self.weight.shape[0], bias=False)
        module.weight.data = self.weight.clone()
        return module


class Model:
    """One of the tiny pair: its dense tensors, its linear layers by name, and its folder."""

    def __init__(self, name):
        self.name = name
        self.folder = ROOT / f"test/Inputs/tiny/{name}-w4a16"
        tensors = load_file(self.folder / "model.safetensors")
        names = [key.removesuffix(".weight_packed") for key in tensors if key.endswith(".weight_packed")]
        self.linears = {module: Linear(module, tensors) for module in names}
        parts = ("_packed", "_scale", "_shape")
        self.dense = {key: value for key, value in tensors.items() if not key.endswith(parts)}
        self.config = json.loads((self.folder / "config.json").read_text())
        section = self.config.pop("quantization_config")
        self.ignore = section["ignore"]
        self.group = section["config_groups"]["group_0"]["weights"]["group_size"]
        # What the linear layers were before they were rounded.
        before = load_file(ROOT / f"test/Inputs/tiny/{name}-bf16/model.safetensors")
        self.before = {module: before[module + ".weight"].float() for module in names}

    def write(self, folder, tensors, config):
        """A checkpoint of TENSORS beside the dense ones, with CONFIG and the other files."""
        folder.mkdir(parents=True)
        everything = {**self.dense, **tensors}
        save_file({key: value.contiguous() for key, value in everything.items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config, indent=2))
        for other in self.folder.iterdir():
            if other.name not in ("config.json", "model.safetensors"):
                (folder / other.name).symlink_to(other)


#
# Writers: from a model and a folder to the weights that the library says the folder holds.
#


def write_f32(model, folder, weights):
    model.write(folder, {name + ".weight": weight.float() for name, weight in weights.items()}, model.config)


def make_tree(model, weights):
    """Modules named as in the checkpoint, which is what the libraries walk."""
    root = torch.nn.Module()
    matrices = {name + ".weight": weight for name, weight in weights.items()}
    for key, value in {**model.dense, **matrices}.items():
        *path, last = key.split(".")
        is_matrix = last == "weight" and value.dim() == 2 and path[-1] != "embed_tokens"
        parent = root
        for index, part in enumerate(path):
            if not hasattr(parent, part):
                is_leaf = is_matrix and index == len(path) - 1
                child = torch.nn.Linear(*value.shape[::-1], bias=False) if is_leaf else torch.nn.Module()
                parent.add_module(part, child)
            parent = getattr(parent, part)
        setattr(parent, last, torch.nn.Parameter(value, requires_grad=False))
    return root


def compressed_tensors(bits, symmetric=True, strategy="group", scale=torch.bfloat16, own=False, actorder=None):
    """compressed-tensors: its ModelCompressor packs the modules that its configuration applies to."""

    def write(model, folder):
        from compressed_tensors import compressors, quantization
        from compressed_tensors.compressors.base import decompress_module
        from compressed_tensors.quantization.utils import calculate_qparams

        weights = model.before if own else {name: linear.weight for name, linear in model.linears.items()}
        root = make_tree(model, weights)
        arguments = quantization.QuantizationArgs(
            num_bits=bits,
            symmetric=symmetric,
            strategy=strategy,
            group_size=model.group if strategy == "group" else None,
            actorder=actorder,
        )
        # What is not packed in the tiny pair, and what import leaves out.
        ignore = [*model.ignore, "re:.*visual", "re:mtp"]
        config = quantization.QuantizationConfig(
            config_groups={"group_0": quantization.QuantizationScheme(targets=["Linear"], weights=arguments)}, ignore=ignore
        )
        quantization.apply_quantization_config(root, config)
        for name, weight in weights.items():
            module = root.get_submodule(name)
            if own:
                dims = {"channel": 1, "tensor": (0, 1)}[strategy]
                low, high = weight.amin(dims, keepdim=True), weight.amax(dims, keepdim=True)
                scales, zeros = calculate_qparams(low, high, arguments)
                if strategy == "tensor":
                    scales, zeros = scales.reshape(1), zeros.reshape(1)
            else:
                linear = model.linears[name]
                scales, zeros = linear.scales, (linear.zeros - 8) * (1 if bits == 4 else 15)
            module.weight_scale.data = scales.to(scale)
            if not symmetric:
                module.weight_zero_point.data = zeros.to(torch.int8)
        compressor = compressors.ModelCompressor.from_pretrained_model(root)
        compressor.compress_model(root)
        tensors = {key: value for key, value in root.state_dict().items() if key not in model.dense}
        model.write(folder, tensors, model.config)
        compressor.update_config(str(folder))
        # In f32: the library's own product is rounded to the scales' type.
        held = {}
        for name in weights:
            module = root.get_submodule(name)
            module.weight_scale.data = module.weight_scale.data.float()
            decompress_module(module)
            held[name] = module.weight.data
        return held

    return write


def pack_modules(model, folder, pack, section):
    """Every linear layer as the module that PACK makes of it."""
    tensors = {}
    for name, linear in model.linears.items():
        for key, value in pack(linear).state_dict().items():
            tensors[f"{name}.{key}"] = value
    model.write(folder, tensors, {**model.config, "quantization_config": json.loads(json.dumps(section))})
    return {name: linear.weight for name, linear in model.linears.items()}


def autoawq(model, folder):
    """AutoAWQ: WQLinear_GEMM."""
    gemm = import_submodule("awq", "modules.linear.gemm")
    config = import_submodule("awq", "models._config").AwqConfig(
        q_group_size=model.group, modules_to_not_convert=["in_proj_a", "in_proj_b"]
    )

    def pack(linear):
        return gemm.WQLinear_GEMM.from_linear(
            linear.make_module(), 4, linear.group, scales=linear.scales.T.contiguous(), zeros=linear.zeros.T.contiguous()
        )

    return pack_modules(model, folder, pack, config.to_transformers_dict())


def autogptq(bits, symmetric):
    """AutoGPTQ: QuantLinear."""

    def write(model, folder):
        quant = import_submodule("auto_gptq", "nn_modules.qlinear.qlinear_cuda").QuantLinear

        def pack(linear):
            rows, columns = linear.weight.shape
            zeros = linear.place_zeros(bits, symmetric)
            result = quant(bits, linear.group, columns, rows, bias=False)
            module = linear.make_module()
            result.pack(module, linear.scales, zeros.float())
            result.scales = result.scales.half()
            return result

        # What its BaseQuantizeConfig.to_dict() says; that class comes with all of its models.
        section = {
            "bits": bits, "group_size": model.group, "damp_percent": 0.01, "desc_act": False, "static_groups": False,
            "sym": symmetric, "true_sequential": True, "model_name_or_path": None, "model_file_base_name": None,
            "is_marlin_format": False, "quant_method": "gptq",
        }  # fmt: skip
        return pack_modules(model, folder, pack, section)

    return write


def gptqmodel(bits, symmetric, version, reorder=False):
    """GPTQModel: its packing module and the conversion it saves version 1 with."""

    def write(model, folder):
        from gptqmodel.nn_modules.qlinear.torch import TorchLinear
        from gptqmodel.quantization import QuantizeConfig
        from gptqmodel.utils.model import pack_module

        config = QuantizeConfig(
            bits=bits, group_size=model.group, sym=symmetric, desc_act=reorder, format=version,
            pack_impl="original", act_group_aware=False,
        )  # fmt: skip

        def pack(linear):
            rows, columns = linear.weight.shape
            zeros = linear.place_zeros(bits, symmetric)
            # Version 1 stores one less, and this library does so without wrapping around.
            if version == "gptq" and not symmetric:
                zeros = zeros.clamp(min=1)
            index = torch.arange(columns) // linear.group
            if reorder:
                index = index.flip(0)
            modules = {"it": TorchLinear(
                bits=bits, group_size=linear.group, sym=symmetric, desc_act=reorder, in_features=columns, out_features=rows,
                bias=False, pack_dtype=torch.int32, register_buffers=True,
            )}  # fmt: skip
            pack_module(
                "it", modules, linear.scales, zeros, index.int(), {"it": linear.make_module()}, TorchLinear, None,
                quantize_config=config,
            )  # fmt: skip
            return modules["it"]

        return pack_modules(model, folder, pack, config.to_dict())

    return write


def gptqmodel_awq(model, folder):
    """GPTQModel's way to write AutoAWQ's format."""
    from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear
    from gptqmodel.quantization import QuantizeConfig

    config = QuantizeConfig(bits=4, group_size=model.group, sym=False, method="awq", format="gemm")

    def pack(linear):
        rows, columns = linear.weight.shape
        result = AwqTorchLinear(
            bits=4, group_size=linear.group, sym=False, desc_act=False, in_features=columns, out_features=rows,
            bias=False, pack_dtype=torch.int32, register_buffers=True,
        )  # fmt: skip
        result.pack(linear.make_module(), linear.scales, linear.zeros)
        return result

    return pack_modules(model, folder, pack, config.to_dict())


def transformers_fp8(block):
    """transformers' FP8 with scales for blocks, which rounds by its own rule."""

    def write(model, folder):
        from transformers import FineGrainedFP8Config
        from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

        config = FineGrainedFP8Config(weight_block_size=block, modules_to_not_convert=["in_proj_a", "in_proj_b", "fc"])
        quantizer = types.SimpleNamespace(quantization_config=config)
        tensors, held = {}, {}
        for name, weight in model.before.items():
            key = name + ".weight"
            written = Fp8Quantize(quantizer).convert({key: weight})
            tensors.update(written)
            if key + "_scale_inv" in written:
                weight = Fp8Dequantize(quantizer).convert(
                    {"weight": written[key], "weight_scale_inv": written[key + "_scale_inv"]}
                )["weight"]
            held[name] = weight
        model.write(folder, tensors, {**model.config, "quantization_config": config.to_dict()})
        return held

    return write


FORMATS = {
    "compressed-tensors, 4 bits": compressed_tensors(4),
    "compressed-tensors, 4 bits, f16 scales": compressed_tensors(4, scale=torch.float16),
    "compressed-tensors, 4 bits, zero points": compressed_tensors(4, symmetric=False, scale=torch.float32),
    "compressed-tensors, 4 bits, actorder static": compressed_tensors(4, actorder="static"),
    "compressed-tensors, 8 bits": compressed_tensors(8),
    "compressed-tensors, 8 bits, zero points": compressed_tensors(8, symmetric=False),
    "compressed-tensors, 4 bits, channel": compressed_tensors(4, strategy="channel", own=True),
    "compressed-tensors, 4 bits, channel, zero points": compressed_tensors(4, False, "channel", own=True),
    "compressed-tensors, 8 bits, channel": compressed_tensors(8, strategy="channel", own=True),
    "compressed-tensors, 8 bits, channel, zero points": compressed_tensors(8, False, "channel", own=True),
    "compressed-tensors, 8 bits, tensor": compressed_tensors(8, strategy="tensor", own=True),
    "AutoAWQ gemm": autoawq,
    "GPTQModel, AWQ gemm": gptqmodel_awq,
    "AutoGPTQ, 4 bits, sym": autogptq(4, True),
    "AutoGPTQ, 4 bits": autogptq(4, False),
    "AutoGPTQ, 8 bits": autogptq(8, False),
    "GPTQModel v1, 4 bits, sym": gptqmodel(4, True, "gptq"),
    "GPTQModel v1, 8 bits, sym": gptqmodel(8, True, "gptq"),
    "GPTQModel v1, 4 bits": gptqmodel(4, False, "gptq"),
    "GPTQModel v2, 4 bits, sym": gptqmodel(4, True, "gptq_v2"),
    "GPTQModel v2, 4 bits": gptqmodel(4, False, "gptq_v2"),
    "GPTQModel v2, 8 bits": gptqmodel(8, False, "gptq_v2"),
    "transformers FP8, blocks of 64 x 64": transformers_fp8((64, 64)),
    "transformers FP8, blocks of 128 x 128": transformers_fp8((128, 128)),
}

# What has to be refused, and a word of the message.
REFUSED = {
    "GPTQModel v2, 4 bits, act-order": (gptqmodel(4, True, "gptq_v2", reorder=True), "reorders columns"),
    "compressed-tensors, 3 bits": (compressed_tensors(3, own=True, strategy="channel"), "num_bits"),
}


#
# What Tandem makes of them.
#


class Tools:
    def __init__(self, build):
        self.bin = build / "bin"

    def run(self, tool, *arguments):
        process = subprocess.run([self.bin / tool, *map(str, arguments)], capture_output=True, text=True)
        if process.returncode:
            raise RuntimeError(process.stderr.strip())
        return process.stdout


def collect(statements, line):
    """LINE behind all statements that its operands come from, each once."""
    lines = []
    for operand in re.findall(r"%\w+", line.split(" = ", 1)[1]):
        lines += collect(statements, statements[operand])
    return list(dict.fromkeys([*lines, line]))


def read_weights(tools, pair, work):
    """The numbers of every packed weight, by checkpoint and module: what it makes of the identity."""
    text = tools.run("qcompile", "--target", pair["target"], "--drafter", pair["drafter"], "--emit=import")
    # By module: the statements that make the weight, the last of them its name, and its shape.
    found = {}
    for function in text.split("func.func")[1:]:
        statements = {}
        for line in re.findall(r"^ *(%.* = lm\.(?:weight|repack|dequant) .*)$", function, re.M):
            names, operation = line.split(" = ", 1)
            statements.update((name, line) for name in names.split(", "))
            if not operation.startswith("lm.dequant"):
                continue
            lines = collect(statements, line)
            role, tensor = re.search(r'lm\.weight "(\w+)", "(.*?)"', lines[0]).groups()
            module = re.sub(r"\.(weight_packed|qweight|weight)$", "", tensor)
            rows, columns = map(int, re.search(r"-> tensor<(\d+)x(\d+)xf32>", operation).groups())
            found[role, module] = (lines, names, rows, columns)
    # One function of all of them, on an identity of every width.
    widths = sorted({columns for *_, columns in found.values()})
    ports, body, results = [f'%x{k}: tensor<{k}x{k}xf32> {{lm.port = "x{k}"}}' for k in widths], [], []
    for index, (lines, name, rows, columns) in enumerate(found.values()):
        body += [re.sub(r"%(\w+)", rf"%v\1_of{index}", line) for line in lines]
        result = f"tensor<{columns}x{rows}xf32>"
        body.append(
            f"%y{index} = lm.linear %x{columns}, %v{name[1:]}_of{index} : tensor<{columns}x{columns}xf32>, "
            f"tensor<{rows}x{columns}xf32> -> {result}"
        )
        results.append((f"%y{index}", result, f'{result} {{lm.port = "y{index}"}}'))
    values, value_types, result_ports = (", ".join(part) for part in zip(*results))
    checkpoints = ", ".join(f'{role} = "{folder}"' for role, folder in pair.items())
    source, artefact, given, taken = (work / name for name in ("w.mlir", "w.tandem", "x.safetensors", "y.safetensors"))
    source.write_text(
        f"module attributes {{lm.checkpoints = {{{checkpoints}}}}} {{\n"
        f"func.func @main({', '.join(ports)}) -> ({result_ports}) {{\n"
        + "\n".join(body)
        + f"\nreturn {values} : {value_types}\n}}\n}}\n"
    )
    save_file({f"x{k}": torch.eye(k) for k in widths}, given)
    tools.run("qcompile", source, "-o", artefact, "--arch", "native")
    tools.run("qrun", "exec", artefact, "--in", given, "-o", taken)
    numbers = load_file(taken)
    return {key: numbers[f"y{index}"].T for index, key in enumerate(found)}


def write_texts(tools, pair, work):
    """Scores and ids of the pair."""
    artefact, ids, scores = work / "pair.tandem", work / "ids.json", work / "scores.safetensors"
    tools.run("qcompile", "--target", pair["target"], "--drafter", pair["drafter"], "-o", artefact, "--arch", "native",
              "--activations", "f32")
    prompt = json.loads((ROOT / "test/Inputs/tiny/golden.json").read_text())["prompts"][0]["ids"]
    ids.write_text(json.dumps(prompt))
    tools.run("qrun", "score", artefact, "--ids", ids, "-o", scores)
    text = json.loads(tools.run("qrun", artefact, "--ids", ids, "-n", 64, "--ignore-eos", "--json"))
    return {key: value.numpy().tobytes() for key, value in load_file(scores).items()}, text["ids"]


def find_dense(folder):
    """Modules of FOLDER whose weight is no code."""
    tensors = load_file(folder / "model.safetensors")
    return {key.removesuffix(".weight") for key, value in tensors.items() if value.dtype in (torch.bfloat16, torch.float32)}


class Check:
    """Compares what Tandem makes of a pair with what the library says."""

    def __init__(self, tools, models):
        self.tools, self.models = tools, models
        self.expected = {}

    def write_expected(self, held, work):
        """Scores and ids of the same weights as f32 matrices."""
        key = b"".join(weight.float().numpy().tobytes() for weights in held.values() for weight in weights.values())
        if key not in self.expected:
            pair = {model.name: work / f"{model.name}-f32" for model in self.models}
            for model in self.models:
                write_f32(model, pair[model.name], held[model.name])
            self.expected[key] = write_texts(self.tools, pair, work)
        return self.expected[key]

    def run(self, write, work):
        """The number of packed weights, and whether weights, scores and ids are equal."""
        pair, held = {model.name: work / model.name for model in self.models}, {}
        for model in self.models:
            with quietly():
                held[model.name] = write(model, pair[model.name])
        found = read_weights(self.tools, pair, work)
        # A writer may leave matrices dense, such as those that do not fill its blocks.
        packed = {
            (role, module): weight.float().numpy()
            for role, weights in held.items()
            for module, weight in weights.items()
            if module not in find_dense(pair[role])
        }
        weights = found.keys() == packed.keys() and all(np.array_equal(found[key].numpy(), packed[key]) for key in packed)
        scores, ids = write_texts(self.tools, pair, work)
        expected_scores, expected_ids = self.write_expected(held, work)
        return len(packed), weights, scores == expected_scores, ids == expected_ids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="only formats whose name has this in it")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--keep", type=pathlib.Path, help="where to leave the checkpoints")
    options = parser.parse_args()
    tools, models = Tools(options.build.resolve()), [Model("target"), Model("drafter")]
    check = Check(tools, models)

    def wanted(name):
        return not options.formats or any(part in name for part in options.formats)

    failed = False
    print(f"{'written by':52} {'packed':>6}  weights  scores  ids")
    with tempfile.TemporaryDirectory() as temporary:
        base = options.keep or pathlib.Path(temporary)
        for name, write in FORMATS.items():
            if not wanted(name):
                continue
            work = base / re.sub(r"\W+", "-", name)
            try:
                count, *equal = check.run(write, work)
            except Exception as error:  # Of Tandem or of a library, which raise what they like.
                print(f"{name:52} {type(error).__name__}: {error}", flush=True)
                failed = True
                continue
            words = ["equal" if each else "DIFFER" for each in equal]
            print(f"{name:52} {count:6}  {words[0]:7}  {words[1]:6}  {words[2]}", flush=True)
            failed |= not all(equal) or count == 0
        for name, (write, message) in REFUSED.items():
            if not wanted(name):
                continue
            work = base / re.sub(r"\W+", "-", name)
            with quietly():
                write(models[0], work)
            try:
                tools.run("qcompile", "--check", "--target", work)
                text, failed = "READ, but has to be refused", True
            except RuntimeError as error:
                text = "refused: " + str(error).replace(str(work), "...")
                failed |= message not in str(error)
            print(f"{name:52} {text}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
