"""Sharpen: add `amount` times the difference between a pixel and the mean of its 3 x 3 neighbours."""

import halide as hl

TILE = 16


@hl.generator(name="unsharp")
class Unsharp:
    source = hl.InputBuffer(hl.Float(32), 2)
    amount = hl.InputScalar(hl.Float(32))
    result = hl.OutputBuffer(hl.Float(32), 2)

    def generate(self):
        x, y, rows, xi, yi = (hl.Var(name) for name in ("x", "y", "rows", "xi", "yi"))
        around = hl.BoundaryConditions.repeat_edge(self.source)
        row, mean = hl.Func("row"), hl.Func("mean")
        row[x, y] = around[x - 1, y] + around[x, y] + around[x + 1, y]
        mean[x, y] = (row[x, y - 1] + row[x, y] + row[x, y + 1]) / 9
        result = self.result
        result[x, y] = around[x, y] + self.amount * (around[x, y] - mean[x, y])
        if self.target().has_gpu_feature():
            mean.compute_root().gpu_tile(x, y, xi, yi, TILE, TILE, hl.TailStrategy.GuardWithIf)
            result.gpu_tile(x, y, xi, yi, TILE, TILE, hl.TailStrategy.GuardWithIf)
        else:
            lanes = self.natural_vector_size(hl.Float(32))
            result.split(y, rows, yi, 32, hl.TailStrategy.GuardWithIf).parallel(rows)
            result.vectorize(x, lanes, hl.TailStrategy.GuardWithIf)
            mean.compute_at(result, yi).vectorize(x, lanes)


if __name__ == "__main__":
    hl.main()
