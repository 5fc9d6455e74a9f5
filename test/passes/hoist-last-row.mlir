// RUN: qopt %s --lm-hoist-last-row --canonicalize | FileCheck %s
// RUN: qopt %s --lm-hoist-last-row=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-hoist-last-row: 5 ops compute one row

// The MLP of the last layer runs for one row.
// CHECK-LABEL: @hoist_through_rows
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32>, %[[R:.*]]: tensor<8x16xf32>, %[[W:.*]]: tensor<16x16xf32>, %[[COUNT:.*]]: tensor<1xi32>
func.func @hoist_through_rows(%x: tensor<8x16xf32>, %r: tensor<8x16xf32>,
                              %w: tensor<16x16xf32>, %count: tensor<1xi32>)
    -> tensor<1x16xf32> {
  // CHECK-DAG: %[[LASTX:.*]] = lm.last_row %[[X]], %[[COUNT]]
  // CHECK-DAG: %[[LASTR:.*]] = lm.last_row %[[R]], %[[COUNT]]
  // CHECK-DAG: %[[Y:.*]] = lm.linear %[[LASTX]], %[[W]] : tensor<1x16xf32>, tensor<16x16xf32> -> tensor<1x16xf32>
  // CHECK: %[[SUM:.*]] = lm.add %[[LASTR]], %[[Y]] : tensor<1x16xf32>
  // CHECK: return %[[SUM]]
  %y = lm.linear %x, %w
      : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %h = lm.add %r, %y : tensor<8x16xf32>
  %last = lm.last_row %h, %count : tensor<8x16xf32> -> tensor<1x16xf32>
  return %last : tensor<1x16xf32>
}

// One query, at the last position; keys and values stay as they are.
// CHECK-LABEL: @hoist_through_attention
// CHECK-SAME: %[[Q:.*]]: tensor<8x16xf32>, %[[C:.*]]: !lm.kv_cache<64x1x16xf32>, %[[START:.*]]: tensor<1xi32>, %[[COUNT:.*]]: tensor<1xi32>
func.func @hoist_through_attention(%q: tensor<8x16xf32>,
                                   %c: !lm.kv_cache<64x1x16xf32>,
                                   %start: tensor<1xi32>,
                                   %count: tensor<1xi32>) -> tensor<1x16xf32> {
  // CHECK-DAG: %[[LAST:.*]] = lm.last_row %[[Q]], %[[COUNT]]
  // CHECK-DAG: %[[P:.*]] = lm.last_position %[[START]], %[[COUNT]]
  // CHECK: %[[ROTATED:.*]] = lm.rope %[[LAST]] at %[[P]] {{.*}} : tensor<1x16xf32>
  // CHECK: lm.attention %[[ROTATED]], %[[C]] at %{{.*}} {causal, scale = 1.000000e+00 : f32} : tensor<1x16xf32>
  %p = lm.rope %q at %start {head_dim = 16 : i64, dims = 8 : i64,
                             theta = 1.0e4 : f64} : tensor<8x16xf32>
  %o = lm.attention %p, %c at %start rows %count {causal, scale = 1.0 : f32}
      : tensor<8x16xf32>, !lm.kv_cache<64x1x16xf32>
  %last = lm.last_row %o, %count : tensor<8x16xf32> -> tensor<1x16xf32>
  return %last : tensor<1x16xf32>
}

// Query and gate are cut from one row.
// CHECK-LABEL: @hoist_through_split
func.func @hoist_through_split(%x: tensor<8x32xf32>, %count: tensor<1xi32>)
    -> (tensor<1x16xf32>, tensor<1x16xf32>) {
  // CHECK: %[[LAST:.*]] = lm.last_row
  // CHECK: lm.split %[[LAST]]{{.*}} : tensor<1x32xf32> -> tensor<1x16xf32>, tensor<1x16xf32>
  // CHECK-NOT: lm.last_row
  %a, %b = lm.split %x : tensor<8x32xf32> -> tensor<8x16xf32>, tensor<8x16xf32>
  %la = lm.last_row %a, %count : tensor<8x16xf32> -> tensor<1x16xf32>
  %lb = lm.last_row %b, %count : tensor<8x16xf32> -> tensor<1x16xf32>
  return %la, %lb : tensor<1x16xf32>, tensor<1x16xf32>
}

// A tap reads all rows of the same residual stream.
// CHECK-LABEL: @negative_other_rows_are_used
func.func @negative_other_rows_are_used(%x: tensor<8x16xf32>,
                                        %count: tensor<1xi32>)
    -> (tensor<1x16xf32>, tensor<8x16xf32>) {
  // CHECK: %[[H:.*]] = lm.silu %{{.*}} : tensor<8x16xf32>
  // CHECK: lm.last_row %[[H]]
  %h = lm.silu %x : tensor<8x16xf32>
  %last = lm.last_row %h, %count : tensor<8x16xf32> -> tensor<1x16xf32>
  return %last, %h : tensor<1x16xf32>, tensor<8x16xf32>
}

// A recurrence needs the rows before.
// CHECK-LABEL: @negative_state
func.func @negative_state(%x: tensor<8x16xf32>, %w: tensor<16x1x4xf32>,
                          %c: !lm.conv_cache<taps = 4, channels = 16,
                                             pending = 8>,
                          %n: tensor<1xi32>) -> tensor<1x16xf32> {
  // CHECK: lm.short_conv {{.*}} : tensor<8x16xf32>
  // CHECK: lm.last_row
  %y, %d = lm.short_conv %x, %w, %c keep %n
      : tensor<8x16xf32>, tensor<16x1x4xf32>,
        !lm.conv_cache<taps = 4, channels = 16, pending = 8>
  %last = lm.last_row %y, %n : tensor<8x16xf32> -> tensor<1x16xf32>
  return %last : tensor<1x16xf32>
}
