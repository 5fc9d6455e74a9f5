// RUN: qopt %s --plan-select-kernels=arithmetic=f16 --verify-diagnostics

// expected-error @below {{expects f32, bf16 or i8 as arithmetic, but got f16}}
module attributes {plan.arch = "native"} {
}
