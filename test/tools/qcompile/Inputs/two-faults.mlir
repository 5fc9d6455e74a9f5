// Two functions with the same fault.
func.func @first(%x: tensor<4x64xf32>, %w: tensor<8x32xbf16>) -> tensor<4x8xf32> {
  %y = lm.linear %x, %w : tensor<4x64xf32>, tensor<8x32xbf16> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @second(%x: tensor<4x64xf32>, %w: tensor<8x32xbf16>) -> tensor<4x8xf32> {
  %y = lm.linear %x, %w : tensor<4x64xf32>, tensor<8x32xbf16> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
