// Each row of a matrix: exp(x - max) / sum. The result is written into the second argument.
func.func @softmax(%x: tensor<?x?xf32>, %result: tensor<?x?xf32> {iree.abi.output = 0 : index}) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %softmax = linalg.softmax dimension(1) ins(%x : tensor<?x?xf32>) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %softmax : tensor<?x?xf32>
}
