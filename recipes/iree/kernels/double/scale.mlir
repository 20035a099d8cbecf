// y := a * y, in double precision and in place: element by element, an argument may be read and written.
func.func @scale(%a: f64, %y: tensor<?xf64> {iree.abi.output = 0 : index}) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %y, %c0 : tensor<?xf64>
  %empty = tensor.empty(%n) : tensor<?xf64>
  %scaled = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  } ins(%y : tensor<?xf64>) outs(%empty : tensor<?xf64>) {
  ^bb0(%one: f64, %out: f64):
    %product = arith.mulf %a, %one : f64
    linalg.yield %product : f64
  } -> tensor<?xf64>
  return %scaled : tensor<?xf64>
}
