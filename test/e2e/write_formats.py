#!/usr/bin/env python3
"""Writes a packed checkpoint in another format: the same weights, told differently.

    write_formats.py SOURCE DESTINATION FORMAT

SOURCE holds compressed-tensors' pack-quantized weights of 4 bits, symmetric, in groups. Every format dequantizes to the
numbers that SOURCE does, bit for bit; with zero points codes and zero points are shifted together. Formats:

    ct-zeros     compressed-tensors, 4 bits, zero points, f32 scales
    ct-8         compressed-tensors, 8 bits, f16 scales, a trivial g_idx
    ct-8-zeros   compressed-tensors, 8 bits, zero points
    channel      compressed-tensors, one scale a row where SOURCE has one group a row
    mixed        compressed-tensors, 4 bits, 8 bits, zero points and dense matrices in one layer
    awq          AutoAWQ gemm
    gptq         GPTQ v1, zero points, a trivial g_idx
    gptq-sym     GPTQ v1, symmetric, bf16 scales, no g_idx
    gptq-v2      GPTQ v2, symmetric
    gptq-8       GPTQ v2, 8 bits, zero points
    fp8          FP8 with scales for blocks of 1 row
    dense        f32 matrices

and two that are another drafter, because the dense `fc` is rounded to codes first:

    fc-packed    as SOURCE, with fc packed like everything else
    fc-dense     as SOURCE, with the numbers of that fc in f32
"""

import json
import os
import random
import shutil
import struct
import sys

