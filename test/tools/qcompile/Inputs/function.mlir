// A single function on weights of the tiny target; compiled with test/Inputs as the current folder.
module attributes {lm.checkpoints = {target = "tiny/target-w4a16"}, lm.facts = {purpose = "a test"}} {
  func.func @down(%x: tensor<4x384xf32> {lm.port = "x"}) -> (tensor<4x128xf32> {lm.port = "y"}) {
    %codes = lm.weight "target", "model.language_model.layers.0.mlp.down_proj.weight_packed" : tensor<128x48xi32>
    %scales = lm.weight "target", "model.language_model.layers.0.mlp.down_proj.weight_scale" : tensor<128x12xbf16>
    %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32> : tensor<128x48xi32>, tensor<128x12xbf16> -> tensor<128x384xf32>
    %y = lm.linear %x, %w : tensor<4x384xf32>, tensor<128x384xf32> -> tensor<4x128xf32>
    return %y : tensor<4x128xf32>
  }
}
