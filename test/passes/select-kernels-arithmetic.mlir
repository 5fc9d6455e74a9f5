// RUN: qopt %s --plan-select-kernels=arithmetic=i8 --split-input-file | FileCheck %s --check-prefixes=CHECK,I8
// RUN: qopt %s --plan-select-kernels=arithmetic=bf16 --split-input-file | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: qopt %s --plan-select-kernels --split-input-file | FileCheck %s --check-prefix=F32
// RUN: qopt %s "--plan-select-kernels=arithmetic=i8 report" --split-input-file 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: plan-select-kernels: 5 kernels multiply narrow numbers

// F32: plan.kernel @codes quant_linear {bits
// F32: plan.kernel @dense linear {columns
module attributes {plan.arch = "native"} {
  // I8: plan.kernel @codes quant_linear {arithmetic = i8,
  // BF16: plan.kernel @codes quant_linear {arithmetic = bf16,
  plan.kernel @codes quant_linear {bits = 4 : i64, columns = 64 : i64, group = 32 : i64, outputs = 16 : i64, scale = bf16}
  // I8: plan.kernel @small_groups quant_linear {arithmetic = i8,
  // BF16: plan.kernel @small_groups quant_linear {arithmetic = bf16,
  plan.kernel @small_groups quant_linear {bits = 8 : i64, columns = 64 : i64, group = 16 : i64, outputs = 16 : i64, scale = f16}
  // Weights that are bf16 are multiplied as such.
  // CHECK: plan.kernel @dense linear {arithmetic = bf16,
  plan.kernel @dense linear {columns = 64 : i64, element = bf16, outputs = 16 : i64}
  // CHECK: plan.kernel @head head_argmax {arithmetic = bf16,
  plan.kernel @head head_argmax {columns = 64 : i64, element = bf16, outputs = 16 : i64}
  // I8: plan.kernel @fused fused_quant_linear {arithmetic = i8,
  // BF16: plan.kernel @fused fused_quant_linear {arithmetic = bf16,
  plan.kernel @fused fused_quant_linear {bits = 4 : i64, columns = 64 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 64 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, scale = bf16, widths = array<i64: 16>}
  // What a kernel has it keeps.
  // CHECK: plan.kernel @negative_chosen linear {arithmetic = f32,
  plan.kernel @negative_chosen linear {arithmetic = f32, columns = 64 : i64, element = bf16, outputs = 16 : i64}
  // CHECK: plan.kernel @negative_zeros quant_linear {bits
  plan.kernel @negative_zeros quant_linear {bits = 4 : i64, columns = 64 : i64, group = 32 : i64, outputs = 16 : i64, scale = bf16, zero_points = 1 : i64}
  // CHECK: plan.kernel @negative_float_codes quant_linear {bits
  plan.kernel @negative_float_codes quant_linear {bits = 8 : i64, columns = 64 : i64, float_codes = 1 : i64, group = 32 : i64, outputs = 16 : i64, scale = bf16}
  // CHECK: plan.kernel @negative_group quant_linear {bits
  plan.kernel @negative_group quant_linear {bits = 4 : i64, columns = 96 : i64, group = 48 : i64, outputs = 16 : i64, scale = bf16}
  // CHECK: plan.kernel @negative_columns linear {columns
  plan.kernel @negative_columns linear {columns = 24 : i64, element = bf16, outputs = 16 : i64}
  // CHECK: plan.kernel @negative_f16 linear {columns
  plan.kernel @negative_f16 linear {columns = 64 : i64, element = f16, outputs = 16 : i64}
  // CHECK: plan.kernel @negative_embed embed {columns
  plan.kernel @negative_embed embed {columns = 64 : i64, element = bf16, scale_by = 1.0 : f32, vocabulary = 16 : i64}
}
