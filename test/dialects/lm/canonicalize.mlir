// RUN: qopt %s --allow-unregistered-dialect --canonicalize='test-convergence=true' | FileCheck %s

// CHECK-LABEL: func.func @fold_live_rows_twice(
// CHECK-SAME: %[[INPUT:.*]]: tensor<4x8xf32>, %[[COUNT:.*]]: tensor<1xi32>)
func.func @fold_live_rows_twice(%input: tensor<4x8xf32>, %count: tensor<1xi32>) -> tensor<4x8xf32> {
  // CHECK: %[[LIVE:.*]] = lm.live_rows %[[INPUT]], %[[COUNT]]
  // CHECK-NEXT: return %[[LIVE]]
  %once = lm.live_rows %input, %count : tensor<4x8xf32>
  %twice = lm.live_rows %once, %count : tensor<4x8xf32>
  return %twice : tensor<4x8xf32>
}

// Rows that one count leaves alive another may not.
// CHECK-LABEL: func.func @no_fold_live_rows_of_another_count(
func.func @no_fold_live_rows_of_another_count(%input: tensor<4x8xf32>, %a: tensor<1xi32>, %b: tensor<1xi32>)
    -> tensor<4x8xf32> {
  // CHECK: %[[INNER:.*]] = lm.live_rows %{{.*}}, %[[A:.*]] :
  // CHECK-NEXT: %[[OUTER:.*]] = lm.live_rows %[[INNER]], %[[B:.*]] :
  // CHECK-NEXT: return %[[OUTER]]
  %inner = lm.live_rows %input, %a : tensor<4x8xf32>
  %outer = lm.live_rows %inner, %b : tensor<4x8xf32>
  return %outer : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @fold_last_row_of_one(
// CHECK-SAME: %[[INPUT:.*]]: tensor<1x8xf32>,
func.func @fold_last_row_of_one(%input: tensor<1x8xf32>, %count: tensor<1xi32>) -> tensor<1x8xf32> {
  // CHECK-NEXT: return %[[INPUT]]
  %last = lm.last_row %input, %count : tensor<1x8xf32> -> tensor<1x8xf32>
  return %last : tensor<1x8xf32>
}

// CHECK-LABEL: func.func @no_fold_last_row_of_two(
func.func @no_fold_last_row_of_two(%input: tensor<2x8xf32>, %count: tensor<1xi32>) -> tensor<1x8xf32> {
  // CHECK: %[[LAST:.*]] = lm.last_row
  // CHECK-NEXT: return %[[LAST]]
  %last = lm.last_row %input, %count : tensor<2x8xf32> -> tensor<1x8xf32>
  return %last : tensor<1x8xf32>
}

// CHECK-LABEL: func.func @fold_drop_rows_none(
// CHECK-SAME: %[[INPUT:.*]]: tensor<4x8xf32>)
func.func @fold_drop_rows_none(%input: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: return %[[INPUT]]
  %tail = lm.drop_rows %input {first = 0 : i64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %tail : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @no_fold_drop_rows_one(
func.func @no_fold_drop_rows_one(%input: tensor<4x8xf32>) -> tensor<3x8xf32> {
  // CHECK: %[[TAIL:.*]] = lm.drop_rows
  // CHECK-NEXT: return %[[TAIL]]
  %tail = lm.drop_rows %input {first = 1 : i64} : tensor<4x8xf32> -> tensor<3x8xf32>
  return %tail : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @fold_split_into_one(
// CHECK-SAME: %[[INPUT:.*]]: tensor<4x8xf32>)
func.func @fold_split_into_one(%input: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: return %[[INPUT]]
  %part = lm.split %input {groups = 2 : i64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %part : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @no_fold_split_into_two(
func.func @no_fold_split_into_two(%input: tensor<4x8xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[PARTS:.*]]:2 = lm.split
  // CHECK-NEXT: return %[[PARTS]]#1
  %a, %b = lm.split %input : tensor<4x8xf32> -> tensor<4x4xf32>, tensor<4x4xf32>
  return %b : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @fold_concat_features_of_one(
// CHECK-SAME: %[[INPUT:.*]]: tensor<4x8xf32>)
func.func @fold_concat_features_of_one(%input: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: return %[[INPUT]]
  %features = lm.concat_features %input : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %features : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @no_fold_concat_features_of_two(
func.func @no_fold_concat_features_of_two(%input: tensor<4x8xf32>) -> tensor<4x16xf32> {
  // CHECK: %[[FEATURES:.*]] = lm.concat_features
  // CHECK-NEXT: return %[[FEATURES]]
  %features = lm.concat_features %input, %input : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %features : tensor<4x16xf32>
}

// A weight that nobody reads goes: all ops of lm are pure.
// CHECK-LABEL: func.func @dead_weight(
// CHECK-NEXT: return
func.func @dead_weight(%codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 16> : tensor<8x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// In a module, values may be used above their definition: an op that reads itself stays and the folds end.
// CHECK: %[[ROWS:.*]] = lm.drop_rows %[[ROWS]]
%rows = lm.drop_rows %rows {first = 0 : i64} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK: %[[LAST:.*]] = lm.last_row %[[LAST]],
%last = lm.last_row %last, %count : tensor<1x8xf32> -> tensor<1x8xf32>
// CHECK: %[[PART:.*]] = lm.split %[[PART]]
%part = lm.split %part : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK: %[[FEATURES:.*]] = lm.concat_features %[[FEATURES]]
%features = lm.concat_features %features : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: %[[LIVE:.*]] = lm.live_rows %[[LIVE]],
%live = lm.live_rows %live, %count : tensor<4x8xf32>
%count = "test.count"() : () -> tensor<1xi32>
"test.use"(%rows, %last, %part, %features, %live)
    : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> ()