from edit_checkpoint import read_safetensors, write_safetensors

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def f32_from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Matrix:
    """A weight of ROWS x COLUMNS: values q[r][c] times scales[r][c // group], and zero points that change nothing."""

    def __init__(self, module, tensors):
        self.module = module
        self.rows, self.columns = struct.unpack("<2q", tensors[module + ".weight_shape"]["data"])
        packed = tensors[module + ".weight_packed"]
        words = struct.unpack(f"<{len(packed['data']) // 4}I", packed["data"])
        per_row = packed["shape"][1]
        self.q = [
            [(words[r * per_row + c // 8] >> (c % 8 * 4) & 15) - 8 for c in range(self.columns)] for r in range(self.rows)
        ]
        scale = tensors[module + ".weight_scale"]
        assert scale["dtype"] == "BF16"
        self.groups = scale["shape"][1]
        self.group = self.columns // self.groups
        bits = struct.unpack(f"<{self.rows * self.groups}H", scale["data"])
        self.scales = [[f32_from_bf16(bits[r * self.groups + g]) for g in range(self.groups)] for r in range(self.rows)]

    @classmethod
    def rounded(cls, tensor, group):
        """The codes nearest to a dense bf16 TENSOR, with bf16 scales for groups of GROUP columns."""
        self = cls.__new__(cls)
        self.module = "fc"
        self.rows, self.columns = tensor["shape"]
        self.group, self.groups = group, self.columns // group
        assert tensor["dtype"] == "BF16"
        bits = struct.unpack(f"<{self.rows * self.columns}H", tensor["data"])
        self.q, self.scales = [], []
        for r in range(self.rows):
            row = [f32_from_bf16(b) for b in bits[r * self.columns : (r + 1) * self.columns]]
            largest = [max(abs(v) for v in row[g * group : (g + 1) * group]) for g in range(self.groups)]
            self.scales.append([f32_from_bf16(struct.unpack("<I", struct.pack("<f", m / 7))[0] >> 16) for m in largest])
            self.q.append([max(-8, min(7, round(v / self.scales[r][c // group]))) for c, v in enumerate(row)])
        return self

    def shift(self, bits):
        """Codes of BITS, and zero points: code - zero point is the value, for zero points that differ."""
        rng = random.Random(self.module)
        top = (1 << bits) - 1
        codes, zeros = [], []
        for row in self.q:
            codes.append([])
            zeros.append([])
            for g in range(self.groups):
                part = row[g * self.group : (g + 1) * self.group]
                zero = rng.randint(-min(part + [0]), top - max(part + [0]))
                zeros[-1].append(zero)
                codes[-1] += [value + zero for value in part]
        return codes, zeros

    def center(self, bits):
        return [[value + (1 << bits - 1) for value in row] for row in self.q]


def transpose(rows):
    return [list(column) for column in zip(*rows)]


def pack(rows, bits, order=None):
    """Words of 32 bits along every row, lowest bits first."""
    count = 32 // bits
    order = order or range(count)
    words = []
    for row in rows:
        row = row + [0] * (-len(row) % count)
        for begin in range(0, len(row), count):
            words.append(sum(row[begin + column] << slot * bits for slot, column in enumerate(order)))
    return struct.pack(f"<{len(words)}I", *words)


def floats(dtype, rows):
    numbers = [number for row in rows for number in row]
    if dtype == "BF16":
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    data = struct.pack(f"<{len(numbers)}{'e' if dtype == 'F16' else 'f'}", *numbers)
    assert dtype == "F32" or list(struct.unpack(f"<{len(numbers)}e", data)) == numbers, "f16 does not hold a scale"
    return data


def e4m3(value):
    """The bits of a small whole number."""
    magnitude, sign = abs(value), 0x80 if value < 0 else 0
    if magnitude == 0:
        return sign
    exponent = magnitude.bit_length() - 1
    fraction = (magnitude << 3 >> exponent) - 8
    assert (8 + fraction) << exponent == magnitude << 3
    return sign | exponent + 7 << 3 | fraction


def tensor(dtype, shape, data):
    return {"dtype": dtype, "shape": shape, "data": data}


def words(rows, bits, order=None):
    return tensor("I32", [len(rows), -(-len(rows[0]) * bits // 32)], pack(rows, bits, order))


def matrix(dtype, rows):
    return tensor(dtype, [len(rows), len(rows[0])], floats(dtype, rows))


def trivial_index(m):
    return tensor("I32", [m.columns], struct.pack(f"<{m.columns}i", *[c // m.group for c in range(m.columns)]))


def write_ct(m, bits=4, zeros=False, dtype="BF16", index=False):
    codes, zero_points = m.shift(bits) if zeros else (m.center(bits), None)
    result = {
        "weight_shape": tensor("I64", [2], struct.pack("<2q", m.rows, m.columns)),
        "weight_packed": words(codes, bits),
        "weight_scale": matrix(dtype, m.scales),
    }
    if zeros:
        packed = transpose(zero_points)  # packed along the rows
        data = pack(packed, bits)
        count = -(-m.rows * bits // 32)
        columns = struct.unpack(f"<{count * m.groups}I", data)
        by_word = [columns[g * count + w] for w in range(count) for g in range(m.groups)]
        result["weight_zero_point"] = tensor("I32", [count, m.groups], struct.pack(f"<{len(by_word)}I", *by_word))
    if index:
        result["weight_g_idx"] = trivial_index(m)
    return {"." + name: value for name, value in result.items()}


def write_awq(m):
    codes, zeros = m.shift(4)
    return {
        ".qweight": words(transpose(codes), 4, AWQ_ORDER),
        ".qzeros": words(transpose(zeros), 4, AWQ_ORDER),
        ".scales": matrix("F16", transpose(m.scales)),
    }


def write_gptq(m, bits=4, symmetric=False, less=0, dtype="F16", index=True):
    codes, zeros = m.shift(bits)
    if symmetric:
        codes, zeros = m.center(bits), [[1 << bits - 1] * m.groups for _ in range(m.rows)]
    stored = [[(zero - less) % (1 << bits) for zero in row] for row in zeros]
    by_word = transpose(codes)  # rows of the file are the columns of the weight
    count = 32 // bits
    data = [
        sum(by_word[w * count + slot][r] << slot * bits for slot in range(count))
        for w in range(m.columns // count)
        for r in range(m.rows)
    ]
    result = {
        ".qweight": tensor("I32", [m.columns // count, m.rows], struct.pack(f"<{len(data)}I", *data)),
        ".qzeros": words(transpose(stored), bits),
        ".scales": matrix(dtype, transpose(m.scales)),
    }
    if index:
        result[".g_idx"] = trivial_index(m)
    return result


def write_fp8(m):
    data = bytes(e4m3(value) for row in m.q for value in row)
    return {
        ".weight": tensor("F8_E4M3", [m.rows, m.columns], data),
        ".weight_scale_inv": matrix("F32", m.scales),
    }


def write_dense(m):
    rows = [[value * scales[c // m.group] for c, value in enumerate(row)] for row, scales in zip(m.q, m.scales)]
    return {".weight": matrix("F32", rows)}


def write_mixed(m):
    name = m.module.rsplit(".", 1)[1]
    if name in ("q_proj", "up_proj", "in_proj_z"):
        return write_ct(m, 8, dtype="F16")
    if name in ("k_proj", "in_proj_qkv"):
        return write_dense(m)
    return write_ct(m, 4, zeros=True)


def ct_weights(group, bits=4, symmetric=True, strategy="group"):
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy, "dynamic": False}
    if strategy == "group":
        weights["group_size"] = group
    return weights


def ct_config(ignore, *groups):
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ignore,
        "config_groups": {
            f"group_{i}": {"targets": targets, "weights": weights} for i, (targets, weights) in enumerate(groups)
        },
    }


def gptq_config(group, bits, symmetric, version):
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False, "sym": symmetric}
    if version:
        config["checkpoint_format"] = version
    return config


def make_formats(group, ignore):
    """By name: what writes a matrix, and quantization_config."""
    linear = ["Linear"]
    return {
        "ct-zeros": (
            lambda m: write_ct(m, zeros=True, dtype="F32"),
            ct_config(ignore, (linear, ct_weights(group, symmetric=False))),
        ),
        "ct-8": (
            lambda m: write_ct(m, 8, dtype="F16", index=True),
            ct_config(ignore, (linear, {**ct_weights(group, 8), "actorder": "group"})),
        ),
        "ct-8-zeros": (
            lambda m: write_ct(m, 8, zeros=True),
            ct_config(ignore, (linear, ct_weights(group, 8, symmetric=False))),
        ),
        "channel": (
            write_ct,
            ct_config(
                ignore,
                (linear, ct_weights(group, strategy="channel")),
                ([r"re:.*down_proj$"], ct_weights(group)),
            ),
        ),
        "mixed": (
            write_mixed,
            ct_config(
                [*ignore, "re:.*(k_proj|in_proj_qkv)$"],
                (linear, ct_weights(group, symmetric=False)),
                ([r"re:.*(q_proj|up_proj|in_proj_z)$"], ct_weights(group, 8)),
            ),
        ),
        "awq": (
            write_awq,
            {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True},
        ),
        "gptq": (lambda m: write_gptq(m, less=1), gptq_config(group, 4, False, "gptq")),
        "gptq-sym": (
            lambda m: write_gptq(m, symmetric=True, less=1, dtype="BF16", index=False),
            gptq_config(group, 4, True, None),
        ),
        "gptq-v2": (lambda m: write_gptq(m, symmetric=True), gptq_config(group, 4, True, "gptq_v2")),
        "gptq-8": (lambda m: write_gptq(m, 8), gptq_config(group, 8, False, "gptq_v2")),
        "fp8": (
            write_fp8,
            {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [1, group],
            },
        ),
        "dense": (write_dense, None),
        "fc-packed": (write_ct, ct_config([], (linear, ct_weights(group)))),
        "fc-dense": (write_ct, ct_config(ignore, (linear, ct_weights(group)))),
    }


def main():
    source, destination, name = sys.argv[1:]
    source = os.path.abspath(source)
    shutil.rmtree(destination, ignore_errors=True)
    os.makedirs(destination)
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    old = config.pop("quantization_config")
    write, section = make_formats(old["config_groups"]["group_0"]["weights"]["group_size"], old["ignore"])[name]
    if section:
        config["quantization_config"] = section

    metadata, tensors = read_safetensors(os.path.join(source, "model.safetensors"))
    result = {}
    for key, value in tensors.items():
        module, _, part = key.rpartition(".")
        if part == "weight_packed":
            for suffix, written in write(Matrix(module, tensors)).items():
                result[module + suffix] = written
        elif key == "fc.weight" and name in ("fc-packed", "fc-dense"):
            fc = Matrix.rounded(value, old["config_groups"]["group_0"]["weights"]["group_size"])
            for suffix, written in (write_ct if name == "fc-packed" else write_dense)(fc).items():
                result["fc" + suffix] = written
        elif part not in ("weight_scale", "weight_shape"):
            result[key] = value
    write_safetensors(os.path.join(destination, "model.safetensors"), metadata, result)
    with open(os.path.join(destination, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    for other in os.listdir(source):
        if other not in ("config.json", "model.safetensors"):
            os.symlink(os.path.join(source, other), os.path.join(destination, other))


if __name__ == "__main__":
    main()
